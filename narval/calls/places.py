"""Places: how many calls of an agent may be under way at once, wherever they are answered (G14)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from narval.calls.backend import ABANDONED, RunningCall
from narval.calls.backends import Backends
from narval.calls.fair_queue import FamilyQueue


class Places:
    """The calls under way of each agent, and those beyond its limit, which wait, its families in turn.

    `backends` answer those that have a place. A source, which goes on by itself, takes none.
    """

    def __init__(self, backends: Backends) -> None:
        self._backends = backends
        self._limits: dict[str, int] = {}
        self._under_way: dict[str, set[RunningCall]] = {}
        self._waiting: dict[str, FamilyQueue] = {}
        self._freed: deque[str] = deque()
        """The agents that may have places free, while that is looked into."""
        self.queued = 0
        """The number of calls that wait."""

    @property
    def cluster(self) -> dict[str, Any] | None:
        """The cluster as `status` shows it; None while no call has asked for it."""
        cluster = self._backends.cluster
        return cluster.shown() if cluster is not None else None

    def share(self, is_shared: Callable[[], bool]) -> None:
        """Let no agent have all threads or workers while `is_shared` says that there are others."""
        self._backends.share(is_shared)

    def limit(self, agent: str, most: int | None) -> None:
        """Let an agent have so many calls under way from now on; None: as many as it likes."""
        if most is None:
            self._limits.pop(agent, None)
        else:
            self._limits[agent] = most
        self._hand_out(agent)

    def start(self, running: RunningCall) -> None:
        """Begin a call, now or when its agent has a place for it."""
        agent = running.call.agent
        if running.call.is_source or self._has_room(agent):
            self._begin(running)
        else:
            self._waiting.setdefault(agent, FamilyQueue()).add(running)
            self.queued += 1

    def over(self, running: RunningCall) -> None:
        """Free the place of a call that is over, or have it wait no more."""
        agent = running.call.agent
        if self.has(running):
            self._waiting[agent].remove(running)
            self.queued -= 1
        elif running in (under_way := self._under_way.get(agent, set())):
            under_way.discard(running)
            if not under_way:
                del self._under_way[agent]
            self._hand_out(agent)

    def count(self, agent: str) -> int:
        """The number of calls of an agent that have a place."""
        return len(self._under_way.get(agent, ()))

    def has(self, running: RunningCall) -> bool:
        """True while a call waits for its agent to have a place, which other calls of that have."""
        return running in self._waiting.get(running.call.agent, ())

    def give_up(self, running: RunningCall) -> None:
        """End a call, as far as that is possible, and answer that it was abandoned."""
        if self.has(running):
            running.answer(ABANDONED)
        else:
            self._backends.of(running.call.target.where).abandon(running)

    def waits_for(self, running: RunningCall) -> str:
        """The reason why a call waits for a place; "" of one that does not."""
        agent = running.call.agent
        if not self.has(running):
            return self._backends.waits_for(running)
        return f"{len(self._under_way[agent])} of {self._limits[agent]} calls of {agent} are under way"

    def clear(self) -> None:
        """Let nothing wait any more."""
        self._waiting.clear()
        self.queued = 0

    def _begin(self, running: RunningCall) -> None:
        if not running.call.is_source:
            self._under_way.setdefault(running.call.agent, set()).add(running)
        self._backends.of(running.call.target.where).start(running)

    def _has_room(self, agent: str) -> bool:
        most = self._limits.get(agent)
        return most is None or len(self._under_way.get(agent, ())) < most

    def _hand_out(self, agent: str) -> None:
        """Begin calls of an agent that wait, as far as it has places: what is over at once frees its own."""
        self._freed.append(agent)
        if len(self._freed) > 1:
            return  # it is being looked into, further out
        while self._freed:
            agent = self._freed[0]
            while (waiting := self._waiting.get(agent)) and self._has_room(agent):
                running = waiting.next()
                self.queued -= 1
                self._begin(running)
            if not waiting:
                self._waiting.pop(agent, None)
            self._freed.popleft()
