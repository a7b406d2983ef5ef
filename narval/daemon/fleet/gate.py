"""Gate: open while a daemon is sure that what it holds is its own (G48)."""

from __future__ import annotations

import logging
from collections.abc import Callable

from narval.core.errors import StoreAwayError
from narval.daemon.fleet.protocol import Membership, joined, may_work
from narval.store.postgresql.leases import DOUBTED

log = logging.getLogger("narval.fleet")


class LeaseGate:
    """Closes by itself, by a clock that nobody can set, and opens with a renewal; it is closed at first.

    It closes at once when the store does not answer: a turn then could neither read nor be recorded.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self.monotonic = monotonic
        self.away: tuple[float, str] | None = None
        """Since when the store does not answer (seconds since 1970), and why; None while it does."""
        self.member: Membership = joined(monotonic() - DOUBTED)

    def follow(self, member: Membership) -> None:
        """Follow what is known of the daemon's membership now."""
        self.member = member

    def is_open(self) -> bool:
        """True if turns may be begun, and what is recorded performed."""
        return self.away is None and may_work(self.member, self.monotonic())

    def store_is_away(self, now: float, error: StoreAwayError) -> None:
        """Record since when the store does not answer; it is logged once."""
        if self.away is None:
            log.warning("the store is away, and nothing is done until it is back: %s", error)
        self.away = self.away[0] if self.away else now, str(error)

    def store_is_back(self, now: float) -> None:
        """Record that the store answers again, as of a moment."""
        if self.away is not None:
            log.warning("the store is back after %.1f s", now - self.away[0])
        self.away = None
