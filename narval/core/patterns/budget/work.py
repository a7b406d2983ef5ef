"""The limit of work for one evaluation, counted where the time is spent.

The owner writes a pattern, a stranger an element, and the daemon's loop evaluates one on the other. So
whatever takes time announces how much before it starts, and an evaluation that would take longer than the
loop can spare is stopped: the element does not match. Work is counted, not timed, so the result is the same
on any machine.
"""

from __future__ import annotations

MOST_WORK = 30_000
"""The most work of one evaluation, 15 to 50 milliseconds: a unit takes about a microsecond."""


class WorkError(Exception):
    """An evaluation would take longer than the loop can spare."""


class Work:
    """The work of one evaluation: `done` so far, in units of a microsecond."""

    __slots__ = ("done",)

    def __init__(self) -> None:
        self.done = 0

    def add(self, units: int) -> None:
        """Count work that is about to be done; raises WorkError if it is too much."""
        self.done += units
        if self.done > MOST_WORK:
            raise WorkError(f"more work than the {MOST_WORK:,} units that a pattern may take on an element")

    def read(self, characters: int) -> None:
        """Count a text that is about to be read or made."""
        self.add(1 + characters // 1024)
