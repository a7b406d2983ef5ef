"""The memory of a home, read without changing the home; and a store that begins with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

import msgspec
from msgspec.structs import replace

from narval.agent.labelling import LABELLED
from narval.core.agent_name import stands_for_peer
from narval.core.elements.element import Element
from narval.core.errors import RequestError, StoreError
from narval.files.home import Home
from narval.files.settings import Settings
from narval.store.batch import ACTIVE, HOME_AGENT, AgentRow, Batch, KeptElement, MarkRow, WithdrawalRow
from narval.store.memory import VolatileAgent, VolatileStore
from narval.store.open import look_into
from narval.store.postgresql import urls
from narval.store.rows import number
from narval.store.store import AgentStore

ATTEMPTS = 5
"""The most attempts to read a memory while the store is written."""


class Remembered(msgspec.Struct, frozen=True):
    """A memory without its runs: elements, marks, withdrawals, labels, and the values of unique outputs."""

    elements: Sequence[KeptElement] = ()
    marks: Sequence[MarkRow] = ()
    withdrawals: Sequence[WithdrawalRow] = ()
    labels: Sequence[tuple[int, str]] = ()
    keys: Sequence[tuple[str, str, str]] = ()
    next_eid: int = 1


def remembered(home: Home, settings: Settings, agent: str = "") -> Remembered:
    """The current memory of a home's own agent, or of another; empty if it never ran.

    Raises StoreError, RequestError.
    """
    path = store_of(home, settings)
    for _ in range(ATTEMPTS):
        with look_into(path, home.is_held) as store:
            numbers = {row.name: row.agent for row in store.agents()} if agent else {"": store.own}
            if agent not in numbers:
                return Remembered()
            rows = store.of(numbers[agent])
            try:
                recalled = stored(rows)
            except (StoreError, ValueError):
                if store.is_still():
                    raise
            else:
                if store.is_still():
                    return recalled
    raise StoreError(f"the store is being written all the time, and not by a daemon of this home: {path}")


def stored(agent: AgentStore) -> Remembered:
    """The memory of an agent in a store. Raises StoreError, ValueError."""
    next_eid = number(agent.meta, "next_eid", 1)
    marks, withdrawals, labels = list(agent.marks()), list(agent.withdrawals()), list(agent.labels())
    return Remembered(list(agent.elements()), marks, withdrawals, labels, list(agent.keys()), next_eid)


def other_agents(home: Home, settings: Settings) -> list[AgentRow]:
    """The agents of a home besides its own, according to its store. Raises StoreError, RequestError."""
    path = store_of(home, settings)
    if not path.exists():
        return []
    with look_into(path, home.is_held) as store:
        agents = (row for row in store.agents() if not stands_for_peer(row.name))
        return [row for row in agents if row.agent != store.own]


def store_of(home: Home, settings: Settings) -> Path:
    """The file of a home's store. Raises RequestError for one on a server."""
    if settings.store is None:
        return home.store
    if urls.is_of_server(settings.store):
        raise RequestError(
            "a memory that is kept in a database server cannot be copied; "
            "begin with what data/memory.xml declares (--memory new), or with nothing (--memory empty)"
        )
    return urls.file_of(settings.store)


def simulated_row(number: int, name: str, state: str = ACTIVE) -> AgentRow:
    """The agent of that number in a simulation. Its row is the same each time, so that equal simulations have
    equal calls.
    """
    return AgentRow(number, f"{number - HOME_AGENT:032x}", name, state)


class SimulatedStore(VolatileStore):
    """A store in memory of agents that begin with given memories; `listen` is called with each committed
    batch. It keeps the rows of ended runs, or does not.
    """

    def __init__(
        self,
        agents: Mapping[AgentRow, Callable[[], Remembered]],
        listen: Callable[[Batch], None],
        *,
        keeps_ended: bool = True,
    ) -> None:
        super().__init__()
        self._keeps_ended = keeps_ended
        self._listen = listen
        for row, recall in agents.items():
            self._agents[row.agent] = _SimulatedAgent(row, recall)

    def commit(self, *batches: Batch) -> None:
        """Keep the batches, and pass them to the listener."""
        super().commit(*batches)
        for batch in batches:
            self._listen(batch)
            if not self._keeps_ended and batch.runs:
                self.of(batch.agent).drop(row.eid for row in batch.runs if row.phase != "active")


class _SimulatedAgent(VolatileAgent):
    """An agent that begins with a given memory, which is read when it first becomes active."""

    def __init__(self, row: AgentRow, recall: Callable[[], Remembered]) -> None:
        super().__init__(row.agent, row)
        self._recall = recall

    @cached_property
    def _recalled(self) -> Remembered:
        recalled = self._recall()
        self._meta |= {"next_eid": str(recalled.next_eid), LABELLED: "1"} | self._meta
        return recalled

    @property
    def meta(self) -> Mapping[str, str]:
        """Small facts about the agent."""
        return self._meta if self._recalled else {}

    def elements(self) -> Iterator[KeptElement]:
        """All elements, oldest first."""
        return iter(self._recalled.elements)

    def marks(self) -> Iterator[MarkRow]:
        """The uses of elements."""
        return iter(self._recalled.marks)

    def withdrawals(self) -> Iterator[WithdrawalRow]:
        """The elements that were withdrawn, and those that are doubtful."""
        return iter(self._recalled.withdrawals)

    def labels(self) -> Iterator[tuple[int, str]]:
        """Eid and label, of elements and runs."""
        return iter(self._recalled.labels)

    def keys(self) -> Iterator[tuple[str, str, str]]:
        """Name, expression, value."""
        return iter(self._recalled.keys)


def with_declared(recalled: Remembered, declared: Sequence[tuple[str, bytes]], at: float) -> Remembered:
    """The same memory with missing declared elements added, such as `start-plan`s that must not act."""
    there = {row.declared for row in recalled.elements}
    next_eid = max([recalled.next_eid, *(row.element.eid + 1 for row in recalled.elements)])
    new = [
        KeptElement(Element(next_eid + number, xml, at), key, False)
        for number, (key, xml) in enumerate((key, xml) for key, xml in declared if key not in there)
    ]
    elements = [*recalled.elements, *new]
    return replace(recalled, elements=elements, next_eid=next_eid + len(new))
