"""Shares: agents that have work get turns one after another, each for its share of processor time (G12).

The method is deficit round robin. Each time it is an agent's turn, it gets time by its weight, and pays off
the time by which its earlier turns exceeded their share. An agent that cannot pay is skipped. If only one
agent has work, time is not counted.
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
"""Seconds for which agents decide before their decisions are recorded; at least one turn."""

MOST_DIVIDED = 100
"""The most weights among which a round is divided. If there are more, the round ends before all agents have
had a turn, because a share is worth a commit only if it is longer than a few events take.
"""


class Participant(Protocol):
    """An active agent, as rounds see it."""

    loop: Loop
    dispatcher: Dispatcher

    def __hash__(self) -> int: ...

    @property
    def weight(self) -> int:
        """Its share of the time relative to others (1 to 100)."""

    def perform(self, turn: Turn) -> None:
        """Perform a recorded turn, and answer those who waited for it."""

    def give_up(self, error: NarvalError) -> None:
        """Stop making turns, and answer everyone who waits for one with `error`."""

    def broke_down(self, error: Exception) -> bool:
        """Handle the breakdown of its turn; True if no other agent is affected, and it left the rounds."""


class Shares:
    """The agents that wait for a turn, and their debts of time."""

    def __init__(self) -> None:
        self.ready: dict[Participant, None] = {}
        """The agents that wait for a turn, in order."""
        self._debts: dict[Participant, float] = {}
        """The seconds that an agent took beyond its share; negative if it left some, which are lost."""

    def remove(self, agent: Participant) -> None:
        """Remove an agent, so that it gets no turn."""
        self.ready.pop(agent, None)
        self._debts.pop(agent, None)

    def turns(self) -> Iterator[tuple[Participant, float | None]]:
        """The agents that have a turn in this round, with the seconds that each may take. An agent is charged
        for the time until the next one is requested, and stays ready until `rests`.
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
            elif not waiting and not until:  # no agent has had a turn
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
        """Charge an agent for the time of its turn, if others wait."""
        if agent in self._debts:
            self._debts[agent] += seconds


def _divided(agents: Iterable[Participant]) -> int:
    """The sum of the weights, at most `MOST_DIVIDED`."""
    total = 0
    for agent in agents:
        total += agent.weight
        if total >= MOST_DIVIDED:
            return MOST_DIVIDED
    return total or MOST_DIVIDED
