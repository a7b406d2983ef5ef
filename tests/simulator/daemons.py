"""One seed is several daemons: 1 to 4, with 3 to 30 agents, over one server, on one simulated time (G96).

Each is a real one, with its loop, rounds, members and leases, on a machine whose clock is its own. They are
killed, paused, cut off, drained and started again; commits are cut, held and lose their answers. What must
hold of each agent holds whichever daemon has it, and `owners.py` says what must hold of that.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

from narval.agent.agent import AgentState
from narval.ask.daemon.requests import end_well
from narval.core.errors import StoreAwayError
from narval.daemon.agents.lifecycle import backoff
from narval.daemon.daemon import Daemon
from narval.store.batch import ACTIVE, SUSPENDED, AgentRow
from narval.store.postgresql.leases import RENEWAL
from tests.simulator.machine import HELD_BACK, HELD_OUT, KILLED_BACK, KILLED_OUT, Machine
from tests.simulator.several import Several
from tests.simulator.shared_store import BACK, OUT
from tests.simulator.simulation import ROUNDS, Report

TAKEN_OVER = 5.0
"""Seconds after the last fault by which every agent that has work is at work (G50)."""

TROUBLES = (0.3, 1.0, 1.9, 2.6, 3.3, 6.0, 8.0)
"""Seconds for which something is wrong."""


class Daemons(Several):
    """Several daemons: each thing that happens concerns one of them, or the server, or the time."""

    happenings = (20, 80)
    option = "--daemons "

    # --- what happens ---------------------------------------------------------------------------------

    async def live(self) -> Report:
        """Things happen, one after the other; then all is well, and comes to rest."""
        logging.getLogger("narval").setLevel(logging.CRITICAL + 1)
        for machine in self.machines:
            if machine is self.machines[0] or self.chance.random() < 0.7:
                await self._start(machine)
        for _ in range(self.chance.randint(*self.happenings)):
            await self._happen()
        await self._all_is_well()
        for _ in range(ROUNDS):
            if not await self._all_come_to_rest():
                break
        await self._all_at_rest()
        for machine in self.machines:
            await self._ends_at(machine)
        return Report(
            self.seed,
            self.scene.commits,
            self.scene.crashes,
            self.starts,
            self.turns,
            self.calls + self.ledger.calls(),
            self.comparisons,
            self.ledger.messages(),
            zlib.crc32(repr(self.ledger.contents()).encode()),
        )

    async def _happen(self) -> None:
        free = [machine for machine in self.machines if machine.is_free]
        if not free or self.chance.random() < 0.35:
            await self._happen_to_all()
            return
        machine = self.chance.choice(free)
        self._turn_to(machine)
        self._note(f"at {machine.name}:")
        await self._let(machine, self._happening())
        await self._settle()

    async def _happen_to_all(self) -> None:
        ways = self._troubles()
        [way] = self.chance.choices(list(ways), list(ways.values()))
        await way()

    def _troubles(self) -> dict[Callable[[], Any], int]:
        """What may happen to all, and how often beside the others."""
        return {
            self._some_time: 10,
            self._start_one: 3,
            self._kill_one: 1,
            self._doom_one: 2,
            self._pause_one: 2,
            self._cut_one_off: 2,
            self._lose_answers: 1,
            self._be_away: 1,
            self._cut_commits: 3,
            self._hold_commits: 4,
            self._drain_one: 1,
            self._move_one: 4,
        }

    def _ways(self) -> dict[Callable[[Daemon], Any], int]:
        ways = super()._ways()
        for way in (self._elapse, self._vanish, self._edit, self._ask_without_a_daemon):
            del ways[way]
        return ways

    def _happening(self) -> Callable[[Daemon], Any]:
        ways = self._ways()
        [way] = self.chance.choices(list(ways), list(ways.values()))
        names = self.names if self.chance.random() < 0.95 else self.all_names
        if way in (self._passivate, self._suspend, self._remove, self._poison) and not self.names:
            return self._rest
        if way in (self._jump, self._stop, self._passivate, self._suspend, self._resume, self._remove):
            return way
        if way == self._poison:
            return way
        return partial(self._of_one, way, self.chance.choice([*names, *names, ""]))

    async def _some_time(self) -> None:
        seconds = self.chance.choice((0.2, 0.5, 1.0, 1.0, 2.0, 4.0))
        self._note(f"{seconds:g} s pass")
        await self._let_pass(seconds)
        self._quiet_time(self.chance.choice((0.0, 0.0, 1.0, 7.0, 30.0, 400.0)))
        await self._settle()

    def _quiet_time(self, seconds: float) -> None:
        """Time passes in which nothing happens, not even to a lease."""
        if seconds and all(machine.daemon is None or machine.is_well for machine in self.machines):
            self._note(f"{seconds:g} s pass, and all is quiet")
            self.quiet += seconds
            self.server.prolong(seconds)
            for machine in self.machines:
                machine.clock.passes(seconds, unseen=True)

    def _one(self, are: Callable[[Machine], bool]) -> Machine | None:
        found = [machine for machine in self.machines if are(machine)]
        return self.chance.choice(found) if found else None

    def _at_work_machine(self) -> Machine | None:
        return self._one(lambda machine: machine.daemon is not None and not machine.is_paused)

    def _for_a_while(self, what: str, end: Callable[[], None], seconds: float = 0.0) -> None:
        seconds = seconds or self.chance.choice(TROUBLES)
        self._note(f"for {seconds:g} s {what}")
        self._ends.append((self.time + seconds, what, end))

    async def _start_one(self) -> None:
        machine = self._one(lambda machine: machine.daemon is None and machine.task is None)
        if machine is not None:
            if self.chance.random() < 0.3:
                what = self.chance.choice((KILLED_OUT, KILLED_BACK, OUT, BACK))
                machine.planned = [""] * self.chance.randint(0, 5) + [what]
            await self._start(machine)

    async def _kill_one(self) -> None:
        machine = self._at_work_machine()
        if machine is not None:
            await self._kill(machine)

    async def _kill(self, machine: Machine) -> None:
        self._note(f"{machine.name} is killed at once")
        self.scene.crashes += 1
        machine.way.is_killed = True
        await self._ends_at(machine)

    async def _doom_one(self) -> None:
        self._plan(self.chance.choice((KILLED_OUT, KILLED_BACK)), "it is to be killed")

    async def _cut_commits(self) -> None:
        self._plan(self.chance.choice((OUT, BACK)), "its connection is to be cut")

    async def _hold_commits(self) -> None:
        self._plan(self.chance.choice((HELD_OUT, HELD_BACK)), "its commit is to take long")

    def _takes_long(self, machine: Machine) -> None:
        """For others it takes long alone; or all of the machine is stopped, as by SIGSTOP."""
        seconds = self.chance.choice(TROUBLES)
        self._note(f"{machine.name}: its commit takes {seconds:g} s")
        machine.held_until = self.time + seconds
        if self.chance.random() < 0.6:
            self._pause(machine, seconds)

    def _plan(self, what: str, said: str) -> None:
        machine = self._at_work_machine()
        if machine is not None:
            others = [""] * min(20, int(self.chance.expovariate(0.5)))
            self._note(f"{machine.name}: {said}, {what}, after {len(others)} commits")
            machine.way.planned += [*others, what]

    async def _pause_one(self) -> None:
        machine = self._at_work_machine()
        if machine is not None:
            self._pause(machine, self.chance.choice(TROUBLES))

    def _pause(self, machine: Machine, seconds: float) -> None:
        if machine.daemon is None or machine.is_paused or seconds <= 0:
            return
        machine.is_paused = machine.way.is_deaf = True

        def end() -> None:
            machine.is_paused = machine.way.is_deaf = False

        self._for_a_while(f"{machine.name} is paused", end, seconds)

    async def _cut_one_off(self) -> None:
        if (machine := self._at_work_machine()) is not None:
            self._cut_off([machine], f"{machine.name} is cut off")

    async def _be_away(self) -> None:
        self._cut_off([each for each in self.machines if each.daemon is not None], "the server is away")

    def _cut_off(self, machines: list[Machine], what: str) -> None:
        ways = [machine.way for machine in machines]

        def end() -> None:
            for way in ways:
                way.is_away = False

        for way in ways:
            way.is_away = True
        self._for_a_while(what, end)

    async def _lose_answers(self) -> None:
        if (machine := self._at_work_machine()) is not None:
            way = machine.way

            def end() -> None:
                way.loses_answers = False

            way.loses_answers = True
            self._for_a_while(f"{machine.name} gets no answers", end)

    async def _drain_one(self) -> None:
        machine = self._one(lambda machine: machine.is_free)
        if machine is not None:
            self._note(f"{machine.name} is drained")
            await self._let(machine, self._drain)

    async def _drain(self, daemon: Daemon) -> None:
        end_well(daemon, drain=True)

    async def _move_one(self) -> None:
        """Somebody has an agent go on at another daemon, whatever becomes of either meanwhile."""
        machine = self._one(lambda machine: machine.is_free)
        others = [one for one in self.machines if one.daemon is not None and one is not machine]
        if machine is None or machine.daemon is None or machine.daemon.fleet is None or not others:
            return
        leases, rows = machine.daemon.store.leases, machine.daemon.agents.rows
        names = [name for name, number in rows.numbers() if leases and number not in leases.pinned()]
        if not names:
            return
        name, to, grace = (
            self.chance.choice(names),
            self.chance.choice(others),
            self.chance.choice((0, 1, 10)),
        )
        self._note(f"{machine.name}: {name} is moved to {to.name} within {grace} s")
        machine.daemon.fleet.members.departures.begin(name, to.number, grace)

    async def _pass(self, daemon: Daemon, seconds: float) -> None:
        """Time passes for all alike."""

    def _recorded(self, agent: AgentState) -> None:
        with suppress(StoreAwayError):
            super()._recorded(agent)

    # --- what must hold -------------------------------------------------------------------------------

    def _at_work(self, daemon: Daemon) -> Iterator[Daemon]:
        """The daemon as each agent sees it that acts now, and is its own for certain."""
        machine = self.at
        if machine.is_open and machine.may_go_on and machine.number in self.server.daemons:
            for seen in super()._at_work(daemon):
                if self.server.lease(seen.agent.store.agent).owner == machine.number:
                    yield seen

    async def _all_is_well(self) -> None:
        """From now on nothing goes wrong: who has work is at work in time."""
        self._note("from now on all goes well")
        self._mend(float("inf"))
        self._fragile.clear()
        self.scene.refused.clear()
        for machine in self.machines:
            machine.held_until = 0.0
            machine.planned.clear()
            if machine.daemon is not None or machine.task is not None:
                machine.way.planned.clear()
        for machine in self.machines:
            self._set_right(machine)
        self.disturbed = self.time
        while self.time < self.disturbed + TAKEN_OVER or self._begins():
            await self._let_pass(RENEWAL)
        self._check_taken_over()
        for machine in self.machines:
            if machine.daemon is None and machine.task is None:
                await self._start(machine)
        await self._let_pass(TAKEN_OVER)
        away = [machine.name for machine in self.machines if not machine.is_well]
        assert not away, f"not at work: {away}"

    def _begins(self) -> bool:
        """True if nobody is at work, but one waits for the end of a former daemon."""
        there = [machine.daemon is not None for machine in self.machines]
        return not any(there) and any(machine.task is not None for machine in self.machines)

    def _set_right(self, machine: Machine) -> None:
        """Set the clock of a machine that is far from that of the server: it takes no agents until then."""
        by = self.server.now() - machine.clock.now()
        if abs(by) > 1.0:
            machine.clock.step(by)
            machine.was_set = True

    def _check_taken_over(self) -> None:
        """Every agent that has work is at work, but those of homes where nobody works."""
        for row in self._rows():
            lease, machine = self.server.lease(row.agent), self._owner_of(row)
            if machine is None:
                homes = [each.name for each in self.machines if each.daemon is not None]
                is_to_be = bool(homes) if not lease.home else lease.home in homes
                assert not (is_to_be and self._has_work(row)), f"nobody has {row.name}: {lease}"
                continue
            if self.server.now() - self.server.given_at.get(row.agent, 0.0) < 2 * RENEWAL:
                continue  # the next renewal tells of it
            assert row.agent in machine.store.leases.held(), f"{machine.name} has {row.name} unknowingly"
            self._turn_to(machine)
            self._check_has_no_work(machine, row)

    def _has_work(self, row: AgentRow) -> bool:
        """True if the store has something for an agent to do."""
        tables, now = self.server.tables, self.server.now()
        is_due = row.wake_at is not None and row.wake_at < now
        waits = tables.of(row.agent).queue() or tables.letters.messages(row.agent)
        return row.state != SUSPENDED and bool(row.state == ACTIVE or is_due or waits)

    def _check_has_no_work(self, machine: Machine, row: AgentRow) -> None:
        daemon = machine.daemon
        assert daemon is not None
        supervisor = daemon.agents.supervisor
        if row.agent == daemon.store.own or row.state == SUSPENDED:
            return
        host, now = supervisor.host(row.name), machine.clock.now()
        if host is not None:
            assert not host.loop.has_work(), f"{row.name} has work at {machine.name}"
        elif backoff(supervisor.life(row.name), now) is None:
            self._check_nothing_left(daemon, row, now)

    def _owner_of(self, row: AgentRow) -> Machine | None:
        owner = self.server.lease(row.agent).owner
        return next((each for each in self.machines if owner and each.number == owner), None)

    async def _all_come_to_rest(self) -> bool:
        """Each call comes back well, each moment comes; whether there was anything left to do."""
        busy = False
        await self._let_pass(1.0)
        for machine in self.machines:
            await self._let(machine, self._come_to_rest)
            busy |= bool(machine.executor and machine.executor.held)
        await self._let_pass(1.0)
        due = [self._due_in(machine) for machine in self.machines]
        waits = [seconds for seconds in due if seconds is not None]
        if waits:
            self._quiet_time(max(0.0, min(waits)) + 0.1)
            await self._settle()
        return busy or bool(waits)

    def _due_in(self, machine: Machine) -> float | None:
        """The seconds until something is due by itself at a machine."""
        assert machine.daemon is not None
        at = machine.daemon.rounds.next_moment()
        return None if at is None else (at - machine.clock.now()) / machine.clock.rate

    async def _all_at_rest(self) -> None:
        waiting = self.ledgers.letters.left({row.id for row in self._rows()})
        await self._let_pass(TAKEN_OVER)
        left = self.ledgers.letters.left({row.id for row in self._rows()})
        assert waiting.isdisjoint(left), f"not taken: {waiting & left}"
        for machine in self.machines:
            await self._let(machine, self._at_rest)

    async def _at_rest(self, daemon: Daemon) -> None:
        await self._rest(daemon)
        now = self.at.clock.now()
        for row in self._rows():
            assert row.state != SUSPENDED
            if row.name in self.names and daemon.agents.supervisor.host(row.name) is None:
                self._check_nothing_left(daemon, row, now)
        for name in ("", *self.names):
            if name:
                async with daemon.of(name) as seen:
                    await self._at_rest_of(seen)
            else:
                await self._at_rest_of(daemon)


class Stopped(Daemons):
    """Several daemons, that are stopped in the middle of commits again and again, and go on."""

    def _troubles(self) -> dict[Callable[[], Any], int]:
        return {self._some_time: 6, self._start_one: 3, self._hold_commits: 6}
