"""The end of groups of programs: SIGTERM, then SIGKILL after a grace period, until all of a group is gone
(A4).

Only the system knows which programs exist, and asking takes milliseconds. So one look serves all awaited
groups, and looks take a limited share of the time.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable

from narval.calls.programs import reaper

log = logging.getLogger("narval.programs")

_LOOK_AGAIN, _LATER = 0.02, 0.1
"""Seconds between looks for groups that are being ended: at first, and later."""
_REST = 5.0
"""The pause after a look, in multiples of its duration."""
_PATIENCE = 10.0
"""Seconds after SIGKILL at which programs that cannot be ended (they wait for a disk, or belong to root) are
given up.
"""


class GroupEnd:
    """Ends a group, and calls `gone` when nothing of it is left.

    `mark` has the variables by which programs that have left the group are found; `grace` is in seconds.
    """

    def __init__(
        self,
        ending: EndingGroups,
        pid: int,
        mark: frozenset[bytes],
        grace: float,
        gone: Callable[[], None],
    ) -> None:
        self._ending, self.pid, self.mark, self._grace, self._gone = ending, pid, mark, grace, gone
        self.on_request = False
        """True if programs that have left the group must be ended too."""
        self._killed_at = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def end(self, *, on_request: bool = False) -> None:
        """Send SIGTERM, and SIGKILL after the grace; on request, also end what has left the group."""
        self.on_request = self.on_request or on_request
        if self._timer is None:
            self._signal(signal.SIGTERM)
            self._signal(signal.SIGCONT)  # a stopped program must get it too
            self._timer = self._ending.loop.call_later(self._grace, self._kill)

    def leader_died(self) -> None:
        """End the programs that the leader left running. `gone` is called when none is left, or when programs
        that cannot be ended are given up.
        """
        if reaper.send(self.pid, 0, os.killpg):
            self.end()
        elif not self.on_request:
            self.finish()
            return
        self._ending.add(self)

    def is_given_up(self, *, carried: bool) -> bool:
        """True if it was killed long ago. `carried`: programs that have left the group were found."""
        now = self._ending.loop.time()
        if carried and not self._killed_at:
            self._killed_at = now
        return bool(self._killed_at) and now - self._killed_at > _PATIENCE

    def finish(self) -> None:
        """Report that the group is gone."""
        if self._timer is not None:
            self._timer.cancel()
        self._gone()

    def _kill(self) -> None:
        self._killed_at = self._ending.loop.time()
        self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> None:
        reaper.send(self.pid, number, os.killpg)


class EndingGroups:
    """The groups whose leader has ended, but which may still have programs."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._groups: list[GroupEnd] = []
        self._pause = _LOOK_AGAIN
        self._rested = 0.0
        """The earliest time of the next look."""
        self._timer: asyncio.TimerHandle | None = None

    def add(self, group: GroupEnd) -> None:
        """Watch this group too, as soon as possible."""
        self._groups.append(group)
        self._pause = _LOOK_AGAIN
        self._plan(0.0)

    def _plan(self, pause: float) -> None:
        """Schedule a look after a pause, unless one is scheduled earlier."""
        moment = max(self.loop.time() + pause, self._rested)
        if self._timer is not None and self._timer.when() <= moment:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.loop.call_at(moment, self._look)

    def _look(self) -> None:
        """Finish the groups that are gone or given up; look again while others are left."""
        self._timer = None
        began = self.loop.time()
        living = reaper.living_groups()
        without = [group for group in self._groups if group.pid not in living]
        carried = _end_carriers({group.mark for group in without if group.on_request})
        now = self.loop.time()
        self._rested = now + max(_LOOK_AGAIN, _REST * (now - began))
        groups, self._groups = self._groups, []
        for group in groups:
            is_carried = group.mark in carried
            if group.pid not in living and not is_carried:
                group.finish()
            elif group.is_given_up(carried=is_carried):
                log.error("program %d, or what it has started, cannot be ended", group.pid)
                group.finish()
            else:
                self._groups.append(group)
        if self._groups:
            self._plan(self._pause)
            self._pause = min(_LATER, self._pause * 1.5)


def _end_carriers(marks: set[frozenset[bytes]]) -> set[frozenset[bytes]]:
    """Kill the programs that carry one of these marks; return the marks that were found."""
    found: set[frozenset[bytes]] = set()
    if not marks:
        return found

    def is_owned(environment: frozenset[bytes]) -> bool:
        carried = [mark for mark in marks if mark <= environment]
        found.update(carried)
        return bool(carried)

    for program in reaper.carriers(is_owned):
        reaper.send(program, signal.SIGKILL)
    return found
