"""The scheduler of a transaction: turns, nesting of operators, and events for the driver.

Nothing runs by itself: the driver of the network advances it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Protocol

from narval.kinds.dataflow.engine.network.requests import FlowEvent, FlowSettings

DEEPEST = 40
"""The most operators that push into each other; beyond that, work is queued."""


class Going(Protocol):
    """A thing that can continue."""

    def go(self) -> None:
        """Continue."""


class Stepping(Protocol):
    """A thing that works step by step."""

    def step(self, steps: Iterator[None]) -> bool:
        """Do a step; return False if there is none left."""


class Afterwards:
    """A deferred act."""

    __slots__ = ("go",)

    def __init__(self, act: Callable[[], None]) -> None:
        self.go = act


class Machine:
    """The turns of all frames of a transaction."""

    def __init__(self, settings: FlowSettings) -> None:
        self.settings = settings
        self.frames = 0
        self.progress = 0
        self._events: list[FlowEvent] = []
        self._ready: deque[Going] = deque()
        self._steps: deque[tuple[Stepping, Iterator[None]]] = deque()
        self._crowded: set[int] = set()
        self._depth = 0
        self._last = 0

    def tell(self, event: FlowEvent) -> None:
        """Queue an event for the driver."""
        self._events.append(event)

    def take(self) -> list[FlowEvent]:
        """Take the events since the last call."""
        events, self._events = self._events, []
        return events

    def number(self) -> int:
        """The number for a new request."""
        self._last += 1
        return self._last

    def begin_frame(self) -> int:
        """Count a new frame; return the number of frames so far."""
        self.frames += 1
        return self.frames

    def move(self, count: int = 1) -> None:
        """Count progress."""
        self.progress += count

    def enter(self) -> bool:
        """Enter one more level of nested work; return False if that is too deep for now."""
        if self._depth >= DEEPEST:
            return False
        self._depth += 1
        return True

    def leave(self) -> None:
        """Leave the innermost level."""
        self._depth -= 1

    def schedule(self, one: Going) -> None:
        """Queue one to continue in its turn."""
        self._ready.append(one)

    def go_on(self, whose: Stepping, steps: Iterator[None]) -> None:
        """Queue the rest of a piece of work; it takes turns with all others."""
        self._steps.append((whose, steps))

    def crowd(self, whose: object, is_full: bool) -> None:
        """Record that an operator's backlog is too large, or no longer is."""
        if is_full:
            self._crowded.add(id(whose))
        else:
            self._crowded.discard(id(whose))

    def has_crowd(self, whose: object) -> bool:
        """Test whether an operator's backlog is too large."""
        return id(whose) in self._crowded

    @property
    def is_crowded(self) -> bool:
        """True if the backlog of an outside operator is too large; sources then pause (TA41)."""
        return bool(self._crowded)

    @property
    def has_work(self) -> bool:
        """True if there is work to do now."""
        return bool(self._ready or (self._steps and not self._crowded))

    def run(self, turns: int) -> None:
        """Run for at most `turns` turns."""
        ready, steps, crowded = self._ready, self._steps, self._crowded
        for _ in range(turns):
            if ready:
                ready.popleft().go()
            elif steps and not crowded:
                whose, rest = steps.popleft()
                if whose.step(rest):
                    steps.append((whose, rest))
            else:
                return

    def clear(self) -> None:
        """Drop all waiting work."""
        self._ready.clear()
        self._steps.clear()
        self._crowded.clear()
