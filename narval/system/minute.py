"""Minutes: the calls and bytes that each of many has used in the last minute, held against what it may."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable
from typing import Literal, NamedTuple

MINUTE = 60.0


class Excess(NamedTuple):
    """A call for which a minute has no room: too many calls, or too many bytes, and the seconds until the
    oldest call counts no more; 0 where none counts.
    """

    what: Literal["calls", "bytes"]
    seconds: int


class UsedMinute:
    """The use that each makes of a minute, by name."""

    def __init__(self, seconds: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._used: dict[str, deque[tuple[float, int]]] = {}
        """The moments and sizes of the calls that count."""
        self._bytes: dict[str, int] = {}

    def take(self, name: str, calls: int, size: int = 0, most: float = math.inf) -> Excess | None:
        """Count a call of `size` bytes of one that may make so many `calls` a minute, of `most` bytes
        together; the excess where there is no room for it.
        """
        now, used, sent = self._seconds(), self._used.setdefault(name, deque()), self._bytes.get(name, 0)
        while used and now - used[0][0] >= MINUTE:
            sent -= used.popleft()[1]
        is_full = len(used) >= calls
        if is_full or sent + size > most:
            self._bytes[name] = sent
            left = max(1, round(MINUTE - (now - used[0][0]))) if used else 0
            return Excess("calls" if is_full else "bytes", left)
        used.append((now, size))
        self._bytes[name] = sent + size
        return None
