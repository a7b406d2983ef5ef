"""Puts the parts together, starts them, stops them. Only this module knows everybody."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from narval.definitions.library import Definition, Parsed
from narval.engines.registry import import_engines
from narval.errors import (
    DaemonGoneError,
    Fault,
    InternalError,
    NarvalError,
    RequestError,
    StoreError,
)
from narval.memory.elements.control_elements import ACTED
from narval.memory.elements.error_element import read_error
from narval.memory.retention import IdleTracker
from narval.runtime.agent.agent import AgentState
from narval.runtime.agent.damage_report import report_damage
from narval.runtime.agent.declared import declare_library, declare_memory, start_declared
from narval.runtime.agent.jobs import ForgetRun, Job
from narval.runtime.agent.loop import Loop, Request
from narval.runtime.agent.recovery import restore, restore_runs
from narval.runtime.agent.run import Run
from narval.runtime.agent.turn import Turn
from narval.runtime.calls.dispatcher import Dispatcher, LoadedModules
from narval.runtime.calls.executor import Executor
from narval.runtime.calls.output_capture import capture_output
from narval.runtime.calls.process_code.questions import Questions
from narval.runtime.calls.programs.backend import programs_of
from narval.runtime.daemon.inbox import Inbox
from narval.runtime.daemon.reload import Reload
from narval.runtime.daemon.waiters import Waiters, future, settle
from narval.runtime.daemon.watcher import FileWatcher, Seen, differences
from narval.runtime.home.home import Home
from narval.runtime.home.loader import Loaded, Loader
from narval.runtime.home.memory_file import read_memory
from narval.runtime.home.schemas import Schemas
from narval.runtime.home.settings import Settings
from narval.runtime.store.open import open_store
from narval.runtime.store.store import Store
from narval.runtime.system.clock import Clock, SimulatedClock, SystemClock
from narval.runtime.system.log import Logbook
from narval.runtime.system.wall_timer import Alarm, alarm
from narval.runtime.system.zone import machine_zone
from narval.source.text import Source

log = logging.getLogger("narval.daemon")

WORTH_A_THREAD = 0.001
"""Seconds that a commit has to take for the loop to do something else meanwhile: handing it to a thread and
being told of its end takes half of that, and a lone run waits for both.
"""

COMMITS_REMEMBERED = 8
"""About so many of the last commits count for how long one takes."""

BREATH = 0.005
"""Seconds the loop works at most before it looks at sockets and finished calls."""

ROUNDS = 3
"""So many rounds of the event loop it takes for a request to be read, taken up and answered."""

LAST_TURNS = 1.0
"""Seconds for recording what came of the calls that a stop has waited for."""

FAILED_KEPT = 1000
"""So many failed runs are remembered for the summary of a time of work."""


class Summary(NamedTuple):
    """What a time of work came to: the runs that failed in it, and when what will begin again or be woken."""

    idle: bool
    timed_out: bool
    failed: list[Run]
    later: list[tuple[float, tuple[int, str], Job | None]]


class Daemon:
    """A home at work: one agent, its loop, its executor, its store.

    `record_only` opens a home to ask it something: what is asked is recorded, but no call is performed and no
    run is told anything; the next daemon takes that up. `model` is a home whose files are read and never
    written: what is followed is its definitions, what is remembered is not its own.
    """

    def __init__(
        self,
        home: Home | None,
        store: Store,
        settings: Settings,
        loaded: Loaded,
        *,
        clock: Clock,
        record_only: bool,
        model: Home | None = None,
        executor: Executor | None = None,
    ) -> None:
        self.home, self.store, self.settings, self.loaded, self.clock = home, store, settings, loaded, clock
        self.record_only, self.model = record_only, model
        self.since = clock.now()
        self.loader = Loader(home.path if home is not None else None)
        self.hot: FileWatcher | None = None
        self._memory_faults: list[Fault] = []
        self.given: list[str | Path] = []
        """What was loaded besides the files of the home."""
        files = home or model
        self.agent = AgentState(loaded.library)
        self.agent.zone, self.agent.since = settings.timezone or machine_zone(), self.since
        self.executor = executor or Executor(
            settings.limits,
            clock=clock,
            programs=programs_of(files, record_only=record_only, is_known=self.agent.runs.__contains__),
        )
        if executor is None:
            self.agent.is_up_to_date = self.executor.is_up_to_date
        self.executor.notify(lambda call: self._ring())
        self.dispatcher = Dispatcher(
            self.agent,
            self.executor,
            self.post,
            home=files.path if files is not None else None,
            prefix=home.id if home is not None else "memory",
            timeout=settings.call_timeout,
        )
        self.questions = Questions(self.dispatcher.function_of)
        self.agent.asking = partial(self.questions.ask, self.agent)
        log_file = home.log if home is not None else None
        self.logbook = Logbook(log_file, settings.log_level, writes=not record_only)
        self.schemas = Schemas(files.schemas if files is not None else None)
        self.seen = Seen(
            loaded, self.schemas, settings, tuple(sorted({*loaded.faults, *self.schemas.faults()}))
        )
        self.agent.history_entries = settings.history_entries
        if settings.forget_after is not None:
            self.agent.idle = IdleTracker(settings.forget_after)
        restore(self.agent, store)
        self.loop = Loop(
            self.agent,
            store,
            self.schemas,
            clock,
            self.dispatcher.dispatch,
            limit=settings.turn_limit,
            record_only=record_only,
        )
        self._bell = asyncio.Event()
        self._alarm: Alarm | None = None
        self._renewal = Reload(self)
        self._pumping = False
        self._stopping: asyncio.Task[None] | None = None
        self.on_stop: Callable[[], None] = lambda: None
        """Called when the daemon begins to stop."""
        self._latest = 0.0
        self._writer = ThreadPoolExecutor(1, "narval-writer") if settings.durability == "power" else None
        self._sync_takes = 2 * WORTH_A_THREAD
        """Seconds that a commit takes of late."""
        self._commit: asyncio.Future[None] | None = None
        self._failed: deque[Run] = deque(maxlen=FAILED_KEPT)
        self._awaited = Waiters()
        self._ends = ExitStack()

    # --- opening and closing --------------------------------------------------------------------------

    @classmethod
    async def open(
        cls, home: Home | None, *, record_only: bool = False, clock: Clock | None = None
    ) -> Daemon:
        """Take a home, or make one in memory.

        Raises NoHomeError, HomeHeldError, SettingsError, StoreError.
        """
        with ExitStack() as ends:
            if home is not None:
                ends.enter_context(home.lock())
            daemon = cls._assembled(home, clock or SystemClock(), ends, record_only=record_only)
            daemon._ends = ends.pop_all()
        try:
            await daemon._wake_up()
        except BaseException:
            await daemon.close()
            raise
        return daemon

    @classmethod
    def _assembled(cls, home: Home | None, clock: Clock, ends: ExitStack, *, record_only: bool) -> Daemon:
        if home is None:
            return cls(
                None, open_store(None), Settings(), Loader(None).load(), clock=clock, record_only=record_only
            )
        settings = Settings.load(home.path)
        store = ends.enter_context(open_store(settings.store or home.store, settings.durability))
        loader = Loader(home.path, store.stored_files)
        daemon = cls(home, store, settings, loader.load(), clock=clock, record_only=record_only)
        loader.forget_fallback()
        daemon.loader = loader
        return daemon

    async def _wake_up(self) -> None:
        """Bring memory in line with what declares it, then take up what was under way."""
        if self._writer is not None:
            self._ends.callback(self._writer.shutdown)
        self.logbook.attach()
        self._ends.callback(self.logbook.detach)
        if not self.record_only:
            self._ends.callback(capture_output())
        if not self.record_only and not isinstance(self.clock, SimulatedClock):
            self._alarm = alarm(asyncio.get_running_loop(), self._ring)
            self._ends.callback(self._alarm.close)
        restore_runs(self.agent, self.store)
        moved = self.store.meta.get("zone", self.agent.zone) != self.agent.zone
        if not self.record_only and (moved or self.clock.now() < self.agent.latest):
            self.agent.work_dates_out_anew()  # the zone is another, or the clock was set back meanwhile
        self.use(self.loaded)
        declared: list[bytes] | None = []
        if self.home is not None:
            declared, self._memory_faults = read_memory(self.home.memory, self.schemas)
        if not self.record_only:
            self.store.make_room()
            await self.executor.end_former()
            self.dispatcher.resume()
        await self.submit(lambda turn: self.sync_declared(turn, declared, at_start=not self.record_only))
        if not self.record_only:
            self._log_start()

    async def rehearse(self, declared: list[bytes] | None) -> None:
        """Begin to follow the definitions of `model` in memory, for a simulation; `close` ends it.

        `declared` is what `data/memory.xml` would be (N4); None leaves what is declared alone.
        """
        self.logbook.attach()
        self._ends.callback(self.logbook.detach)
        self._ends.callback(capture_output())
        self.use(self.loaded)
        await self.submit(lambda turn: self.sync_declared(turn, declared, at_start=False))

    def _log_start(self) -> None:
        where = self.home.path if self.home is not None else "memory"
        log.info("started on %s, with %d runs under way", where, len(self.agent.active))
        for line in differences(Loaded(), self.loaded):
            log.info("%s", line)
        for fault in self.faults:
            log.info("did not load: %s", fault)

    def sync_declared(self, turn: Turn, declared: list[bytes] | None, *, at_start: bool) -> None:
        """Bring memory in line with the library, its faults, and what `data/memory.xml` declares."""
        acted = frozenset(turn.memory.marks.get(ACTED, ())) if at_start else frozenset()
        if at_start and self.store.meta.get("zone") != self.agent.zone:
            turn.batch.meta.append(("zone", self.agent.zone))
        if at_start:
            for run in list(self.agent.unreadable):
                turn.fail_unreadable(self.agent.runs[run])
            report_damage(turn)
        declare_library(turn, self.agent.library, self.loaded.sources, self.faults)
        if declared is not None:
            declare_memory(turn, declared)
        start_declared(turn, acted)

    def use(self, loaded: Loaded) -> None:
        """From now on these are the definitions; their engines are there before the first run needs one."""
        self.loaded = loaded
        if not self.record_only:
            import_engines(loaded.library)
        self.agent.library = loaded.library
        self.dispatcher.use(loaded.library, LoadedModules(loaded.functions, loaded.sources, loaded.leases))

    async def close(self) -> None:
        """Stop at once what still runs, and let the home go."""
        if not self.record_only:
            log.info("stopped")
        with self._ends:
            if self.hot is not None:
                await self.hot.close()
            self._tell_all(DaemonGoneError("the daemon has ended"))
            if self._stopping is not None:
                self._stopping.cancel()
            await self.executor.close(0.0)
            self.questions.close()

    # --- running --------------------------------------------------------------------------------------

    def post(self, item: Any) -> None:
        """Something for the next turn."""
        self.loop.post(item)
        self._bell.set()

    async def submit(self, work: Callable[[Turn], Any]) -> Any:
        """Do something within a turn; its result once the turn is recorded."""
        answer = future()
        self.post(Request(work, partial(settle, answer)))
        if not self._pumping:
            await self._pump(answer.done)
        return await answer

    def request_stop(self) -> None:
        """Stop in good order: calls under way have `stop_grace` seconds, then recovery has them (N34).

        Sources are let go at once, and nothing more is begun.
        """
        if self._stopping is None:
            self.on_stop()
            self.dispatcher.stop()
            self._latest = time.monotonic() + self.settings.stop_grace + LAST_TURNS
            self._stopping = asyncio.get_running_loop().create_task(
                self.executor.close(self.settings.stop_grace)
            )
            self._stopping.add_done_callback(lambda _: self._ring())

    def idle(self) -> bool:
        """Whether nothing can go on without something from outside (surfaces, `--until-idle`)."""
        if self.loop.has_work() or (self.hot is not None and self.hot.busy):
            return False
        return not self.dispatcher.busy() if self._stopping is None else self._stopping.done()

    async def run(self, *, until_idle: bool = False, timeout: float | None = None) -> Summary:
        """Work until stopped, or idle, or out of time; then say what happened. Raises StoreError."""
        deadline = time.monotonic() + timeout if timeout is not None else None
        self._failed.clear()

        def over() -> bool:
            return self._stopped() or _past(deadline) or (until_idle and self.idle())

        await self._pump(over, deadline=deadline)
        waiting = (each for each in self.agent.timers.waiting() if not isinstance(each[2], ForgetRun))
        later = sorted(waiting, key=lambda each: each[:2])
        idle = self.idle()
        timed_out = _past(deadline) and not self._stopped() and not (until_idle and idle)
        return Summary(idle, timed_out, list(self._failed), later)

    async def until_idle(self) -> None:
        """Work until nothing can go on by itself, or the daemon is stopped."""
        await self._pump(lambda: self._stopped() or self.idle())

    async def elapse(self, seconds: float) -> None:
        """Let simulated time pass: each moment on the way comes in order."""
        clock = self.clock
        if not isinstance(clock, SimulatedClock):
            raise RequestError("expected a home opened with a SimulatedClock, got one on real time")
        target = clock.now() + seconds
        await self.until_idle()
        while (due := self._next_moment()) is not None and due <= target:
            clock.set(max(due, clock.now()))
            await self.until_idle()
        clock.set(target)
        await self.until_idle()

    def _next_moment(self) -> float | None:
        """When something is due: to a run, or to a call that sleeps on this clock."""
        due = (each for each in (self.agent.next_moment(), self.executor.next()) if each is not None)
        return min(due, default=None)

    async def ended(self, run: Run, timeout: float | None = None) -> None:
        """Wait until a run is over, or for so many seconds."""
        if not run.active:
            return
        end = self._awaited.end_of(run.eid)
        if self._pumping:
            await asyncio.wait([end], timeout=timeout)
        else:
            deadline = time.monotonic() + timeout if timeout is not None else None
            await self._pump(lambda: end.done() or self._stopped() or _past(deadline), deadline=deadline)
        if end.done():
            end.result()
        else:
            self._awaited.no_longer(run.eid, end)

    async def turned(self, wait: float) -> float:
        """Wait for the next turn; the seconds that are left of `wait`."""
        began = time.monotonic()
        await self._awaited.turn(wait)
        return max(0.0, wait - (time.monotonic() - began))

    async def recorded(self) -> None:
        """Wait until what memory shows is recorded; raises what came of a commit that failed."""
        if self._commit is not None:
            await asyncio.wait([self._commit])
        if isinstance(self.loop.gone, StoreError):
            raise self.loop.gone

    def stub(self, name: str, function: Callable[..., Any]) -> None:
        """Let a function take the place of an action, for tests and dry runs."""
        if self.agent.library.get("action", name) is None:
            raise RequestError(f"expected the name of an action, got {name!r}, which is not loaded")
        self.dispatcher.stub(name, function)

    async def load(self, what: str | Path) -> None:
        """Add the definitions of a file, or of a text, to the library. Raises DefinitionError."""
        loaded = self.loaded.with_definitions(what)
        self.given.append(what)
        self.use(loaded)
        await self.submit(lambda turn: self.sync_declared(turn, None, at_start=False))

    async def load_parsed(self, source: Source, parsed: Parsed) -> tuple[Definition, ...]:
        """Add what was made of a text to the library; the definitions. Raises DefinitionError."""
        self.use(self.loaded.with_parsed(source, parsed))
        await self.submit(lambda turn: self.sync_declared(turn, None, at_start=False))
        return parsed.definitions

    # --- hot files ------------------------------------------------------------------------------------

    @property
    def faults(self) -> list[Fault]:
        """What is wrong with the files of the home."""
        return sorted({*self.seen.faults, *self._memory_faults})

    def follow_files(self) -> None:
        """From now on what changes in the home takes effect by itself (N31)."""
        if self.home is not None and not self.record_only and self.hot is None:
            inbox = Inbox(
                self.home.path,
                self.store.meta,
                self.submit,
                lambda: self.schemas,
                self._ring,
                durable=self.settings.durability == "power",
            )
            self.hot = FileWatcher(self.home.path, self.reload, self._ring, inbox)

    async def reload(self, counts: Callable[[], bool] = lambda: True) -> bool:
        """Read the home again, and swap in what has changed in one turn; whether anything had.

        `counts` is asked once all is read.
        """
        return await self._renewal.renew(counts)

    # --- inside ---------------------------------------------------------------------------------------

    async def _pump(self, over: Callable[[], bool], *, deadline: float | None = None) -> None:
        """Make turns while there is work; sleep, without polling, while there is none."""
        if self._pumping:
            raise RequestError("the home is at work already; ask it from within its own event loop")
        if self.loop.gone is not None:
            raise self.loop.gone
        self._pumping = True
        breath = time.monotonic()
        try:
            while True:
                self.executor.release()
                if over():
                    break
                if self.loop.has_work():
                    await self._turn()
                    if time.monotonic() - breath < BREATH:
                        continue
                    for _ in range(ROUNDS):
                        await asyncio.sleep(0)
                else:
                    self._bell.clear()
                    await self._sleep(deadline)
                breath = time.monotonic()
        finally:
            self._pumping = False

    async def _turn(self) -> None:
        """One turn; when it breaks down there is none after it, for memory may be ahead of the store."""
        try:
            turn = self.loop.decide()
            await self._record(turn)
            self.loop.perform(turn)
        except StoreError as error:
            self._break_down(error)
            raise
        except Exception as error:
            log.exception("a turn broke down")
            broken = InternalError(f"the daemon broke down: {error!r}; its log says where")
            self._break_down(broken)
            raise broken from error
        except BaseException:
            self._break_down(DaemonGoneError("the daemon was stopped at once"))
            raise
        for run in turn.ended:
            run.state = run.definition = None  # from now on the journal has it
            if run.phase == "failed":
                self._failed.append(run)
                self._log_failure(run)
            self._awaited.over(run.eid)
        self._awaited.turned()
        if turn.quit:
            self.request_stop()

    def _log_failure(self, run: Run) -> None:
        element = self.agent.memory.element(run.error) if run.error is not None else None
        kind, message, _ = read_error(element) if element is not None else ("failed", "", "")
        log.info("run %d of %s failed: %s: %s", run.eid, run.name, kind, message)

    async def _record(self, turn: Turn) -> None:
        """Commit: here, or beside the loop where the disk takes longer than handing it over (`power`)."""
        if self._writer is None:
            self.loop.commit(turn)
        elif self._sync_takes < WORTH_A_THREAD:
            self._timed_commit(turn)
        else:
            self._commit = asyncio.get_running_loop().run_in_executor(self._writer, self._timed_commit, turn)
            try:
                await self._commit
            finally:
                self._commit = None

    def _timed_commit(self, turn: Turn) -> None:
        began = time.perf_counter()
        self.loop.commit(turn)
        if turn.batch:
            self._sync_takes += (time.perf_counter() - began - self._sync_takes) / COMMITS_REMEMBERED

    def _break_down(self, error: NarvalError) -> None:
        """Nothing of the turn is performed, and all who wait are told why."""
        self.dispatcher.stop()
        log.critical("%s", error)
        self._tell_all(error)

    def _tell_all(self, error: NarvalError) -> None:
        self.loop.give_up(error)
        self._awaited.give_up(error)

    async def _sleep(self, deadline: float | None) -> None:
        """Until the bell rings, or the next moment, or the deadline comes."""
        if self._alarm is not None:
            self._alarm.set(self.agent.next_moment())
        timeout = None if deadline is None else max(0.0, deadline - time.monotonic())
        try:
            await asyncio.wait_for(self._bell.wait(), timeout)
        except TimeoutError:
            return

    def _stopped(self) -> bool:
        """Whether calls have had their time, and what came of them is recorded."""
        if self._stopping is None or not self._stopping.done():
            return False
        return not self.loop.has_work() or time.monotonic() >= self._latest

    def _ring(self) -> None:
        self._bell.set()


def _past(deadline: float | None) -> bool:
    return deadline is not None and time.monotonic() >= deadline
