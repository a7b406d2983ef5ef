"""The releases of narval that can read a store (docs/how-to/upgrade-a-fleet.md).

The tables have a version of their own. The contents of their rows (events, changes, commands, states) may
gain a kind that an older release does not know. A release writes such a record only after the store says that
it needs this release, and the store says so only while no daemon of an older one is running on it. An older
release refuses the store from then on, by name, and never meets a record that it cannot read.

A migration that only adds to the tables says so in its first line, `-- additive`: a release that knows the
earlier tables also works on the new ones, beside a newer release or after it. The store records the oldest
version that can work on them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from narval import __version__
from narval.core.errors import RequestError, StoreError
from narval.store import tables
from narval.store.batch import STORE
from narval.store.reading import Driver

NEEDS = "needs"
"""The fact with the oldest release that can read the store; without it every release can."""

TABLES_FOR = "tables_for"
"""The fact with the oldest version of the tables whose programs can work on the store."""

MIGRATIONS = Path(__file__).with_name("migrations")
"""The folder of the migrations from one version of the tables to the next."""

OLDEST = 4
"""The oldest version that can be migrated."""

_ADDITIVE = "-- additive\n"

_OF_ALEMBIC = "alembic_version"
"""The table with the version, as text, of a store written before version 5."""


def version_of(driver: Driver, connection: Any) -> tuple[int, dict[str, str]]:
    """The version of the tables, and the small facts. The version may be newer than this narval's if those
    tables only add to its own.

    Raises StoreError for any other newer version, and if there are no tables of narval's.
    """
    names = driver.tables(connection)
    if not (names >= {"meta", "agents"} and names & {"version", _OF_ALEMBIC}):
        raise StoreError(
            f"expected a store of narval in {driver.name}, got a database of something else; "
            "let `store` in etc/narval.toml name one of its own"
        )
    with closing(connection.cursor()) as cursor:
        if "version" in names:
            cursor.execute(driver.statements["version"])
        else:
            cursor.execute(f"SELECT CAST(version_num AS INTEGER) FROM {_OF_ALEMBIC}")  # noqa: S608
        versions = cursor.fetchall()
        cursor.execute(driver.statements["meta"], (STORE,))
        facts = dict(cursor.fetchall())
    version = versions[0][0] if versions else None
    if not (isinstance(version, int) and version > 0):
        raise StoreError(
            f"the store is damaged: {driver.name}: expected the version of its tables, such as "
            f"{tables.HEAD}, got {version!r:.40}; put back a backup (docs/reference/store.md)"
        )
    if not can_work(facts, version, tables.HEAD):
        writer = facts.get("narval", "?")
        raise StoreError(
            f"{driver.name} was written by narval {writer} (schema {version}), which is newer than this one, "
            f"{__version__} (schema {tables.HEAD}); start it with that version or a later one, "
            f"or have that version take the tables back: python -m narval.store {driver.name} {tables.HEAD}"
        )
    refuse_newer(driver.name, facts.get(NEEDS, ""))
    return version, facts


def note_oldest(driver: Driver, cursor: Any, version: int) -> None:
    """Record in a store with the tables of a version the oldest version whose programs can work on them."""
    fact = (STORE, TABLES_FOR, str(oldest_for(driver, version)))
    cursor.execute(driver.statements["put meta"], fact)


def oldest_for(driver: Driver, version: int) -> int:
    """The oldest version of the tables whose programs can work on those of a version."""
    while version > OLDEST and text_of(driver, version).startswith(_ADDITIVE):
        version -= 1
    return version


def text_of(driver: Driver, version: int) -> str:
    """The statements that lead to a version of the tables from the one before, and back."""
    return (MIGRATIONS / f"{version:04}.{driver.dialect.name}.sql").read_text("utf-8")


def release(version: str) -> tuple[int, int]:
    """The major and minor number of a version; an invalid version is older than all."""
    major, _, rest = version.partition(".")
    minor = rest.partition(".")[0]
    return (int(major), int(minor)) if major.isdecimal() and minor.isdecimal() else (0, 0)


def is_older(version: str, other: str) -> bool:
    """True if a version is of an earlier release than another."""
    return release(version) < release(other)


def can_work(facts: Mapping[str, str], version: int, own: int) -> bool:
    """True if a program whose tables are of the version `own` can work on a store with those of `version`."""
    oldest = facts.get(TABLES_FOR, "")
    return version <= own or (oldest.isdecimal() and int(oldest) <= own)


def refuse_newer(name: str, needs: str, version: str = __version__) -> None:
    """Raise StoreError if a store needs a later release than the program's."""
    if is_older(version, needs):
        raise StoreError(
            f"{name} has records that need narval {needs} or later, and this is {version}; start it with "
            f"narval {needs} or later, or put back a backup from before (narval restore FILE)"
        )


def refuse_older(what: str, needs: str, daemons: Iterable[tuple[str, str]]) -> None:
    """Raise RequestError if daemons, each a home and its version, cannot read what is to be recorded."""
    older = [f"{home} ({version})" for home, version in daemons if is_older(version, needs)]
    if older:
        raise RequestError(
            f"{what} needs narval {needs} on all daemons of the store, and older ones are running: "
            f"{', '.join(older)}; upgrade them first"
        )
