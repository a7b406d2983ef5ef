"""Tasks that are finished, and the room there is for their results (G72)."""

from __future__ import annotations

import asyncio


class FinishedTasks:
    """The tasks that are finished and not given, by key, and those that were given and are not settled.

    At most `memory` bytes of results are given that are not settled; but one at least.
    """

    def __init__(self, memory: int) -> None:
        self._memory = memory
        self._keys: dict[str, None] = {}
        self._given: dict[str, int] = {}
        """The bytes of each."""
        self.results: dict[str, bytes] = {}
        """The results that came with the news, by key."""
        self._some = asyncio.Event()

    def add(self, key: str) -> None:
        """Add a task that is finished."""
        self._keys[key] = None
        self._some.set()

    async def take(self) -> list[str]:
        """Wait until there is something new to be given, or room; give all that are finished, in order."""
        await self._some.wait()
        self._some.clear()
        keys, self._keys = list(self._keys), {}
        return keys

    def fitting(self, sizes: dict[str, int]) -> list[str]:
        """The keys of results, of so many bytes, for which there is room; the others stay finished."""
        found, held = list[str](), sum(self._given.values())
        for key, size in sizes.items():
            if held and held + size > self._memory:
                self._keys[key] = None
                continue
            held += size
            self._given[key] = size
            found.append(key)
        return found

    def settle(self, key: str) -> None:
        """Forget a task."""
        self._keys.pop(key, None)
        self.results.pop(key, None)
        if self._given.pop(key, None) is not None and self._keys:
            self._some.set()
