"""Clocks: how far the clock of this machine is from that of the store (G59)."""

from __future__ import annotations

import logging
from collections.abc import Callable

log = logging.getLogger("narval.fleet")

APART = 2.0
"""Seconds from which a difference is a warning."""

FAR_APART = 30.0
"""Seconds from which a daemon takes no agents: the dates that it works out would be wrong."""


class Clocks:
    """The difference of two clocks; `now` gives the moment by that of the machine."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self.apart = 0.0
        """Seconds by which that of the machine is ahead."""
        self._is_warned = False

    @property
    def are_far_apart(self) -> bool:
        """True if no agents are to be taken."""
        return abs(self.apart) > FAR_APART

    @property
    def warning(self) -> str:
        """A sentence for people if they are apart, or ""."""
        if abs(self.apart) <= APART:
            return ""
        way = "ahead of" if self.apart > 0 else "behind"
        said = f"the clock of this machine is {abs(self.apart):.0f} s {way} that of the store"
        return said + ("; it takes no agents until it is set" if self.are_far_apart else "")

    def compare(self, at: float) -> None:
        """Take note of what the clock of the store showed a moment ago; a difference is logged once."""
        self.apart = self._now() - at
        if self.warning and not self._is_warned:
            log.warning("%s", self.warning)
        self._is_warned = bool(self.warning)
