"""Stop: a daemon comes to rest in good order."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from narval.calls.book import CallBook

LAST_TURNS = 1.0
"""Seconds for recording the outcomes of the calls that a stop has waited for."""


class Stop:
    """The stop of a daemon: calls under way have `grace` seconds, then they are left to recovery (N34).

    Sources are released at once, and no further call begins. `ring` is called when the calls have ended.
    """

    __slots__ = ("_calls", "_give_up", "_latest", "_listeners", "_ring", "_task", "grace")

    def __init__(self, calls: CallBook, grace: float, ring: Callable[[], None]) -> None:
        self._calls, self._ring = calls, ring
        self.grace = grace
        """Seconds that calls have after a stop is requested from now on."""
        self._listeners: list[Callable[[], None]] = []
        self._give_up: Callable[[], None] | None = None
        self._task: asyncio.Task[None] | None = None
        self._latest = 0.0

    def set_grace(self, seconds: float) -> None:
        """Give calls that many seconds when a stop is requested from now on."""
        self.grace = seconds

    def announce_to(self, listener: Callable[[], None]) -> None:
        """Call `listener` when the stop begins."""
        self._listeners.append(listener)

    def give_up_by(self, give_up: Callable[[], None]) -> None:
        """Call `give_up` once the time to record outcomes of the calls has passed, whatever is awaited."""
        self._give_up = give_up

    def request(self) -> None:
        """Begin to stop, unless that has begun."""
        if self._task is None:
            for listener in self._listeners:
                listener()
            self._latest = time.monotonic() + self.grace + LAST_TURNS
            self._task = asyncio.get_running_loop().create_task(self._calls.close(self.grace))
            self._task.add_done_callback(lambda _: self._ring())
            if self._give_up is not None:
                asyncio.get_running_loop().call_later(self.grace + LAST_TURNS, self._give_up)

    def cancel(self) -> None:
        """Stop waiting for calls under way."""
        if self._task is not None:
            self._task.cancel()

    @property
    def requested(self) -> bool:
        """True once the daemon is to stop."""
        return self._task is not None

    @property
    def calls_are_over(self) -> bool:
        """True once no call is under way."""
        return self._task is not None and self._task.done()

    @property
    def is_overdue(self) -> bool:
        """True once outcomes of the calls have had time to be recorded."""
        return time.monotonic() >= self._latest
