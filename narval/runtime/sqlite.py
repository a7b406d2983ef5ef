"""The file of a SQLite store: made whole or not at all, opened with care, its troubles said plainly (N35).

WAL, so that a commit is one append and readers never wait. `synchronous` is NORMAL for `crash`: a commit is
with the operating system and survives the daemon; FULL for `power`: it is on the disk. The file is not mapped
into memory, because a mapped file that shrinks kills whoever reads it. docs/store.md tells the rest.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.exc import OperationalError

from narval import __version__
from narval.errors import StoreError
from narval.runtime.store import Durability
from narval.runtime.tables import HEAD, meta, metadata, stamp

WORTH_SHRINKING = 64 * 1024 * 1024
"""A smaller file is left as it is."""

_SYNCHRONOUS: dict[Durability, str] = {"crash": "NORMAL", "power": "FULL"}
_PRAGMAS = {
    "page_size": "2048",  # a commit writes whole pages: 25 µs a step where 4096 takes 33
    "cache_size": "-4096",  # KiB a connection: the daemon keeps memory itself, and reads a row once
    "temp_store": "MEMORY",
    "wal_autocheckpoint": "4096",  # pages: 8 MB, then they are folded into the file
    "journal_size_limit": "16777216",  # bytes: what a large turn made longer is cut back
    "mmap_size": "0",
    "cell_size_check": "ON",  # a damaged page is seen when it is read
    "trusted_schema": "OFF",
    "fullfsync": "ON",  # where an fsync is not one (macOS); nothing elsewhere
}
_BEGINNING = b"SQLite format 3\0"
_BESIDE = ("-wal", "-shm", "-journal")

_TROUBLES = (
    ("SQLITE_FULL", "the disk is full", "free space and start again"),
    ("SQLITE_IOERR", "the disk failed", "look at its space, quota, limits and health, and start again"),
    (
        "SQLITE_READONLY",
        "the store may not be written",
        "let the daemon's user write the file and its folder",
    ),
    ("SQLITE_PERM", "the store may not be written", "let the daemon's user write the file and its folder"),
    ("SQLITE_CANTOPEN", "the store cannot be opened", "see that its folder is there and may be written"),
    ("SQLITE_BUSY", "another program holds the store locked", "end that program and start again"),
    ("SQLITE_LOCKED", "another program holds the store locked", "end that program and start again"),
    ("SQLITE_CORRUPT", "the store is damaged", "put back a backup (docs/store.md)"),
    ("SQLITE_NOTADB", "the store is damaged, or no store", "put back a backup (docs/store.md)"),
)


def trouble(name: str, error: BaseException, consequence: str = "") -> StoreError:
    """What a driver's error means to who runs the daemon, and what to do next."""
    cause = getattr(error, "orig", None) or error
    code = getattr(cause, "sqlite_errorname", "") or ""
    what, advice = "the store failed", "set that right and start again"
    for prefix, meaning, remedy in _TROUBLES:
        if code.startswith(prefix):
            what, advice = meaning, remedy
    said = ": ".join(part for part in (type(cause).__name__ if not code else "", str(cause)) if part)
    return StoreError("; ".join(part for part in (f"{what}: {name} ({said})", consequence, advice) if part))


def file_engine(path: Path, durability: Durability, patience: float) -> Engine:
    """Connections to the file, each with its pragmas set and committing by itself."""
    engine = create_engine(
        URL.create("sqlite", database=str(path)),
        isolation_level="AUTOCOMMIT",
        connect_args={"timeout": patience, "check_same_thread": False},
    )

    @event.listens_for(engine, "connect")
    def settle(connection: Any, _record: object) -> None:
        for pragma, value in _PRAGMAS.items():
            connection.execute(f"PRAGMA {pragma}={value}")
        connection.execute(f"PRAGMA synchronous={_SYNCHRONOUS[durability]}")
        mode = connection.execute("PRAGMA journal_mode=WAL").fetchone()[0]
        if mode != "wal":
            raise StoreError(
                f"{path} cannot have a write-ahead log (journal mode is {mode}); "
                "keep the home on a file system of this machine"
            )

    return engine


def ensure_file(path: Path, durability: Durability, patience: float) -> None:
    """Make the file when there is none; refuse one that lost its content, which SQLite would take for new."""
    if not path.exists():
        _refuse_remains(path)
        _make(path, durability, patience)
        return
    with path.open("rb") as file:
        if file.read(len(_BEGINNING)) != _BEGINNING:
            raise StoreError(
                f"the store is damaged, or no store: {path} does not begin as one; "
                "put back a backup (docs/store.md)"
            )


def quick_check(connection: Connection, path: Path) -> None:
    """Whether the file is sound, after a stop that was not clean."""
    said = [str(row[0]) for row in connection.exec_driver_sql("PRAGMA quick_check(3)")]
    if said != ["ok"]:
        raise StoreError(
            f"the store is damaged: {path} ({'; '.join(said)}); put back a backup (docs/store.md)"
        )


def shrink(connection: Connection) -> None:
    """Give back to the disk what is free in the file, where that is most of it: little is left to copy."""
    pages, free, size = (
        int(connection.exec_driver_sql(f"PRAGMA {each}").scalar() or 0)
        for each in ("page_count", "freelist_count", "page_size")
    )
    if pages * size > WORTH_SHRINKING and 2 * free > pages:
        with suppress(OperationalError):  # no room for the copy: the free pages are used again as they are
            connection.exec_driver_sql("VACUUM")


def make_schema(connection: Connection) -> None:
    """The tables of an empty database, stamped with their version so that nothing is to be migrated."""
    metadata.create_all(connection, checkfirst=False)
    connection.execute(stamp.insert().values(version_num=HEAD))
    connection.execute(
        meta.insert(), [{"key": "narval", "value": __version__}, {"key": "clean", "value": "1"}]
    )


def _refuse_remains(path: Path) -> None:
    log = path.with_name(path.name + "-wal")
    if log.exists() and log.stat().st_size:
        raise StoreError(
            f"the store is damaged: {path} is gone, but {log.name} is there; "
            "put both back together, or move the log away to begin anew"
        )


def _make(path: Path, durability: Durability, patience: float) -> None:
    """Under another name until it is whole: a store that exists is complete, whatever happens meanwhile."""
    new = path.with_name(path.name + ".new")
    for remains in (new, *(new.with_name(new.name + suffix) for suffix in _BESIDE)):
        remains.unlink(missing_ok=True)
    os.close(os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    engine = file_engine(new, durability, patience)
    try:
        with engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA synchronous=OFF")  # it is synced as a whole, below
            make_schema(connection)
    finally:
        engine.dispose()
    _sync(new)
    new.replace(path)
    _sync(path.parent)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
