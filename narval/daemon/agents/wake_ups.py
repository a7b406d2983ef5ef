"""Wake-ups: when agents are looked after, however many: one alarm, for the nearest of all moments (G8)."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator

from narval.daemon.rounds import Alarm, Rounds


class WakeUps:
    """The moments at which agents are looked after; `come` is called in the round of the nearest.

    `clock_was_set` is called with the seconds by which the clock was. The heap may have moments that count no
    more: they are dropped when they come to the top, or are most of it.
    """

    def __init__(
        self, rounds: Rounds, come: Callable[[float], None], clock_was_set: Callable[[float], None]
    ) -> None:
        self._rounds, self._alarm = rounds, Alarm(come, clock_was_set)
        self._heap: list[tuple[float, str]] = []
        self._at: dict[str, float] = {}
        self._asked: float | None = None
        """The moment of the alarm."""

    def begin(self, moments: Iterable[tuple[float, str]]) -> None:
        """Look after many agents, each at its moment."""
        self._at |= {name: at for at, name in moments}
        self._heap = [(at, name) for name, at in self._at.items()]
        heapq.heapify(self._heap)
        self._ask()

    def set(self, name: str, at: float | None) -> None:
        """Look after an agent at a moment, and not at the one before; None: no more."""
        if at is None:
            self._at.pop(name, None)
        else:
            self._at[name] = at
            heapq.heappush(self._heap, (at, name))
        if len(self._heap) > 2 * len(self._at) + 64:
            self._heap = [(moment, other) for other, moment in self._at.items()]
            heapq.heapify(self._heap)
        self._ask()

    def due(self, now: float) -> Iterator[str]:
        """The agents whose moment has come, which they have no more then."""
        self._asked = None
        while (at := self._next()) is not None and at <= now:
            _, name = heapq.heappop(self._heap)
            del self._at[name]
            yield name
        self._ask()

    def _next(self) -> float | None:
        heap, moments = self._heap, self._at
        while heap and moments.get(heap[0][1]) != heap[0][0]:
            heapq.heappop(heap)
        return heap[0][0] if heap else None

    def _ask(self) -> None:
        at = self._next()
        if at != self._asked:
            self._asked = at
            self._rounds.call_at(at, self._alarm)
