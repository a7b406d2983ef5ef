"""The index of the incidents of an agent that no one has dealt with."""

from __future__ import annotations

from narval.agent.agent import AgentState
from narval.agent.incidents import IncidentRow, IncidentRows
from narval.ask.turn_index import TurnIndex
from narval.daemon.agents.news import Changes
from narval.system.time_slice import TimeSlice


class OpenIncidents(TurnIndex):
    """The incidents of an agent that no one has dealt with: those whose elements still count.

    When elements come or go, the new ones and the open ones are checked.
    """

    def __init__(self, agent: AgentState) -> None:
        super().__init__(agent)
        self._incidents = IncidentRows(agent)

    @property
    def rows(self) -> dict[str, IncidentRow]:
        """The rows by identifier."""
        return self._incidents.rows

    async def follow(self, changes: Changes) -> None:
        """Check the elements, if some came or went."""
        if changes.runs or changes.lost:
            self._incidents.drop_mended()
        if changes.elements:
            time_slice = TimeSlice()
            for _ in self._incidents.look():
                await time_slice.yield_if_due()
