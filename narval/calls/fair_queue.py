"""Calls that wait for room: of agents in turn, and of each one of its families of runs in turn, so that none
starves the others (N33, G14).

A run may make ten thousand calls at once. Were they answered in the order they came, the single call of
another run would wait for all of them; as it is, it waits for one of each family that has some waiting, and
for one of each agent. Where a home has several agents, none has all places, however long its calls take.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Container, Iterator
from itertools import chain

from narval.calls.backend import ABANDONED, Outcome, RunningCall


class FamilyQueue:
    """The calls of one agent that wait: a queue for each family, and whose turn it is."""

    def __init__(self) -> None:
        self._families: OrderedDict[int, OrderedDict[RunningCall, None]] = OrderedDict()
        """The calls by family, the family whose turn it is in front; none is empty."""

    def __bool__(self) -> bool:
        return bool(self._families)

    def __contains__(self, running: RunningCall) -> bool:
        return running in self._families.get(running.call.family, ())

    def add(self, running: RunningCall) -> None:
        """Add a call behind those of its family."""
        self._families.setdefault(running.call.family, OrderedDict())[running] = None

    def __iter__(self) -> Iterator[RunningCall]:
        return chain.from_iterable(self._families.values())

    def first(self) -> RunningCall:
        """The call whose turn it is."""
        return next(iter(next(iter(self._families.values()))))

    def next(self) -> RunningCall:
        """Remove and return the call whose turn it is; then it is the next family's turn."""
        family, calls = self._families.popitem(last=False)
        running, _ = calls.popitem(last=False)
        if calls:
            self._families[family] = calls
        return running

    def remove(self, running: RunningCall) -> None:
        """Remove a call that does not wait any more."""
        calls = self._families[running.call.family]
        del calls[running]
        if not calls:
            del self._families[running.call.family]


class FairQueue:
    """The calls of all agents that wait, and whose turn it is. It costs the same however many they are."""

    def __init__(self) -> None:
        self._agents: OrderedDict[str, FamilyQueue] = OrderedDict()
        """The calls by agent, the agent whose turn it is in front; none is empty."""
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[RunningCall]:
        return chain.from_iterable(self._agents.values())

    def add(self, running: RunningCall) -> None:
        """Add a call behind those of its agent and family."""
        self._agents.setdefault(running.call.agent, FamilyQueue()).add(running)
        self._count += 1

    def has_but(self, agents: Container[str]) -> bool:
        """True if some call waits that is of none of these agents."""
        return any(agent not in agents for agent in self._agents)

    def first(self, but: Container[str] = ()) -> RunningCall:
        """The call whose turn it is among those of other agents than these."""
        return next(calls for agent, calls in self._agents.items() if agent not in but).first()

    def next(self, but: Container[str] = ()) -> RunningCall:
        """Remove and return the call whose turn it is among those of other agents than these; then it is the
        next agent's turn.
        """
        agent = next(agent for agent in self._agents if agent not in but)
        running = self._agents[agent].next()
        self._agents.move_to_end(agent)
        if not self._agents[agent]:
            del self._agents[agent]
        self._count -= 1
        return running

    def remove(self, running: RunningCall) -> None:
        """Remove a call that does not wait any more."""
        calls = self._agents[running.call.agent]
        calls.remove(running)
        if not calls:
            del self._agents[running.call.agent]
        self._count -= 1

    def clear(self) -> None:
        """Remove all calls."""
        self._agents.clear()
        self._count = 0


class QueuedBackend(ABC):
    """A backend that has places for so many calls at once: the others wait in a fair queue."""

    def __init__(self, places: str) -> None:
        self._waiting = FairQueue()
        self._places = places
        """Its places, as people call them."""
        self._is_shared: Callable[[], bool] = lambda: False

    def share(self, is_shared: Callable[[], bool]) -> None:
        """Let no agent have all places while `is_shared` says that there are others."""
        self._is_shared = is_shared

    def waits_for(self, running: RunningCall) -> str:
        """The reason why a call waits for a place; "" of one that has begun."""
        if running.begun:
            return ""
        agent = running.call.agent
        if agent in self._full():
            most = self._most_of_one()
            return f"{most} of {most} {self._places} that an agent may have are taken by calls of {agent}"
        return f"all {self._most()} {self._places} are taken"

    @property
    def queued(self) -> int:
        """The number of calls that wait for room."""
        return len(self._waiting)

    def start(self, running: RunningCall) -> None:
        """Answer a call as soon as there is room."""
        self._waiting.add(running)
        self._hand_out()

    def abandon(self, running: RunningCall) -> None:
        """Take a call out of the queue, or stop it where it has begun."""
        if running.begun:
            self._stop(running, ABANDONED)
        else:
            self._waiting.remove(running)
            running.answer(ABANDONED)

    def _full(self) -> Container[str]:
        """The agents that have as many places as one may have: all but one, where there are others (G14)."""
        if not self._is_shared():
            return ()
        most, taken = self._most_of_one(), Counter(running.call.agent for running in self._taken())
        return {agent for agent, count in taken.items() if count >= most}

    def _most_of_one(self) -> int:
        return max(1, self._most() - 1)

    @abstractmethod
    def _most(self) -> int:
        """The number of places."""

    @abstractmethod
    def _taken(self) -> Collection[RunningCall]:
        """The calls that have a place."""

    @abstractmethod
    def _hand_out(self) -> None:
        """Begin calls that wait, while there is room."""

    @abstractmethod
    def _stop(self, running: RunningCall, outcome: Outcome) -> None:
        """Stop a call that has begun, and answer it."""

    def _expire(self, running: RunningCall) -> None:
        self._stop(running, running.expired())
