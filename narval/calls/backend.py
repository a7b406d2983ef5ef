"""The interface of backends, which answer calls (N33)."""

from __future__ import annotations

from abc import ABC, abstractmethod

from narval.calls.record import CallRecord


class Backend(ABC):
    """Answers the calls of some targets. Used on the loop's thread only."""

    @property
    def queued(self) -> int:
        """The number of calls that wait for room."""
        return 0

    @property
    def given_up(self) -> int:
        """The number of abandoned calls whose code still runs."""
        return 0

    def waits_for(self, record: CallRecord) -> str:
        """The reason why a call waits; "" if it does not."""
        return ""

    @abstractmethod
    def start(self, record: CallRecord) -> None:
        """Answer a call, now or when there is room."""

    @abstractmethod
    def go(self, record: CallRecord) -> None:
        """Do the work of a call that has begun: at once, or as soon as its start is recorded."""

    @abstractmethod
    def abandon(self, record: CallRecord) -> None:
        """Give up a call: stop it if possible, and answer that it was abandoned."""

    @abstractmethod
    async def close(self) -> None:
        """Stop everything that can be stopped; nothing more is answered."""
