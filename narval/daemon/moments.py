"""Moments: when agents, and who else is to be called, are due; each at one moment."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

from narval.agent.timers import TimerQueue

Due = TypeVar("Due", bound=Hashable)


class Moments(Generic[Due]):
    """The moments that are awaited, in seconds since 1970."""

    def __init__(self) -> None:
        self.of: dict[Due, float] = {}
        """The moment of each that awaits one."""
        self._queue: TimerQueue[Due, None] = TimerQueue()

    def put(self, due: Due, at: float | None) -> None:
        """Await a moment, and not the one before; None: none."""
        if at is not None:
            self.of[due] = at
            self._queue.push(at, due, None)
        elif self.of.pop(due, None) is not None:
            self._queue.discard(due)

    def next(self) -> float | None:
        """The nearest moment, or None."""
        return self._queue.next() if self.of else None

    def pop_due(self, now: float) -> Due | None:
        """The next that is due by a moment, which awaits nothing then."""
        found = self._queue.pop_due(now)
        if found is None:
            return None
        del self.of[found[1]]
        return found[1]
