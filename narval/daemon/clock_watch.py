"""Clock watch: notices that the clock was set, or that the machine slept."""

from __future__ import annotations

import logging

from narval.system.clock import Clock, Jump

log = logging.getLogger("narval.loop")

UNNOTICED = 0.25
"""Seconds the clock may have gone on since it was last asked whether it was set: no jump is that short."""


class ClockWatch:
    """Notices that a clock was set."""

    __slots__ = ("_looked", "clock")

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._looked = float("-inf")

    def jump(self, now: float) -> Jump | None:
        """The jump since it was last looked for; None if the clock has gone on by itself."""
        if 0.0 <= now - self._looked < UNNOTICED:
            return None
        self._looked = now
        jump = self.clock.jump()
        if jump is not None:
            set_by, slept = f"{jump.by:+.0f}", f"{jump.slept:.0f}"
            log.warning("the clock was set by %s seconds, or the machine slept (%s)", set_by, slept)
        return jump
