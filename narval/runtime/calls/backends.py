"""The backends of an executor, by where calls are answered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from narval.runtime.calls.backend import Backend, RunningCall
from narval.runtime.calls.context import Where
from narval.runtime.calls.coroutines import Coroutines
from narval.runtime.calls.fair_queue import QueuedBackend
from narval.runtime.calls.programs.backend import ProgramBackend
from narval.runtime.calls.threads import Threads
from narval.runtime.calls.workers.pool import Workers
from narval.runtime.home.settings import CallLimits


class Backends:
    """Threads, worker programs, coroutines of the loop, and programs of the operating system."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, limits: CallLimits, programs: ProgramBackend | None
    ) -> None:
        self.loop = loop
        self.threads, self.workers = Threads(loop, limits.threads), Workers(loop, limits)
        self.coroutines = Coroutines(loop, limits.patience)
        self.programs = programs or ProgramBackend(loop)
        self._all: tuple[Backend, ...] = (self.threads, self.workers, self.coroutines, self.programs)
        self._by_where: dict[Where, Backend] = {
            "thread": self.threads,
            "worker": self.workers,
            "transform": self.workers,
            "script": self.workers,
            "async": self.coroutines,
            "source": self.coroutines,
            "program": self.programs,
        }

    def of(self, where: Where) -> Backend:
        """The backend that answers calls of that place; those inline have none."""
        return self._by_where[where]

    def share(self, is_shared: Callable[[], bool]) -> None:
        """Let no agent have all threads or workers while `is_shared` says that there are others."""
        self.threads.share(is_shared)
        self.workers.share(is_shared)

    def waits_for(self, running: RunningCall) -> str:
        """The reason why a call that has not begun waits for a place; "" of one that takes none."""
        backend = self.of(running.call.target.where)
        return backend.waits_for(running) if isinstance(backend, QueuedBackend) else ""

    @property
    def queued(self) -> int:
        """The number of calls that wait for room."""
        return sum(backend.queued for backend in self._all)

    @property
    def given_up(self) -> int:
        """The number of calls given up whose code still runs."""
        return sum(backend.given_up for backend in self._all)

    def limit(self, limits: CallLimits) -> None:
        """Keep to other limits from now on; calls under way go on."""
        self.threads.limit(limits.threads)
        self.workers.limit(limits)

    async def close(self) -> None:
        """Stop everything that can be stopped; nothing is answered any more."""
        for backend in self._all:
            await backend.close()
