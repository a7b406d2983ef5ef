"""Active memory: the computed size of the agents at work, and which are to give up theirs (G6)."""

from __future__ import annotations

import os
from collections.abc import Iterator

from narval.agent.agent import AgentState
from narval.daemon.agents.agent_host import AgentHost

EMPTY, ELEMENT, RUN, OVER = 24_000, 400, 4_000, 500
"""Bytes of an agent with nothing in it; bytes that an element, an active run, an ended run add."""

FREED = 0.9
"""Agents are made passive until the rest takes this part of the limit."""

_PHYSICAL = "SC_PHYS_PAGES"


def resident(agent: AgentState) -> int:
    """The bytes that an agent at work takes, computed from what it has: nothing is measured.

    It is right within a half for elements of some hundred bytes, and too low for larger ones.
    """
    runs, active = len(agent.runs), len(agent.runs.active)
    elements = len(agent.memory) - runs
    return EMPTY + ELEMENT * elements + RUN * active + OVER * (runs - active)


def half_of_the_machine() -> int:
    """Half of the memory that this machine has, in bytes; 2 GB where the system does not say."""
    if _PHYSICAL not in os.sysconf_names:
        return 2 << 30
    return os.sysconf(_PHYSICAL) * os.sysconf("SC_PAGE_SIZE") // 2


class ActiveMemory:
    """The bytes of the agents at work, as of the last count of each."""

    def __init__(self) -> None:
        self.total = 0
        self._of: dict[AgentHost, int] = {}
        self._half = half_of_the_machine()

    def count(self, host: AgentHost) -> None:
        """Count an agent, as it is now."""
        now = resident(host.agent)
        self.total += now - self._of.get(host, 0)
        self._of[host] = now

    def leave(self, host: AgentHost) -> None:
        """Stop counting an agent."""
        self.total -= self._of.pop(host, 0)

    def over(self, limit: int | None, latest: AgentHost) -> Iterator[AgentHost]:
        """The agents to make passive, least recently used first, so that the others keep to `limit`.

        `limit` is in bytes; None is half of the machine's memory. `latest` is not among them.
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
