"""Listings: indexes of what an agent has, made when somebody first asks, then kept in step (P83)."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Protocol, TypeVar

from narval.agent.agent import AgentState


class Listing(Protocol):
    """An index of runs of one kind."""

    def put(self, eid: int, definition: Any, state: Any, /) -> None:
        """Know a run as it is now."""

    def drop(self, eid: int, /) -> None:
        """Know a run no more."""


Made = TypeVar("Made", bound=Listing)
Kept = TypeVar("Kept")


class Listings:
    """The indexes of an agent's runs, by kind."""

    def __init__(self, agent: AgentState) -> None:
        self._agent = agent
        self._made: dict[Hashable, Any] = {}

    def of(self, kind: str, make: Callable[[], Made]) -> Made:
        """The index of a kind, up to date: at first of all runs, then of those that have changed."""
        runs, watches = self._agent.runs, self._agent.watches
        found: Made | None = self._made.get(kind)
        if found is None:
            found = self._made[kind] = make()
            watches.follow(kind).update((eid, None) for eid, run in runs.active.items() if run.kind == kind)
        altered = watches.follow(kind)
        for eid in altered:
            run = runs.active.get(eid)
            if run is None or run.state is None:
                found.drop(eid)
            else:
                found.put(eid, run.definition, run.state)
        altered.clear()
        return found

    def kept(self, make: Callable[[AgentState], Kept]) -> Kept:
        """An index that keeps itself in step when it is asked, made once of the agent."""
        if make not in self._made:
            self._made[make] = make(self._agent)
        found: Kept = self._made[make]
        return found
