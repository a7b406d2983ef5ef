"""Reading the rows of an agent, in the tables of `tables.py`, through a database's driver."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from contextlib import AbstractContextManager, closing
from itertools import chain
from operator import attrgetter
from typing import Any, Protocol

from narval.core.elements.element import Element
from narval.core.errors import StoreError, UnreadableError
from narval.store import batch
from narval.store.codec import decode_origin
from narval.store.letters import DatabaseLetters
from narval.store.rows import CurrentRow, ElementRow, FactRow, HeldRow, KeyRow, LabelRow, Row, ScopeRow, typed
from narval.store.statements import KEYS_AT_ONCE, MENTIONING
from narval.store.store import ALL, AgentStore, RunHistory, Store
from narval.store.tables import Dialect

CHUNK = 500
"""Rows read at once when there may be many."""


class Driver(Protocol):
    """The source of connections, as in Python's database API; each commits by itself."""

    name: str
    dialect: Dialect
    statements: Mapping[str, str]

    errors: tuple[type[Exception], ...]
    """The errors that connecting, and a connection, may raise."""

    def connect(self) -> Any:
        """A new connection."""

    def reading(self) -> AbstractContextManager[Any]:
        """A connection for the duration of a read."""

    def tables(self, connection: Any, /) -> set[str]:
        """The names of the existing tables."""

    def trouble(self, error: BaseException, /) -> StoreError:
        """The meaning of an error of a connection, and what to do next."""

    def close(self) -> None:
        """End the connections of the readers."""


class Tables:
    """The tables of `tables.py`, read on connections of the driver, or on the one that `reading` yields."""

    def __init__(
        self, driver: Driver, reading: Callable[[], AbstractContextManager[Any]] | None = None
    ) -> None:
        self._driver, self.name, self._sql = driver, driver.name, driver.statements
        self._reading = reading or driver.reading

    def read(self, name: str, *values: Any) -> list[Any]:
        """The rows of a query. Raises StoreError."""
        try:
            with self._reading() as connection:
                cursor = connection.cursor()
                cursor.execute(self._sql[name], values)
                rows: list[Any] = cursor.fetchall()
                cursor.close()
                return rows
        except self._driver.errors as error:
            raise self._driver.trouble(error) from error

    def stream(self, name: str, *values: Any) -> Generator[list[Any]]:
        """Rows on demand, `CHUNK` at a time. Raises StoreError."""
        try:
            with self._reading() as connection, closing(connection.cursor()) as cursor:
                cursor.execute(self._sql[name], values)
                while rows := cursor.fetchmany(CHUNK):
                    yield rows
        except self._driver.errors as error:
            raise self._driver.trouble(error) from error

    def agents(self) -> Iterator[batch.AgentRow]:
        """All agents, by number. Raises StoreError."""
        for rows in self.stream("agents"):
            yield from typed(batch.AgentRow, rows, "agents", self.name)


class ReadTables(Store):
    """A store whose rows are read from tables."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    @property
    def letters(self) -> DatabaseLetters:
        """The messages between its agents, to be read."""
        return DatabaseLetters(self._tables.read, self._tables.name)

    def agents(self) -> Iterator[batch.AgentRow]:
        """All agents, by number."""
        return self._tables.agents()

    def held(self) -> list[tuple[int, int, int]]:
        """Agent, number of its elements or runs, number of active runs."""
        return self._tables.read("held by agents")

    def facts(self, key: str) -> dict[str, str]:
        """A fact of agents, by their names."""
        return dict(self._tables.read("facts of agents", key))

    def mentions(self, text: str) -> Iterator[bytes]:
        """The values that contain a text, table by table. Raises StoreError."""
        for name, count in MENTIONING.items():
            for rows in self._tables.stream(name, *([text] * count)):
                for value in chain.from_iterable(rows):
                    yield value.encode() if isinstance(value, str) else bytes(value or b"")

    def of(self, agent: int | None = None) -> AgentStore:
        """The store as one agent sees it."""
        return DatabaseAgent(self._tables, self.own if agent is None else agent, self.own)


class DatabaseAgent(AgentStore):
    """The rows of one agent in the tables."""

    def __init__(self, tables: Tables, agent: int, own: int) -> None:
        self.agent, self.own, self._tables = agent, own, tables

    def _typed(self, row: type[Row], query: str, *values: Any) -> Iterator[Row]:
        """Rows on demand. Raises StoreError."""
        for rows in self._tables.stream(query, self.agent, *values):
            yield from typed(row, rows, query, self._tables.name)

    def _all(
        self, row: type[Row], query: str, *values: Any, error: type[StoreError] = StoreError
    ) -> list[Row]:
        """All rows of a query. Raises StoreError, and `error` for a value of the wrong type."""
        tables = self._tables
        return typed(row, tables.read(query, self.agent, *values), query, tables.name, error)

    def identity(self) -> batch.AgentRow:
        """The agent as it is registered."""
        rows = self._all(batch.AgentRow, "agent")
        if not rows:
            raise StoreError(f"expected agent {self.agent} in {self._tables.name}, which has no such agent")
        return rows[0]

    def elements(self) -> Iterator[batch.KeptElement]:
        """All elements, oldest first; their names are known without parsing."""
        return map(kept_element, self._typed(ElementRow, "elements"))

    def contexts(self) -> Iterator[tuple[int, int]]:
        """Run and eid, of existing elements and runs."""
        return self._typed(HeldRow, "contexts", self.agent)

    def marks(self) -> Iterator[batch.MarkRow]:
        """The uses of elements."""
        return self._typed(batch.MarkRow, "marks")

    def withdrawals(self) -> Iterator[batch.WithdrawalRow]:
        """The elements that were withdrawn, and those that are doubtful."""
        return self._typed(batch.WithdrawalRow, "withdrawals")

    def labels(self) -> Iterator[tuple[int, str]]:
        """Eid and label, of elements and runs."""
        return self._typed(LabelRow, "labels")

    def keys(self) -> Iterator[tuple[str, str, str]]:
        """Name, expression, value."""
        return self._typed(KeyRow, "keys")

    def queue(self) -> list[batch.QueuedRow]:
        """The events still waiting."""
        return self._all(batch.QueuedRow, "events")

    def moments(self) -> list[batch.MomentRow]:
        """The jobs, soonest first."""
        return self._all(batch.MomentRow, "moments")

    @property
    def meta(self) -> Mapping[str, str]:
        """Small facts about the agent."""
        return dict(self._all(FactRow, "meta"))

    def runs(self) -> list[batch.RunRow]:
        """All runs, oldest first."""
        return self._all(batch.RunRow, "runs")

    def journal(
        self, run: int, after: int = 0, before: int | None = None, most: int = ALL
    ) -> Iterator[batch.JournalRow]:
        """The entries of a run."""
        asked = ("entries of run", run, after) if before is None else ("entries before", run, before)
        for rows in self._tables.stream(asked[0], self.agent, *asked[1:], most):
            yield from typed(batch.JournalRow, rows, "entries of run", self._tables.name, UnreadableError)

    def snapshot(self, run: int) -> batch.SnapshotRow | None:
        """The last state kept of a run."""
        return next(iter(self._all(batch.SnapshotRow, "snapshot", run, error=UnreadableError)), None)

    def under_way(self, first: int, last: int) -> dict[int, RunHistory]:
        """The histories of active runs by eid, without those with a value of another type."""
        limits = self.agent, first, last
        try:
            entries = self._all(batch.JournalRow, "entries under way", *limits, error=UnreadableError)
            snapshots = self._all(batch.SnapshotRow, "snapshots under way", *limits, error=UnreadableError)
        except UnreadableError:
            return {}
        histories = {row.run: RunHistory(row, []) for row in snapshots}
        for entry in sorted(entries, key=attrgetter("seq")):
            histories.setdefault(entry.run, RunHistory(None, [])).entries.append(entry)
        return histories

    def definitions(self, current: bool | None = True, name: str | None = None) -> list[batch.DefinitionRow]:
        """The versions of definitions, by the moment they were loaded."""
        return list(map(_definition, self._all(batch.DefinitionRow, "definitions", current, name)))

    def versions(self) -> list[CurrentRow]:
        """Kind, name and digest of the current versions of definitions."""
        return self._all(CurrentRow, "current versions")

    def results(self, scope: str, most: int = ALL) -> list[batch.ResultRow]:
        """The results of a scope, newest first; those of files are read ahead."""
        if (scope, most) == (batch.FILES, ALL):
            return self._all(batch.ResultRow, "results of files")
        return self._all(batch.ResultRow, "results", scope, most)

    def results_of(self, scope: str, keys: Collection[str]) -> list[batch.ResultRow]:
        """The results of a scope that have one of some keys."""
        rows, asked = list[batch.ResultRow](), list(keys)
        for at in range(0, len(asked), KEYS_AT_ONCE):
            some = asked[at : at + KEYS_AT_ONCE]
            filled = some + some[-1:] * (KEYS_AT_ONCE - len(some))
            rows += self._all(batch.ResultRow, "results of keys", scope, *filled)
        return rows

    def scopes(self) -> list[ScopeRow]:
        """The scopes of results, by name."""
        return self._all(ScopeRow, "scopes")

    def definition(self, digest: str) -> batch.DefinitionRow | None:
        """The version of that digest."""
        rows = self._all(batch.DefinitionRow, "definition", digest, error=UnreadableError)
        return _definition(rows[0]) if rows else None


def kept_element(row: ElementRow) -> batch.KeptElement:
    """An element from its row, with its origin if that can be read."""
    eid, name, xml, added, origin, declared, outdated, _ = row
    decoded, fault = None, ""
    try:
        decoded = decode_origin(origin)
    except UnreadableError as error:
        fault = str(error)
    return batch.KeptElement(Element(eid, xml, added, decoded, name), declared, bool(outdated), fault)


def _definition(row: batch.DefinitionRow) -> batch.DefinitionRow:
    return row._replace(current=bool(row.current))
