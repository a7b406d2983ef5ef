"""Shares: agents that have work get turns one after another, each for its share of processor time (G12).

It is deficit round robin: each time that it is an agent's turn it is given time by its weight, and pays with
it what its turns took beyond that. One whose time that does not pay for is passed over. Where only one has
work nobody counts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Iterator
from typing import Generic, Protocol, TypeVar

from narval.system import stopwatch

SLICE = 0.005
"""Seconds for which agents decide before what they decided is recorded; one turn at least."""

MOST_DIVIDED = 100
"""The weights among which a round is divided: if there are more, it is over before all agents had a turn,
for a share is worth a commit only if it is longer than what a few events take.
"""


class Weighted(Hashable, Protocol):
    """An agent that gets turns."""

    @property
    def weight(self) -> int:
        """Its part of the time, compared with others (1 to 100)."""


Agent = TypeVar("Agent", bound=Weighted)


class Shares(Generic[Agent]):
    """The agents that are to have a turn, and what the others' time costs them."""

    def __init__(self) -> None:
        self.ready: dict[Agent, None] = {}
        """The agents that are to have a turn, in order."""
        self._debts: dict[Agent, float] = {}
        """The seconds that an agent took beyond its share; below zero where it left some, which it loses."""

    def remove(self, agent: Agent) -> None:
        """Let an agent have none."""
        self.ready.pop(agent, None)
        self._debts.pop(agent, None)

    def turns(self) -> Iterator[tuple[Agent, float | None]]:
        """The agents that have a turn in this round, with the seconds that it may take; they are charged for
        the time until the next one is asked for. They stay among those that are ready, until `rests`.
        """
        waiting, self.ready = deque(self.ready), {}
        unit, until, is_over = SLICE / _divided(waiting), 0.0, False
        visited: list[Agent] = []
        while waiting and not is_over:
            agent = waiting.popleft()
            visited.append(agent)
            share = unit * agent.weight - max(0.0, self._debts.get(agent, 0.0))
            self._debts[agent] = -share
            if share > 0.0:
                began = stopwatch.seconds()
                until = until or began + SLICE
                yield agent, share
                now = stopwatch.seconds()
                self.charge(agent, now - began)
                is_over = now > until
            elif not waiting and not until:  # nobody has had a turn
                waiting, visited = deque(visited), []
        there = (agent for agent in visited if agent in self._debts)
        self.ready = dict.fromkeys((*waiting, *there, *self.ready))

    def alone(self) -> Agent | None:
        """The agent that has a turn though nobody else waits, as long as it likes; None if others do."""
        if len(self.ready) != 1:
            return None
        if self._debts:
            self._debts.clear()
        return self.ready.popitem()[0]

    def rests(self, agent: Agent) -> None:
        """Let an agent that had its turn have no other."""
        self.ready.pop(agent, None)

    def charge(self, agent: Agent, seconds: float) -> None:
        """Charge an agent for time that its turn took, where others wait."""
        if agent in self._debts:
            self._debts[agent] += seconds


def _divided(agents: Iterable[Weighted]) -> int:
    """The sum of the weights, as far as the time of a round is divided among so many."""
    total = 0
    for agent in agents:
        total += agent.weight
        if total >= MOST_DIVIDED:
            return MOST_DIVIDED
    return total or MOST_DIVIDED
