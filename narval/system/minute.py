"""Minutes: counts the calls and bytes of each client in the last minute, against its limits."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable
from typing import Literal, NamedTuple

MINUTE = 60.0


class Excess(NamedTuple):
    """A call that exceeds a minute's limits: too many calls, or too many bytes, and the seconds until the
    oldest call drops out; 0 if no call counts.
    """

    what: Literal["calls", "bytes"]
    seconds: int


class UsedMinute:
    """The use that each client makes of the last minute, by name."""

    def __init__(self, seconds: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._used: dict[str, deque[tuple[float, int]]] = {}
        """The moments and sizes of the calls that count."""
        self._bytes: dict[str, int] = {}

    def take(self, name: str, calls: int, size: int = 0, most: float = math.inf) -> Excess | None:
        """Count a call of `size` bytes, with limits of `calls` calls and `most` bytes per minute; return the
        excess if there is no room for it.
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
