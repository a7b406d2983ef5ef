"""What is due to be forgotten (N5). Decides nothing by itself: the loop asks when a moment has come.

A home may have to forget a million elements at once, and people wait meanwhile. So all that is here takes how
much to look at, and goes on from there when it is asked again.
"""

from __future__ import annotations

import heapq
from array import array
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from narval.memory.memory import Memory

_WORTH_CUTTING = 1024


class ForgetChunk(NamedTuple):
    """A part of the context of a run that is over: what goes with the run, and what stays without it."""

    going: tuple[int, ...]
    staying: tuple[int, ...]
    last: bool
    """Whether nothing is left behind it, so that the run itself may go."""


def next_chunk(memory: Memory, run: int, goes_too: Callable[[int], bool], most: int) -> ForgetChunk:
    """The oldest part of what a run holds.

    An element goes when only runs hold it that go too; what memory.xml or the library declares stays, and so
    does what a call has reserved.
    """
    going, staying = [], []
    held = tuple(islice(memory.contexts.of(run), most + 1))
    for eid in held[:most]:
        alone = not memory.is_run(eid) and _free(memory, eid)
        if alone and all(holder == run or goes_too(holder) for holder in memory.contexts.holders(eid)):
            going.append(eid)
        else:
            staying.append(eid)
    return ForgetChunk(tuple(going), tuple(staying), len(held) <= most)


class IdleTracker:
    """Since when nobody has used each element, for a home that forgets what is idle (`forget_after`, N5).

    `after` is in seconds. Elements come in order of time, so they stand in a queue; only what was used since,
    or came from a clock that was set back, stands in a heap. A use only notes the moment; the element is put
    off when its turn comes. So using costs a dictionary entry, an element 16 bytes, and nothing ever scans
    memory.
    """

    __slots__ = ("_added", "_after", "_eids", "_first", "_heap", "_touched")

    def __init__(self, after: float) -> None:
        self._after = after
        self._eids = array("Q")
        self._added = array("d")
        self._first = 0
        """Those before it have left the queue, and are cut off when they are most of it."""
        self._heap: list[tuple[float, int]] = []
        self._touched: dict[int, float] = {}

    def added(self, eid: int, at: float) -> None:
        """An element is there, or a run is over; idle since then."""
        if self._first < len(self._added) and at < self._added[-1]:
            heapq.heappush(self._heap, (at + self._after, eid))
        else:
            self._eids.append(eid)
            self._added.append(at)

    def used(self, eids: Iterable[int], at: float) -> None:
        """Someone used these elements."""
        for eid in eids:
            self._touched[eid] = at

    def shift(self, by: float) -> None:
        """The clock was set: what was idle for so long still is."""
        self._heap = [(at + by, eid) for at, eid in self._heap]
        self._touched = {eid: at + by for eid, at in self._touched.items()}

    def next(self) -> float | None:
        """The moment to look again."""
        known = [self._added[self._first] + self._after] if self._first < len(self._added) else []
        if self._heap:
            known.append(self._heap[0][0])
        return min(known, default=None)

    def is_due(self, now: float) -> bool:
        """Whether there is something to look at."""
        due = self.next()
        return due is not None and due <= now

    def put_off(self, eid: int, now: float) -> None:
        """Look at an element again after as long a time."""
        heapq.heappush(self._heap, (now + self._after, eid))

    def due(
        self, memory: Memory, now: float, is_active: Callable[[int], bool], most: int | None = None
    ) -> Iterator[int]:
        """What has been idle long enough, `most` looked at: no live context holds it, nothing protects it.

        A run is idle since it was over.
        """
        for eid in islice(self._come(now), most):
            touched = self._touched.pop(eid, None)
            if eid not in memory:
                continue
            if touched is not None and touched + self._after > now:
                heapq.heappush(self._heap, (touched + self._after, eid))
            elif is_active(eid) or _needed(memory, eid, is_active):
                self.put_off(eid, now)
            else:
                yield eid

    def _come(self, now: float) -> Iterator[int]:
        """The elements whose turn it is, the earliest first."""
        while (due := self.next()) is not None and due <= now:
            if self._heap and self._heap[0][0] == due:
                yield heapq.heappop(self._heap)[1]
            else:
                yield self._taken()

    def _taken(self) -> int:
        """The first of the queue, out of it."""
        eid = self._eids[self._first]
        self._first += 1
        if self._first >= _WORTH_CUTTING and 2 * self._first >= len(self._eids):
            del self._eids[: self._first], self._added[: self._first]
            self._first = 0
        return eid


def _needed(memory: Memory, eid: int, is_active: Callable[[int], bool]) -> bool:
    return not _free(memory, eid) or any(is_active(run) for run in memory.contexts.holders(eid))


def _free(memory: Memory, eid: int) -> bool:
    return eid not in memory.declared and eid not in memory.reserved
