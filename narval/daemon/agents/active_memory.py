"""Active memory: the computed size of the active agents, and the choice of agents to make passive (G6)."""

from __future__ import annotations

import os
from collections.abc import Iterator

from narval.agent.agent import AgentState
from narval.daemon.agents.agent_host import AgentHost

EMPTY, ELEMENT, RUN, OVER = 24_000, 400, 4_000, 500
"""Bytes of an empty agent; bytes that an element, an active run and an ended run add."""

FREED = 0.9
"""The part of the limit to which the use is reduced when agents are made passive."""

_PHYSICAL = "SC_PHYS_PAGES"


def resident(agent: AgentState) -> int:
    """The bytes that an active agent takes, computed from its contents: nothing is measured.

    The result is within a factor of 1.5 for elements of some hundred bytes, and too low for larger ones.
    """
    runs, active = len(agent.runs), len(agent.runs.active)
    elements = len(agent.memory) - runs
    return EMPTY + ELEMENT * elements + RUN * active + OVER * (runs - active)


def half_of_the_machine() -> int:
    """Half of this machine's memory in bytes; 2 GB if the system does not report it."""
    if _PHYSICAL not in os.sysconf_names:
        return 2 << 30
    return os.sysconf(_PHYSICAL) * os.sysconf("SC_PAGE_SIZE") // 2


class ActiveMemory:
    """The bytes of the active agents, as of the last count of each."""

    def __init__(self) -> None:
        self.total = 0
        self._of: dict[AgentHost, int] = {}
        self._half = half_of_the_machine()

    def count(self, host: AgentHost) -> None:
        """Count an agent as it is now."""
        now = resident(host.agent)
        self.total += now - self._of.get(host, 0)
        self._of[host] = now

    def leave(self, host: AgentHost) -> None:
        """Stop counting an agent."""
        self.total -= self._of.pop(host, 0)

    def over(self, limit: int | None, latest: AgentHost) -> Iterator[AgentHost]:
        """The agents to make passive, least recently used first, so that the others stay within `limit`.

        `limit` is in bytes; None is half of the machine's memory. `latest` is never among them.
        """
        most = self._half if limit is None else limit
        if self.total <= most:
            return
        left = float(self.total)
        for host in sorted(self._of, key=lambda host: host.last_used):
            if left <= FREED * most:
                return
            if host is not latest and not host.is_in_use:
                left -= self._of[host]
                yield host
