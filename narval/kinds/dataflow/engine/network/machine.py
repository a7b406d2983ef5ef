"""The working parts of a transaction: whose turn it is, how deep one leads to another, what is told.

Nothing runs by itself: whoever drives the network has it go on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Protocol

from narval.kinds.dataflow.engine.network.requests import FlowEvent, FlowSettings

DEEPEST = 40
"""The operators that push into each other; what goes further waits for its turn."""


class Going(Protocol):
    """Something that can go on."""

    def go(self) -> None:
        """Go on."""


class Stepping(Protocol):
    """Something that has a piece of work done a step at a time."""

    def step(self, steps: Iterator[None]) -> bool:
        """Do a step; False when there is none left."""


class Afterwards:
    """An act for later."""

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
        """Tell whoever drives the network."""
        self._events.append(event)

    def take(self) -> list[FlowEvent]:
        """All that was told since this was asked before."""
        events, self._events = self._events, []
        return events

    def number(self) -> int:
        """The number of a new request."""
        self._last += 1
        return self._last

    def begin_frame(self) -> int:
        """Count a frame; gives how many there were with it."""
        self.frames += 1
        return self.frames

    def move(self, count: int = 1) -> None:
        """Take note of progress."""
        self.progress += count

    def enter(self) -> bool:
        """Take note that one more works within others; False if that is too deep for now."""
        if self._depth >= DEEPEST:
            return False
        self._depth += 1
        return True

    def leave(self) -> None:
        """Take note that the innermost is done."""
        self._depth -= 1

    def schedule(self, one: Going) -> None:
        """Let somebody go on when it is their turn."""
        self._ready.append(one)

    def go_on(self, whose: Stepping, steps: Iterator[None]) -> None:
        """Have the rest of a piece of work done, by turns with all others."""
        self._steps.append((whose, steps))

    def crowd(self, whose: object, is_full: bool) -> None:
        """Take note that more waits for somebody than should, or no longer does."""
        if is_full:
            self._crowded.add(id(whose))
        else:
            self._crowded.discard(id(whose))

    def has_crowd(self, whose: object) -> bool:
        """Test whether more waits for somebody than should."""
        return id(whose) in self._crowded

    @property
    def is_crowded(self) -> bool:
        """True if more waits for an operator outside than should: sources give nothing for now (TA41)."""
        return bool(self._crowded)

    @property
    def has_work(self) -> bool:
        """True if it could go on now."""
        return bool(self._ready or (self._steps and not self._crowded))

    def run(self, turns: int) -> None:
        """Go on for so many turns at most."""
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
        """Drop all that is to go on."""
        self._ready.clear()
        self._steps.clear()
        self._crowded.clear()
