"""The fast path of calls that are made and return within the turn.

Over a store that is gone with the program that is every call: nothing is recorded that could be read after a
crash, so what is asked for need not wait for a commit. `bench/steps.py` (1000x10) measures it. Over any other
it is those of pure actions: they touch nothing outside, so one whose turn is lost has not happened
(`bench/backlog.py`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from narval.agent.run import Run
from narval.agent.turn import Turn
from narval.core.engines.commands import Outer
from narval.core.engines.events import Event
from narval.system import stopwatch

SLICE = 0.005
"""Seconds that a turn spends on events, once it has begun, so that requests are not kept waiting."""

WAVE = 100
"""The calls that are made before their runs go on: their states are still in the processor's cache then."""

Perform = Callable[[Run, Outer], Event | None]
"""Performs a command; the event that comes of it at once, or None."""


class TurnBudget:
    """The events a turn still has room for, and none once its time has ended; but always one.

    `is_over` is True once there was none left.
    """

    def __init__(self, events: int, seconds: float = SLICE) -> None:
        self._left, self._seconds, self._until = events, seconds, 0.0
        self.is_over = False

    def spend(self) -> bool:
        """Use the room of one event; False if there is none."""
        now = stopwatch.seconds()
        if not self._until:
            self._until = now + self._seconds
        elif now > self._until:
            self.is_over = True
            return False
        self._left -= 1
        self.is_over = self._left < 0
        return not self.is_over


def perform_in_waves(turn: Turn, room: TurnBudget, perform: Perform) -> None:
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
            outer[:0] = asked
            return


def answer_in_waves(turn: Turn, room: TurnBudget, answer: Perform) -> None:
    """Tell runs what comes at once of their calls that need not wait for the commit, while there is room.

    `answer` gives None for any other command: it is performed once the turn is recorded.
    """
    outer = turn.transaction.outer
    later: list[tuple[Run, Outer]] = []
    while outer and not room.is_over:
        came: list[tuple[int, Event]] = []
        for run, command in outer:
            event = answer(run, command) if room.spend() else None
            if event is None:
                later.append((run, command))
            else:
                came.append((run.eid, event))
        outer.clear()
        for eid, event in came:
            turn.tell(eid, event)
    outer[:0] = later
