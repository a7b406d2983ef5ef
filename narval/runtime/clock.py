"""Now, and the moments that are waited for."""

from __future__ import annotations

import heapq
import time
from collections.abc import Hashable
from datetime import UTC, datetime
from typing import Generic, Protocol, TypeVar

from narval.errors import RequestError

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Clock(Protocol):
    """What the runtime reads the time from."""

    def now(self) -> float:
        """Seconds since 1970, UTC."""


class SystemClock:
    """The clock of the machine."""

    def now(self) -> float:
        """Seconds since 1970, UTC."""
        return time.time()


class SimulatedClock:
    """A clock that stands still until somebody moves it, for tests and simulations.

    `start` is in seconds since 1970, a datetime, or its ISO 8601 text; without a zone it is UTC.
    """

    def __init__(self, start: float | datetime | str = 0.0) -> None:
        self._now = _seconds(start)

    def now(self) -> float:
        """Seconds since 1970, UTC."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Let this much time pass."""
        self._move(self._now + seconds)

    def set(self, moment: float | datetime | str) -> None:
        """Let time pass up to this moment."""
        self._move(_seconds(moment))

    def _move(self, moment: float) -> None:
        if not moment >= self._now:
            raise RequestError(f"expected a moment not before {_shown(self._now)}, got {_shown(moment)}")
        self._now = moment


class Moments(Generic[Key, Value]):
    """Moments waited for, each under a key: the nearest is known at once, any can be given up.

    A heap; what was given up or replaced stays in it until it comes to the top, or until such leftovers are
    the larger part. So every operation costs microseconds, whatever is waiting.
    """

    __slots__ = ("_count", "_heap", "_live")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Key]] = []
        self._live: dict[Key, tuple[int, Value]] = {}
        self._count = 0

    def __len__(self) -> int:
        return len(self._live)

    def push(self, at: float, key: Key, value: Value) -> None:
        """Wait for a moment; an earlier one under this key is replaced."""
        self._count += 1
        self._live[key] = (self._count, value)
        heapq.heappush(self._heap, (at, self._count, key))
        self._sweep()

    def discard(self, key: Key) -> None:
        """Wait no longer, if anyone does."""
        if self._live.pop(key, None) is not None:
            self._sweep()

    def next(self) -> float | None:
        """The nearest moment, or None."""
        heap = self._heap
        while heap and not self._waits(heap[0]):
            heapq.heappop(heap)
        return heap[0][0] if heap else None

    def waiting(self) -> list[tuple[float, Key, Value]]:
        """All moments waited for, each (at, key, value), in no order."""
        return [(entry[0], entry[2], self._live[entry[2]][1]) for entry in self._heap if self._waits(entry)]

    def due(self, now: float) -> list[tuple[float, Key, Value]]:
        """The moments that have come, each (at, key, value), in order of time and then of arrival; they are
        waited for no longer.
        """
        come = []
        while self._heap and self._heap[0][0] <= now:
            entry = heapq.heappop(self._heap)
            if self._waits(entry):
                come.append((entry[0], entry[2], self._live.pop(entry[2])[1]))
        return come

    def _waits(self, entry: tuple[float, int, Key]) -> bool:
        live = self._live.get(entry[2])
        return live is not None and live[0] == entry[1]

    def _sweep(self) -> None:
        if len(self._heap) > 2 * len(self._live) + 64:
            self._heap = [entry for entry in self._heap if self._waits(entry)]
            heapq.heapify(self._heap)


def _seconds(moment: float | datetime | str) -> float:
    if isinstance(moment, str):
        try:
            moment = datetime.fromisoformat(moment)
        except ValueError:
            raise RequestError(f"expected a date such as 2026-03-01T07:00:00Z, got {moment!r}") from None
    if isinstance(moment, datetime):
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    return float(moment)


def _shown(moment: float) -> str:
    try:
        return datetime.fromtimestamp(moment, UTC).isoformat()
    except (ValueError, OverflowError, OSError):
        return str(moment)
