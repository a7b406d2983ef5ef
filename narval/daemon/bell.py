"""Bell: what an agent sleeps by while there is nothing to do; nothing is polled."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress

from narval.system.wall_timer import WallTimer, wall_timer


class Bell:
    """Ends a sleep: when it is rung, when a moment of the clock on the wall comes, or at a deadline."""

    __slots__ = ("_rung", "_timer")

    def __init__(self) -> None:
        self._rung = asyncio.Event()
        self._timer: WallTimer | None = None

    def follow_wall_clock(self) -> None:
        """Ring by itself when the moment given to `wait` comes, and when the clock is set."""
        self._timer = wall_timer(asyncio.get_running_loop(), self.ring)

    def ring(self) -> None:
        """End the sleep that is under way, or the next one if none is."""
        self._rung.set()

    async def wait(self, moment: float | None, deadline: float | None) -> None:
        """Sleep until the bell rings, `moment` (seconds since 1970) or `deadline` (monotonic seconds)."""
        self._rung.clear()
        if self._timer is not None:
            self._timer.set(moment)
        timeout = None if deadline is None else max(0.0, deadline - time.monotonic())
        with suppress(TimeoutError):
            await asyncio.wait_for(self._rung.wait(), timeout)

    def close(self) -> None:
        """Let the timer go."""
        if self._timer is not None:
            self._timer.close()
