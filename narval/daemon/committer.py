"""Committer: records what a round of turns decided, in the loop or beside it.

What the store refuses of one agent is refused alone (G17): the batches are committed one by one then. So is
what is decided for an agent that another daemon has meanwhile (G47).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Sequence
from concurrent.futures import ThreadPoolExecutor

from narval.core.errors import FencedError, RefusedRowsError
from narval.store.batch import Batch
from narval.store.store import Store

WORTH_A_THREAD = 0.001
"""Seconds of a commit from which it is handed to a thread: that alone costs half of it, and a lone run waits
for both.
"""

COMMITS_REMEMBERED = 8
"""About so many of the last commits count for the duration of one."""


class Committer:
    """Commits batches; with `syncs`, in a writer thread while the disk is slow (`power`).

    Where daemons share the store, that is always so: a commit may wait for the server for long.
    """

    __slots__ = ("_is_busy", "_seconds", "_store", "_under_way", "_writer", "refused")

    def __init__(self, store: Store, *, syncs: bool) -> None:
        self.refused: dict[int, RefusedRowsError | FencedError] = {}
        """The reasons why batches of the last commit were not recorded, by agent; the others were."""
        self._store = store
        has_writer = syncs or store.leases is not None
        self._writer = ThreadPoolExecutor(1, "narval-writer") if has_writer else None
        self._is_busy = False
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
        if self._seconds < WORTH_A_THREAD and self._store.leases is None:
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

    def give_up(self) -> None:
        """Wait no longer for a server that does not answer: closing the store ends the commit."""
        if self._is_busy and self._store.leases is not None:
            self._store.close()

    def close(self) -> None:
        """End the writer thread."""
        self.give_up()
        if self._writer is not None:
            self._writer.shutdown()

    def _timed_commit(self, batches: Sequence[Batch]) -> None:
        began, self._is_busy = time.perf_counter(), True
        try:
            self._commit(batches)
        finally:
            self._is_busy = False
        self._seconds += (time.perf_counter() - began - self._seconds) / COMMITS_REMEMBERED

    def _commit(self, batches: Sequence[Batch]) -> None:
        while batches:
            try:
                self._store.commit(*batches)
            except FencedError as fenced:
                batches = self._without_lost(batches, fenced)
            except RefusedRowsError:
                self._commit_one_by_one(batches)
                return
            else:
                return

    def _without_lost(self, batches: Sequence[Batch], fenced: FencedError) -> list[Batch]:
        """The batches of agents that this daemon still has, unless it has lost the home's own."""
        left = [batch for batch in batches if batch.agent not in fenced.agents]
        if self._store.own in fenced.agents or len(left) == len(batches):
            raise fenced
        self.refused.update((batch.agent, fenced) for batch in batches if batch.agent in fenced.agents)
        return left

    def _commit_one_by_one(self, batches: Sequence[Batch]) -> None:
        """Record all that the store takes, unless it refuses the home's own agent."""
        own = self._store.own
        for batch in sorted(batches, key=lambda batch: batch.agent != own):
            try:
                self._store.commit(batch)
            except (FencedError, RefusedRowsError) as refusal:
                if batch.agent == own:
                    raise
                self.refused[batch.agent] = refusal
