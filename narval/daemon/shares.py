"""Shares: agents that have work get turns one after another, each for its share of processor time (G12).

The method is deficit round robin. Each time it is an agent's turn, it is given time by its weight, and pays
with it what its turns took beyond that. An agent that cannot pay is passed over. Where only one agent has
work, time is not counted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Protocol

from narval.agent.loop import Loop
from narval.agent.turn import Turn
from narval.calls.dispatcher import Dispatcher
from narval.core.errors import NarvalError
from narval.system import stopwatch

SLICE = 0.005
"""Seconds for which agents decide before what they decided is recorded; one turn at least."""

MOST_DIVIDED = 100
"""The most weights among which a round is divided. If there are more, it ends before all agents have had a
turn, for a share is worth a commit only if it is longer than a few events take.
"""


class Participant(Protocol):
    """An agent at work, as rounds see it."""

    loop: Loop
    dispatcher: Dispatcher

    def __hash__(self) -> int: ...

    @property
    def weight(self) -> int:
        """Its part of the time, compared with others (1 to 100)."""

    def perform(self, turn: Turn) -> None:
        """Perform a turn that is recorded, and answer those who waited for it."""

    def give_up(self, error: NarvalError) -> None:
        """Stop making turns, and answer all who wait for one with `error`."""

    def broke_down(self, error: Exception) -> bool:
        """Handle the breakdown of its turn; True if no other agent is affected, and it left the rounds."""


class Shares:
    """The agents that are to have a turn, and their debts of time."""

    def __init__(self) -> None:
        self.ready: dict[Participant, None] = {}
        """The agents that are to have a turn, in order."""
        self._debts: dict[Participant, float] = {}
        """The seconds that an agent took beyond its share; below zero where it left some, which is lost."""

    def remove(self, agent: Participant) -> None:
        """Remove an agent: it has no turn."""
        self.ready.pop(agent, None)
        self._debts.pop(agent, None)

    def turns(self) -> Iterator[tuple[Participant, float | None]]:
        """The agents that have a turn in this round, with the seconds that each may take. An agent is charged
        for the time until the next one is asked for, and stays ready until `rests`.
        """
        waiting, self.ready = deque(self.ready), {}
        unit, until, is_over = SLICE / _divided(waiting), 0.0, False
        visited: list[Participant] = []
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

    def alone(self) -> Participant | None:
        """The agent that has a turn without limit because no other waits; None if others do."""
        if len(self.ready) != 1:
            return None
        if self._debts:
            self._debts.clear()
        return self.ready.popitem()[0]

    def rests(self, agent: Participant) -> None:
        """Record that an agent had its turn and needs no other."""
        self.ready.pop(agent, None)

    def charge(self, agent: Participant, seconds: float) -> None:
        """Charge an agent for the time of its turn, where others wait."""
        if agent in self._debts:
            self._debts[agent] += seconds


def _divided(agents: Iterable[Participant]) -> int:
    """The sum of the weights, at most that among which a round is divided."""
    total = 0
    for agent in agents:
        total += agent.weight
        if total >= MOST_DIVIDED:
            return MOST_DIVIDED
    return total or MOST_DIVIDED
