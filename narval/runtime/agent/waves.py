"""The fast path of a store that is gone with the program: calls are made and return within the turn.

Nothing is recorded there that could be read after a crash, so what is asked for need not wait for a commit.
`bench/steps.py` (1000x10) measures it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from time import perf_counter

from narval.engines.commands import Outer
from narval.engines.events import Event
from narval.runtime.agent.run import Run
from narval.runtime.agent.turn import Turn

SLICE = 0.005
"""Seconds that a turn spends on events, once it has begun, so that requests are not kept waiting."""

WAVE = 100
"""The calls that are made before their runs go on: their states are still in the processor's cache then."""

Perform = Callable[[Run, Outer], Event | None]
"""Performs a command; the event that comes of it at once, or None."""


class Room:
    """The events a turn still has room for, and none once its time is over; but always one."""

    def __init__(self, events: int, seconds: float = SLICE) -> None:
        self._left, self._seconds, self._until = events, seconds, 0.0

    def spend(self) -> bool:
        """Use the room of one event; False if there is none."""
        now = perf_counter()
        if not self._until:
            self._until = now + self._seconds
        elif now > self._until:
            return False
        self._left -= 1
        return self._left >= 0


def perform_in_waves(turn: Turn, room: Room, perform: Perform) -> None:
    """Have performed what runs ask for, and tell them what comes of it at once, while there is room.

    They go on side by side, a wave of calls and a wave of their returns: to do the same for many in a row is
    a quarter quicker than to bring each run to its end, for the processor has at hand what it needs.
    """
    outer = turn.transaction.outer
    while outer:
        came: list[tuple[int, Event]] = []
        asked = deque(outer)
        outer.clear()
        while asked and room.spend():
            run, command = asked.popleft()
            event = perform(run, command)
            if event is not None:
                came.append((run.eid, event))
        for eid, event in came:
            turn.tell(eid, event)
        if asked:  # there is no more room
            outer.extendleft(reversed(asked))
            return
