"""Calls that wait for room: one of each family of runs in turn, so that none starves the others (N33).

A run may make ten thousand calls at once. Were they answered in the order they came, the single call of
another run would wait for all of them; as it is, it waits for one of each family that has some waiting.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict

from narval.runtime.calls.backend import ABANDONED, Outcome, RunningCall


class FairQueue:
    """A queue for each family, and whose turn it is. An operation costs the same however many calls wait."""

    def __init__(self) -> None:
        self._families: OrderedDict[tuple[str, int], OrderedDict[RunningCall, None]] = OrderedDict()
        """The calls by family, the family whose turn it is in front; none is empty."""
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, running: RunningCall) -> None:
        """Add a call behind those of its family."""
        self._families.setdefault(_family(running), OrderedDict())[running] = None
        self._count += 1

    def next(self) -> RunningCall:
        """Remove and return the call whose turn it is; then it is the next family's turn."""
        family, calls = self._families.popitem(last=False)
        running, _ = calls.popitem(last=False)
        if calls:
            self._families[family] = calls
        self._count -= 1
        return running

    def remove(self, running: RunningCall) -> None:
        """Remove a call."""
        calls = self._families[_family(running)]
        del calls[running]
        if not calls:
            del self._families[_family(running)]
        self._count -= 1

    def clear(self) -> None:
        """Remove all calls."""
        self._families.clear()
        self._count = 0


def _family(running: RunningCall) -> tuple[str, int]:
    """The family of a call, whatever agent it is of."""
    return running.call.agent, running.call.family


class QueuedBackend(ABC):
    """A backend that has room for so many calls at once: the others wait in a fair queue."""

    def __init__(self) -> None:
        self._waiting = FairQueue()

    @property
    def queued(self) -> int:
        """The number of calls that wait for room."""
        return len(self._waiting)

    def start(self, running: RunningCall) -> None:
        """Answer a call as soon as there is room."""
        self._waiting.add(running)
        self._hand_out()

    def abandon(self, running: RunningCall) -> None:
        """Take a call out of the queue, or stop it where it has begun."""
        if running.begun:
            self._stop(running, ABANDONED)
        else:
            self._waiting.remove(running)
            running.answer(ABANDONED)

    @abstractmethod
    def _hand_out(self) -> None:
        """Begin calls that wait, while there is room."""

    @abstractmethod
    def _stop(self, running: RunningCall, outcome: Outcome) -> None:
        """Stop a call that has begun, and answer it."""

    def _expire(self, running: RunningCall) -> None:
        self._stop(running, running.expired())
