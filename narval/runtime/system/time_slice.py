"""Work that would take the loop long is done in slices: between two of them it does something else."""

from __future__ import annotations

import asyncio
import time

SLICE = 0.005
"""Seconds that work goes on before others have their turn."""


class TimeSlice:
    """Since when work has gone on without a break."""

    __slots__ = ("_since",)

    def __init__(self) -> None:
        self._since = time.monotonic()

    async def take(self) -> None:
        """Let others do something, if it is time for that."""
        if time.monotonic() - self._since > SLICE:
            await asyncio.sleep(0)
            self._since = time.monotonic()
