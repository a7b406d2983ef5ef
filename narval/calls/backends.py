"""The backends of an executor, by where calls are answered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from narval.calls.backend import Backend, RunningCall
from narval.calls.context import Where
from narval.calls.coroutines import Coroutines
from narval.calls.fair_queue import QueuedBackend
from narval.calls.programs.backend import ProgramBackend
from narval.calls.threads import Threads
from narval.calls.workers.pool import Workers
from narval.files.settings import CallLimits

if TYPE_CHECKING:
    from narval.calls.cluster.backend import Cluster


class Backends:
    """Threads, worker programs, coroutines of the loop, programs of the operating system, and a cluster."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, limits: CallLimits, programs: ProgramBackend | None
    ) -> None:
        self.loop = loop
        self.programs = programs or ProgramBackend(loop)
        self.threads = Threads(loop, limits.threads)
        self.workers = Workers(loop, limits, self.programs.reaper)
        self.coroutines = Coroutines(loop, limits.patience)
        self.cluster: Cluster | None = None
        """None until a call is to go there."""
        self._limits, self._is_shared = limits, _is_not_shared
        self._all: list[Backend] = [self.threads, self.workers, self.coroutines, self.programs]
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
        if where == "cluster" and self.cluster is None:
            self._make_cluster()
        return self._by_where[where]

    def _make_cluster(self) -> None:
        from narval.calls.cluster.backend import Cluster  # here: few homes have one

        self.cluster = Cluster(self.loop, self._limits, self.programs)
        self.cluster.share(self._is_shared)
        self._by_where["cluster"] = self.cluster
        self._all.insert(0, self.cluster)

    def share(self, is_shared: Callable[[], bool]) -> None:
        """Let no agent have all threads or workers while `is_shared` says that there are others."""
        self._is_shared = is_shared
        for backend in self._all:
            if isinstance(backend, QueuedBackend):
                backend.share(is_shared)

    def waits_for(self, running: RunningCall) -> str:
        """The reason why a call waits for a place; "" of one that has, or takes, none."""
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
        self._limits = limits
        self.threads.limit(limits.threads)
        self.workers.limit(limits)
        if self.cluster is not None:
            self.cluster.limit(limits)

    async def close(self) -> None:
        """Stop everything that can be stopped; nothing is answered any more."""
        for backend in self._all:
            await backend.close()


def _is_not_shared() -> bool:
    return False
