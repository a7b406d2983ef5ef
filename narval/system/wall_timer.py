"""Timers: one that rings at a moment of the wall clock, and when that clock is set, nothing being polled; and
the sleeps of calls on a simulated clock.

A timer of the event loop counts only seconds awake: it would ring late after the machine has slept or the
clock was set. Linux has a timer for this, `timerfd` on the wall clock, which also reports that the clock was
set (`TFD_TIMER_CANCEL_ON_SET`). Python offers it only from 3.13 on, so it is called through the C library.
Elsewhere the loop's own timer is used, and checks the clock every minute while a moment is awaited.
"""

from __future__ import annotations

import asyncio
import ctypes
import heapq
import os
import sys
import time
from collections.abc import Callable
from itertools import count
from math import floor
from typing import Protocol

from narval.system.clock import Clock

LOOK_AGAIN = 60.0
"""Seconds between two checks of the clock where the system does not report that it was set."""

_CLOCK_REALTIME = 0
_NONBLOCK, _CLOSE_ON_EXEC = os.O_NONBLOCK, getattr(os, "O_CLOEXEC", 0)
_ABSOLUTE, _CANCEL_ON_SET = 1, 2
_FARTHEST = 2**40
"""The latest moment for which the timer is set (seconds since 1970)."""


class WallTimer(Protocol):
    """Rings once each time it was set, at the moment or before; the owner then checks the clock."""

    def set(self, at: float | None) -> None:
        """Ring at that moment, in place of any other; None: never."""

    def close(self) -> None:
        """Stop ringing."""


def wall_timer(loop: asyncio.AbstractEventLoop, ring: Callable[[], object]) -> WallTimer:
    """Make the best timer available on this machine."""
    if sys.platform == "linux" and ctypes.sizeof(ctypes.c_long) == 8:
        try:
            return TimerFdTimer(loop, ring)
        except (OSError, AttributeError, NotImplementedError):
            pass
    return LoopTimer(loop, ring)


_Setting = ctypes.c_long * 4
"""`struct itimerspec`: seconds and nanoseconds of the interval, then of the moment."""


class TimerFdTimer:
    """A `timerfd` on the wall clock."""

    def __init__(self, loop: asyncio.AbstractEventLoop, ring: Callable[[], object]) -> None:
        self._library = ctypes.CDLL(None, use_errno=True)
        self._file = int(self._library.timerfd_create(_CLOCK_REALTIME, _NONBLOCK | _CLOSE_ON_EXEC))
        if self._file < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create")
        self._loop, self._ring = loop, ring
        self._at: float | None = None
        try:
            loop.add_reader(self._file, self._read)
        except BaseException:
            os.close(self._file)
            raise

    def set(self, at: float | None) -> None:
        """Ring at that moment, in place of any other; None: never."""
        if at == self._at:
            return
        setting = _Setting()
        if at is not None:
            whole = floor(min(max(at, 1.0), _FARTHEST))
            # Rounded up: an owner woken too early would check the clock, and be woken again at once.
            nanoseconds = min(999_999_999, int(max(0.0, at - whole) * 1e9) + 1000) if at >= 1.0 else 1
            setting[2:] = [whole, nanoseconds]
        flags = _ABSOLUTE | _CANCEL_ON_SET
        if self._library.timerfd_settime(self._file, flags, ctypes.byref(setting), None) < 0:
            raise OSError(ctypes.get_errno(), "timerfd_settime")
        self._at = at

    @property
    def is_set(self) -> bool:
        """True if it has not rung yet."""
        return self._at is not None

    def close(self) -> None:
        """Stop ringing."""
        self._loop.remove_reader(self._file)
        os.close(self._file)

    def _read(self) -> None:
        try:
            os.read(self._file, 8)
        except BlockingIOError:
            return
        except OSError:  # ECANCELED: the clock was set, so the timer must be set again
            pass
        self._at = None
        self._ring()


class LoopTimer:
    """A timer of the event loop, for machines without `timerfd`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, ring: Callable[[], object]) -> None:
        self._loop, self._ring = loop, ring
        self._timer: asyncio.TimerHandle | None = None

    def set(self, at: float | None) -> None:
        """Ring at that moment, in place of any other; None: never."""
        self.close()
        if at is not None:
            wait = min(max(0.0, at - time.time()), LOOK_AGAIN)
            self._timer = self._loop.call_later(wait, self._ring)

    def close(self) -> None:
        """Stop ringing."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


# --- on a simulated clock ----------------------------------------------------------------------------------


class SimulatedSleeps:
    """The calls that sleep (`narval.sleep`) on a simulated clock, and the moments at which they wake.

    On the clock of the machine a call sleeps like any coroutine. On a simulated clock that would be wrong
    twice: it would hold up a simulation in which a year passes in a second, and end at an arbitrary moment.
    """

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
