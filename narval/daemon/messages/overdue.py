"""Overdue messages: the moment at which it is looked which have waited for too long (G32)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from narval.store.letters import WaitingRow

AGAIN = 3600.0
"""Seconds after which it is looked again for messages whose time is over, but not their turn."""


class OverdueMessages:
    """The first moment that ends a message which is not taken."""

    def __init__(self) -> None:
        self._look_at: Callable[[float | None], None] = lambda moment: None
        self._first: float | None = None

    def begin(self, look_at: Callable[[float | None], None]) -> None:
        """Have `look_at` be called with each moment at which it is to be looked."""
        self._look_at = look_at

    def expect(self, until: float | None) -> None:
        """Know of a message that may wait until a moment (seconds since 1970); None: for ever."""
        if until is not None and (self._first is None or until < self._first):
            self._first = until
            self._look_at(until)

    def due(self, now: float, waiting: Iterable[WaitingRow]) -> list[int]:
        """The receivers of messages whose time is over, of all that wait, as of a moment."""
        self._first, ending = None, [row for row in waiting if row.until is not None]
        moments = [row.until if row.until > now else now + AGAIN for row in ending if row.until is not None]
        self.expect(min(moments, default=None))
        return [row.agent for row in ending if row.until is not None and row.until <= now]
