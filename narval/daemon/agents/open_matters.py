"""Open matters of the agents besides the home's own: how much in each needs attention.

Who asks about an active agent looks at what came since the last look, and at what was open then. An agent
that becomes passive leaves its numbers, and records them: they are there without it.
"""

from __future__ import annotations

from typing import NamedTuple

from narval.agent.agent import AgentState
from narval.agent.incidents import ERROR, RUN, IncidentRows
from narval.agent.turn import Turn
from narval.core.engines.registry import asking_kinds

MOST = 200
"""So many errors and failures of an agent, the newest, are looked at first: a failed run has one of each."""

OPEN = "open"
"""The fact of an agent that has the numbers it left when it became passive."""


class Matters(NamedTuple):
    """The failed runs of an agent that nobody has dealt with, its other errors, its open items of work."""

    failed: int
    errors: int
    asked: int
    is_cut: bool = False
    """True if there may be more failed runs and errors: older ones were not looked at."""


NOTHING_OPEN = Matters(0, 0, 0)


class OpenMatters:
    """The open matters of agents by name, and of the passive ones as they left them."""

    def __init__(self) -> None:
        self._rows: dict[str, IncidentRows] = {}
        """The incidents of agents that are active, of those that were asked about."""
        self.left: dict[str, Matters] = {}
        """The matters of agents that are passive, of those that have any."""

    def restore(self, name: str, recorded: str) -> None:
        """Recall what an agent left, as it was recorded."""
        failed, errors, asked, *cut = map(int, recorded.split())
        self._leave(name, Matters(failed, errors, asked, any(cut)))

    def of(self, name: str, agent: AgentState) -> Matters:
        """The present matters of an active agent."""
        rows = self._rows.setdefault(name, IncidentRows(agent))
        rows.drop_mended()
        for _ in rows.look(MOST):
            pass
        asked = sum(agent.runs.counts[kind, "active"] for kind in asking_kinds())
        return Matters(rows.count(RUN), rows.count(ERROR), asked, rows.is_cut)

    def record(self, name: str, agent: AgentState, turn: Turn) -> None:
        """Have a turn record the matters of an agent that becomes passive."""
        now = _recorded(self.of(name, agent))
        if now != agent.facts.get(OPEN, _recorded(NOTHING_OPEN)):
            turn.transaction.batch.meta.append((OPEN, now))

    def drop(self, name: str, agent: AgentState | None) -> None:
        """Keep the numbers of an agent that is no longer active; None if it made no turn: what it left before
        is still so.
        """
        if agent is not None:
            self._leave(name, self.of(name, agent))
        self._rows.pop(name, None)

    def _leave(self, name: str, matters: Matters) -> None:
        self.left.pop(name, None)
        if any(matters):
            self.left[name] = matters


def _recorded(matters: Matters) -> str:
    """Matters as the store has them, which `restore` reads."""
    return " ".join(str(int(number)) for number in matters)
