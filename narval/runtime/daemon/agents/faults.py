"""Faults: how often agents broke down of late, and for how long each rests after that (G18)."""

from __future__ import annotations

MOST, WITHIN = 5, 600.0
"""An agent that broke down so often within so many seconds is not made anew by itself any more."""

FIRST, LONGEST = 1.0, 300.0
"""Seconds for which an agent rests: twice as long each time."""


class Faults:
    """The moments at which agents broke down, by name."""

    often = f"it broke down {MOST} times in {WITHIN / 60:.0f} minutes"
    """The reason for which an agent is suspended."""

    def __init__(self) -> None:
        self._moments: dict[str, list[float]] = {}
        self._until: dict[str, float] = {}

    def note(self, name: str, now: float) -> float | None:
        """Note that an agent broke down; the seconds for which it is to rest, None if that is enough."""
        moments = self._moments[name] = [at for at in self._moments.get(name, ()) if at > now - WITHIN]
        moments.append(now)
        if len(moments) >= MOST:
            self.forget(name)
            return None
        rest = float(min(LONGEST, FIRST * 2 ** (len(moments) - 1)))
        self._until[name] = now + rest
        return rest

    def rest(self, name: str, now: float) -> float | None:
        """The seconds for which an agent still rests; None if it does not."""
        until = self._until.get(name, now)
        return until - now if until > now else None

    def forget(self, name: str) -> None:
        """Count from the beginning."""
        self._moments.pop(name, None)
        self._until.pop(name, None)
