"""Migration of a store to another version of the tables, by the steps under `migrations`.

Each version has a file for each database, with the statements that lead to it from the version before, and
those that lead back. Its first line is `-- additive` if programs that know the version before can work on the
new one, which only adds a table, or a column with a default.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from narval import __version__
from narval.core.errors import StoreError
from narval.store import tables
from narval.store.reading import Driver
from narval.store.releases import OLDEST, note_oldest, text_of
from narval.store.sqlite import File, sync

logger = logging.getLogger("narval.store")

_FORTH, _BACK = "-- forth\n", "-- back\n"


def keep_before(file: File, connection: Any, version: int) -> Path:
    """Write a backup of a store beside it, before its tables are migrated from `version`, and return its
    path.

    The backup is whole or missing. An earlier one stays. Raises errors of the driver, such as for a full
    disk, and OSError.
    """
    names = {path.name for path in file.path.parent.iterdir()}
    first = f"{file.path.name}.of-version-{version:04}"
    backup = file.path.with_name(first)
    number = 1
    while backup.name in names:
        number += 1
        backup = file.path.with_name(f"{first}-{number}")
    new = file.path.with_name(f".{backup.name}.new")
    new.unlink(missing_ok=True)  # left by a killed start
    try:
        os.close(os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        connection.execute("VACUUM INTO ?", (str(new),))
        sync(new)
        new.replace(backup)
    finally:
        new.unlink(missing_ok=True)
    sync(backup.parent)
    logger.info("the store as it was with tables of version %d: %s", version, backup)
    return backup


def migrate(driver: Driver, connection: Any, version: int, to: int | None = None) -> None:
    """Migrate a store from one version to another (without `to`, to that of this narval), all or nothing.

    Raises StoreError for a version that is too old, and errors of the driver.
    """
    to = tables.HEAD if to is None else to
    with closing(connection.cursor()) as cursor:
        cursor.execute("BEGIN")
        try:
            for statement in _statements(driver, version, to):
                cursor.execute(statement)
            note_oldest(driver, cursor, to)
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
        forward, _, backward = text_of(driver, number).partition(_BACK)
        steps = forward.partition(_FORTH)[2] if forth else backward
        yield from filter(None, map(str.strip, steps.split(";\n")))
