"""Detached calls: those under way of agents that are not at work (G7)."""

from __future__ import annotations

from collections.abc import Callable

from narval.calls.in_flight import CallsInFlight


class DetachedCalls:
    """The calls of agents whose activation was dropped, by id of the agent, until another has them."""

    def __init__(self) -> None:
        self._of: dict[str, CallsInFlight] = {}

    def keep(self, agent: str, calls: CallsInFlight, activate: Callable[[], None]) -> None:
        """Detach the calls of an agent; `activate` is called for each that reports."""
        if len(calls):
            self._of[agent] = calls
        calls.detach(activate)

    def of(self, agent: str) -> CallsInFlight | None:
        """The calls of an agent, if there are any."""
        return self._of.get(agent)

    def count(self, agent: str) -> int:
        """The number of calls of an agent."""
        calls = self._of.get(agent)
        return 0 if calls is None else len(calls)

    def taken(self, agent: str) -> None:
        """Let go of the calls of an agent: an activation has them."""
        self._of.pop(agent, None)

    def end(self, agent: str) -> None:
        """Give up all calls of an agent."""
        if agent in self._of:
            self._of[agent].end()

    async def over(self, agent: str) -> None:
        """Wait until the calls of an agent that were given up are over."""
        calls = self._of.get(agent)
        if calls is not None and calls.is_ending:
            await calls.over()
            self.taken(agent)
