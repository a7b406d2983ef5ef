"""Time limits of calls while there is no cluster: they would wait for ever (G70)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from narval.calls.backend import RunningCall


class WaitingLimits:
    """The calls whose time runs because there is no cluster; those that outlive it are given to `expire`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, expire: Callable[[RunningCall], None]) -> None:
        self._loop, self._expire = loop, expire
        self._timers: dict[RunningCall, asyncio.TimerHandle] = {}

    def run(self, calls: Iterable[RunningCall]) -> None:
        """Let the time of calls run from now on, if it does not yet."""
        for running in calls:
            if running.call.timeout is not None and running not in self._timers:
                self._timers[running] = self._loop.call_later(running.call.timeout, self._over, running)

    def stop(self) -> None:
        """Let no time run any more."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def drop(self, running: RunningCall) -> None:
        """Forget a call that is over."""
        if (timer := self._timers.pop(running, None)) is not None:
            timer.cancel()

    def _over(self, running: RunningCall) -> None:
        del self._timers[running]
        self._expire(running)
