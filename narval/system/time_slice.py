"""Slices of long work in the event loop: between two of them the loop does something else."""

from __future__ import annotations

import asyncio
import time

SLICE = 0.005
"""Seconds that work goes on without a break."""


class TimeSlice:
    """The time for which work has gone on without a break."""

    __slots__ = ("_since",)

    def __init__(self) -> None:
        self._since = time.monotonic()

    async def yield_if_due(self) -> None:
        """Let the loop do something else, if the slice is used up."""
        if time.monotonic() - self._since > SLICE:
            await asyncio.sleep(0)
            self._since = time.monotonic()
