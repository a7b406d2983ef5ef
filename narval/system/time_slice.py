"""Slices of long work in the event loop: between two slices the loop runs other work."""

from __future__ import annotations

import asyncio
import time

SLICE = 0.005
"""The seconds of work without a break."""


class TimeSlice:
    """The time since the last break of some work."""

    __slots__ = ("_since",)

    def __init__(self) -> None:
        self._since = time.monotonic()

    async def yield_if_due(self) -> None:
        """Let the loop run other work, if the slice is used up."""
        if time.monotonic() - self._since > SLICE:
            await asyncio.sleep(0)
            self._since = time.monotonic()
