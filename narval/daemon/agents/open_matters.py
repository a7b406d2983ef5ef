"""Open matters of the agents besides the home's own: how much in each needs attention.

For an active agent, a query examines what is new since the last query, and what was open then. An agent that
becomes passive records its numbers, so that they are known while it is not in memory.
"""

from __future__ import annotations

from typing import NamedTuple

from narval.agent.agent import AgentState
from narval.agent.incidents import ERROR, RUN, IncidentRows
from narval.agent.turn import Turn
from narval.core.engines.registry import asking_kinds

MOST = 200
"""The newest errors and failures of an agent that are examined first: a failed run has one of each."""

OPEN = "open"
"""The fact of an agent with the numbers that it recorded when it became passive."""


class Matters(NamedTuple):
    """The open matters of an agent: unsettled failed runs, other errors, and open items of work."""

    failed: int
    errors: int
    asked: int
    is_cut: bool = False
    """True if there may be more failed runs and errors: older ones were not examined."""


NOTHING_OPEN = Matters(0, 0, 0)


class OpenMatters:
    """The open matters of agents by name; those of passive agents as they left them."""

    def __init__(self) -> None:
        self._rows: dict[str, IncidentRows] = {}
        """The incidents of active agents that were queried."""
        self.left: dict[str, Matters] = {}
        """The matters of passive agents that have any."""

    def restore(self, name: str, recorded: str) -> None:
        """Restore the recorded matters of a passive agent."""
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
        """Make a turn record the matters of an agent that becomes passive."""
        now = _recorded(self.of(name, agent))
        if now != agent.facts.get(OPEN, _recorded(NOTHING_OPEN)):
            turn.transaction.batch.meta.append((OPEN, now))

    def drop(self, name: str, agent: AgentState | None) -> None:
        """Keep the numbers of an agent that is no longer active. `agent` is None if it made no turn: its
        previous numbers are still right.
        """
        if agent is not None:
            self._leave(name, self.of(name, agent))
        self._rows.pop(name, None)

    def _leave(self, name: str, matters: Matters) -> None:
        self.left.pop(name, None)
        if any(matters):
            self.left[name] = matters


def _recorded(matters: Matters) -> str:
    """Matters in the stored form, which `restore` reads."""
    return " ".join(str(int(number)) for number in matters)
