"""Several daemons on one simulated time: each on its machine, at work while the simulator lets it be.

A machine is let go on until it has nothing to do, or its commit waits for the server; then it is the next
one's turn. So one that is paused does nothing, and a seed is always the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pytest

from narval.ask.asker import PROGRAM
from narval.ask.daemon import agents
from narval.ask.operations import invoke
from narval.core.errors import ElsewhereError, FencedError, NarvalError, StoreAwayError
from narval.daemon import daemon as opening
from narval.daemon import rounds
from narval.daemon.daemon import Daemon
from narval.daemon.fleet import joining
from narval.daemon.main_loop import MainLoop
from narval.store.batch import AgentRow, Batch
from narval.store.postgresql.leases import GIVEN_UP, RENEWAL
from tests.daemon.at_work import Killed
from tests.simulator.machine import Machine, Performing
from tests.simulator.many_agents import ManyAgents, Refusing
from tests.simulator.owners import Owners
from tests.simulator.post import OWN
from tests.simulator.server import Server
from tests.simulator.world import MEMORY, MODULE, MORE

T = TypeVar("T")

MOST_DAEMONS = 4
HOMES = (OWN, "barn", "cellar", "shed")
PATIENCE = 100
"""So many turns of the event loop in which something may go on beside what waits."""

SPINS = 20_000
"""So many turns of the event loop a machine takes at most to come to rest."""


async def directly(work: Callable[..., T], *arguments: Any, **named: Any) -> T:
    """What some work gives; it blocks nobody here."""
    return work(*arguments, **named)


class InStep(NamedTuple):
    """Stands in the place of asyncio where a home joins: it sleeps while simulated time passes."""

    sleep: Callable[[float], Awaitable[None]]
    to_thread: Callable[..., Awaitable[Any]] = directly


class Tables(Refusing):
    """The scene of all machines: it has the one that is asked, and the commits of all."""

    def _note(self, batches: tuple[Batch, ...]) -> None:
        """Those who watch the server note it."""


class Several(ManyAgents):
    """Several daemons over one server."""

    def __init__(self, seed: int, folder: Path, *rest: Any) -> None:
        self.machines: list[Machine] = []
        super().__init__(seed, folder, *rest)
        self.scene = Tables(
            folder, limit=self.world.limit, settings=self.world.settings(), ledger=self.ledger
        )
        self.time = self.disturbed = self.scene.clock.now()
        """The time, and when a daemon ended last, or one began where nobody was at work."""
        self.quiet = 0.0
        """Seconds in which nothing happened, not even to a lease."""
        self._ends: list[tuple[float, str, Callable[[], None]]] = []
        """The moments at which what is wrong is well again."""
        self.all_names = list(self.names)
        self.owners = Owners(self.ledgers)
        for name in HOMES[: self.chance.randint(1, MOST_DAEMONS)]:
            self._build(folder / name, name)
        self.server: Server

    def _build(self, folder: Path, name: str) -> None:
        machine = Machine(folder, name, self.chance, self.time)
        settings = f'name = "{name}"\nturn_limit = {self.world.limit}\n{self.world.settings()}'
        machine.write("etc/narval.toml", settings)
        machine.write("modules/w.py", MODULE + MORE)
        machine.write("data/memory.xml", MEMORY)
        self.machines.append(machine)
        self._write_recipes()

    def _write_recipes(self) -> None:
        super()._write_recipes()
        for machine in self.machines:
            for file in sorted((self.scene.home.path / "recipes").glob("*.xml")):
                machine.write(f"recipes/{file.name}", file.read_text())

    @contextmanager
    def apart(self) -> Any:
        """As ever; and stores of the server, and writers that go on when they are let."""
        with super().apart(), pytest.MonkeyPatch.context() as patch:
            self.server = Server(self.scene.home.path / "server.db", lambda: self.time + self.quiet)
            self.server.watch = self.owners
            patch.setattr(opening, "open_store", lambda *_: self.at.store)
            patch.setattr(rounds, "ThreadPoolExecutor", lambda *_: self.at.writer)
            patch.setattr(asyncio, "to_thread", directly)
            patch.setattr(MainLoop, "work_until", _work_until)
            patch.setattr(agents, "_back_up", lambda *_: None)  # this server's file is no home's store
            patch.setattr(joining, "asyncio", InStep(self._sleep))
            try:
                yield
            finally:
                self.server.close()

    async def _sleep(self, seconds: float) -> None:
        await self.at.sleep(self.time + seconds)

    # --- one machine after the other ------------------------------------------------------------------

    def _turn_to(self, machine: Machine) -> None:
        """Let what happens concern a machine."""
        self.at = machine
        self.scene.clock, self.scene.alive = machine.clock, machine.daemon
        self.executor, self._was_set, self._asked = machine.executor, machine.was_set, machine.asked
        self.names = self._names_at(machine)

    def _turn_back(self) -> None:
        machine = self.at
        machine.daemon, machine.was_set, machine.asked = self.scene.alive, self._was_set, self._asked
        machine.executor = self.executor  # type: ignore[assignment]
        self.owners.check()

    def _names_at(self, machine: Machine) -> list[str]:
        """The agents that a machine has by the server; at random others, too."""
        if machine.daemon is None:
            return []
        owned = [row.name for row in self._rows() if self.server.lease(row.agent).owner == machine.number]
        return [name for name in self.all_names if name in owned and name in machine.daemon.agents.rows]

    def _rows(self) -> list[AgentRow]:
        return list(self.server.tables.agents())

    async def _let(self, machine: Machine, way: Callable[[Daemon], Any]) -> None:
        """Have something happen at a machine, until it is done, or waits for the server."""
        self._turn_to(machine)
        assert machine.task is None
        assert machine.daemon is not None
        machine.task = asyncio.create_task(way(machine.daemon))
        await self._follow(machine)

    async def _follow(self, machine: Machine) -> None:
        """Let what goes on at a machine go on until it is done, or waits: for the server, or for its gate."""
        task, spins = machine.task, iter(range(PATIENCE))
        assert task is not None

        def is_over() -> bool:
            waits = machine.writer.is_waiting or machine.asleep is not None
            is_late = next(spins, None) is None
            if is_late and not (waits or task.done()):
                self._drive(machine)
            return task.done() or waits or (not machine.is_open and is_late)

        await until(is_over)
        self._turn_back()
        if machine.way.is_held:
            machine.way.is_held = False
            self._takes_long(machine)
        if task.done():
            machine.task = None
            await self._survive(machine, task)

    def _drive(self, machine: Machine) -> None:
        """Have a main loop work that has something to do, where whoever had it work has gone."""
        daemon = machine.daemon
        if daemon is None or daemon.main_loop.is_at_work or daemon.rounds.gone is not None:
            return
        if daemon.rounds.is_due():
            machine.drive(daemon.main_loop.until_idle())

    def _takes_long(self, machine: Machine) -> None:
        """A commit of a machine begins to take long."""

    async def _survive(self, machine: Machine, task: asyncio.Task[Any]) -> None:
        """See what became of a task: a daemon that ended by it is closed."""
        try:
            await task
        except Killed:
            self._note(f"{machine.name} is killed")
            self.scene.crashes += 1
            machine.way.is_killed = True
        except NarvalError as error:
            gone = machine.daemon.rounds.gone if machine.daemon is not None else error
            is_over = gone is not None
            is_expected = isinstance(gone, (FencedError, ElsewhereError)) or machine.way.is_killed
            if not is_expected and not isinstance(error, (StoreAwayError, FencedError)):
                raise
            self._note(f"{machine.name}: {type(error).__name__}: {error}")
            if not is_over:
                return
        else:
            return
        await self._ends_at(machine)

    async def _ends_at(self, machine: Machine) -> None:
        """Nobody works there any more; a commit that waits is as one of a daemon that was killed."""
        self._turn_to(machine)
        task, machine.task = machine.task, None
        if task is not None:
            machine.way.is_killed = True
            machine.writer.go_on()
            task.cancel()
            await until(task.done)
            with suppress(Killed, NarvalError, asyncio.CancelledError):
                await task
        if machine.beating is not None:
            machine.beating.cancel()
            machine.beating = None
        machine.let_go()
        await self._end()
        self._turn_back()

    async def _end(self) -> None:
        machine = self.at
        daemon, machine.daemon, self.scene.alive = self.scene.alive, None, None
        if daemon is not None:
            self.disturbed = self.time
            self.turns += daemon.host.loop.turns
            with suppress(Killed):
                await daemon.close()

    async def _settle(self) -> None:
        """Everybody does what there is to do."""
        for machine in self.machines:
            if self._may_go_on(machine):
                self._turn_to(machine)
                machine.wake()
                machine.writer.go_on()
                await self._follow(machine)
            if machine.is_free:
                await self._let(machine, self._work)

    def _may_go_on(self, machine: Machine) -> bool:
        """True if something goes on there that may not have to wait any more."""
        if machine.task is None or machine.is_paused:
            return False
        if machine.asleep is not None:
            return machine.asleep[0] <= self.time
        return not machine.writer.is_waiting or (machine.may_go_on and machine.held_until <= self.time)

    async def _work(self, daemon: Daemon) -> None:
        executor = self.at.executor
        assert executor is not None
        executor.tell_of_lost()
        for call in executor.overdue():
            if call in executor.held:
                executor.expire(call)
        if self.chance.random() < 0.1:
            await self._rest(daemon)
            return
        await daemon.main_loop.until_idle()
        if daemon.main_loop.is_stopped():
            self._note(f"{self.at.name} has stopped")
            await self._end()

    # --- time -----------------------------------------------------------------------------------------

    async def _let_pass(self, seconds: float) -> None:
        """Time passes for all, with a beat of each daemon every half second of its own."""
        end = self.time + seconds
        while True:
            beats = [machine.next_beat for machine in self.machines if machine.daemon is not None]
            ends = [at for at, _, _ in self._ends]
            self._advance(max(self.time, min([end, *beats, *ends])))
            self._mend(self.time)
            for machine in self.machines:
                if machine.daemon is not None and machine.next_beat <= self.time:
                    machine.next_beat = self.time + RENEWAL / machine.clock.rate
                    if not machine.is_paused:
                        await self._beat(machine)
            await self._settle()
            if self.time >= end:
                return

    def _advance(self, moment: float) -> None:
        seconds, self.time = moment - self.time, moment
        for machine in self.machines:
            machine.clock.passes(seconds)
            if machine.daemon is None or machine.executor is None:
                continue
            if machine.clock.monotonic() - machine.way.renewed >= GIVEN_UP:
                machine.executor.lose()

    def _mend(self, moment: float) -> None:
        """What was wrong until a moment is well again."""
        for end in [end for end in self._ends if end[0] <= moment]:
            self._ends.remove(end)
            self._note(f"over: {end[1]}")
            end[2]()

    async def _beat(self, machine: Machine) -> None:
        """One heartbeat of a daemon, unless the one before is not over yet."""
        self._turn_to(machine)
        if machine.beating is None:
            assert machine.daemon is not None
            machine.beating = asyncio.create_task(machine.daemon.fleet.beat())
        task, spins = machine.beating, iter(range(PATIENCE))

        def is_over() -> bool:
            return task.done() or (machine.task is not None and next(spins, None) is None)

        await until(is_over)
        self._turn_back()
        if task.done():
            machine.beating = None
            await self._survive(machine, task)

    # --- daemons --------------------------------------------------------------------------------------

    async def _start(self, machine: Machine) -> None:
        """Have a daemon work at a machine, unless the server thinks that one does."""
        self._turn_to(machine)
        self.starts += 1
        self._was_set = False
        machine.clock.jump()
        machine.next_beat = self.time + RENEWAL
        machine.connect(self.server)
        machine.task = asyncio.create_task(self._opened(machine))
        self._note(f"{machine.name} starts")
        await self._follow(machine)
        await self._settle()

    async def _opened(self, machine: Machine) -> None:
        daemon = self.scene.alive = await Daemon.open(machine.home, clock=machine.clock)
        self._check_faults(daemon)
        if not any(each.daemon is not None for each in self.machines):
            self.disturbed = self.time
        there = {row.name for row in self._rows()}
        for name in self.all_names:
            if name not in there:
                await invoke(daemon, PROGRAM, "add_agent", {"name": name})

    def _new_executor(self, *_: Any, **__: Any) -> Performing:
        machine = self.at

        def check(call: str) -> None:
            id = call.partition(".")[0]
            agent = next(row.agent for row in self._rows() if row.id == id)
            daemon = machine.store.leases.daemon
            known = self.server.daemons.get(daemon)
            self.owners.performs(agent, daemon, is_over=known is None or known.until < self.server.now())
            others = [each.name for each in self.machines if each is not machine and _runs(each, call)]
            self.owners.say(not others, f"call {call} is made at {machine.name}, and runs at {others}")

        made = Performing(self.chance, machine.clock, self.ledger, check)
        self.executor = machine.executor = made
        return made


def _runs(machine: Machine, call: str) -> bool:
    return machine.executor is not None and machine.daemon is not None and machine.executor.is_under_way(call)


_one_at_a_time = MainLoop.work_until


async def _work_until(main_loop: MainLoop, is_over: Callable[[], bool], **given: Any) -> None:
    """Stands in the place of `work_until`, for the main loop of a daemon is always at work, and here whoever
    wants something of it has it work: one after the other.
    """
    while main_loop.is_at_work:
        if is_over():
            return
        await asyncio.sleep(0)
    await _one_at_a_time(main_loop, is_over, **given)


async def until(is_over: Callable[[], bool]) -> None:
    """Let the event loop turn until something is so."""
    for spins in range(SPINS):
        if is_over():
            return
        await asyncio.sleep(0.0 if spins < 2_000 else 0.001)
    raise AssertionError("it does not come to rest")
