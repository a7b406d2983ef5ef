"""Faults: how often agents broke down of late, by what, and for how long each rests after that (G18)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from narval.agent.loop import Loop
from narval.agent.waiting import Told

MOST, WITHIN = 5, 600.0
"""An agent that broke down so often within so many seconds is not made anew by itself any more."""

FIRST, LONGEST = 1.0, 300.0
"""Seconds for which an agent rests: twice as long each time."""


TWICE = 2
"""An event with which an agent broke down so often is told no more."""


class Faults:
    """The moments at which agents broke down, by name, and what they were told then."""

    often = f"it broke down {MOST} times in {WITHIN / 60:.0f} minutes"
    """The reason for which an agent is suspended."""

    def __init__(self) -> None:
        self._moments: dict[str, list[float]] = {}
        self._until: dict[str, float] = {}
        self._told: dict[str, Counter[Told]] = {}

    def note(self, name: str, now: float, suspects: Iterable[Told] = ()) -> float | None:
        """Note that an agent broke down, by one of `suspects`; the seconds for which it is to rest, None if
        that is enough.
        """
        moments = self._moments[name] = [at for at in self._moments.get(name, ()) if at > now - WITHIN]
        if not moments:
            self._told.pop(name, None)
        moments.append(now)
        self._told.setdefault(name, Counter()).update(suspects)
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

    def clock_was_set(self, by: float, now: float) -> list[tuple[str, float]]:
        """Let agents rest as long as before though the clock was set; those that do, and until when."""
        self._until = {name: until + by for name, until in self._until.items()}
        self._moments = {name: [at + by for at in moments] for name, moments in self._moments.items()}
        return [(name, until) for name, until in self._until.items() if until > now]

    def caution(self, name: str, now: float, loop: Loop) -> None:
        """Let an agent that broke down of late have one event a turn, so that it is known which it was, and
        not the events that brought it down twice.
        """
        if self._moments.get(name, [now - WITHIN])[-1] > now - WITHIN:
            loop.set_limit(1)
            loop.distrust(told for told, times in self._told[name].items() if times >= TWICE)

    def forget(self, name: str) -> None:
        """Count from the beginning."""
        self._told.pop(name, None)
        self._moments.pop(name, None)
        self._until.pop(name, None)
