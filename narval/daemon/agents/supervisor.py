"""The supervisor, which carries out the lifecycle of a home's agents besides its own (G5 to G10, G18).

    an event -> lifecycle.advance -> commands, performed one after another; their results are events again

It has the clock, the store and the files. Rows of a large agent are read in a thread, and the event loop runs
between two pieces, so that no other event waits longer than one piece. An agent is not handed out before it
is completely restored. An activation may be given up at any time, because the store has all of it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Container, Generator, Iterable, Iterator, Sized
from functools import partial
from typing import TYPE_CHECKING

from narval.agent.loop import Request
from narval.agent.recovery import PIECE, Read, at_once, restoring
from narval.agent.timers import Deadlines
from narval.agent.turn import Turn
from narval.calls.book import AgentCalls
from narval.core.elements.element import parse
from narval.core.elements.names import ACTED
from narval.core.errors import (
    FencedError,
    InternalError,
    NarvalError,
    NotFetchedError,
    RequestError,
    StoreAwayError,
)
from narval.daemon.agents import lifecycle
from narval.daemon.agents.agent_host import AgentHost, Environment
from narval.daemon.agents.agent_rows import OPEN, ActiveMemory, AgentRows, Matters, OpenMatters, register
from narval.daemon.agents.lifecycle import Life
from narval.daemon.agents.resuming import acted_before, resume, runs_are_back
from narval.daemon.files_in_force import FilesInForce
from narval.daemon.rounds import Alarm, Rounds
from narval.daemon.waiters import future, settle
from narval.store.batch import ACTIVE, PASSIVE, SUSPENDED, AgentRow

if TYPE_CHECKING:  # a store of one daemon has none
    from narval.daemon.fleet.roaming import RoamingAgents

log = logging.getLogger("narval.daemon")

BETWEEN = (lifecycle.RESTORING, lifecycle.PASSIVATING)
"""The phases in which it is undecided whether an agent will be active."""


class Supervisor:
    """The lives of the agents besides `own`: their hosts share an environment, and they follow `files`.

    `roaming` are those that any daemon of the store may have; None if only one daemon may use the store.
    """

    def __init__(
        self,
        own: AgentHost,
        rows: AgentRows,
        environment: Environment,
        files: FilesInForce,
        roaming: RoamingAgents | None,
    ) -> None:
        self._own, self._rows, self._environment, self._files = own, rows, environment, files
        self.roaming = roaming
        self._rounds: Rounds = environment.main_loop.rounds
        self.calls = environment.main_loop.calls
        self._lives: dict[str, Life] = {}
        """The lives that differ from what the agent's row alone implies."""
        self.dropped = 0
        """The activations dropped since the start: the contents of passive agents may differ after each."""
        self._hosts: dict[str, AgentHost] = {}
        """The hosts of agents that are not passive, including those not restored yet."""
        self._matters = OpenMatters()
        self._events: deque[tuple[str, lifecycle.Event, Exception | None]] = deque()
        self._is_busy = False
        self._settling: dict[str, asyncio.Future[None]] = {}
        """Futures that are done when an agent is no longer between passive and active."""
        self._restoring: set[asyncio.Task[None] | None] = set()
        self._is_closed = False
        self._timers: Deadlines[str] = Deadlines()
        """The moments at which agents are checked, with one alarm for the nearest."""
        self._alarm = Alarm(self._ring, self._clock_was_set)
        self._memory = ActiveMemory()

    @property
    def record_only(self) -> bool:
        """True if requests are committed, and nothing else is done."""
        return self._own.loop.record_only

    def host(self, name: str) -> AgentHost | None:
        """The host of an agent; None if it is not active."""
        host = self._hosts.get(name)
        return None if host is None or self._lives[name].phase == lifecycle.RESTORING else host

    @property
    def hosts(self) -> Iterator[AgentHost]:
        """The hosts of the agents that are active."""
        return (host for name in tuple(self._hosts) if (host := self.host(name)) is not None)

    def open_matters(self) -> dict[str, Matters]:
        """The open matters of agents that have any, by name. On a store that daemons share, agents that have
        not been active here are left out.
        """
        left = {name: matters for name, matters in self._matters.left.items() if name in self._rows}
        now = {
            name: self._matters.of(name, host.agent)
            for name in self._hosts
            if (host := self.host(name)) is not None
        }
        return {name: matters for name, matters in {**left, **now}.items() if any(matters)}

    def life(self, name: str) -> Life:
        """The life of an agent."""
        return self._lives.get(name) or self._stored(name)

    def is_restoring(self) -> bool:
        """True while an agent is being restored in pieces."""
        return bool(self._restoring)

    def start(self) -> list[AgentRow]:
        """Start with the daemon; return the rows of the agents to begin: those that were active, must always
        be active, or whose moment has come.
        """
        now, rows = self._now(), self._rows
        active = {row.name for row in rows.in_full() if row.state == ACTIVE}
        active |= {name for name in self._files.always_active if name in rows}
        due = {name for at, name in rows.moments if at <= now}
        while rows.moments:  # popped one by one: there may be very many
            at, name = rows.moments.pop()
            if name not in active and name not in due:
                self._timers.put(name, at)  # like `Started`, with less work for each of many
        self._rounds.call_at(self._timers.next(), self._alarm)
        self._recall_matters()
        return sorted(rows[name] for name in active | due)

    def _recall_matters(self) -> None:
        """Restore what passive agents left open, from the store."""
        if (store := self._environment.store).leases is None:
            for name, recorded in store.facts(OPEN).items():
                if name in self._rows and not self._rows.is_suspended(name):  # it may be suspended since
                    self._matters.restore(name, recorded)

    def begin(self, row: AgentRow, *, in_turn: bool = False) -> bool:
        """Continue an agent that this daemon has from now on, as at a daemon's start.

        With `in_turn` it is not restored before it is needed; return True if its turn will come.
        """
        if self.record_only:
            return False
        was_active = row.state == ACTIVE or row.name in self._files.always_active
        self._tell(row.name, lifecycle.Started(self._now(), was_active, row.wake_at, in_turn))
        life = self.life(row.name)
        return life.is_start and life.phase == lifecycle.PASSIVE

    def begin_all(self, rows: Iterable[AgentRow]) -> None:
        """Continue agents one after another, as `begin` does."""
        for row in rows:
            self.begin(row)

    def need(self, name: str, *, at_once: bool = False) -> None:
        """Make an agent active from the next round on, or at once, if it is allowed to be."""
        if not self.record_only:
            self._tell(name, lifecycle.Needed(self._now(), at_once))

    async def activated(self, name: str) -> AgentHost:
        """The host of an agent, activated if it is not active.

        Raises RequestError if there is no such agent, StoreError if it cannot be restored.
        """
        if self.roaming is not None:
            await self.roaming.fetch_for(name)
        await self.settled(name)
        if name not in self._rows:
            self._rows.find(name)  # raises, naming those there are
        if name not in self._hosts:
            restored = self._settling[name] = future()
            self._tell(name, lifecycle.Asked(self._now()))
            await restored
        if (host := self.host(name)) is None:
            raise RequestError(f"agent {name} is no longer active")
        return host

    async def passivated(self, name: str) -> bool:
        """Make an agent passive if it has nothing to do; True if it is."""
        await self.settled(name)
        if (host := self._hosts.get(name)) is None:
            return True
        request = self._passivation(name, host)
        return await host.submit(request.work, request.settle) is not None

    def passivate(self, name: str) -> None:
        """Make an agent passive in its next turn if it has nothing to do and is not in use."""
        host = self.host(name)
        if host is not None and not host.is_in_use:
            host.post(self._passivation(name, host))

    async def settled(self, name: str) -> None:
        """Wait until an agent is no longer becoming active or passive."""
        while self.life(name).phase in BETWEEN:
            if name not in self._settling:
                self._settling[name] = future()
            await asyncio.wait([self._settling[name]])

    async def suspend(self, row: AgentRow) -> None:
        """Suspend an agent from now on, as its row says, and wait until its calls have ended."""
        self._rows.note(row)  # at once, so that it is not activated while its calls end
        self._tell(row.name, lifecycle.Suspended())
        await self.calls.ended(row.agent)

    async def resume(self, row: AgentRow) -> None:
        """Let a suspended agent continue, as its row says, after its calls have ended."""
        await self.calls.ended(row.agent)
        self._tell(row.name, lifecycle.Resumed())
        self._rows.note(row)

    def lose(self, numbers: Container[int]) -> None:
        """Forget agents that another daemon may have, or that are removed. They are dropped as if killed,
        with their calls.
        """
        for name in [name for name, number in self._rows.numbers() if number in numbers]:
            self._tell(name, lifecycle.Lost())
            self._matters.left.pop(name, None)  # another agent of that name has other matters
            self._rows.forget(name)
            self._lives.pop(name, None)

    async def shown(self, row: AgentRow, why: NarvalError) -> AgentHost:
        """The host of an agent as stored, for reading only: any request to it is refused with `why`. Raises
        StoreError.
        """
        host = self._blank(row._replace(state=SUSPENDED))
        host.give_up(why)
        await asyncio.to_thread(at_once, restoring(host.agent))
        self._files.apply(host)
        return host

    async def close(self) -> None:
        """Stop restoring: agents that are not restored yet are dropped, as if killed."""
        self._is_closed = True
        if self.roaming is not None:
            await self.roaming.close()
        if self._restoring:
            await asyncio.wait([task for task in self._restoring if task is not None])

    # --- events ---------------------------------------------------------------------------------------

    def _now(self) -> float:
        return self._rounds.clock.now()

    def _stored(self, name: str) -> Life:
        """The life of an agent as its row alone implies it."""
        if name not in self._rows:
            return Life(lifecycle.ELSEWHERE)
        return Life(is_suspended=self._rows.is_suspended(name))

    def _tell(self, name: str, event: lifecycle.Event, error: Exception | None = None) -> None:
        """Apply an event and perform its commands, after those of earlier events."""
        self._events.append((name, event, error))
        if self._is_busy:
            return
        self._is_busy = True
        try:
            while self._events:
                self._follow(*self._events.popleft())
        finally:
            self._is_busy = False

    def _follow(self, name: str, event: lifecycle.Event, error: Exception | None) -> None:
        before = self.life(name)
        life, commands = lifecycle.advance(before, event)
        self._lives[name] = life
        for command in commands:
            self._perform(name, command, error)
        if life == self._stored(name):
            self._lives.pop(name, None)
        if before.phase in BETWEEN and life.phase != before.phase and name in self._settling:
            settle(self._settling.pop(name), None, error)

    def _perform(self, name: str, command: lifecycle.Command, error: Exception | None) -> None:
        match command:
            case lifecycle.Restore():
                self._restore(name)
            case lifecycle.Begin():
                self._begin(name, command)
            case lifecycle.Passivate():
                self.passivate(name)
            case lifecycle.Drop():
                self._drop(name, command.why, error)
            case lifecycle.EndCalls():
                self.calls.end(self._rows.number(name) or 0)
            case lifecycle.Wait():
                self._wait(name, command.at)
            case lifecycle.Refuse():
                why = f"agent {name} broke down, and is made again in {command.seconds:.0f} s; see the log"
                settle(self._settling.pop(name), None, RequestError(why))
            case lifecycle.Report():
                log.error("agent %s is made again in %g s: %s", name, command.seconds, error)
            case lifecycle.Suspend():
                why = f"{command.why}: {error}"
                row = self._rows[name]._replace(state=SUSPENDED, why=why, wake_at=None)
                log.critical("agent %s is suspended: %s", name, row.why)
                self._rows.note(row)
                self._own.post(Request(partial(register, row)))

    # --- restoring ------------------------------------------------------------------------------------

    def _restore(self, name: str) -> None:
        """Restore an agent: at once, unless it is too large for one piece, or calls that were given up when
        it was lost are still ending. Until then it would hear nothing of its own calls.
        """
        try:
            row = self._rows[name]  # may read the store, which may be away
            if self.calls.is_ending(row.agent):
                self._restoring.add(asyncio.create_task(self._restore_after_calls(name, row.agent)))
                return
            if self.roaming is not None:
                self.roaming.require(name)
            host = self._hosts[name] = self._blank(row)
            work = restoring(host.agent)
            try:
                rows = next(work)()
                while len(rows) < PIECE:
                    rows = work.send(rows)()
            except StopIteration as done:
                self._is_restored(name, host, done.value)
                return
        except Exception as error:
            self._failed(name, error)
            return
        self._restoring.add(asyncio.create_task(self._restore_in_pieces(name, host, work, rows)))

    async def _restore_after_calls(self, name: str, number: int) -> None:
        try:
            await self.calls.ended(number)
            if self._is_closed:
                self._tell(name, lifecycle.Lost())
            elif name not in self._hosts and self.life(name).phase == lifecycle.RESTORING:
                self._restore(name)
        finally:
            self._restoring.discard(asyncio.current_task())
            self._own.wake()

    async def _restore_in_pieces(
        self, name: str, host: AgentHost, work: Generator[Read, Sized, float], rows: Sized
    ) -> None:
        try:
            try:
                while not self._is_closed and self._hosts.get(name) is host:
                    rows = await asyncio.to_thread(work.send(rows))
            except StopIteration as done:
                if self._hosts.get(name) is host:
                    self._is_restored(name, host, done.value)
        except Exception as error:
            if self._hosts.get(name) is host:
                self._failed(name, error)
        finally:
            work.close()
            if self._is_closed:
                self._tell(name, lifecycle.Lost())
            self._restoring.discard(asyncio.current_task())
            self._own.wake()

    def _is_restored(self, name: str, host: AgentHost, latest: float) -> None:
        runs_are_back(host, latest, self._now())
        self._tell(name, lifecycle.Restored(self._now()))

    def _blank(self, row: AgentRow) -> AgentHost:
        """The host of an agent, before anything is read from the store."""
        counts, is_suspended = self._files.of_other(row.name), row.state == SUSPENDED
        return AgentHost(
            self._environment,
            row,
            counts.loaded.library,
            counts.schemas,
            self._files.settings_of(row.name),
            since=self._own.agent.clockwork.since,
            calls=AgentCalls(self.calls, row.agent) if is_suspended else None,
            chat_outbox=self._own.chat_outbox,
            on_fault=partial(self._broke_down, row.name),
            record_only=is_suspended,
        )

    def _failed(self, name: str, error: Exception, suspected: Iterable[lifecycle.Told] = ()) -> None:
        cause: lifecycle.Cause = "away" if isinstance(error, StoreAwayError) else "fault"
        if isinstance(error, NotFetchedError):
            cause = "not here"
        self._tell(name, lifecycle.Failed(self._now(), cause, tuple(suspected)), error)

    # --- activating -----------------------------------------------------------------------------------

    def _begin(self, name: str, command: lifecycle.Begin) -> None:
        """Let a restored agent take part in rounds."""
        host, files = self._hosts[name], self._files
        row, is_performing = host.mail.identity, not host.loop.record_only
        if command.is_careful:
            host.loop.set_limit(1)
            host.loop.mark_poisonous(command.suspected)
        try:
            files.attach(host)
            again = acted_before(host) if command.is_start else ()
            if is_performing:
                host.dispatcher.resume()
            host.post(Request(partial(self._first_turn, host, row, again), self._opened))
            if is_performing:
                host.mail.mailbox.open()
        except Exception as error:
            self._failed(name, error)
            return
        self._rounds.add(host)
        self._tell(name, lifecycle.Joined(self._now(), host.settings.idle_after))
        self._memory.count(host)
        for other in self._memory.over(files.settings.active_memory, host):
            self.passivate(other.name)

    def _first_turn(self, host: AgentHost, row: AgentRow, again: Container[int], turn: Turn) -> AgentRow:
        """Make the first turn of an activation; its commit records that the agent is active."""
        if row.state == PASSIVE or (row.wake_at is not None and not host.loop.record_only):
            row = row._replace(state=ACTIVE, wake_at=None)
            register(row, turn)
        resume(turn, host, self._files, again)
        return row

    def _opened(self, row: AgentRow | None, error: BaseException | None) -> None:
        if row is not None and error is None and row.name in self._rows:
            self._rows.note(row)

    def _broke_down(self, name: str, host: AgentHost, error: Exception) -> bool:
        """Give up the activation of an agent whose turn broke down, unless that turn released the agent."""
        if not isinstance(error, FencedError):
            log.error("a turn of agent %s broke down", name, exc_info=error)
        if self._hosts.get(name) is host:
            if isinstance(error, FencedError):
                lost = sorted(name for name, number in self._rows.numbers() if number in error.agents)
                log.warning("another daemon has agents now that were here: %s", ", ".join(lost))
                self.lose(error.agents)
            else:
                self._failed(name, error, host.loop.suspected())
        return True

    # --- passivating ----------------------------------------------------------------------------------

    def _passivation(self, name: str, host: AgentHost) -> Request:
        """The request that makes an agent passive in its next turn, if it has nothing to do then; its result
        is the row, or None.
        """

        def work(turn: Turn) -> AgentRow | None:
            if host.is_in_use or self._environment.store.is_volatile or not _is_idle(host, turn):
                return None
            row, calls = self._rows[name], host.dispatcher.calls.records
            if row.state != SUSPENDED:  # the next daemon must make calls again
                state = ACTIVE if calls else PASSIVE
                row = row._replace(state=state, wake_at=host.loop.next_moment())
                register(row, turn)
                self._matters.record(name, host.agent, turn)
            self._tell(name, lifecycle.Quiet())
            return row

        def recorded(row: AgentRow | None, error: BaseException | None) -> None:
            if row is None or error is not None or self._hosts.get(name) is not host:
                return
            self._rows.note(row)
            has_reports = bool(host.dispatcher.calls.reports())
            self._tell(name, lifecycle.Passivated(self._now(), row.wake_at, has_reports))
            host.mail.office.remind(row.agent)

        return Request(work, recorded)

    def _drop(self, name: str, why: str, error: Exception | None) -> None:
        """Drop an activation, as if it had been killed; its calls continue."""
        if (host := self._hosts.pop(name, None)) is None:
            return
        self.dropped += 1
        self._rounds.remove(host)
        self._files.leave(host)
        self._memory.leave(host)
        self._matters.drop(name, host.agent if host.loop.turns else None)
        host.dispatcher.calls.detach(partial(self.need, name))
        what = f"agent {name} {why}"
        if error is not None:
            host.give_up(InternalError(f"{what}: {error!r}; the log says where"))
        else:
            host.give_up(RequestError(what))

    # --- moments --------------------------------------------------------------------------------------

    def _ring(self, now: float) -> None:
        """Check the agents whose moment has come."""
        while (name := self._timers.pop_due(now)) is not None:
            if (host := self.host(name)) is None:
                self._tell(name, lifecycle.Due(now))
                continue
            host.loop.set_limit(None)  # it may have been 1
            self._memory.count(host)
            self._tell(name, lifecycle.Due(now, host.last_used, host.settings.idle_after, host.is_in_use))
        self._rounds.call_at(self._timers.next(), self._alarm)

    def _clock_was_set(self, by: float) -> None:
        for name in [name for name, life in self._lives.items() if life.failures]:
            self._tell(name, lifecycle.ClockSet(self._now(), by))

    def _wait(self, name: str, at: float | None) -> None:
        """Check an agent at a moment; None: never."""
        if not self.record_only:
            self._timers.put(name, at)
            self._rounds.call_at(self._timers.next(), self._alarm)


def _is_idle(host: AgentHost, turn: Turn) -> bool:
    """True if nothing is left to do after this turn until a moment comes."""
    is_last = len(host.loop.intake.waiting) <= 1
    mail = host.mail.waiting or host.mail.mailbox.keeps_active
    held = host.agent.clockwork.held  # only an active agent is told about new grants
    has_work = turn.transaction.outer or host.agent.queue or needs_memory(host) or mail or held
    return is_last and not (has_work or host.settings.always_active or _acts_at_start(host))


def needs_memory(host: AgentHost) -> bool:
    """True while the code of a process works on objects that only memory has (section 8)."""
    is_kept = any(run.transient for run in host.agent.runs.active.values())
    return is_kept or host.dispatcher.calls.need_memory()


def _acts_at_start(host: AgentHost) -> bool:
    """True if something in an agent acts at each start of a daemon: it stays active, to be found then."""
    memory = host.agent.memory
    acted = (memory.element(eid) for eid in memory.marks.get(ACTED, ()) if eid not in memory.outdated)
    return any(element is not None and parse(element.xml).get("at") == "start" for element in acted)
