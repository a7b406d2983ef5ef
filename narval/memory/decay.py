"""What is due to be forgotten (N5). Decides nothing by itself: the loop asks when a moment has come."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Container, Iterable

from narval.memory.change import Forgotten
from narval.memory.tree import Memory


def forget_runs(memory: Memory, runs: tuple[int, ...], in_use: Container[int] = ()) -> Forgotten:
    """What goes with runs that have ended: themselves, and each element that they alone hold.

    What memory.xml or the library declares stays, and so does what a call under way was given: `in_use`, and
    what it has reserved.
    """
    going = set(runs)
    eids = dict.fromkeys(
        eid
        for run in runs
        for eid in memory.contexts.of(run)
        if not memory.is_run(eid)
        and eid not in in_use
        and _free(memory, eid)
        and going.issuperset(memory.contexts.holders(eid))
    )
    return Forgotten(eids=tuple(eids), runs=runs)


class Idle:
    """Since when nobody has used each element, for a home that forgets what is idle (`forget_after`, N5).

    `after` is in seconds. A use only notes the moment; the heap learns of it when the element's turn comes,
    so using costs a dictionary entry and nothing ever scans memory.
    """

    __slots__ = ("_after", "_heap", "_touched")

    def __init__(self, after: float) -> None:
        self._after = after
        self._heap: list[tuple[float, int]] = []
        self._touched: dict[int, float] = {}

    def added(self, eid: int, at: float) -> None:
        """An element is there; idle since then."""
        heapq.heappush(self._heap, (at + self._after, eid))

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
        return self._heap[0][0] if self._heap else None

    def due(
        self, memory: Memory, now: float, is_active: Callable[[int], bool], in_use: Container[int] = ()
    ) -> Forgotten:
        """What has been idle long enough: no live context holds it, no call under way has it (`in_use`), and
        nothing protects it."""
        gone = []
        while self._heap and self._heap[0][0] <= now:
            _, eid = heapq.heappop(self._heap)
            if eid not in memory:
                self._touched.pop(eid, None)
                continue
            until = self._touched.pop(eid, 0.0) + self._after
            if until > now:
                heapq.heappush(self._heap, (until, eid))
            elif _needed(memory, eid, is_active) or eid in in_use:
                heapq.heappush(self._heap, (now + self._after, eid))
            else:
                gone.append(eid)
        return Forgotten(eids=tuple(gone))


def _needed(memory: Memory, eid: int, is_active: Callable[[int], bool]) -> bool:
    return not _free(memory, eid) or any(is_active(run) for run in memory.contexts.holders(eid))


def _free(memory: Memory, eid: int) -> bool:
    return eid not in memory.declared and eid not in memory.reserved
