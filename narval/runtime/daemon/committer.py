"""Committer: records what a round of turns decided, in the loop or beside it.

What the store refuses of one agent is refused alone (G17): the batches are committed one by one then.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Sequence
from concurrent.futures import ThreadPoolExecutor

from narval.errors import RefusedRowsError
from narval.runtime.store.batch import HOME_AGENT, Batch
from narval.runtime.store.store import Store

WORTH_A_THREAD = 0.001
"""Seconds of a commit from which it is handed to a thread: that alone costs half of it, and a lone run waits
for both.
"""

COMMITS_REMEMBERED = 8
"""About so many of the last commits count for the duration of one."""


class Committer:
    """Commits batches; with `syncs`, in a writer thread while the disk is slow (`power`)."""

    __slots__ = ("_seconds", "_store", "_under_way", "_writer", "refused")

    def __init__(self, store: Store, *, syncs: bool) -> None:
        self.refused: dict[int, RefusedRowsError] = {}
        """The reasons why batches of the last commit were not recorded, by agent; the others were."""
        self._store = store
        self._writer = ThreadPoolExecutor(1, "narval-writer") if syncs else None
        self._seconds = 2 * WORTH_A_THREAD
        """The duration of a commit of late."""
        self._under_way: asyncio.Future[None] | None = None

    def commit(self, batches: Sequence[Batch]) -> Awaitable[None] | None:
        """Record batches, all or nothing but for what is `refused`: now, or once the answer is awaited.

        Raises StoreError, and where rows of the home's own agent are refused: then nothing is recorded.
        """
        if self.refused:
            self.refused = {}
        if not batches:
            return None
        if self._writer is None:
            self._commit(batches)
            return None
        if self._seconds < WORTH_A_THREAD:
            self._timed_commit(batches)
            return None
        return self._commit_beside(batches, self._writer)

    async def _commit_beside(self, batches: Sequence[Batch], writer: ThreadPoolExecutor) -> None:
        loop = asyncio.get_running_loop()
        self._under_way = loop.run_in_executor(writer, self._timed_commit, batches)
        try:
            await self._under_way
        finally:
            self._under_way = None

    async def finished(self) -> None:
        """Wait until no commit is under way, made or failed."""
        if self._under_way is not None:
            await asyncio.wait([self._under_way])

    def close(self) -> None:
        """End the writer thread."""
        if self._writer is not None:
            self._writer.shutdown()

    def _timed_commit(self, batches: Sequence[Batch]) -> None:
        began = time.perf_counter()
        self._commit(batches)
        self._seconds += (time.perf_counter() - began - self._seconds) / COMMITS_REMEMBERED

    def _commit(self, batches: Sequence[Batch]) -> None:
        try:
            self._store.commit(*batches)
        except RefusedRowsError:
            self._commit_one_by_one(batches)

    def _commit_one_by_one(self, batches: Sequence[Batch]) -> None:
        """Record all that the store takes, unless it refuses the home's own agent."""
        for batch in sorted(batches, key=lambda batch: batch.agent != HOME_AGENT):
            try:
                self._store.commit(batch)
            except RefusedRowsError as refusal:
                if batch.agent == HOME_AGENT:
                    raise
                self.refused[batch.agent] = refusal
