"""Puts the parts together, starts them, stops them. Only this module knows everybody."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple

from narval.errors import Fault, RequestError, StoreError
from narval.memory.decay import Idle
from narval.runtime.agents import Agent, Run
from narval.runtime.clock import Clock, SimulatedClock, SystemClock
from narval.runtime.deeds import Deed, Forgetting
from narval.runtime.declared import declare_library, declare_memory, read_memory_file, start_declared
from narval.runtime.executor import Executor
from narval.runtime.home import Home
from narval.runtime.loader import Fallback, Loaded, Loader
from narval.runtime.logbook import Logbook
from narval.runtime.loop import Loop, Request
from narval.runtime.perform import Performer
from narval.runtime.recovery import restore, restore_runs
from narval.runtime.schemas import Schemas
from narval.runtime.settings import Settings
from narval.runtime.store import Store, VolatileStore
from narval.runtime.turn import Turn

log = logging.getLogger("narval.daemon")

BREATH = 0.005
"""Seconds the loop works at most before it looks at sockets and finished calls."""


class Summary(NamedTuple):
    """What a time of work came to: the runs that failed in it, and when what will begin again or be woken."""

    idle: bool
    timed_out: bool
    failed: list[Run]
    later: list[tuple[float, tuple[int, str], Deed | None]]


class Daemon:
    """A home at work: one agent, its loop, its executor, its store.

    `quiet` opens a home to ask it something: what is asked is recorded, but no call is performed and no run is
    told anything; the next daemon takes that up.
    """

    def __init__(
        self,
        home: Home | None,
        store: Store,
        settings: Settings,
        loaded: Loaded,
        *,
        clock: Clock,
        quiet: bool,
    ) -> None:
        self.home, self.store, self.settings, self.loaded, self.clock = home, store, settings, loaded, clock
        self.quiet = quiet
        self.since = clock.now()
        self.faults: list[Fault] = list(loaded.faults)
        path = home.path if home is not None else None
        self.agent = Agent(loaded.library)
        self.executor = Executor(settings.limits, lambda call: self._ring())
        self.performer = Performer(
            self.agent,
            self.executor,
            self.post,
            home=path,
            prefix=home.id if home is not None else "memory",
            timeout=settings.call_timeout,
        )
        log_file = home.log if home is not None else None
        self.logbook = Logbook(log_file, settings.log_level, writes=not quiet)
        self.schemas = Schemas(home.schemas if home is not None else None)
        if settings.forget_after is not None:
            self.agent.idle = Idle(settings.forget_after)
        restore(self.agent, store)
        self.loop = Loop(
            self.agent, store, self.schemas, clock, self.performer, limit=settings.turn_limit, asleep=quiet
        )
        self._bell = asyncio.Event()
        self._pumping = False
        self._stopping: float | None = None
        self._writer = ThreadPoolExecutor(1, "narval-writer") if settings.durability == "power" else None
        self._failed: list[Run] = []
        self._over: dict[int, list[asyncio.Future[None]]] = {}
        self._turned: list[asyncio.Future[None]] = []
        self._lock: AbstractContextManager[Any] | None = None

    # --- opening and closing --------------------------------------------------------------------------

    @classmethod
    async def open(cls, home: Home | None, *, quiet: bool = False, clock: Clock | None = None) -> Daemon:
        """Take a home, or make one in memory.

        Raises NoHomeError, HomeHeldError, SettingsError, StoreError.
        """
        lock = home.lock() if home is not None else None
        if lock is not None:
            lock.__enter__()
        try:
            daemon = cls._assembled(home, clock or SystemClock(), quiet=quiet)
        except BaseException:
            if lock is not None:
                lock.__exit__(None, None, None)
            raise
        daemon._lock = lock
        try:
            await daemon._wake_up()
        except BaseException:
            await daemon.close()
            raise
        return daemon

    @classmethod
    def _assembled(cls, home: Home | None, clock: Clock, *, quiet: bool) -> Daemon:
        if home is None:
            settings = Settings()
            return cls(None, VolatileStore(), settings, Loader(None).load(), clock=clock, quiet=quiet)
        settings = Settings.load(home.path)
        store = Store.open(settings.store or home.store, settings.durability)
        try:
            loaded = Loader(home.path, _kept_of(store)).load()
            return cls(home, store, settings, loaded, clock=clock, quiet=quiet)
        except BaseException:
            store.close()
            raise

    async def _wake_up(self) -> None:
        """Bring memory in line with what declares it, then take up what was under way."""
        self.logbook.attach()
        restore_runs(self.agent, self.store, lambda run: self._render(run))
        self._use(self.loaded)
        declared: list[bytes] | None = []
        if self.home is not None:
            declared, faults = read_memory_file(self.home.memory)
            self.faults += faults
        if not self.quiet:
            self.performer.resume()
        await self.submit(lambda turn: self._declare(turn, declared))

    def _declare(self, turn: Turn, declared: list[bytes] | None) -> None:
        declare_library(turn, self.agent.library, self.loaded.sources)
        if declared is not None:
            declare_memory(turn, declared)
        start_declared(turn, at_start=not self.quiet)

    def _use(self, loaded: Loaded) -> None:
        self.loaded = loaded
        self.agent.library = loaded.library
        self.performer.functions = loaded.functions
        self.performer.sources = loaded.sources

    async def close(self) -> None:
        """Stop at once what still runs, and let the home go."""
        await self.executor.close(0.0)
        self.logbook.detach()
        if self._writer is not None:
            self._writer.shutdown()
        self.store.close()
        if self._lock is not None:
            self._lock.__exit__(None, None, None)
            self._lock = None

    # --- running --------------------------------------------------------------------------------------

    def post(self, item: Any) -> None:
        """Something for the next turn."""
        self.loop.post(item)
        self._bell.set()

    async def submit(self, work: Callable[[Turn], Any]) -> Any:
        """Do something within a turn; its result once the turn is recorded."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def settle(result: Any, error: BaseException | None) -> None:
            if future.done():
                return
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(result)

        self.post(Request(work, settle))
        if not self._pumping:
            await self._pump(future.done)
        return await future

    def request_stop(self) -> None:
        """Stop in good order: calls under way have `stop_grace` seconds, then they are left to recovery (N34)."""
        if self._stopping is None:
            self._stopping = time.monotonic()
            self.performer.stopping = True
            self._ring()

    def idle(self) -> bool:
        """Whether nothing can go on without something from outside (surfaces, `--until-idle`)."""
        return not self.loop.has_work() and not self.performer.busy()

    async def run(self, *, until_idle: bool = False, timeout: float | None = None) -> Summary:
        """Work until stopped, or idle, or out of time; then say what happened. Raises StoreError."""
        deadline = time.monotonic() + timeout if timeout is not None else None
        self._failed.clear()

        def over() -> bool:
            return self._stopped() or _past(deadline) or (until_idle and self.idle())

        await self._pump(over, deadline=deadline)
        waiting = (each for each in self.agent.moments.waiting() if not isinstance(each[2], Forgetting))
        later = sorted(waiting, key=lambda each: each[:2])
        idle = self.idle()
        return Summary(idle, not idle and _past(deadline), list(self._failed), later)

    async def until_idle(self) -> None:
        """Work until nothing can go on by itself."""
        await self._pump(self.idle)

    async def elapse(self, seconds: float) -> None:
        """Let simulated time pass: each moment on the way comes in order."""
        clock = self.clock
        if not isinstance(clock, SimulatedClock):
            raise RequestError("expected a home opened with a SimulatedClock, got one on real time")
        target = clock.now() + seconds
        await self.until_idle()
        while (due := self.agent.next_moment()) is not None and due <= target:
            clock.set(max(due, clock.now()))
            await self.until_idle()
        clock.set(target)
        await self.until_idle()

    async def ended(self, run: Run, timeout: float | None = None) -> None:
        """Wait until a run is over, or for so many seconds."""
        if not run.active:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._over.setdefault(run.eid, []).append(future)
        if self._pumping:
            await asyncio.wait([future], timeout=timeout)
        else:
            deadline = time.monotonic() + timeout if timeout is not None else None
            await self._pump(lambda: future.done() or _past(deadline), deadline=deadline)

    async def turned(self, wait: float) -> float:
        """Wait for the next turn; the seconds that are left of `wait`."""
        began = time.monotonic()
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._turned.append(future)
        await asyncio.wait([future], timeout=wait)
        return max(0.0, wait - (time.monotonic() - began))

    def stub(self, name: str, function: Callable[..., Any]) -> None:
        """Let a function take the place of an action, for tests and dry runs."""
        if self.agent.library.get("action", name) is None:
            raise RequestError(f"expected the name of an action, got {name!r}, which is not loaded")
        self.performer.stubs[name] = function

    async def load(self, what: str | Path) -> None:
        """Add the definitions of a file, or of a text, to the library. Raises DefinitionError."""
        loaded = self.loaded.with_definitions(what)
        self._use(loaded)
        await self.submit(lambda turn: self._declare(turn, None))

    # --- inside ---------------------------------------------------------------------------------------

    async def _pump(self, over: Callable[[], bool], *, deadline: float | None = None) -> None:
        """Make turns while there is work; sleep, without polling, while there is none."""
        if self._pumping:
            raise RequestError("the home is at work already; ask it from within its own event loop")
        self._pumping = True
        breath = time.monotonic()
        try:
            while not over():
                if self.loop.has_work():
                    await self._turn()
                    if time.monotonic() - breath < BREATH:
                        continue
                    await asyncio.sleep(0)
                else:
                    self._bell.clear()
                    await self._sleep(deadline)
                breath = time.monotonic()
        finally:
            self._pumping = False

    async def _turn(self) -> None:
        decided = self.loop.decide()
        try:
            if self._writer is None:
                self.loop.commit(decided)
            else:
                await asyncio.get_running_loop().run_in_executor(self._writer, self.loop.commit, decided)
        except StoreError:
            self._stopping = 0.0
            self.performer.stopping = True
            raise
        self.loop.perform(decided)
        for run in decided.turn.ended:
            if run.phase == "failed":
                self._failed.append(run)
            for future in self._over.pop(run.eid, ()):
                _resolve(future)
        turned, self._turned = self._turned, []
        for future in turned:
            _resolve(future)
        if decided.turn.quit:
            self.request_stop()

    async def _sleep(self, deadline: float | None) -> None:
        """Until the bell rings, or the next moment, the deadline or the end of the grace comes."""
        now = time.monotonic()
        until = [] if deadline is None else [deadline - now]
        if not isinstance(self.clock, SimulatedClock) and not self.quiet:
            due = self.agent.next_moment()
            if due is not None:
                until.append(due - self.clock.now())
        if self._stopping is not None:
            until.append(self._stopping + self.settings.stop_grace - now)
        timeout = max(0.0, min(until)) if until else None
        try:
            await asyncio.wait_for(self._bell.wait(), timeout)
        except TimeoutError:
            return

    def _stopped(self) -> bool:
        if self._stopping is None:
            return False
        if time.monotonic() - self._stopping >= self.settings.stop_grace:
            return True
        return self.idle()

    def _ring(self) -> None:
        self._bell.set()

    def _render(self, run: Run) -> Any:
        return Turn(self.agent, self.store, self.schemas, self.since).render(run)


def _kept_of(store: Store) -> Fallback:
    """The last good version of a file as the store has it: its bytes, or those of each definition in it."""
    return lambda path: [row.source for row in store.definitions() if row.path == path]


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _past(deadline: float | None) -> bool:
    return deadline is not None and time.monotonic() >= deadline

