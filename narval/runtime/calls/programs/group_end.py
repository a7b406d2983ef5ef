"""The end of a group of programs: SIGTERM, after a grace SIGKILL, until all of it is gone (A4)."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable

from narval.runtime.calls.programs import reaper

log = logging.getLogger("narval.programs")

_LOOK_AGAIN = 0.02
"""Seconds between looks at whether a group that is being ended is gone."""
_PATIENCE = 10.0
"""Seconds after SIGKILL when programs that cannot be ended (they wait for a disk, or belong to root) are
given up."""


class GroupEnd:
    """Ends a group, and calls `gone` once nothing of it is left.

    `mark` is the variable by which programs are found that have left the group, `grace` is in seconds.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, pid: int, mark: bytes, grace: float, gone: Callable[[], None]
    ) -> None:
        self._loop, self._pid, self._mark, self._grace, self._gone = loop, pid, mark, grace, gone
        self._on_request = False
        self._killed_at = 0.0
        self._pause = _LOOK_AGAIN
        self._timer: asyncio.TimerHandle | None = None

    def end(self, *, on_request: bool = False) -> None:
        """Send SIGTERM, and SIGKILL after the grace; on request, end what has left the group too."""
        self._on_request = self._on_request or on_request
        if self._timer is None:
            self._signal(signal.SIGTERM)
            self._signal(signal.SIGCONT)  # a program that was stopped must hear it too
            self._timer = self._loop.call_later(self._grace, self._kill)

    def wait_until_gone(self) -> None:
        """Look until nothing is left, or programs that cannot be ended are given up."""
        if self._is_left():
            if not self._killed_at or self._loop.time() - self._killed_at <= _PATIENCE:
                self._loop.call_later(self._pause, self.wait_until_gone)
                self._pause = min(0.1, self._pause * 1.5)
                return
            log.error("program %d, or what it has started, cannot be ended", self._pid)
        if self._timer is not None:
            self._timer.cancel()
        self._gone()

    def _is_left(self) -> bool:
        """Test whether something is left; on request, programs that have left the group are killed."""
        if not reaper.is_gone(self._pid):
            return True
        if not self._on_request:
            return False
        found = list(reaper.carriers(self._mark.__eq__))
        for program in found:
            reaper.send(program, signal.SIGKILL)
        if found and not self._killed_at:
            self._killed_at = self._loop.time()
        return bool(found)

    def _kill(self) -> None:
        self._killed_at = self._loop.time()
        self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> None:
        reaper.send(self._pid, number, os.killpg)
