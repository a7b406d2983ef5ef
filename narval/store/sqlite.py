"""The file of a SQLite store: made whole or not at all, checked when opened, its errors explained (N35).

It uses WAL, so that a commit is one append and readers never wait. `synchronous` is NORMAL for `crash`: the
operating system has the commit, which survives the daemon. It is FULL for `power`: the commit is on the disk.
The file is not mapped into memory, because a mapped file that shrinks kills its reader. For the rest see
docs/reference/store.md.
"""

from __future__ import annotations

import logging
import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from struct import Struct
from urllib.parse import quote

from narval.core.errors import StoreError
from narval.store import tables
from narval.store.releases import note_oldest
from narval.store.statements import make_schema, statements
from narval.store.store import Durability
from narval.store.tables import SQLITE

logger = logging.getLogger("narval.store")

WORTH_SHRINKING = 64 * 1024 * 1024
"""The size of a file in bytes below which it is not shrunk."""

PAGE = 2048
LOG_PAGES = 4096
LOG_BYTES = LOG_PAGES * (PAGE + 24) + 32
"""The length of a log of `LOG_PAGES` pages: each has a head of 24 bytes, and the log one of 32."""

_SYNCHRONOUS: dict[Durability, str] = {"crash": "NORMAL", "power": "FULL"}
READING = {
    "cache_size": "-4096",  # KiB a connection: the daemon has its own memory, and reads a row once
    "temp_store": "MEMORY",
    "mmap_size": "0",
    "cell_size_check": "ON",  # a damaged page is detected when it is read
    "trusted_schema": "OFF",
}
"""The pragmas of every connection."""

_PRAGMAS = {
    "page_size": str(PAGE),  # a commit writes whole pages: 25 µs a step where 4096 takes 33
    **READING,
    "wal_autocheckpoint": str(LOG_PAGES),  # then they are folded into the file
    "journal_size_limit": "16777216",  # bytes: a log that a large turn made longer is cut back
    "fullfsync": "ON",  # for systems whose fsync does not sync (macOS); no effect elsewhere
}
_HEAD = 48
"""The bytes of the head of the log's index, which appears twice."""

_INDEX = Struct("=16sI76xI")
"""The index of the log: pages in it, and, after both heads, those that have been folded into the file."""

_BEGINNING = b"SQLite format 3\0"
SAVED = ".saved"
"""The suffix of the file with the content of an open store whose own file was gone."""

BESIDE = ("-wal", "-shm", "-journal")
"""The suffixes of the files that SQLite may keep beside a database."""

_OF_ROWS = ("SQLITE_CONSTRAINT", "SQLITE_TOOBIG", "SQLITE_MISMATCH", "SQLITE_RANGE")
"""Errors about the values of a statement."""

_DAMAGED = ("SQLITE_CORRUPT", "the store is damaged", "put back a backup (docs/reference/store.md)")
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
    _DAMAGED,
    ("SQLITE_NOTADB", "the store is damaged, or no store", "put back a backup (docs/reference/store.md)"),
)

_UNDECODED = re.compile(r"Could not decode to UTF-8 column '(\w+)'")
"""The driver's error for a text of other bytes, which has no name."""


def trouble(name: str, error: BaseException, consequence: str) -> StoreError:
    """The error for the operator: the meaning of a driver's error, and what to do next."""
    code = getattr(error, "sqlite_errorname", "") or ""
    what, advice = "the store failed", "correct that, and start again"
    for prefix, meaning, remedy in _TROUBLES:
        if code.startswith(prefix):
            what, advice = meaning, remedy
    cause = ": ".join(part for part in (type(error).__name__ if not code else "", str(error)) if part)
    if not code and (undecoded := _UNDECODED.match(str(error))):
        _, what, advice = _DAMAGED
        cause = f"a text in the column {undecoded[1]} is not UTF-8"
    return StoreError("; ".join(part for part in (f"{what}: {name} ({cause})", consequence, advice) if part))


class File:
    """Connections to a SQLite file, which is made if missing; each commits by itself."""

    dialect = SQLITE
    errors: tuple[type[Exception], ...] = (sqlite3.Error,)

    def __init__(self, path: Path, durability: Durability, patience: float) -> None:
        self.path, self.name = path, str(path)
        self._durability, self._patience = durability, patience
        self.statements = statements(SQLITE)
        self._idle: list[sqlite3.Connection] = []
        self._closed = False
        self._opened: os.stat_result | None = None
        self._indexed = (0, 0)
        """The pages in the log, and those of them folded into the file, when its writer had gone.
        """

    def connect(self) -> sqlite3.Connection:
        """A new connection, with its pragmas set; it makes no file."""
        connection = sqlite3.connect(
            f"file:{quote(str(self.path))}?mode=rw",
            uri=True,
            timeout=self._patience,
            isolation_level=None,
            check_same_thread=False,
        )
        try:
            self._settle(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _settle(self, connection: sqlite3.Connection) -> None:
        for pragma, value in _PRAGMAS.items():
            connection.execute(f"PRAGMA {pragma}={value}")
        connection.execute(f"PRAGMA synchronous={_SYNCHRONOUS[self._durability]}")
        mode = connection.execute("PRAGMA journal_mode=WAL").fetchone()[0]
        if mode != "wal":
            raise StoreError(
                f"{self.path} cannot have a write-ahead log (journal mode is {mode}); "
                "keep the home on a file system of this machine"
            )

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A connection for the duration of a read."""
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = self.connect()
        try:
            yield connection
        finally:
            if self._closed:
                connection.close()
            else:
                self._idle.append(connection)

    def trouble(self, error: BaseException, consequence: str = "") -> StoreError:
        """The meaning of an error, and what to do next."""
        return trouble(self.name, error, consequence)

    def refuses_rows(self, error: BaseException) -> bool:
        """True if an error is about values: SQLite's, or its driver's, which has no error name."""
        name = getattr(error, "sqlite_errorname", None)
        if name is None:
            return isinstance(error, (sqlite3.DataError, sqlite3.InterfaceError, sqlite3.ProgrammingError))
        return str(name).startswith(_OF_ROWS)

    def close(self) -> None:
        """End the connections of the readers."""
        self._closed = True
        while self._idle:
            self._idle.pop().close()

    # --- opening --------------------------------------------------------------------------------------

    def ensure(self) -> None:
        """Make the file if it is missing; refuse an emptied one, which SQLite would take for new."""
        if not self.path.exists():
            refuse_remains(self.path)
            self._make()
        else:
            refuse_other(self.path)
            self._indexed = _indexed(self.path)

    def note_opened(self) -> None:
        """Note which file its writer has open."""
        self._opened = self.path.stat()

    def loss(self) -> str:
        """The loss of the open file, in words; "" while it is in its place. It costs one `stat`."""
        try:
            there = self.path.stat()
        except FileNotFoundError:
            return f"{self.name} was deleted or moved away while the daemon has it open"
        except OSError:
            return ""
        if self._opened is None or os.path.samestat(there, self._opened):
            return ""
        return f"another file was put in the place of {self.name} while the daemon has it open"

    def keep(self, writer: sqlite3.Connection) -> Path:
        """Write the whole open file to a file beside its place."""
        new = self.path.with_name(self.path.name + SAVED)
        new.unlink(missing_ok=True)
        os.close(os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        with closing(sqlite3.connect(new)) as target:
            writer.backup(target)
        for suffix in BESIDE:
            new.with_name(new.name + suffix).unlink(missing_ok=True)
        sync(new)
        return new

    def put_back(self, saved: Path) -> Path:
        """Put the saved file in the place of the store's, unless a file is there; return its path then."""
        if self.path.exists():
            return saved
        saved.replace(self.path)
        for suffix in BESIDE:  # of the file that is gone: the new one contains all of them
            self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)
        sync(self.path.parent)
        return self.path

    def lost_pages(self, connection: sqlite3.Connection) -> int:
        """The number of pages at the end of the log that its writer had committed, and that are gone."""
        committed, folded = self._indexed
        if not committed:
            return 0
        [(_, in_log, _)] = connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
        return 0 if folded == committed and in_log == 0 else max(0, committed - in_log)

    def _make(self) -> None:
        """Make the file under another name until it is whole, so that an existing store is complete."""
        new = self.path.with_name(self.path.name + ".new")
        for remains in (new, *(new.with_name(new.name + suffix) for suffix in BESIDE)):
            remains.unlink(missing_ok=True)
        os.close(os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        with closing(File(new, self._durability, self._patience).connect()) as connection:
            connection.execute("PRAGMA synchronous=OFF")  # synced as a whole, below
            connection.execute("BEGIN")
            make_schema(connection.cursor(), self.statements)
            note_oldest(self, connection.cursor(), tables.HEAD)
            connection.execute("COMMIT")
        sync(new)
        new.replace(self.path)
        sync(self.path.parent)

    def make_room(self) -> None:
        """Give the log of a synced store its full length, as zeros that SQLite takes for the end of the log.

        Syncing a write past the end of a file also syncs its new length, which takes twice as long.
        """
        if self._durability != "power":
            return
        try:
            log = os.open(self.path.with_name(self.path.name + "-wal"), os.O_WRONLY)
        except FileNotFoundError:
            return  # the log has been folded into the file
        length = os.fstat(log).st_size
        try:
            written = length + os.pwrite(log, bytes(max(0, LOG_BYTES - length)), length)
            if written < LOG_BYTES:  # the room that is left is for later records
                os.ftruncate(log, length)
            os.fsync(log)
        except OSError as error:
            logger.info("the log of the store will grow as it is written: %s", error)
            os.ftruncate(log, length)
        finally:
            os.close(log)

    def tables(self, connection: sqlite3.Connection) -> set[str]:
        """The names of the existing tables."""
        cursor = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        return {name for (name,) in cursor}

    def look_through(self, connection: sqlite3.Connection) -> None:
        """Check the file after an unclean stop. Raises StoreError."""
        lines = [str(row[0]) for row in connection.execute("PRAGMA quick_check(3)")]
        if lines != ["ok"]:
            raise StoreError(
                f"the store is damaged: {self.path} ({'; '.join(lines)}); put back a backup "
                "(docs/reference/store.md)"
            )

    def shrink(self, connection: sqlite3.Connection) -> None:
        """Return the free space of the file to the disk, if it is most of the file."""
        pages, free, size = (
            connection.execute(f"PRAGMA {pragma}").fetchone()[0]
            for pragma in ("page_count", "freelist_count", "page_size")
        )
        if pages * size > WORTH_SHRINKING and 2 * free > pages:
            with suppress(sqlite3.OperationalError):  # no room: the free pages are reused
                connection.execute("VACUUM")


def _indexed(path: Path) -> tuple[int, int]:
    """The pages in the log that a killed writer had committed, and those of them that were in the file.

    SQLite keeps the numbers in the index of the log, which it rebuilds before use. So they are read before
    any connection of this program is open; closing the index later would release the connection's locks.
    """
    try:
        index = path.with_name(path.name + "-shm").read_bytes()[: _INDEX.size]
    except FileNotFoundError:
        return 0, 0
    if len(index) < _INDEX.size or index[:_HEAD] != index[_HEAD : 2 * _HEAD]:
        return 0, 0  # there is no index, or it was being altered
    _, committed, folded = _INDEX.unpack(index)
    return committed, folded


def refuse_remains(path: Path) -> None:
    """Raise StoreError for a log whose file is gone."""
    log = path.with_name(path.name + "-wal")
    if log.exists() and log.stat().st_size:
        raise StoreError(
            f"the store is damaged: {path} is gone, but {log.name} is there; "
            "put both back together, or move the log away to start over"
        )


def refuse_other(path: Path) -> None:
    """Raise StoreError for a file that is not SQLite's."""
    with path.open("rb") as file:
        if file.read(len(_BEGINNING)) != _BEGINNING:
            raise StoreError(
                f"the store is damaged, or no store: {path} does not begin as one; "
                "put back a backup (docs/reference/store.md)"
            )


def sync(path: Path) -> None:
    """Sync a file, or the names in a folder, to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
