"""Outage: waiting for a server that does not answer (G52)."""

from __future__ import annotations

import threading
import time

from narval.core.errors import StoreAwayError, StoreError

FIRST_WAIT, LONGEST_WAIT = 0.1, 2.0
"""Seconds between two attempts: twice as many each time."""


class Outage:
    """The state of a server: away or not, since when and why; `patience` is the seconds for which an outage
    is tolerated.
    """

    def __init__(self, patience: float | None) -> None:
        self.away: tuple[float, str] | None = None
        """The moment since which it is away (seconds since 1970), and why; None while it answers."""
        self._patience = patience
        self._next = FIRST_WAIT
        self._began = 0.0
        self._ends = threading.Event()

    def delay(self, error: StoreError) -> float:
        """The seconds until the next attempt. Raises StoreAwayError when patience is exhausted."""
        now = time.monotonic()
        if self.away is None:
            self._began, self._next = now, FIRST_WAIT
        self.away = (self.away[0] if self.away else time.time()), str(error)
        if self._patience is not None and now - self._began > self._patience:
            raise StoreAwayError(
                f"{error}; given up after {self._patience:g} seconds (store_patience)"
            ) from error
        seconds, self._next = self._next, min(2 * self._next, LONGEST_WAIT)
        return seconds

    def wait(self, error: StoreError) -> None:
        """Wait until the next attempt. Raises StoreAwayError if no more attempts are wanted."""
        if self._ends.wait(self.delay(error)):
            raise StoreAwayError(f"{error}; the store is closed") from error

    def over(self) -> None:
        """Record that it answers again."""
        self.away = None

    def end(self) -> None:
        """End all waits."""
        self._ends.set()
