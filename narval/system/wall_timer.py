"""A timer that rings at a moment of the wall clock, and when that clock is set; nothing is polled.

A timer of the event loop counts only seconds awake: it would ring late after the machine has slept or the
clock was set. Linux has a timer for this, `timerfd` on the wall clock, which also reports that the clock was
set (`TFD_TIMER_CANCEL_ON_SET`). Python offers it only from 3.13 on, so it is called through the C library.
Elsewhere the loop's own timer is used, and checks the clock every minute while a moment is awaited.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import sys
import time
from collections.abc import Callable
from math import floor
from typing import Protocol

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
