"""Wake-ups: when agents are looked after, however many: one alarm, for the nearest of all moments (G8)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from narval.runtime.agent.timers import TimerQueue
from narval.runtime.daemon.rounds import Alarm, Rounds


class WakeUps:
    """The moments at which agents are looked after; `come` is called in the round of the nearest.

    `clock_was_set` is called with the seconds by which the clock was.
    """

    def __init__(
        self, rounds: Rounds, come: Callable[[float], None], clock_was_set: Callable[[float], None]
    ) -> None:
        self._rounds, self._alarm = rounds, Alarm(come, clock_was_set)
        self._moments: TimerQueue[str, None] = TimerQueue()

    def set(self, name: str, at: float | None) -> None:
        """Look after an agent at a moment, and not at the one before; None: no more."""
        if at is None:
            self._moments.discard(name)
        else:
            self._moments.push(at, name, None)
        self._rounds.call_at(self._moments.next(), self._alarm)

    def due(self, now: float) -> Iterator[str]:
        """The agents whose moment has come, which they have no more then."""
        while (due := self._moments.pop_due(now)) is not None:
            yield due[1]
        self._rounds.call_at(self._moments.next(), self._alarm)
