"""The people of a home and their roles on the pages."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from narval.core.errors import NarvalError

PATIENCE = 5.0
"""Seconds for the daemon to return the roles."""


class PeopleOfHome:
    """The people of a home, as its daemon has them; the last known ones while no daemon answers."""

    def __init__(self, ask: Callable[..., Awaitable[Any]]) -> None:
        self._ask = ask
        self._last: list[dict[str, Any]] | None = None
        self._asked = 0.0

    async def people(self, not_older: float = 0.0) -> list[dict[str, Any]] | None:
        """The people of the home, asked again if older than `not_older` seconds; None before any answer."""
        if self._last is None or time.monotonic() - self._asked > not_older:
            try:
                async with asyncio.timeout(PATIENCE):
                    self._last = await self._ask("people")
                self._asked = time.monotonic()
            except (NarvalError, TimeoutError):
                pass
        return self._last
