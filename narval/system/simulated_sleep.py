"""Calls that sleep (`narval.sleep`), on a simulated clock.

On the clock of the machine a call sleeps like any coroutine. On a simulated clock that would be wrong twice:
it would hold up a simulation in which a year passes in a second, and end at an arbitrary moment.
"""

from __future__ import annotations

import asyncio
import heapq
from itertools import count

from narval.system.clock import Clock


class SimulatedSleeps:
    """The sleeping calls, and the moments at which they wake."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._asleep: set[str] = set()
        self._heap: list[tuple[float, int, str, asyncio.Future[None]]] = []
        self._order = count()

    def __contains__(self, call: str) -> bool:
        return call in self._asleep

    def begin(self, call: str, until: float) -> asyncio.Future[None]:
        """Let a call sleep until a moment, when the future is done."""
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._heap, (until, next(self._order), call, woken))
        self._asleep.add(call)
        return woken

    def end(self, call: str) -> None:
        """Record that a call no longer sleeps, for whatever reason."""
        self._asleep.discard(call)

    def next(self) -> float | None:
        """The moment at which the next call wakes, or None."""
        while self._heap and self._heap[0][3].done():
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def wake(self) -> None:
        """Wake the calls whose moment has come."""
        while (due := self.next()) is not None and due <= self._clock.now():
            _, _, call, woken = heapq.heappop(self._heap)
            self.end(call)
            woken.set_result(None)
