"""The executor: passes each call to the backend that its target declares (N30, N33, N36)."""

from __future__ import annotations

import asyncio
import heapq
import math
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

from narval.calls.backend import Backend
from narval.calls.confining import confined_to, services_for
from narval.calls.context import CallContext, Where
from narval.calls.conversion import answer_at_once
from narval.calls.in_daemon import Coroutines, Threads
from narval.calls.programs.backend import ProgramBackend
from narval.calls.record import ABANDONED, CallRecord
from narval.calls.workers.confined import Confined
from narval.calls.workers.pool import Workers
from narval.files.settings import CallLimits
from narval.system.clock import Clock, RunClock, SimulatedClock, SystemClock

if TYPE_CHECKING:
    from narval.calls.cluster.backend import Cluster
    from narval.calls.kept_files import Mentions
    from narval.calls.mcp.backend import McpServers

MOST_IDLE = 16
"""The most idle pools of confined workers that are kept; each pool has its own set of reachable places."""


class Inline(Backend):
    """Calls answered in the loop. Most are answered earlier, by the dispatcher."""

    def start(self, record: CallRecord) -> None:
        """Answer a call, unless it must be announced first."""
        if record.begin():
            self.go(record)

    def go(self, record: CallRecord) -> None:
        """Answer a call."""
        record.answer(answer_at_once(record.call))

    def abandon(self, record: CallRecord) -> None:
        """Give up a call that is being announced."""
        record.answer(ABANDONED)

    async def close(self) -> None:
        """Do nothing: no call is under way."""


class Executor:
    """Threads, worker programs, coroutines of the loop, programs of the operating system, and a cluster.

    Created and used on the thread of a running loop. `programs` is the backend of programs; the default keeps
    no output. `zone` is the time zone of actions; `mentions` decides which files are kept.

    `changed` is called whenever a call waits for the outside world, or has ended. A source waits when it says
    that it has caught up; a call waits when it sleeps on a simulated clock. One agent cannot have all threads
    or workers while `is_shared` says that there are others.
    """

    answers_inline_calls = True
    """False if even an inline call must go through `start`, because something else may answer it."""
    is_simulated = False
    """True in a simulation, where no work takes time."""

    def __init__(
        self,
        limits: CallLimits | None = None,
        clock: Clock | None = None,
        programs: ProgramBackend | None = None,
        zone: str = "UTC",
        mentions: Mentions | None = None,
        changed: Callable[[], None] = lambda: None,
        is_shared: Callable[[], bool] = lambda: False,
    ) -> None:
        self._limits = limits = limits or CallLimits()
        self._loop = loop = asyncio.get_running_loop()
        self.programs = programs or ProgramBackend(loop)
        self.workers = Workers(loop, limits, self.programs.reaper, is_shared)
        self.cluster: Cluster | None = None
        self.servers: McpServers | None = None
        """None, like the cluster, until a call needs it."""
        self._threads = Threads(loop, limits.threads, is_shared)
        self._coroutines = Coroutines(loop, limits.patience)
        self.troubles = self._coroutines.troubles
        self.changed, self._is_shared = changed, is_shared
        self.clock, self._mentions = RunClock(clock or SystemClock(), zone), mentions
        self._sleeps = SimulatedSleeps(clock) if isinstance(clock, SimulatedClock) else None
        self.confined: dict[Confined, Workers] = {}
        """The pools of confined workers, by the places that they may reach, the most recently used last."""
        self._backends: dict[Where, Backend] = {
            "inline": Inline(),
            "thread": self._threads,
            "worker": self.workers,
            "transform": self.workers,
            "script": self.workers,
            "async": self._coroutines,
            "source": self._coroutines,
            "program": self.programs,
        }

    # --- calls ----------------------------------------------------------------------------------------

    def start(self, record: CallRecord) -> None:
        """Answer a call when there is room; an inline one before this returns, unless it is announced."""
        call = record.call
        listener = self._report if call.is_source else None
        sleeper = partial(self._sleep, record) if self._sleeps is not None else None
        call.attach(listener, sleeper, self.programs.commands)
        self.allow(call)
        self._of(record).start(record)

    def go(self, record: CallRecord) -> None:
        """Do the work of a call whose start is recorded."""
        if record.go():
            self._of(record).go(record)

    def abandon(self, record: CallRecord) -> None:
        """End a call if possible, and answer that it was abandoned."""
        self._of(record).abandon(record)

    def waits_for(self, record: CallRecord) -> str:
        """The reason why a call waits for room; "" if it does not wait."""
        return self._of(record).waits_for(record)

    def has_caught_up(self, record: CallRecord) -> bool:
        """True if a call waits for the outside world: a source that has caught up, a call asleep on a
        simulated clock, or one whose cluster cannot exist until somebody acts.
        """
        is_asleep = self._sleeps is not None and record.call.id in self._sleeps
        is_in_vain = self.cluster is not None and self.cluster.waits_in_vain(record)
        return record.call.has_caught_up or is_asleep or is_in_vain

    def allow(self, call: CallContext) -> None:
        """Let a call fetch what the settings grant now."""
        services = self._limits.services
        if services and call.target.needs is not None:
            services = services_for(call.target.needs, services)
        call.allow(self._limits.fetch_allow, services)

    # --- all of them ----------------------------------------------------------------------------------

    @property
    def queued(self) -> int:
        """The number of calls that wait for room."""
        return sum(backend.queued for backend in self._all)

    @property
    def given_up(self) -> int:
        """The number of abandoned calls whose code still runs."""
        return sum(backend.given_up for backend in self._all)

    @property
    def _all(self) -> set[Backend]:
        return {*self._backends.values(), *self.confined.values()}

    def limit(self, limits: CallLimits) -> None:
        """Apply other limits from now on; calls under way continue."""
        self._limits = limits
        self._threads.limit(limits.threads)
        for pool in (self.workers, *self.confined.values()):
            pool.limit(limits)
        for late in (self.cluster, self.servers):
            if late is not None:
                late.limit(limits)

    async def end_former(self) -> None:
        """End the programs that an earlier daemon left running."""
        await asyncio.to_thread(self.programs.reaper.end_former)

    async def close(self) -> None:
        """Stop everything that can be stopped; nothing more is answered."""
        first = [late for late in (self.cluster, self.servers) if late is not None]
        for backend in (
            *first, self._threads, self.workers, *self.confined.values(), self._coroutines, self.programs
        ):  # fmt: skip
            await backend.close()

    # --- for the owner of a simulated clock -----------------------------------------------------------

    def next(self) -> float | None:
        """The moment at which the next call that sleeps on a simulated clock must wake, or None."""
        return self._sleeps.next() if self._sleeps is not None else None

    def release(self) -> None:
        """Wake the calls whose moment has come."""
        if self._sleeps is not None:
            self._sleeps.wake()

    # --- inside ---------------------------------------------------------------------------------------

    def _of(self, record: CallRecord) -> Backend:
        """The backend that answers a call."""
        where = record.call.target.where
        if where == "cluster" and self.cluster is None:
            from narval.calls.cluster.backend import Cluster  # imported here, as few homes have one

            self.cluster = Cluster(self._loop, self._limits, self.programs, self._is_shared)
            self._backends["cluster"] = self.cluster
        if where == "mcp" and self.servers is None:
            from narval.calls.mcp.backend import McpServers  # imported here, as few homes have any

            self.servers = McpServers(self._loop, self._limits, self.programs.reaper, self._mentions)
            self._backends[where] = self.servers
        if record.call.target.limits:
            return self._confining(record)
        return self._backends[where]

    def _confining(self, record: CallRecord) -> Workers:
        """The workers that may reach only what a call needs."""
        record.confined = record.confined or confined_to(record.call)
        pool = self.confined.pop(record.confined, None)
        if pool is None:
            _retire_idle(self.confined)
            common = self._loop, self._limits, self.programs.reaper, self._is_shared
            pool = Workers(*common, record.confined, self.workers.budget)
        self.confined[record.confined] = pool  # last: the most recently used
        return pool

    async def _sleep(self, record: CallRecord, call: CallContext, seconds: float) -> None:
        """Let a call sleep on the simulated clock; if its time limit comes first, end it then."""
        sleeps = self._sleeps
        if sleeps is None or record.is_over:
            raise asyncio.CancelledError  # it was cancelled before
        until = self.clock.now() + seconds
        limit = math.inf if call.timeout is None else record.since + call.timeout
        woken = sleeps.begin(call.id, min(until, limit))
        self.changed()
        try:
            await woken
        finally:
            sleeps.end(call.id)
        if limit < until:
            self._coroutines.expire(record)
            await asyncio.sleep(0)  # its cancellation takes effect here

    def _report(self, call: CallContext) -> None:
        if call.has_caught_up:
            self.changed()


def _retire_idle(confined: dict[Confined, Workers]) -> None:
    """Retire the longest idle workers if there are many: inputs may name other places each time."""
    idle = [places for places, workers in confined.items() if workers.is_idle]
    for places in idle[: max(0, len(idle) - MOST_IDLE + 1)]:
        confined.pop(places).leave()


class SimulatedSleeps:
    """The calls that sleep (`narval.sleep`) on a simulated clock, and the moments at which they wake.

    On the clock of the machine a call sleeps like any coroutine. On a simulated clock that would be wrong
    twice: it would hold up a simulation in which a year passes in a second, and end at an arbitrary moment.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._asleep: set[str] = set()
        self._heap: list[tuple[float, int, str, asyncio.Future[None]]] = []
        self._order = count()

    def __contains__(self, call: str) -> bool:
        return call in self._asleep

    def begin(self, call: str, until: float) -> asyncio.Future[None]:
        """Let a call sleep until a moment, when the future is done."""
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._heap, (until, next(self._order), call, woken))
        self._asleep.add(call)
        return woken

    def end(self, call: str) -> None:
        """Record that a call no longer sleeps, for whatever reason."""
        self._asleep.discard(call)

    def next(self) -> float | None:
        """The moment at which the next call wakes, or None."""
        while self._heap and self._heap[0][3].done():
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def wake(self) -> None:
        """Wake the calls whose moment has come."""
        while (due := self.next()) is not None and due <= self._clock.now():
            _, _, call, woken = heapq.heappop(self._heap)
            self.end(call)
            woken.set_result(None)
