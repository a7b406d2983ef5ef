"""One seed is one run: a home, what happens to it, and what must hold all the while."""

from __future__ import annotations

import asyncio
import logging
import tempfile
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from narval.agent.agent import AgentState
from narval.agent.loop import Delivery, Request
from narval.agent.turn import Turn
from narval.ask.asker import PROGRAM
from narval.ask.operations import invoke
from narval.core.engines.events import Cancelled
from narval.core.errors import DaemonGoneError, RequestError
from narval.daemon.daemon import Daemon
from narval.surfaces.control import wire
from tests.simulator import invariants
from tests.simulator.crash import Crashing, Killed, taken_apart
from tests.simulator.interleave import Interleaving
from tests.simulator.invariants import Ledger
from tests.simulator.world import MEMORY, MODULE, MORE, World

HAPPENINGS = (12, 40)
"""So many things happen in a run, at least and at most, before it is let come to rest."""
OFTEN = 0.06
"""How many of the turns are followed by a comparison of the daemon with what its store would bring back."""
ROUNDS = 12
"""So many rounds of answers and moments it takes at most to come to rest; what restarts never does."""


class Report(NamedTuple):
    """What one seed came to."""

    seed: int
    commits: int
    crashes: int
    starts: int
    turns: int
    calls: int
    comparisons: int
    messages: int
    digest: int


class BrokenError(AssertionError):
    """An invariant does not hold; the message has the seed and the story that led there."""


def run(
    seed: int,
    kind: type[Simulation] | None = None,
    *,
    often: float = OFTEN,
    tell: Callable[[str], None] | None = None,
) -> Report:
    """Simulate one seed, in the plain way if no kind of simulation is given. Raises BrokenError."""
    with tempfile.TemporaryDirectory() as folder:
        return (kind or Simulation)(seed, Path(folder), often, tell).run()


class Simulation:
    """A home under one seed."""

    happenings = HAPPENINGS
    lengths: tuple[float, ...] = (1.0, 7.0, 30.0, 400.0)
    """Seconds that may pass at once."""
    option = ""
    """What makes `python -m tests.simulator` do the same."""

    def __init__(self, seed: int, folder: Path, often: float, tell: Callable[[str], None] | None) -> None:
        self.seed, self.often, self._tell = seed, often, tell
        self.chance = Random(seed)
        self.world = self._new_world(Random(seed + 1))
        self.ledger = Ledger()
        self.scene = Crashing(
            folder, limit=self.world.limit, settings=self.world.settings(), ledger=self.ledger
        )
        self.executor: Interleaving | None = None
        self.happened: list[str] = []
        self._asked = ""
        """The agent that operations are asked of."""
        self._was_set = False
        """Lengths of time were moved along with the clock, for the daemon that is at work alone (N25)."""
        self.comparisons = self.starts = self.turns = self.calls = 0
        self._looking = Random(seed + 2)
        self.scene.write("modules/w.py", MODULE + MORE)
        self.scene.write("data/memory.xml", MEMORY)
        self._write_recipes()

    def run(self) -> Report:
        """From the first start to the end. Raises BrokenError."""
        try:
            with self.apart():
                return asyncio.run(self.live())
        except Exception as error:
            raise BrokenError(self.story(error)) from error

    def apart(self) -> Any:
        """The daemon's parts, as a simulation needs them."""
        return taken_apart(self.scene, Random(self.seed + 3), self._new_executor, self._recorded)

    def story(self, error: BaseException) -> str:
        """What is needed to see it again."""
        recipes = (self.scene.home.path / "recipes/w.xml").read_text()
        last = "\n".join(self.happened[-40:])
        return (
            f"seed {self.seed}: {type(error).__name__}: {error}\n"
            f"again: python -m tests.simulator {self.seed} {self.option}--verbose\n{recipes}\n{last}"
        )

    # --- what happens ---------------------------------------------------------------------------------

    async def live(self) -> Report:
        """Things happen, one after the other; then all comes to rest."""
        logging.getLogger("narval").setLevel(logging.CRITICAL + 1)
        for _ in range(self.chance.randint(*self.happenings)):
            await self._surviving(self._happening())
        self._note("from now on all goes well")
        for _ in range(ROUNDS):
            if not await self._surviving(self._come_to_rest, calm=True):
                break
        await self._surviving(self._at_rest, calm=True)
        await self._end()
        await self._surviving(self._at_rest, calm=True)
        digest = zlib.crc32(repr(self.ledger.contents()).encode())
        await self._end()
        return Report(
            self.seed,
            self.scene.commits,
            self.scene.crashes,
            self.starts,
            self.turns,
            self.calls + self.ledger.calls(),
            self.comparisons,
            self.ledger.messages(),
            digest,
        )

    def _happening(self) -> Callable[[Daemon], Any]:
        """What happens next."""
        ways = self._ways()
        return self.chance.choices(list(ways), list(ways.values()))[0]

    def _ways(self) -> dict[Callable[[Daemon], Any], int]:
        """What may happen, and how often beside the others."""
        return {
            self._arrive: 5,
            self._answer: 8,
            self._a_few_turns: 3,
            self._rest: 2,
            self._elapse: 3,
            self._jump: 1,
            self._cancel: 1,
            self._signal: 1,
            self._retry: 1,
            self._look: 1,
            self._stop: 1,
            self._vanish: 1,
            self._edit: 1,
            self._ask_without_a_daemon: 1,
        }

    async def _arrive(self, daemon: Daemon) -> None:
        given = [
            self._as_asked(daemon, self.world.arrival()) for _ in range(self.chance.choice((1, 1, 2, 4)))
        ]
        self._note("arrive: " + " ".join(each.decode() for each in given))
        for xml in given:
            daemon.host.post(Request(partial(_add, xml), partial(_told, self._ledger_of(daemon))))
        if self.chance.random() < 0.3:
            name = self._as_asked(daemon, self.chance.choice((b"w.outer", b"w.inner", b"w.leaf"))).decode()
            self._note(f"start {name}")
            daemon.host.post(Request(partial(_start, name), partial(_told, self._ledger_of(daemon))))
        if self.chance.random() < 0.5:
            await self._rest(daemon)

    async def _answer(self, daemon: Daemon) -> None:
        held = self._held()
        chosen = self.chance.sample(held, min(len(held), self.chance.choice((1, 1, 2, 8))))
        self._note(f"answer {len(chosen)} of {len(held)} calls: {', '.join(chosen)}")
        assert self.executor is not None
        for call in chosen:
            if call in self.executor.held:
                self.executor.answer(call)
        await asyncio.sleep(0)
        if self.chance.random() < 0.5:
            await self._a_few_turns(daemon)

    async def _a_few_turns(self, daemon: Daemon) -> None:
        until, main_loop = daemon.host.loop.turns + self.chance.choice((1, 1, 2, 5)), daemon.main_loop
        await main_loop.work_until(
            lambda: daemon.host.loop.turns >= until or main_loop.is_idle() or main_loop.is_stopped()
        )

    async def _rest(self, daemon: Daemon) -> None:
        await daemon.main_loop.until_idle()
        if daemon.main_loop.is_stopped():
            self._note("stopped, for somebody said quit")
            await self._end()
            return
        self._check_rest(daemon)

    def _check_rest(self, daemon: Daemon) -> None:
        """What must hold of the agent that is asked, when nothing can go on by itself."""
        if not daemon.host.loop.has_work():
            invariants.check_waiting(daemon, self._held())
            invariants.check_memory(self._ledger_of(daemon), daemon.agent)
            invariants.check_errors(daemon.agent)

    async def _elapse(self, daemon: Daemon) -> None:
        due = daemon.agent.clockwork.next_moment()
        seconds = self.chance.choice(self.lengths)
        if due is not None and self.chance.random() < 0.5:
            seconds = max(0.0, due - self.scene.clock.now())
        await self._pass(daemon, seconds)

    async def _pass(self, daemon: Daemon, seconds: float) -> None:
        """Time passes; calls whose time is over are given up."""
        assert self.executor is not None
        self._note(f"{seconds:g} s pass")
        self.scene.clock.advance(seconds)
        for call in self.executor.overdue():
            if call in self.executor.held:
                self.executor.expire(call)
        await self._rest(daemon)

    async def _jump(self, daemon: Daemon) -> None:
        if self.chance.random() < 0.3:
            self._note("the machine sleeps for a night")
            self.scene.clock.sleep(30_000.0)
            return
        seconds = self.chance.choice((86400.0, -86400.0, 3600.0, -3600.0, -0.5))
        self._note(f"the clock is set by {seconds:g} s")
        self.scene.clock.step(seconds)
        self._was_set = True

    async def _cancel(self, daemon: Daemon) -> None:
        active = sorted(daemon.agent.runs.active)
        if active:
            run = self.chance.choice(active)
            self._note(f"cancel {run}")
            daemon.host.post(Delivery(run, Cancelled(0, 0.0, "for no reason")))

    async def _signal(self, daemon: Daemon) -> None:
        active = sorted(daemon.agent.runs.active)
        if active:
            run, name = self.chance.choice(active), self.chance.choice(("go", "go", "halt"))
            await self._ask(daemon, "signal", run=run, name=name, elements=[b"<gift/>"])

    async def _retry(self, daemon: Daemon) -> None:
        over = sorted(eid for eid, run in daemon.agent.runs.items() if not run.active)
        if over:
            step = self.chance.choice((None, None, "s0", "s1"))
            await self._ask(daemon, "retry", run=self.chance.choice(over), step=step)

    async def _look(self, daemon: Daemon) -> None:
        runs = sorted(daemon.agent.runs)
        if runs:
            name = self.chance.choice(("show", "why", "history", "xml", "graph"))
            await self._ask(daemon, name, run=self.chance.choice(runs))
        await self._ask(daemon, "status")

    async def _ask(self, daemon: Daemon, operation: str, /, **arguments: Any) -> Any:
        """The answer to an operation, as a surface asks it; None where it is refused."""
        self._note(f"{operation} {arguments}")
        try:
            answer = await invoke(daemon, PROGRAM.asking(self._asked), operation, arguments)
            assert list(wire.answer(1, answer))
            return answer
        except RequestError as error:
            self._note(f"refused: {error}")
        except DaemonGoneError:
            assert self.scene.alive is None or self.scene.alive.rounds.gone is not None
        return None

    async def _stop(self, daemon: Daemon) -> None:
        if self.chance.random() < 0.3:
            self._note("quit")
            daemon.host.post(Request(partial(_add, b"<quit/>"), partial(_told, self._ledger_of(daemon))))
            await self._rest(daemon)
            return
        self._note("stop")
        daemon.stop.request()
        await daemon.main_loop.run()
        await self._end()

    async def _vanish(self, daemon: Daemon) -> None:
        """The daemon is killed between two turns."""
        self._note("killed between two turns")
        self.scene.kill(daemon)
        self.scene.crashes += 1
        await self._end()

    async def _edit(self, daemon: Daemon) -> None:
        self._note("the recipes are edited")
        self._write_recipes()
        await self._end()

    async def _ask_without_a_daemon(self, daemon: Daemon) -> None:
        await self._end()
        self._note("asked without a daemon")
        self.scene.kill_at = self._doom(True)
        quiet = await self.scene.open(record_only=True)
        for _ in range(self.chance.choice((1, 3))):
            told = partial(_told, self._ledger_of(quiet))
            quiet.host.post(Request(partial(_add, self.world.arrival()), told))
        await quiet.main_loop.until_idle()
        await self._end()

    async def _come_to_rest(self, daemon: Daemon) -> bool:
        """Each call comes back well, each moment comes; whether there was anything left to do."""
        assert self.executor is not None
        self.executor.rough = False
        await daemon.main_loop.until_idle()
        busy = bool(self.executor.held)
        for call in list(self.executor.held):
            if call in self.executor.held:
                self.executor.answer(call)
        await daemon.main_loop.until_idle()
        due = self._next_moment(daemon)
        if due is not None:
            await self._pass(daemon, max(0.0, due - self.scene.clock.now()))
        return busy or due is not None

    def _next_moment(self, daemon: Daemon) -> float | None:
        return daemon.agent.clockwork.next_moment()

    async def _at_rest(self, daemon: Daemon) -> None:
        await self._rest(daemon)
        self._compare(daemon.agent)

    def _compare(self, agent: AgentState) -> None:
        """What the store would bring back of an agent is what there is."""
        invariants.check_recovered(agent, moments=not self._was_set)
        invariants.check_replayed(agent)

    # --- daemons, one after the other -----------------------------------------------------------------

    async def _surviving(self, happening: Callable[[Daemon], Any], *, calm: bool = False) -> Any:
        """Do something with the daemon; one that is killed meanwhile is followed by another."""
        while True:
            try:
                daemon = self.scene.alive or await self._open(calm)
                if calm:
                    self._spare()
                return await happening(daemon)
            except Killed:
                self._note(f"killed at commit {self.scene.commits}")
                await self._end()
                if happening != self._come_to_rest and happening != self._at_rest:
                    return None

    def _doom(self, calm: bool) -> tuple[int, bool] | None:
        """At which commit the next daemon is to be killed, and whether that is written."""
        if calm or self.chance.random() >= 0.6:
            return None
        after = min(60, int(self.chance.expovariate(0.12)) + 1)
        return self.scene.commits + after, self.chance.random() < 0.5

    def _spare(self) -> None:
        """From now on all goes well."""
        self.scene.kill_at = None

    async def _open(self, calm: bool) -> Daemon:
        self.scene.kill_at = self._doom(calm)
        self.starts += 1
        self._was_set = False
        self.scene.clock.jump()  # what happened to the clock while nobody was there
        self._note(f"start {self.starts}; to be killed at {self.scene.kill_at}")
        daemon = await self.scene.open()
        self._check_faults(daemon)
        invariants.check_memory(self._ledger_of(daemon), daemon.agent)
        return daemon

    def _check_faults(self, daemon: Daemon) -> None:
        faults = [str(fault) for fault in daemon.files.faults]
        assert not faults, faults

    async def _end(self) -> None:
        """Whoever works there ends."""
        if self.scene.alive is not None:
            self.turns += self.scene.alive.host.loop.turns
        self.scene.kill_at = None
        await self.scene.end()

    def _recorded(self, agent: AgentState) -> None:
        """A turn is recorded: now and then, see what a restart would bring back."""
        if self.scene.alive is not None and self._looking.random() < self.often:
            self.comparisons += 1
            invariants.check_recovered(agent, over=False, moments=not self._was_set)

    # --- parts ----------------------------------------------------------------------------------------

    def _new_executor(self, *_: Any, **__: Any) -> Interleaving:
        self.executor = Interleaving(self.chance, self.scene.clock, self.ledger)
        return self.executor

    def _as_asked(self, daemon: Daemon, text: bytes) -> bytes:
        """A text with the names of the definitions that the agent follows who is asked."""
        return text

    def _ledger_of(self, daemon: Daemon) -> Ledger:
        """What is recorded of the agent that is asked."""
        return self.ledger

    def _new_world(self, chance: Random) -> World:
        return World(chance)

    def _held(self) -> list[str]:
        return list(self.executor.held) if self.executor is not None else []

    def _write_recipes(self) -> None:
        self.scene.write("recipes/w.xml", self.world.cookbook())

    def _note(self, text: str) -> None:
        line = f"{self.scene.clock.now():>12.1f} {text}"
        self.happened.append(line)
        if self._tell is not None:
            self._tell(line)


def _add(xml: bytes, turn: Turn) -> tuple[int, ...]:
    return (turn.add(xml),)


def _start(name: str, turn: Turn) -> tuple[int, ...]:
    run = turn.start(name)
    return (run.eid,) if run is not None else ()


def _told(ledger: Ledger, eids: Any, error: BaseException | None) -> None:
    if error is None:
        ledger.confirm(eids)


__all__ = ["BrokenError", "Report", "Simulation", "run"]
