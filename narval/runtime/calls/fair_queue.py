"""Calls that wait for a place: one of each family of runs in turn, so that none starves the others (N33).

A run may make ten thousand calls at once. Were they answered in the order they came, the single call of
another run would wait for all of them; as it is, it waits for one of each family that has some waiting.
"""

from __future__ import annotations

from collections import OrderedDict

from narval.runtime.calls.backend import RunningCall


class Waiting:
    """A queue for each family, and whose turn it is. Every operation costs the same, however many wait."""

    __slots__ = ("_count", "_families")

    def __init__(self) -> None:
        self._families: OrderedDict[int, OrderedDict[RunningCall, None]] = OrderedDict()
        """By family, the one whose turn it is in front; none is empty."""
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, work: RunningCall) -> None:
        """A call waits, behind those of its family."""
        self._families.setdefault(work.task.family, OrderedDict())[work] = None
        self._count += 1

    def next(self) -> RunningCall:
        """The call whose turn it is, which waits no longer; then it is the next family's turn."""
        family, calls = self._families.popitem(last=False)
        work, _ = calls.popitem(last=False)
        if calls:
            self._families[family] = calls
        self._count -= 1
        return work

    def remove(self, work: RunningCall) -> None:
        """A call waits no longer."""
        calls = self._families[work.task.family]
        del calls[work]
        if not calls:
            del self._families[work.task.family]
        self._count -= 1

    def clear(self) -> None:
        """Nobody waits any more."""
        self._families.clear()
        self._count = 0
