"""The order of simulated time: the work of a scenario and its expectations, by due moment."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator
from itertools import count

from narval.trials.simulate.scenario import Expectation

Work = Callable[[], None]

TOGETHER = 50
"""The most entries of a stream that are done at once."""


class Agenda:
    """Two queues by moment (seconds since 1970, UTC); entries of one moment keep the order of the file."""

    __slots__ = ("_expectations", "_order", "_stream", "_streamed", "_work")

    def __init__(self) -> None:
        self._stream: Iterator[tuple[float, Work]] = iter(())
        self._streamed: tuple[float, Work] | None = None
        """The first pending entry of the stream."""
        self._work: list[tuple[float, int, Work]] = []
        self._expectations: list[tuple[float, int, Expectation]] = []
        self._order = count()

    def add(self, at: float, work: Work) -> None:
        """Do something at a moment."""
        heapq.heappush(self._work, (at, next(self._order), work))

    def stream(self, works: Iterator[tuple[float, Work]]) -> None:
        """Do the entries of a stream in order of time, each requested after the one before it is done."""
        self._stream = works
        self._streamed = next(works, None)

    def repeat(self, at: float, work: Work, every: float | None, times: float) -> None:
        """Do something at a moment, and again after each `every` seconds, `times` times in all."""

        def again() -> None:
            work()
            if every is not None and times > 1:
                self.repeat(at + every, work, every, times - 1)

        self.add(at, again)

    def expect(self, at: float, expectation: Expectation) -> None:
        """Judge an expectation at a moment, after all events of that moment."""
        heapq.heappush(self._expectations, (at, next(self._order), expectation))

    def next(self) -> float:
        """The next moment; infinite when nothing is left."""
        streamed = math.inf if self._streamed is None else self._streamed[0]
        return min([streamed, *(queue[0][0] for queue in (self._work, self._expectations) if queue)])

    def last(self, start: float) -> float:
        """The last moment known so far, at least `start`."""
        return max([start, *(entry[0] for entry in (*self._work, *self._expectations))])

    def do_work(self, now: float) -> None:
        """Do all due work, but not so much of a stream at once that it looks like an endless start."""
        while self._work and self._work[0][0] <= now:
            heapq.heappop(self._work)[2]()
        for _ in range(TOGETHER):
            if self._streamed is None or self._streamed[0] > now:
                break
            self._streamed[1]()
            self._streamed = next(self._stream, None)

    def due_expectations(self, now: float) -> Iterator[Expectation]:
        """Remove and yield the expectations that are due, in order."""
        while self._expectations and self._expectations[0][0] <= now:
            yield heapq.heappop(self._expectations)[2]
