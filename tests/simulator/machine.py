"""One machine of several: a home, a clock of its own, a way to the server that has its troubles, a daemon."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from narval.calls.record import LOST, CallRecord
from narval.daemon.daemon import Daemon
from narval.files.home import Home
from narval.system.clock import SimulatedClock
from tests.daemon.at_work import Killed
from tests.simulator.interleave import Interleaving
from tests.simulator.invariants import Ledger
from tests.simulator.server import Server
from tests.simulator.shared_store import BACK, OUT, Link, SharedStore, away

T = TypeVar("T")

APART = 0.01
"""A clock goes wrong by this part of the time at most."""

HELD_OUT, HELD_BACK = "held before", "held after"
"""When a statement takes long: before it is done, or before its answer comes."""

KILLED_OUT, KILLED_BACK = "killed before", "killed after"
"""When a daemon is killed at a commit: before it is recorded, or after."""


class MachineClock(SimulatedClock):
    """The clock on the wall of a machine, which runs a little slow or fast, and one that nobody can set."""

    def __init__(self, start: float, rate: float) -> None:
        super().__init__(start)
        self.rate, self._passed = rate, 0.0

    def passes(self, seconds: float, *, unseen: bool = False) -> None:
        """So much time passes; `unseen` by the clock that leases are reckoned by."""
        self.advance(seconds * self.rate)
        if not unseen:
            self._passed += seconds * self.rate

    def monotonic(self) -> float:
        """Seconds that have passed on this machine."""
        return self._passed


class Way(Link):
    """A link whose troubles are planned."""

    def __init__(self, server: Server, clock: MachineClock, chance: Random) -> None:
        super().__init__(server)
        self._clock, self._chance = clock, chance
        self.planned: list[str] = []
        """What is to go wrong with the next commits."""
        self.is_killed = self.is_deaf = self.loses_answers = False
        self.is_held = False
        """True once a commit began to take long, until that is noticed."""
        self.renewed = clock.monotonic()
        """The moment at which the last renewal was sent that was answered, by the clock nobody can set."""

    @property
    def is_troubled(self) -> bool:
        """True if the next commit may wait."""
        return bool(self.planned or self.is_away or self.is_killed or self.loses_answers)

    def hears(self) -> bool:
        """True if a notice gets through: one in four is lost, all while its daemon is paused."""
        return super().hears() and not self.is_killed and not self.is_deaf and self._chance.random() < 0.75

    def ask(self, statement: Callable[..., T], *given: Any) -> T:
        """What the server answers, if nothing goes wrong with it."""
        if self.is_killed:
            raise Killed
        what = self.planned.pop(0) if self.planned and statement == self.server.record else ""
        if what == KILLED_OUT:
            self.is_killed = True
            raise Killed
        if what == HELD_OUT:
            self._hold()
        if what in (OUT, BACK) or self.loses_answers:
            self.cuts = iter([BACK if self.loses_answers else what])
        sent = self._clock.monotonic()
        answer = super().ask(statement, *given)
        if statement == self.server.renew:
            self.renewed = sent
        if what == HELD_BACK:
            self._hold()
        if what == KILLED_BACK:
            self.is_killed = True
            raise Killed
        return answer

    def _hold(self) -> None:
        self.is_held = True
        self.wait()


class Writer:
    """Stands in the place of the writer's thread: it is let go on while the simulator waits for it, and at no
    other time, so that a seed is always the same.
    """

    def __init__(self, way: Way) -> None:
        self._way = way
        self._thread: threading.Thread | None = None
        self._asked, self._answered = threading.Semaphore(0), threading.Semaphore(0)
        self.is_waiting = False
        """True while a commit waits for the server."""
        way.wait = self.wait

    def submit(self, work: Callable[..., T], *given: Any) -> Future[T]:
        """Do some work, until it is done or waits."""
        future: Future[T] = Future()
        if not self._way.is_troubled:
            _do(future, work, given)
            return future

        def run() -> None:
            _do(future, work, given)
            self._answered.release()

        self._thread = threading.Thread(target=run, daemon=True)
        self._thread.start()
        self._answered.acquire()
        return future

    def wait(self) -> None:
        """Wait until the simulator lets the work go on. Raises StoreAwayError where nobody may wait."""
        if threading.current_thread() is not self._thread:
            raise away()
        self.is_waiting = True
        self._answered.release()
        self._asked.acquire()
        self.is_waiting = False
        if self._way.is_killed:
            raise Killed

    def go_on(self) -> None:
        """Let the work go on that waits."""
        if self.is_waiting:
            self._asked.release()
            self._answered.acquire()

    def shutdown(self) -> None:
        """End what still waits, as if killed."""
        if self.is_waiting:
            self._way.is_killed = True
            self.go_on()


def _do(future: Future[T], work: Callable[..., T], given: tuple[Any, ...]) -> None:
    try:
        future.set_result(work(*given))
    except BaseException as error:
        future.set_exception(error)


class Performing(Interleaving):
    """An executor of one of several daemons; `check` is told each call that is begun."""

    def __init__(self, chance: Random, clock: Any, ledger: Ledger, check: Callable[[str], None]) -> None:
        super().__init__(chance, clock, ledger)
        self._check = check
        self._lost: list[str] = []

    def start(self, record: CallRecord) -> None:
        """Hold a call."""
        self._check(record.call.id)
        super().start(record)

    def is_under_way(self, call: str) -> bool:
        """True if the code of a call runs."""
        return call in self.held and self.held[call].state == "running" and call not in self._lost

    def lose(self) -> None:
        """The reaper ends workers and programs: the calls in them are over, though nobody is told yet."""
        self._lost = list(self.held)

    def tell_of_lost(self) -> None:
        """The daemon hears of the calls whose workers were ended."""
        lost, self._lost = self._lost, []
        for call in lost:
            if call in self.held:
                self._end(call, LOST)


class Machine:
    """A machine with one home, and the daemon that works there, if one does."""

    def __init__(self, folder: Path, name: str, chance: Random, start: float) -> None:
        self.name, self.home, self.chance = name, Home(folder), chance
        self.clock = MachineClock(start, 1.0 + chance.uniform(-APART, APART))
        self.daemon: Daemon | None = None
        self.store: SharedStore
        self.way: Way
        self.writer: Writer
        self.executor: Performing | None = None
        self.task: asyncio.Task[Any] | None = None
        """What is going on at it, while that waits for the server."""
        self.beating: asyncio.Task[Any] | None = None
        self.asleep: tuple[float, asyncio.Future[None]] | None = None
        """Until when it does nothing before its daemon begins."""
        self.planned: list[str] = []
        """What is to go wrong with the first commits of its next daemon."""
        self._driving: asyncio.Task[None] | None = None
        self.next_beat = 0.0
        self.is_paused = self.was_set = False
        self.asked = ""
        """The agent of which something is asked there."""
        self.held_until = 0.0
        """The moment before which a commit that is held does not go on."""
        for part in ("etc", "recipes", "modules", "data"):
            (folder / part).mkdir(parents=True, exist_ok=True)

    def write(self, path: str, text: str) -> None:
        """A file of the home."""
        file = self.home.path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def connect(self, server: Server) -> SharedStore:
        """The store of its next daemon."""
        self.store = SharedStore(server)
        self.store.link = self.way = Way(server, self.clock, self.chance)
        self.way.planned, self.planned = self.planned, []
        self.writer = Writer(self.way)
        return self.store

    @property
    def number(self) -> int:
        """The number of its daemon, 0 if none is a member."""
        return self.store.leases.daemon if self.daemon is not None else 0

    @property
    def is_free(self) -> bool:
        """True if its daemon can be asked something."""
        return self.daemon is not None and not self.is_paused and self.task is None

    @property
    def is_open(self) -> bool:
        """True if its daemon is sure that what it has is its own."""
        fleet = self.daemon.fleet if self.daemon is not None else None
        return fleet is None or fleet.members.gate.is_open()

    async def sleep(self, until: float) -> None:
        """Do nothing until a moment."""
        self.asleep = until, asyncio.get_running_loop().create_future()
        await self.asleep[1]

    def drive(self, work: Coroutine[Any, Any, None]) -> None:
        """Have something done that nobody waits for: who waits is told in another way if it fails."""
        self._driving = asyncio.get_running_loop().create_task(work)
        self._driving.add_done_callback(lambda done: done.cancelled() or done.exception())

    def let_go(self) -> None:
        """Do nothing any more that nobody waits for."""
        if self._driving is not None:
            self._driving.cancel()
            self._driving = None

    def wake(self) -> None:
        """Let what sleeps go on."""
        if self.asleep is not None:
            self.asleep[1].set_result(None)
            self.asleep = None

    @property
    def may_go_on(self) -> bool:
        """True if a commit that waits would be answered."""
        return not (self.is_paused or self.way.is_away or self.way.loses_answers)

    @property
    def is_well(self) -> bool:
        """True if nothing is wrong with it."""
        return self.is_free and self.may_go_on and self.beating is None
