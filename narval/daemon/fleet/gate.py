"""The gate: open while a daemon is sure that it still holds its agents (G48)."""

from __future__ import annotations

import logging
from collections.abc import Callable

from narval.core.errors import StoreAwayError
from narval.daemon.fleet.protocol import Membership, joined, may_work
from narval.store.postgresql.leases import DOUBTED

log = logging.getLogger("narval.fleet")


class LeaseGate:
    """Closes by itself, by a clock that cannot be set, and opens with a renewal. It is closed at first.

    It closes at once when the store does not answer: a turn could then neither read nor be recorded.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self.monotonic = monotonic
        self.away: tuple[float, str] | None = None
        """The moment at which the store stopped answering, in seconds since 1970, and why; else None."""
        self.member: Membership = joined(monotonic() - DOUBTED)

    def follow(self, member: Membership) -> None:
        """Use the present state of the daemon's membership."""
        self.member = member

    def is_open(self) -> bool:
        """True if turns may begin, and recorded turns may be performed."""
        return self.away is None and may_work(self.member, self.monotonic())

    def store_is_away(self, now: float, error: StoreAwayError) -> None:
        """Record when the store stopped answering; log it once."""
        if self.away is None:
            log.warning("the store is away, and nothing is done until it is back: %s", error)
        self.away = self.away[0] if self.away else now, str(error)

    def store_is_back(self, now: float) -> None:
        """Record the moment at which the store answers again."""
        if self.away is not None:
            log.warning("the store is back after %.1f s", now - self.away[0])
        self.away = None
