"""Bringing a store to another version of the tables, by the steps under `migrations`.

Each version has a file for each database, with the statements that lead to it from the one before, and those
that lead back.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from narval import __version__
from narval.core.errors import StoreError
from narval.store import tables
from narval.store.reading import Driver

MIGRATIONS = Path(__file__).with_name("migrations")

OLDEST = 4
"""The oldest version that can be brought up to date."""

_FORTH, _BACK = "-- forth\n", "-- back\n"


def migrate(driver: Driver, connection: Any, version: int, to: int | None = None) -> None:
    """Bring a store from one version to another, without `to` to that of this narval; all or nothing.

    Raises StoreError for a version that is too old, and errors of the driver.
    """
    with closing(connection.cursor()) as cursor:
        cursor.execute("BEGIN")
        try:
            for statement in _statements(driver, version, tables.HEAD if to is None else to):
                cursor.execute(statement)
            cursor.execute("COMMIT")
        except BaseException:
            connection.rollback()
            raise


def _statements(driver: Driver, version: int, to: int) -> Iterator[str]:
    if min(version, to) < OLDEST:
        raise StoreError(
            f"expected tables of version {OLDEST} or later in {driver.name}, got {min(version, to)}; "
            f"let a narval that is older than this one, {__version__}, bring it up to date first"
        )
    forth, back = range(version + 1, to + 1), range(version, to, -1)
    for number in forth or back:
        text = (MIGRATIONS / f"{number:04}.{driver.dialect.name}.sql").read_text("utf-8")
        forward, _, backward = text.partition(_BACK)
        steps = forward.partition(_FORTH)[2] if forth else backward
        yield from filter(None, map(str.strip, steps.split(";\n")))
