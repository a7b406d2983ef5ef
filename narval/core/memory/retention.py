"""Retention: the elements and runs that are due to be forgotten (N5). The loop decides when to ask.

A home may have to forget a million elements at once, while people wait. So every function here has a limit on
the elements to visit, and continues there at the next call.
"""

from __future__ import annotations

import heapq
from array import array
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from narval.core.memory.memory import Memory

_WORTH_CUTTING = 1024


class ForgetChunk(NamedTuple):
    """A part of the context of an ended run: the eids to forget with it, and those that stay.

    `last` is True if nothing is left after it, so that the run itself can be forgotten.
    """

    going: tuple[int, ...]
    staying: tuple[int, ...]
    last: bool


def next_chunk(
    memory: Memory,
    run: int,
    goes_too: Callable[[int], bool],
    is_awaited: Callable[[int], bool],
    most: int,
) -> ForgetChunk:
    """The oldest `most` eids of a run's context, divided into those to forget and those that stay.

    An element is forgotten when every run that holds it is (`goes_too`), unless memory.xml or the library
    declares it, a call has reserved it, or it is still to be used (`is_awaited`).
    """
    going, staying = [], []
    held = tuple(islice(memory.contexts.of(run), most + 1))
    for eid in held[:most]:
        alone = not memory.is_run(eid) and _free(memory, eid)
        is_last = alone and all(holder == run or goes_too(holder) for holder in memory.contexts.holders(eid))
        if is_last and not is_awaited(eid):
            going.append(eid)
        else:
            staying.append(eid)
    return ForgetChunk(tuple(going), tuple(staying), len(held) <= most)


class IdleTracker:
    """The moment since which each element has been idle, for a home with `forget_after`.

    `after` is in seconds. Elements arrive in order of time, so they are in a queue; one used since, or added
    by a clock that was set back, is in a heap. A use only records the moment; the element is put off when its
    turn comes. So a use costs a dictionary entry, an element 16 bytes, and memory is never scanned.
    """

    __slots__ = ("_added", "_after", "_eids", "_first", "_heap", "_touched")

    def __init__(self, after: float) -> None:
        self._after = after
        self._eids = array("Q")
        self._added = array("d")
        self._first = 0
        """The index of the queue's head; entries before it are cut off once they fill most of the arrays."""
        self._heap: list[tuple[float, int]] = []
        self._touched: dict[int, float] = {}

    def added(self, eid: int, at: float) -> None:
        """Record that an element was added, or a run ended, at a moment: idle since then."""
        if self._first < len(self._added) and at < self._added[-1]:
            heapq.heappush(self._heap, (at + self._after, eid))
        else:
            self._eids.append(eid)
            self._added.append(at)

    def used(self, eids: Iterable[int], at: float) -> None:
        """Record that these elements were used at a moment."""
        for eid in eids:
            self._touched[eid] = at

    def shift(self, by: float) -> None:
        """Move every moment by a number of seconds, after the clock was set."""
        self._heap = [(at + by, eid) for at, eid in self._heap]
        self._touched = {eid: at + by for eid, at in self._touched.items()}

    def next(self) -> float | None:
        """The moment at which the next element may be due; None if there is none."""
        moments = [self._added[self._first] + self._after] if self._first < len(self._added) else []
        if self._heap:
            moments.append(self._heap[0][0])
        return min(moments, default=None)

    def is_due(self, now: float) -> bool:
        """True if an element may be due."""
        due = self.next()
        return due is not None and due <= now

    def earliest(self, eid: int, added: float) -> float:
        """The moment until which an element added at `added` stays, if it is not used again."""
        return self._touched.get(eid, added) + self._after

    def put_off(self, eid: int, now: float) -> None:
        """Consider an element again `after` seconds from now."""
        heapq.heappush(self._heap, (now + self._after, eid))

    def due(
        self, memory: Memory, now: float, is_active: Callable[[int], bool], most: int | None = None
    ) -> Iterator[int]:
        """The eids that have been idle long enough, are not protected, and are held by no active run.

        At most `most` are visited. A run has been idle since it ended.
        """
        for eid in islice(self._reached(now), most):
            touched = self._touched.pop(eid, None)
            if eid not in memory:
                continue
            if touched is not None and touched + self._after > now:
                heapq.heappush(self._heap, (touched + self._after, eid))
            elif not _free(memory, eid) or any(map(is_active, (eid, *memory.contexts.holders(eid)))):
                self.put_off(eid, now)
            else:
                yield eid

    def _reached(self, now: float) -> Iterator[int]:
        """The eids whose turn has come, earliest first."""
        while (due := self.next()) is not None and due <= now:
            if self._heap and self._heap[0][0] == due:
                yield heapq.heappop(self._heap)[1]
            else:
                yield self._pop()

    def _pop(self) -> int:
        """Remove and return the eid at the head of the queue."""
        eid = self._eids[self._first]
        self._first += 1
        if self._first >= _WORTH_CUTTING and 2 * self._first >= len(self._eids):
            del self._eids[: self._first], self._added[: self._first]
            self._first = 0
        return eid


def _free(memory: Memory, eid: int) -> bool:
    """True if an element is neither declared nor reserved by a call."""
    return eid not in memory.declared and eid not in memory.reserved
