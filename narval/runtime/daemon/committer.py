"""Committer: records turns, in the loop or beside it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from concurrent.futures import ThreadPoolExecutor

from narval.errors import StoreError
from narval.runtime.agent.loop import Loop
from narval.runtime.agent.turn import Turn

WORTH_A_THREAD = 0.001
"""Seconds of a commit from which it is handed to a thread: that alone costs half of it, and a lone run waits
for both.
"""

COMMITS_REMEMBERED = 8
"""About so many of the last commits count for the duration of one."""


class Committer:
    """Commits the turns of one loop; with `syncs`, in a writer thread while the disk is slow (`power`)."""

    __slots__ = ("_loop", "_seconds", "_under_way", "_writer")

    def __init__(self, loop: Loop, *, syncs: bool) -> None:
        self._loop = loop
        self._writer = ThreadPoolExecutor(1, "narval-writer") if syncs else None
        self._seconds = 2 * WORTH_A_THREAD
        """The duration of a commit of late."""
        self._under_way: asyncio.Future[None] | None = None

    def commit(self, turn: Turn) -> Awaitable[None] | None:
        """Record a turn, whole or not at all: now, or once the answer is awaited. Raises StoreError."""
        if self._writer is None:
            self._loop.commit(turn)
            return None
        if self._seconds < WORTH_A_THREAD:
            self._timed_commit(turn)
            return None
        return self._commit_beside(turn, self._writer)

    async def _commit_beside(self, turn: Turn, writer: ThreadPoolExecutor) -> None:
        self._under_way = asyncio.get_running_loop().run_in_executor(writer, self._timed_commit, turn)
        try:
            await self._under_way
        finally:
            self._under_way = None

    async def recorded(self) -> None:
        """Wait until what memory shows is recorded. Raises the StoreError of a commit that failed."""
        if self._under_way is not None:
            await asyncio.wait([self._under_way])
        if isinstance(self._loop.intake.gone, StoreError):
            raise self._loop.intake.gone

    def close(self) -> None:
        """End the writer thread."""
        if self._writer is not None:
            self._writer.shutdown()

    def _timed_commit(self, turn: Turn) -> None:
        began = time.perf_counter()
        self._loop.commit(turn)
        if turn.transaction.batch:
            self._seconds += (time.perf_counter() - began - self._seconds) / COMMITS_REMEMBERED
