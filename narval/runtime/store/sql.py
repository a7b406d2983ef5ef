"""The store in a database: SQLite in a file by default, PostgreSQL by its URL (docs/store.md).

The statements come from `tables.py`, and the driver's own cursors execute them. Of the one writer a batch
that is one row is one statement, which the database commits by itself; any other goes between BEGIN and
COMMIT. Readers have connections of their own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, get_args

from narval import __version__
from narval.errors import RefusedRowsError, SettingsError, StoreError, UnreadableError
from narval.memory.elements.element import Element
from narval.runtime.store import statements
from narval.runtime.store.batch import (
    HOME_AGENT,
    STORE,
    AgentRow,
    Batch,
    DefinitionRow,
    JournalRow,
    KeptElement,
    MarkRow,
    MomentRow,
    QueuedRow,
    RunRow,
    SnapshotRow,
    slots_of,
)
from narval.runtime.store.codec import decode_origin
from narval.runtime.store.damage import LOST_PAGES
from narval.runtime.store.letters import DatabaseLetters
from narval.runtime.store.rows import ElementRow, FactRow, HeldRow, KeyRow, Row, VersionRow, typed
from narval.runtime.store.sqlite import File, trouble
from narval.runtime.store.statements import Rows
from narval.runtime.store.store import AgentStore, Durability, Store

if TYPE_CHECKING:
    from sqlalchemy import Engine

_NOT_PERFORMED = "nothing of this turn was performed"


class Driver(Protocol):
    """The source of connections, as the database API of Python has them; each commits by itself."""

    name: str
    statements: Mapping[str, str]

    errors: tuple[type[Exception], ...]
    """The errors that connecting, and a connection, may raise."""

    def ensure(self) -> None:
        """Make a new store where there is none."""

    def connect(self) -> Any:
        """A connection of one's own."""

    def reading(self) -> AbstractContextManager[Any]:
        """A connection for as long as one reads."""

    def tables(self, connection: Any, /) -> set[str]:
        """The names of the tables that are there."""

    def look_through(self, connection: Any, /) -> None:
        """Raise StoreError when a stop that was not clean has left damage."""

    def lost_pages(self, connection: Any, /) -> int:
        """The number of pages of the latest turns that were committed and are gone."""

    def make_room(self) -> None:
        """Have ready what makes commits quicker."""

    def engine(self) -> Engine:
        """The same connections for SQLAlchemy."""

    def shrink(self, connection: Any, /) -> None:
        """Give back what is free, where that is most of it."""

    def refuses_rows(self, error: BaseException, /) -> bool:
        """True if an error of a connection is about the values it was given, and not about the database."""

    def close(self) -> None:
        """End the connections of the readers."""


def open_database(where: Path | str, durability: Durability, patience: float) -> Store:
    """The store there, made, checked and brought up to date as it needs. Raises StoreError."""
    if durability not in get_args(Durability):
        raise SettingsError(f"expected durability to be crash or power, got: {durability}")
    driver = driver_of(where, durability, patience)
    try:
        driver.ensure()
        writer = driver.connect()
        try:
            _begin(driver, writer)
        except BaseException:
            writer.close()
            raise
        return Database(driver, writer)
    except BaseException as error:
        driver.close()
        if isinstance(error, (OSError, *driver.errors)):
            raise trouble(driver.name, error) from error
        raise


class Tables:
    """The tables of `tables.py`, read on connections of the driver's, or on the one that `reading` gives."""

    def __init__(
        self, driver: Driver, reading: Callable[[], AbstractContextManager[Any]] | None = None
    ) -> None:
        self._driver, self.name, self._sql = driver, driver.name, driver.statements
        self._reading = reading or driver.reading

    def read(self, name: str, *given: Any) -> list[Any]:
        """The rows that a query finds. Raises StoreError."""
        with self._rows(name, given) as rows:
            return list(rows)

    def stream(self, name: str, *given: Any) -> Generator[Any]:
        """Rows as they are wanted. Raises StoreError."""
        with self._rows(name, given) as rows:
            yield from rows

    def agents(self) -> Iterator[AgentRow]:
        """All agents, by number. Raises StoreError."""
        return typed(AgentRow, self.stream("agents"), "agents", self.name)

    @contextmanager
    def _rows(self, name: str, given: tuple[Any, ...]) -> Iterator[Any]:
        try:
            with self._reading() as connection, closing(connection.cursor()) as cursor:
                cursor.execute(self._sql[name], given)
                yield cursor
        except self._driver.errors as error:
            raise trouble(self.name, error) from error


class DatabaseAgent(AgentStore):
    """The rows of one agent in the tables."""

    def __init__(self, tables: Tables, agent: int) -> None:
        self.agent, self._tables = agent, tables

    def _typed(
        self, row: type[Row], query: str, *given: Any, error: type[StoreError] = StoreError
    ) -> Iterator[Row]:
        """Rows as they are wanted. Raises StoreError, and `error` for a value of the wrong type."""
        with closing(self._tables.stream(query, self.agent, *given)) as found:
            yield from typed(row, found, query, self._tables.name, error)

    def identity(self) -> AgentRow:
        """The agent as it is registered."""
        rows = list(self._typed(AgentRow, "agent"))
        if not rows:
            raise StoreError(f"expected agent {self.agent} in {self._tables.name}, which has no such agent")
        return rows[0]

    def elements(self) -> Iterator[KeptElement]:
        """All elements, oldest first; their names are known without parsing."""
        return map(kept_element, self._typed(ElementRow, "elements"))

    def contexts(self) -> Iterator[tuple[int, int]]:
        """Run and eid, of elements and runs that are there."""
        return self._typed(HeldRow, "contexts", self.agent)

    def marks(self) -> Iterator[MarkRow]:
        """The uses of elements."""
        return self._typed(MarkRow, "marks")

    def keys(self) -> Iterator[tuple[str, str, str]]:
        """Name, expression, value."""
        return self._typed(KeyRow, "keys")

    def queue(self) -> list[QueuedRow]:
        """The events still waiting."""
        return list(self._typed(QueuedRow, "events"))

    def moments(self) -> list[MomentRow]:
        """The jobs, soonest first."""
        return list(self._typed(MomentRow, "moments"))

    @property
    def meta(self) -> Mapping[str, str]:
        """Small facts about the agent."""
        return dict(self._typed(FactRow, "meta"))

    def runs(self) -> list[RunRow]:
        """All runs, oldest first."""
        return list(self._typed(RunRow, "runs"))

    def journal(self, run: int, after: int = 0) -> Iterator[JournalRow]:
        """The entries of a run."""
        return iter(list(self._typed(JournalRow, "entries of run", run, after, error=UnreadableError)))

    def snapshot(self, run: int) -> SnapshotRow | None:
        """The last state kept of a run."""
        return next(iter(list(self._typed(SnapshotRow, "snapshot", run, error=UnreadableError))), None)

    def definitions(self, current: bool | None = True) -> list[DefinitionRow]:
        """The versions of definitions, by the moment they were loaded."""
        return list(map(_definition, self._typed(VersionRow, "definitions", current)))

    def definition(self, digest: str) -> DefinitionRow | None:
        """The version of that digest."""
        rows = list(self._typed(VersionRow, "definition", digest, error=UnreadableError))
        return _definition(rows[0]) if rows else None


class Database(Store):
    """The tables of `tables.py`, and `writer`, the one connection that writes them."""

    def __init__(self, driver: Driver, writer: Any) -> None:
        self._driver, self._name, self._sql = driver, driver.name, driver.statements
        self._tables = Tables(driver)
        self.writer = writer
        cursor = writer.cursor()
        self._execute, self._execute_many = cursor.execute, cursor.executemany
        self._writes = statements.by_slot(self._sql)
        self._refusal = ""
        self._closed = False

    @property
    def letters(self) -> DatabaseLetters:
        """The messages between its agents, to be read."""
        return DatabaseLetters(self._tables.read, self._tables.name)

    def agents(self) -> Iterator[AgentRow]:
        """All agents, by number."""
        return self._tables.agents()

    def held(self) -> list[tuple[int, int, int]]:
        """Agent, a number of elements or runs of it, and how many are active runs."""
        return self._tables.read("held by agents")

    def of(self, agent: int = HOME_AGENT) -> DatabaseAgent:
        """The store as one agent sees it."""
        return DatabaseAgent(self._tables, agent)

    def commit(self, *batches: Batch) -> None:
        """Record the batches, all or nothing."""
        if self._refusal:
            raise StoreError(self._refusal)
        try:
            work = self._work(batches)
            if len(work) == 1 and len(work[0][1]) == 1:
                self._execute(work[0][0], work[0][1][0])
            elif work:
                self._execute("BEGIN")
                for sql, rows in work:
                    if len(rows) == 1:
                        self._execute(sql, rows[0])
                    else:
                        self._execute_many(sql, rows)
                self._execute("COMMIT")
        except BaseException as error:
            failure = self._failed(error)
            if failure is None:
                raise
            raise failure from error

    def _failed(self, error: BaseException) -> StoreError | None:
        """Take a commit back that failed; what is to be raised instead of its error, if anything."""
        is_known = isinstance(error, self._driver.errors)
        try:
            self.writer.rollback()
            is_sound = self._driver.refuses_rows(error) if is_known else isinstance(error, Exception)
        except self._driver.errors:  # the database has rolled back by itself, or is gone
            is_sound = False
        if is_sound:
            what = f"{self._name} does not take what was to be recorded ({error})"
            return RefusedRowsError(f"{what}; {_NOT_PERFORMED}")
        refused = trouble(self._name, error, _NOT_PERFORMED)
        self._refusal = f"no turn is recorded after one that could not be: {refused}"
        return refused if is_known else None

    def refuse(self, why: str) -> None:
        """Record nothing from now on, and leave the stop unmarked, as a crash would."""
        self._refusal = why

    def _work(self, batches: Iterable[Batch]) -> list[tuple[str, Rows]]:
        """The statements that record the batches, each with its rows."""
        work: list[tuple[str, Rows]] = []
        for batch in batches:
            for writes in compress(self._writes, slots_of(batch)):
                for sql, rows in writes:
                    made = rows(batch)
                    if made:
                        work.append((sql, made))
        return work

    def make_room(self) -> None:
        """Let the driver have ready what it needs."""
        self._driver.make_room()

    def close(self) -> None:
        """Mark the stop as clean, and let go of the database."""
        if self._closed:
            return
        self._closed = True
        if not self._refusal:
            self._refusal = f"the store is closed: {self._name}"
            with suppress(*self._driver.errors):  # unmarked, the next start looks closer: nothing is lost
                self._execute(self._sql["put meta"], (STORE, "clean", "1"))
        self.writer.close()
        self._driver.close()


def kept_element(row: ElementRow) -> KeptElement:
    """An element as its row has it; what its origin was, if that can be read."""
    eid, name, xml, added, origin, declared, outdated, _ = row
    known, fault = None, ""
    try:
        known = decode_origin(origin)
    except UnreadableError as error:
        fault = str(error)
    return KeptElement(Element(eid, xml, added, known, name), declared, bool(outdated), fault)


def _definition(row: VersionRow) -> DefinitionRow:
    return DefinitionRow(*row[:-1], current=bool(row.current))


# --- opening --------------------------------------------------------------------------------------------


def driver_of(where: Path | str, durability: Durability, patience: float) -> Driver:
    """The driver for the file of a SQLite store, or for the URL of any other."""
    if isinstance(where, Path) or "://" not in where:
        return File(Path(where).absolute(), durability, patience)
    from narval.runtime.store.postgresql import Server, file_of

    file = file_of(where)
    return Server(where) if file is None else File(file, durability, patience)


def _begin(driver: Driver, writer: Any) -> None:
    """Check, bring up to date, and mark as in use."""
    version, known = version_of(driver, writer)
    lost = driver.lost_pages(writer)
    with closing(writer.cursor()) as cursor:
        if known.get("clean") != "1":
            driver.look_through(writer)
        if version != statements.HEAD:
            from narval.runtime.store.migrate import migrate

            migrate(driver.engine(), driver.name)
        driver.shrink(writer)
        _mark_in_use(cursor, driver.statements, lost)


def version_of(driver: Driver, connection: Any) -> tuple[str, dict[str, str]]:
    """The version of the tables that are there, and the small facts.

    Raises StoreError for a newer version, and where there are no tables of narval's.
    """
    if not driver.tables(connection) >= {"alembic_version", "agents"}:
        raise StoreError(f"expected a store of narval in {driver.name}, got a database of something else")
    with closing(connection.cursor()) as cursor:
        cursor.execute(driver.statements["version"])
        versions = cursor.fetchall()
        cursor.execute(driver.statements["meta"], (STORE,))
        version, known = versions[0][0] if versions else "", dict(cursor.fetchall())
    if not (isinstance(version, str) and re.fullmatch(r"\d{4}", version)):
        raise StoreError(
            f"the store is damaged: {driver.name}: expected the version of its tables, such as "
            f"{statements.HEAD}, got {version!r:.40}; put back a backup (docs/store.md)"
        )
    # Versions are numbered 0001, 0002, …: what is not before ours is after it.
    if version > statements.HEAD:
        writer = known.get("narval", "?")
        raise StoreError(
            f"{driver.name} was written by narval {writer} (schema {version}), which is newer than this one, "
            f"{__version__} (schema {statements.HEAD}); start it with that version or a later one"
        )
    return version, known


def _mark_in_use(cursor: Any, sql: Mapping[str, str], lost: int) -> None:
    """From now until `close` a stop is not clean; versions of definitions that no run needs are dropped.

    That pages of turns are lost is noted for the next daemon.
    """
    cursor.execute("BEGIN")
    if lost:
        cursor.execute(sql["put meta"], (HOME_AGENT, LOST_PAGES, str(lost)))
    cursor.execute(sql["drop definitions"])
    cursor.executemany(sql["put meta"], [(STORE, "clean", "0"), (STORE, "narval", __version__)])
    cursor.execute("COMMIT")
