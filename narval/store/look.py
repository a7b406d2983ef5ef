"""A store opened read-only: no byte of it is altered, and all rows are of one moment.

A SQLite file is read in place. With a log beside it, SQLite finds the committed rows, and `readonly_shm`
keeps it from registering the reader. Without one, as after a clean stop, the file is read as `immutable`,
since SQLite would otherwise make a log. A daemon that starts during the read may fold its own log into the
file; `is_still` detects that. A file that cannot be read in place (a log without its index, or older tables
that need a migration) is read in a copy. On a server, a transaction serves.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, nullcontext, suppress
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from narval.core.elements.element import Element
from narval.core.errors import StoreError
from narval.store import tables
from narval.store.batch import Batch, DefinitionRow, JournalRow, KeptElement, MarkRow, RunRow, SnapshotRow
from narval.store.database import open_database
from narval.store.memory import AlwaysNew, VolatileStore
from narval.store.page import RunsPage
from narval.store.postgresql.drivers import driver_of
from narval.store.reading import DatabaseAgent, Driver, ReadTables, Tables, kept_element
from narval.store.releases import version_of
from narval.store.rows import ElementRow, LastRow, number
from narval.store.sqlite import READING, File, refuse_other, refuse_remains
from narval.store.store import ALL, AgentStore, Store

if TYPE_CHECKING:  # only a shared store has owners
    from narval.store.postgresql.leases import DaemonRow, Ownership

PATIENCE = 5.0
"""Seconds to wait for SQLite's own lock, which a daemon holds for a moment as it starts or ends."""

ATTEMPTS = 5
"""The tries of a look that starts over because a daemon that starts or ends has moved the files."""

MOST_EID = (1 << 63) - 1
"""The greatest number that a column can hold."""

_ONE_MOMENT = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"

Stamp = tuple[tuple[int, int, int] | None, ...]
"""Inode, size and time of change of files; None for a missing one."""


class Look(ReadTables):
    """A store read on one connection. What is committed to it can be read back, but is written nowhere."""

    def __init__(self, driver: Driver, connection: Any, is_still: Callable[[], bool] = lambda: True) -> None:
        super().__init__(Tables(driver, lambda: nullcontext(connection)))
        self.driver, self.connection = driver, connection
        self._is_still = is_still
        self._decided = VolatileStore()
        self._page: RunsPage | None = None

    def narrow(self, page: RunsPage) -> None:
        """Restrict reading to what a page of runs needs."""
        self._page = page

    def is_still(self) -> bool:
        """False if another program has written to the file that was read as immutable."""
        return self._is_still()

    def of(self, agent: int | None = None) -> AgentStore:
        """The store as one agent sees it, with the batches committed to the look."""
        number = self.own if agent is None else agent
        decided = self._decided.of(number)
        if self._page is not None:
            return _AgentPage(self._tables, number, self.own, decided, self._page)
        return _AgentLook(self._tables, number, self.own, decided)

    def past(self, agent: int) -> PastReader:
        """The rows of one agent as a trial on its past reads them."""
        return PastReader(self._tables, agent, self.own)

    def fork(self, listen: Callable[[Batch], None]) -> Fork:
        """An independent continuation of the store from now: what is committed to it is in no other look;
        `listen` is called with each batch.
        """
        fork = Fork(self.driver, self.connection, listen)
        fork.use_own(self.own)
        return fork

    def commit(self, *batches: Batch) -> None:
        """Keep the batches for later reads of this look."""
        self._decided.commit(*batches)


class Fork(Look):
    """A look on which a simulation continues from the state of a moment, with its runs."""

    is_volatile = True

    def __init__(self, driver: Driver, connection: Any, listen: Callable[[Batch], None]) -> None:
        super().__init__(driver, connection)
        self._listen = listen

    def commit(self, *batches: Batch) -> None:
        """Keep the batches, and pass them to the listener."""
        super().commit(*batches)
        for batch in batches:
            self._listen(batch)


class ServerLook(Look):
    """A look at a store that daemons share."""

    is_shared = True

    def owners(self) -> list[Ownership]:
        """The daemons that hold the agents of the store."""
        from narval.store.postgresql.ownership import owners_of

        return owners_of(self.connection)

    def daemons(self) -> tuple[DaemonRow, ...]:
        """The daemons that run on the store."""
        from narval.store.postgresql.ownership import daemons_of

        return daemons_of(self.connection)


class _AgentLook(DatabaseAgent):
    """The rows of one agent, with those committed to the look since."""

    def __init__(self, tables: Tables, agent: int, own: int, decided: AgentStore) -> None:
        super().__init__(tables, agent, own)
        self._decided = decided

    def journal(
        self, run: int, after: int = 0, before: int | None = None, most: int = ALL
    ) -> Iterator[JournalRow]:
        """The entries of a run."""
        asked = run, after, before, most
        both = super().journal(*asked), self._decided.journal(*asked)
        return islice(chain(*(both if before is None else reversed(both))), most)

    def snapshot(self, run: int) -> SnapshotRow | None:
        """The last state kept of a run."""
        return self._decided.snapshot(run) or super().snapshot(run)

    def definition(self, digest: str) -> DefinitionRow | None:
        """The version of that digest."""
        return super().definition(digest) or self._decided.definition(digest)


class PastReader(DatabaseAgent):
    """The rows of one agent, streamed, however many there are."""

    def element(self, eid: int) -> Element | None:
        """The element of a number; None if there is none."""
        rows = self._all(ElementRow, "element", eid)
        return kept_element(rows[0]).element if rows else None

    def declared(self) -> Iterator[KeptElement]:
        """The elements that files declare, and those that begin a run."""
        return map(kept_element, self._typed(ElementRow, "elements of files"))

    def every_run(self) -> Iterator[RunRow]:
        """All runs, oldest first."""
        return self._typed(RunRow, "runs")

    def journal_since(self, moment: float) -> Iterator[JournalRow]:
        """The entries of all runs from a moment on, in the order of writing."""
        return self._typed(JournalRow, "entries since", moment)


class _AgentPage(AlwaysNew, _AgentLook):
    """The rows of one agent for a page of its runs, and those that are compared with its files. Everything
    else that a start reads is empty, since a listing sends no events and does nothing.
    """

    def __init__(self, tables: Tables, agent: int, own: int, decided: AgentStore, page: RunsPage) -> None:
        super().__init__(tables, agent, own, decided)
        self._page = page

    @cached_property
    def _shown(self) -> list[RunRow]:
        page = self._page
        below = MOST_EID if page.before is None else min(page.before, MOST_EID)
        rows = self._typed(RunRow, "runs before", below)
        fitting = (row for row in rows if page.has(row.kind, row.name, row.state, row.phase))
        return list(islice(fitting, page.limit))[::-1]

    @cached_property
    def _of_files(self) -> dict[int, KeptElement]:
        rows = map(kept_element, self._typed(ElementRow, "elements of files"))
        return {row.element.eid: row for row in rows}

    def runs(self) -> list[RunRow]:
        """The runs of the page, oldest first."""
        return self._shown

    def elements(self) -> Iterator[KeptElement]:
        """The errors of these runs, and the elements compared with the files, oldest first."""
        row_of = dict(self._of_files)
        for eid in {row.error for row in self._shown if row.error is not None} - row_of.keys():
            row_of.update((eid, kept_element(row)) for row in self._typed(ElementRow, "element", eid))
        return (row_of[eid] for eid in sorted(row_of))

    def marks(self) -> Iterator[MarkRow]:
        """The uses of the elements compared with the files."""
        for eid in self._of_files:
            yield from self._typed(MarkRow, "marks of element", eid)

    @property
    def meta(self) -> Mapping[str, str]:
        """Small facts about the agent; new numbers come after all existing ones."""
        facts, last = super().meta, self._typed(LastRow, "last eids", self.agent)
        following = max(number(facts, "next_eid", 1), *(1 + (row.eid or 0) for row in last))
        return {**facts, "next_eid": str(following)}


@contextmanager
def look(where: Path | str, is_held: Callable[[], bool], page: RunsPage | None = None) -> Iterator[Store]:
    """The store at a path or URL, read-only; an empty one in memory if there is none yet. Raises StoreError.

    After an unclean stop the file is checked, unless `is_held` says that a daemon is running on it. With a
    `page` only what the page needs is read.
    """
    with ExitStack() as ends:
        driver = driver_of(where, "crash", PATIENCE)
        ends.callback(driver.close)
        try:
            if isinstance(driver, File):
                store = _look_into_file(driver, is_held, ends)
            else:
                store = _look_into_server(driver, ends)
        except BaseException as error:
            if not isinstance(error, (OSError, *driver.errors)):
                raise
            raise driver.trouble(error) from error
        if page is not None and isinstance(store, Look):
            store.narrow(page)
        yield store


def _look_into_server(driver: Driver, ends: ExitStack) -> Store:
    connection = ends.enter_context(closing(driver.connect()))
    if not driver.tables(connection):
        return VolatileStore()
    with closing(connection.cursor()) as cursor:
        cursor.execute(_ONE_MOMENT)
    version, _ = version_of(driver, connection)
    if version < tables.HEAD:
        raise StoreError(
            f"expected a store of schema {tables.HEAD} in {driver.name}, got one of {version}, "
            "which a look does not alter; start a daemon once, which brings it up to date"
        )
    return ServerLook(driver, connection)


# --- a file ---------------------------------------------------------------------------------------------


def _look_into_file(file: File, is_held: Callable[[], bool], ends: ExitStack) -> Store:
    for _ in range(ATTEMPTS):
        if not file.path.exists():
            refuse_remains(file.path)
            return VolatileStore()
        before = _stamp(file.path)
        try:
            store = _in_place(file, is_held, ends) or _in_a_copy(file, ends)
        except (sqlite3.DatabaseError, StoreError):
            if _stamp(file.path) == before:
                raise
            continue  # read while a daemon wrote it
        if store is not None:
            return store
    raise StoreError(
        f"the store is being written all the time, and not by a daemon of this home: {file.name}"
    )


def _in_place(file: File, is_held: Callable[[], bool], ends: ExitStack) -> Look | None:
    """A look at the file in place; None if that is impossible without changing it."""
    log, index = _beside(file.path)
    before, (of_log,) = _stamp(file.path), _stamp(log)  # a daemon that ends removes the log
    is_logged = of_log is not None and of_log[1] > 0
    if is_logged and not index.exists():
        return None
    try:
        connection = _connect(file.path, "readonly_shm=1" if is_logged else "immutable=1")
        ends.callback(connection.close)
        version, facts = version_of(file, connection)
        if version >= tables.HEAD and facts.get("clean") != "1" and not is_held():
            file.look_through(connection)
    except sqlite3.OperationalError:
        return None
    except (sqlite3.DatabaseError, StoreError):
        refuse_other(file.path)
        raise
    if version < tables.HEAD:
        return None
    return Look(file, connection, lambda: is_logged or _stamp(file.path) == before)


def _in_a_copy(file: File, ends: ExitStack) -> Look | None:
    """A look at a copy, checked and migrated; None if the file was written during the copy."""
    log, _ = _beside(file.path)
    folder = Path(ends.enter_context(TemporaryDirectory(prefix="narval-")))
    copy, before = folder / file.path.name, _stamp(file.path, log)
    with suppress(FileNotFoundError):
        shutil.copyfile(file.path, copy)
        if log.exists():
            shutil.copyfile(log, _beside(copy)[0])
    if _stamp(file.path, log) != before:
        return None
    try:
        open_database(File(copy, "crash", PATIENCE), is_copy=True).close()
    except StoreError as error:
        raise StoreError(str(error).replace(str(copy), file.name)) from error
    connection = _connect(copy, "immutable=1")
    ends.callback(connection.close)
    return Look(File(copy, "crash", PATIENCE), connection)


def _beside(path: Path) -> tuple[Path, Path]:
    """The log of a file, and the index that its readers share."""
    return path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm")


def _connect(path: Path, how: str) -> sqlite3.Connection:
    """A read-only connection, in a transaction that begins with its first read."""
    connection = sqlite3.connect(
        f"file:{quote(str(path))}?mode=ro&{how}",
        uri=True,
        timeout=PATIENCE,
        isolation_level=None,
        check_same_thread=False,
    )
    try:
        for pragma, value in READING.items():
            connection.execute(f"PRAGMA {pragma}={value}")
        connection.execute("PRAGMA query_only=ON")
        connection.execute("BEGIN")
    except BaseException:
        connection.close()
        raise
    return connection


def _stamp(*paths: Path) -> Stamp:
    stamps: list[tuple[int, int, int] | None] = []
    for path in paths:
        try:
            status = path.stat()
            stamps.append((status.st_ino, status.st_size, status.st_mtime_ns))
        except FileNotFoundError:
            stamps.append(None)
    return tuple(stamps)
