"""The index of an agent's open incidents."""

from __future__ import annotations

from narval.agent.agent import AgentState
from narval.agent.incidents import IncidentRow, IncidentRows
from narval.ask.turn_index import TurnIndex
from narval.daemon.agents.news import Changes
from narval.system.time_slice import TimeSlice


class OpenIncidents(TurnIndex):
    """The open incidents of an agent: those whose elements are still current.

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
        """Check the elements, if any were added or removed."""
        if changes.runs or changes.lost:
            self._incidents.drop_mended()
        if changes.elements:
            time_slice = TimeSlice()
            for _ in self._incidents.look():
                await time_slice.yield_if_due()
