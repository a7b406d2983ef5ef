"""A store in memory, lost when it is closed."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice
from operator import attrgetter
from typing import Any

from narval.store.batch import (
    DEFAULT_NAME,
    SLOTS,
    Advance,
    AgentRow,
    Batch,
    DefinitionRow,
    JournalRow,
    KeptElement,
    MarkRow,
    MomentRow,
    QueuedRow,
    ResultRow,
    RunRow,
    SnapshotRow,
    WithdrawalRow,
    new_agent,
)
from narval.store.codec import encode_entry
from narval.store.letters import VolatileLetters
from narval.store.rows import ScopeRow
from narval.store.store import ALL, AgentStore, Store


class AlwaysNew(AgentStore):
    """A store that is empty at each start."""

    def elements(self) -> Iterator[KeptElement]:
        """None."""
        return iter(())

    def contexts(self) -> Iterator[tuple[int, int]]:
        """None."""
        return iter(())

    def marks(self) -> Iterator[MarkRow]:
        """None."""
        return iter(())

    def withdrawals(self) -> Iterator[WithdrawalRow]:
        """None."""
        return iter(())

    def labels(self) -> Iterator[tuple[int, str]]:
        """None."""
        return iter(())

    def keys(self) -> Iterator[tuple[str, str, str]]:
        """None."""
        return iter(())

    def queue(self) -> list[QueuedRow]:
        """None."""
        return []

    def moments(self) -> list[MomentRow]:
        """None."""
        return []


_OF_AGENTS = frozenset({"messages", "taken", "dead_letters", "letters_settled", "agents", "removed_agents"})
"""The slots about agents and their messages to one another."""

_SELDOM = frozenset(SLOTS) - {"elements", "held", "runs", "journal"} - _OF_AGENTS
"""The slots that most turns leave unused; testing for that need not make their lists."""


class VolatileAgent(AlwaysNew):
    """The rows of one agent in memory: those that are read while it runs (runs, journal, snapshots,
    definitions), not those read only at a start, when the store is always empty.
    """

    def __init__(self, agent: int, row: AgentRow) -> None:
        self.agent, self._row = agent, row
        self._runs: dict[int, tuple[Any, ...]] = {}
        """Rows as bare tuples, which the garbage collector stops tracking."""
        self._journals: defaultdict[int, list[Advance]] = defaultdict(list)
        self._snapshots: dict[int, SnapshotRow] = {}
        self._definitions: dict[tuple[str, str, str], DefinitionRow] = {}
        self._meta: dict[str, str] = {}
        self._results: dict[str, dict[str, ResultRow]] = {}

    def keep(self, batch: Batch) -> None:
        """Keep the rows that are read later."""
        journals = self._journals
        for advance in batch.journal:
            journals[advance.run].append(advance)
        if batch.runs:
            self._runs.update((row.eid, tuple(row)) for row in batch.runs)
        if not _SELDOM.isdisjoint(vars(batch)):
            self._keep_more(batch)

    def _keep_more(self, batch: Batch) -> None:
        self._snapshots.update((row.run, row) for row in batch.snapshots)
        self._meta.update(batch.meta)
        for (scope, key), row in batch.results.items():
            if row is not None:
                self._results.setdefault(scope, {})[key] = row
            elif (rows := self._results.get(scope)) is not None:
                rows.pop(key, None)
                if not rows:
                    del self._results[scope]
        for scope in batch.dropped_scopes:
            self._results.pop(scope, None)
        for definition in batch.definitions:
            self._define(definition)
        for digest, kind, name in batch.retired:
            if (old := self._definitions.get((digest, kind, name))) is not None:  # for a look it is elsewhere
                self._definitions[digest, kind, name] = old._replace(current=False)
        for run, seq, keep in batch.trimmed:
            kept_entries = self._journals.get(run, [])
            behind = bisect_right(kept_entries, seq, key=attrgetter("seq"))
            del kept_entries[: max(0, min(behind, len(kept_entries) - keep))]
        self.drop(batch.forgotten_runs)

    def drop(self, runs: Iterable[int]) -> None:
        """Drop all rows of these runs."""
        for run in runs:
            self._runs.pop(run, None)
            self._journals.pop(run, None)
            self._snapshots.pop(run, None)

    def _define(self, new: DefinitionRow) -> None:
        if new.current:
            for key, old in self._definitions.items():
                if (old.kind, old.name) == (new.kind, new.name):
                    self._definitions[key] = old._replace(current=False)
        self._definitions[new.digest, new.kind, new.name] = new

    def identity(self) -> AgentRow:
        """The agent as it is registered."""
        return self._row

    def follow(self, own: int) -> None:
        """Make an agent the home's own from now on."""
        self.own = own

    def register(self, row: AgentRow) -> None:
        """Register the agent by this row."""
        self._row = row

    @property
    def meta(self) -> Mapping[str, str]:
        """Small facts about the agent."""
        return self._meta

    def runs(self) -> list[RunRow]:
        """All runs, oldest first."""
        return sorted(map(RunRow._make, self._runs.values()), key=attrgetter("eid"))

    def journal(
        self, run: int, after: int = 0, before: int | None = None, most: int = ALL
    ) -> Iterator[JournalRow]:
        """The entries of a run."""
        advances, of = self._journals.get(run, []), attrgetter("seq")
        newer = advances[bisect_right(advances, after, key=of) :] if before is None else []
        older = reversed(advances[: bisect_left(advances, before or 0, key=of)])
        for entry in islice(newer or older, most):
            data = encode_entry(entry.event, entry.changes, entry.commands)
            yield JournalRow(run, entry.seq, entry.event.at, data)

    def snapshot(self, run: int) -> SnapshotRow | None:
        """The last state kept of a run."""
        return self._snapshots.get(run)

    def definitions(self, current: bool | None = True, name: str | None = None) -> list[DefinitionRow]:
        """The versions of definitions."""
        rows = self._definitions.values()
        return [row for row in rows if current in (None, row.current) and name in (None, row.name)]

    def versions(self) -> list[tuple[str, str, str]]:
        """Kind, name and digest of the current versions of definitions."""
        return [(row.kind, row.name, row.digest) for row in self.definitions()]

    def results(self, scope: str, most: int = ALL) -> list[ResultRow]:
        """The results of a scope, newest first."""
        rows = self._results.get(scope, {}).values()
        return sorted(rows, key=lambda row: (-row.at, row.key))[:most]

    def results_of(self, scope: str, keys: Collection[str]) -> list[ResultRow]:
        """The results of a scope that have one of some keys."""
        rows = self._results.get(scope, {})
        return [rows[key] for key in keys if key in rows]

    def scopes(self) -> list[ScopeRow]:
        """The scopes of results, by name."""
        return [ScopeRow(scope, len(rows)) for scope, rows in sorted(self._results.items())]

    def definition(self, digest: str) -> DefinitionRow | None:
        """The version of that digest."""
        return next((row for row in self._definitions.values() if row.digest == digest), None)


class VolatileStore(Store):
    """A store in memory, for a home without a disk: fast, and lost when it is closed.

    It has the agents that are requested, each with a new id, so that the ids of their calls are unique
    outside.
    """

    is_volatile = True

    def __init__(self) -> None:
        self._agents: dict[int, VolatileAgent] = {}
        self._letters = VolatileLetters()

    @property
    def letters(self) -> VolatileLetters:
        """The messages between its agents, to be read."""
        return self._letters

    def of(self, agent: int | None = None) -> VolatileAgent:
        """The store as one agent sees it."""
        agent = self.own if agent is None else agent
        agent_store = self._agents.get(agent)
        if agent_store is None:
            agent_store = self._agents[agent] = VolatileAgent(agent, new_agent(agent, DEFAULT_NAME))
            agent_store.follow(self.own)
        return agent_store

    def use_own(self, agent: int) -> None:
        """Make an agent the home's own from now on."""
        super().use_own(agent)
        for agent_store in self._agents.values():
            agent_store.follow(agent)

    def agents(self) -> Iterator[AgentRow]:
        """All requested agents, by number."""
        return (self._agents[number].identity() for number in sorted(self._agents))

    def held(self) -> list[tuple[int, int, int]]:
        """None: its agents are in memory."""
        return []

    def facts(self, key: str) -> dict[str, str]:
        """A fact of agents, by their names."""
        agent_stores = (self._agents[number] for number in sorted(self._agents))
        return {agent.identity().name: agent.meta[key] for agent in agent_stores if key in agent.meta}

    def commit(self, *batches: Batch) -> None:
        """Keep the rows that are read later."""
        for batch in batches:
            self.of(batch.agent).keep(batch)
            if _OF_AGENTS.isdisjoint(vars(batch)):
                continue
            self._letters.keep(batch)
            for row in batch.agents:
                self.of(row.agent).register(row)
            for number in batch.removed_agents:
                self._agents.pop(number, None)
                self._letters.forget(number)
