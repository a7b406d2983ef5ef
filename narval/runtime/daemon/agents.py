"""Agents: which a home has, and which of them are at work (G5 to G9, G18).

    add -> active -> passive -> active -> … -> removed
              |         |          |
              +---------+----------+-> suspended -> active

The home's own agent is always at work. Any other is activated by an operation on it and by a moment that has
come, and is made passive when it has had no turn for a while; then it is a row of the store, and its next
moment stands there. An activation may be given up at any time, as if killed: the store has all of it. What is
active when a daemon is killed is found active; its next start activates that, and whom a moment waits for.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Container
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from narval.errors import InternalError, NarvalError, RequestError
from narval.memory.elements.control_elements import ACTED
from narval.memory.elements.element import parse
from narval.runtime.agent.loop import Request
from narval.runtime.agent.timers import TimerQueue
from narval.runtime.agent.turn import Turn
from narval.runtime.daemon.activation import acted_before, bring_back_runs, go_on
from narval.runtime.daemon.agent_host import AgentHost
from narval.runtime.daemon.agent_rows import AgentRows, register
from narval.runtime.daemon.faults import Faults
from narval.runtime.daemon.host_maker import HostMaker
from narval.runtime.daemon.reload import FilesInForce
from narval.runtime.daemon.rounds import Alarm, Participant, Rounds
from narval.runtime.daemon.waiters import future, settle
from narval.runtime.store.batch import ACTIVE, PASSIVE, SUSPENDED, AgentRow

log = logging.getLogger("narval.daemon")


class Agents:
    """The agents of a home besides its own: their rows, and the hosts of those at work.

    `maker` makes hosts, `files` has the definitions that all follow.
    """

    def __init__(self, rows: AgentRows, rounds: Rounds, maker: HostMaker, files: FilesInForce) -> None:
        self.rows = rows
        self._rounds, self._maker, self._files = rounds, maker, files
        self._at_work: dict[str, AgentHost] = {}
        self._moments: TimerQueue[str, None] = TimerQueue()
        """When a passive agent is to be activated, or one at work has been idle for long enough."""
        self._alarm = Alarm(self._come)
        self._faults = Faults()
        self._laying_down: dict[str, asyncio.Future[None]] = {}
        self._ending: dict[str, AgentHost] = {}
        """The last activations that were given up, whose calls may still be under way."""
        rounds.drop_by(self._dropped)

    def at_work(self, name: str) -> AgentHost | None:
        """The host of an agent; None of one that is not at work."""
        return self._at_work.get(name)

    def knows_run(self, name: str, run: int) -> bool:
        """True unless it is certain that an agent has no such run."""
        if name == self.rows.own.dispatcher.name:
            return run in self.rows.own.agent.runs
        host = self._at_work.get(name)
        return name in self.rows if host is None else run in host.agent.runs

    def start(self) -> None:
        """A daemon starts: activate who was active, and who waits for a moment that has come."""
        now = self._rounds.clock.now()
        for row in self.rows.all():
            if row.state == ACTIVE or (
                row.state == PASSIVE and row.wake_at is not None and row.wake_at <= now
            ):
                self._try_to_activate(row.name, is_start=True)
            elif row.state == PASSIVE and row.wake_at is not None:
                self._wait(row.name, row.wake_at)

    # --- asking one -----------------------------------------------------------------------------------

    @asynccontextmanager
    async def asked(self, name: str) -> AsyncIterator[AgentHost]:
        """The host of an agent, activated if it is not at work; it stays so meanwhile.

        Raises RequestError where there is none, StoreError where it cannot be restored.
        """
        while name in self._laying_down:
            await asyncio.wait([self._laying_down[name]])
        row = self.rows.find(name)
        host = self._at_work.get(name)
        if host is None:
            if (rest := self._faults.rest(name, self._rounds.clock.now())) is not None:
                raise RequestError(
                    f"agent {name} broke down, and is made anew in {rest:.0f} s; its log says why"
                )
            await self._ended(name)
            host = self._at_work.get(name) or self._activate(row)
        with host.in_use():
            if not host.loop.turns:
                await host.submit(lambda turn: None)
            yield host

    # --- changing their states ------------------------------------------------------------------------

    async def suspend(self, name: str, why: str) -> AgentRow:
        """Let an agent do nothing until it is resumed: it records what it is asked. Raises RequestError."""
        await self._stopped(name)
        return await self.rows.put(self.rows.find(name)._replace(state=SUSPENDED, why=why, wake_at=None))

    async def resume(self, name: str) -> AgentRow:
        """Let a suspended agent go on. Raises RequestError."""
        row = self.rows.find(name)
        if row.state != SUSPENDED:
            raise RequestError(f"expected an agent that is suspended, got {name}, which is {row.state}")
        await self._stopped(name)
        self._faults.forget(name)
        row = await self.rows.put(row._replace(state=ACTIVE, why=""))
        if not self._maker.record_only:
            self._try_to_activate(name)
        return row

    async def passivate(self, name: str) -> AgentRow:
        """Make an agent passive that has nothing to do. Raises RequestError where it has."""
        host = self._at_work.get(self.rows.find(name).name)
        if host is None:
            return self.rows.find(name)
        done = future()
        self._lay_down(name, host, done)
        await self.rows.own.submit(lambda turn: None)  # where nobody is at work, this one does both turns
        if not await done:
            raise RequestError(f"{name} has something to do: calls under way, or events to be told")
        return self.rows.find(name)

    async def remove(self, name: str, *, now: bool = False) -> None:
        """Remove an agent with all that it has; one with active runs only if it is to go `now`.

        Raises RequestError.
        """
        row = self.rows.find(name)
        active = [run for run in self._maker.store.of(row.agent).runs() if run.phase == "active"]
        if active and not now:
            raise RequestError(
                f"{name} has {len(active)} runs under way; cancel them, or have it go at once (--now)"
            )
        await self._stopped(name)
        self._faults.forget(name)
        await self.rows.remove(row)

    # --- inside: at work ------------------------------------------------------------------------------

    def _try_to_activate(self, name: str, *, is_start: bool = False) -> None:
        """Activate an agent; where that fails it is tried again, as if it had broken down."""
        if name in self._at_work or name not in self.rows:
            return
        try:
            self._activate(self.rows[name], is_start=is_start)
        except Exception as error:
            self._broke_down(name, error)

    def _activate(self, row: AgentRow, *, is_start: bool = False) -> AgentHost:
        """Have an agent go on as its store says it is."""
        files, name = self._files, row.name
        host = self._maker.make(
            row.agent,
            name,
            files.loaded.library,
            files.schemas,
            since=self.rows.own.agent.clockwork.since,
            record_only=row.state == SUSPENDED,
        )
        bring_back_runs(host, self._rounds.clock.now())
        runs = host.agent.runs.active.values()
        files.keep(run.definition for run in runs if run.definition is not None)
        files.follow(host)
        again = acted_before(host) if is_start and not host.loop.record_only else ()
        if not host.loop.record_only:
            host.dispatcher.resume()
        host.post(Request(partial(self._begin, host, row, again), self._begun))
        self._at_work[name] = host
        self._rounds.add(host)
        self._wait(name, self._rounds.clock.now() + files.settings.idle_after)
        return host

    def _begin(self, host: AgentHost, row: AgentRow, again: Container[int], turn: Turn) -> AgentRow:
        """Make the first turn of an activation; from its commit on the row says that the agent is active."""
        if row.state == PASSIVE:
            row = row._replace(state=ACTIVE, wake_at=None)
            register(row, turn)
        go_on(turn, host, self._files, None, again)
        return row

    def _begun(self, row: AgentRow | None, error: BaseException | None) -> None:
        if row is not None and error is None and row.name in self.rows:
            self.rows.note(row)

    async def _stopped(self, name: str) -> None:
        """Give up the activation of an agent, if there is one, and wait until its calls are over."""
        while name in self._laying_down:
            await asyncio.wait([self._laying_down[name]])
        host = self._at_work.get(self.rows.find(name).name)
        if host is not None:
            self._give_up(name, host, RequestError(f"agent {name} is at work no more"))
            await self._ended(name)

    async def _ended(self, name: str) -> None:
        """Wait until no call of an activation that was given up is under way."""
        while (host := self._ending.get(name)) is not None and host.dispatcher.has_calls():
            await asyncio.sleep(0.01)
        self._ending.pop(name, None)

    def _give_up(self, name: str, host: AgentHost, error: NarvalError) -> None:
        """Drop an activation, as if it had been killed."""
        del self._at_work[name]
        self._wait(name, None)
        self._rounds.remove(host)
        self._files.leave(host)
        host.give_up(error)
        host.dispatcher.abandon_all()
        if host.dispatcher.has_calls():
            self._ending[name] = host

    # --- inside: coming to rest -----------------------------------------------------------------------

    def _come(self, now: float) -> None:
        """Activate those whose moment has come, and make passive those that were idle for long enough."""
        while (due := self._moments.pop_due(now)) is not None:
            name = due[1]
            host = self._at_work.get(name)
            if host is None and name in self._ending and self._ending[name].dispatcher.has_calls():
                self._moments.push(now + 1.0, name, None)
            elif host is None:
                self._try_to_activate(name)
            elif host.last_turn + self._files.settings.idle_after > now:
                self._moments.push(host.last_turn + self._files.settings.idle_after, name, None)
            else:
                self._moments.push(now + self._files.settings.idle_after, name, None)
                self._lay_down(name, host)
        self._rounds.call_at(self._moments.next(), self._alarm)

    def _wait(self, name: str, at: float | None) -> None:
        """Look after an agent at a moment; None: no more."""
        if self._maker.record_only:
            return
        if at is None:
            self._moments.discard(name)
        else:
            self._moments.push(at, name, None)
        self._rounds.call_at(self._moments.next(), self._alarm)

    def _lay_down(self, name: str, host: AgentHost, done: asyncio.Future[bool] | None = None) -> None:
        """Make an agent passive in its next turn, if it has nothing to do then; `done` is told if it is."""
        if host.is_in_use:
            settle(done, False) if done is not None else None
            return

        def work(turn: Turn) -> AgentRow | None:
            if host.is_in_use or not _is_at_rest(host, turn):
                return None
            self._laying_down[name] = future()
            row = self.rows[name]
            if row.state != SUSPENDED:
                row = row._replace(state=PASSIVE, wake_at=host.loop.next_moment())
                register(row, turn)
            return row

        def recorded(row: AgentRow | None, error: BaseException | None) -> None:
            waiting = self._laying_down.pop(name, None)
            if waiting is not None:
                settle(waiting)
            if row is not None and error is None:
                self.rows.note(row)
                self._give_up(name, host, RequestError(f"agent {name} has become passive"))
                if row.wake_at is not None:
                    self._wait(name, row.wake_at)
            if done is not None:
                settle(done, row is not None, error)

        host.post(Request(work, recorded))

    # --- inside: faults -------------------------------------------------------------------------------

    def _dropped(self, participant: Participant, error: Exception) -> bool:
        """Give up the activation of an agent whose turn broke down; False for the home's own."""
        name = next((name for name, host in self._at_work.items() if host is participant), None)
        if name is None:
            return False
        log.exception("a turn of agent %s broke down", name)
        host = self._at_work[name]
        self._give_up(name, host, InternalError(f"agent {name} broke down: {error!r}; the log says where"))
        self._broke_down(name, error)
        return True

    def _broke_down(self, name: str, error: Exception) -> None:
        """Have an agent made anew after a while, or suspend it where that was tried often enough (G18)."""
        now = self._rounds.clock.now()
        rest = self._faults.note(name, now)
        if rest is not None:
            log.error("agent %s is made anew in %g s: %s", name, rest, error)
            self._wait(name, now + rest)
            return
        why = f"{self._faults.often}: {error}"
        log.critical("agent %s is suspended: %s", name, why)
        row = self.rows[name]._replace(state=SUSPENDED, why=why, wake_at=None)
        self.rows.note(row)
        self.rows.own.post(Request(partial(register, row), _ignore))


def _is_at_rest(host: AgentHost, turn: Turn) -> bool:
    """True if nothing is left to do after what is done in this turn already, until a moment comes."""
    is_last = len(host.loop.intake.waiting) <= 1
    has_work = turn.transaction.outer or host.agent.queue or host.dispatcher.has_calls()
    return is_last and not has_work and not _acts_at_start(host)


def _acts_at_start(host: AgentHost) -> bool:
    """True if something in an agent acts at each start of a daemon: it stays active, to be found then."""
    memory = host.agent.memory
    acted = (memory.element(eid) for eid in memory.marks.get(ACTED, ()) if eid not in memory.outdated)
    return any(element is not None and parse(element.xml).get("at") == "start" for element in acted)


def _ignore(value: Any, error: Any) -> None:
    """Do nothing: nobody waits for this answer."""
