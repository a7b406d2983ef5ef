"""A daemon's fleet work beside its rounds, if others use the same store: heartbeats, mail, draining.

    a notice, a heartbeat -> waiting messages read in a thread -> delivered, or their receiver woken

A message announced by both is delivered once, because messages of a pair are numbered (G30, G31). Heartbeats
find all messages even without notices, which only make it faster.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import Any

from narval.core.errors import NarvalError, StoreAwayError, StoreError
from narval.daemon.agents.agents import Agents
from narval.daemon.fleet.holding import LeaseGate, TakingOver
from narval.daemon.fleet.joining import RenewerClient
from narval.daemon.fleet.members import Members
from narval.daemon.fleet.roaming import Repeated
from narval.daemon.main_loop import MainLoop
from narval.daemon.messages.envelope import sender_of
from narval.daemon.messages.post_office import PostOffice
from narval.store.batch import STORE, SUSPENDED, AgentRow, MessageRow
from narval.store.letters import WaitingRow
from narval.store.postgresql.leases import Beat, DaemonNotices, Leases
from narval.store.store import Store

log = logging.getLogger("narval.messages")


class Fleet:
    """The membership of a daemon, and the messages from other daemons.

    After its start it sends heartbeats by itself, except on a simulated clock, whose owner calls `beat`.
    Until then, and between heartbeats, `renewer` renews; it began when the daemon joined.
    """

    def __init__(
        self,
        leases: Leases,
        store: Store,
        gate: LeaseGate,
        agents: Agents,
        taking_over: TakingOver,
        main_loop: MainLoop,
        renewer: RenewerClient | None,
    ) -> None:
        self._leases, self._agents = leases, agents
        self._main_loop, self.taking_over = main_loop, taking_over
        hold_until = main_loop.calls.executor.programs.reaper.hold_until
        self.members = Members(leases, agents, main_loop, gate, taking_over, hold_until)
        self.mail = FleetMail(store, agents, asyncio.to_thread, main_loop.wake)
        self._task: asyncio.Task[None] | None = None
        self._folders: Repeated | None = None
        self._is_started = asyncio.Event()
        self.renewer = renewer
        if renewer is not None:
            renewer.tell_of_renewals(self.members.kept)
        self._drained_by = 0.0
        """The time at which agents not yet drained are given back unchanged."""
        self._out_of_time: asyncio.TimerHandle | None = None

    async def begin(self) -> None:
        """Open the gate, before anything is decided. Raises FencedError, StoreError."""
        await self.members.begin()
        if not self._main_loop.rounds.clock.is_simulated:
            self._task = asyncio.get_running_loop().create_task(self._beat(), name="narval-beats")

    def start(self, have_folders: Callable[[], Awaitable[None]], *, listens: bool = False) -> None:
        """Send heartbeats from now on, and receive messages of others, with `listens` at once; a daemon that
        only records receives none. Agents that any daemon may have follow what heartbeats report as
        published. Each heartbeat calls `have_folders` while other daemons have agents with a folder here, if
        this one takes agents.
        """
        self._folders = Repeated(have_folders, "agents with a folder here cannot be had")
        self.members.on_beat.append(lambda beat: self._try_folders())
        if (roaming := self._agents.supervisor.roaming) is not None:
            self.members.on_beat.append(lambda beat: roaming.hear(beat.published))
        if self._agents.takes == "all":
            if listens:
                self.mail.listen()
            self.members.on_beat.append(self.mail.beat)
            self._main_loop.expect(self.mail.is_busy)
        self._is_started.set()

    def _try_folders(self) -> None:
        if self._agents.elsewhere and self._folders is not None and not self.members.takes_none:
            self._folders.begin()

    async def _beat(self) -> None:
        """Send heartbeats after the daemon has started."""
        await self._is_started.wait()
        await self.members.run()

    async def beat(self) -> None:
        """Send one heartbeat. Raises FencedError if everything is lost."""
        await self.members.beat()

    def drain(self) -> None:
        """Give all agents away as they come to rest, and stop. Those left after `stop_grace` are given back
        unchanged (G56). That happens even without a heartbeat, because the store may be away.
        """
        if not self.members.is_draining:
            grace = self._main_loop.stop.grace
            self.members.drain()
            self._drained_by = self.members.gate.monotonic() + grace
            self.members.on_beat.append(lambda beat: self._drain_on())
            self._out_of_time = asyncio.get_running_loop().call_later(grace, self._stop_within, 0.0)
            self._drain_on()

    def _drain_on(self) -> None:
        left = self._drained_by - self.members.gate.monotonic()
        if not (self._passivate() and left > 0):
            self._stop_within(max(0.0, left))

    def _stop_within(self, seconds: float) -> None:
        if not self._main_loop.stop.requested:
            self._main_loop.stop.set_grace(seconds)
            self._main_loop.stop.request()

    def _passivate(self) -> int:
        """Make all agents passive that have nothing to do; return the number of agents that are not given
        yet, and may be elsewhere.
        """
        for name in self._agents.rows.names():
            self._agents.supervisor.passivate(name)
        pinned = self._leases.pinned()
        return sum(number not in pinned for _, number in self._agents.rows.numbers())

    async def close(self) -> None:
        """Stop the heartbeats; the agents are given back when the daemon leaves the store."""
        if self._out_of_time is not None:
            self._out_of_time.cancel()
        if self.renewer is not None:
            self.renewer.close()
        self.members.departures.close()
        if self._folders is not None:
            await self._folders.close()
        await self.mail.close()
        await self.taking_over.close()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])


InThread = Callable[[Callable[[], Any]], Awaitable[Any]]


class FleetMail:
    """Brings in messages for the agents of this daemon; `wake` is called when that is done."""

    def __init__(self, store: Store, agents: Agents, in_thread: InThread, wake: Callable[[], None]) -> None:
        self._store, self._agents = store, agents
        self._in_thread, self._wake = in_thread, wake
        self._told: set[int] = set()
        """The agents for which messages are reported to wait; `STORE`: for agents that are gone."""
        self._resting: set[int] = set()
        """The agents that do not take their waiting messages because they are suspended."""
        self._shape: frozenset[tuple[int, int]] = frozenset()
        """The daemons of the store, and the number of agents of each."""
        self._notices: DaemonNotices | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_closed = False

    @property
    def _office(self) -> PostOffice:
        return self._agents.own.mail.office

    def listen(self) -> None:
        """Notify other daemons of messages recorded for their agents, and receive their notices, at once."""
        loop, elsewhere = asyncio.get_running_loop(), self._office.elsewhere
        if elsewhere is None:
            return

        def heard(agents: frozenset[int]) -> None:
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(self._look, agents)

        self._notices = self._store.listen(heard)
        if self._notices is not None:
            elsewhere.tell_by(self._notices.tell)

    def is_busy(self) -> bool:
        """True while messages are being read."""
        return self._task is not None

    def beat(self, beat: Beat) -> None:
        """Read the messages that a heartbeat announces; check for room elsewhere if calls wait for it."""
        shape = frozenset((row.daemon, row.agents) for row in beat.daemons)
        if shape != self._shape:
            self._shape = shape
            if self._office.elsewhere is not None:
                self._office.elsewhere.forget_all()
        self._resting &= beat.mail
        room = self._office.room
        if room or room.is_wanted or beat.mail:
            self._look({STORE, *(beat.mail - self._resting)})

    async def close(self) -> None:
        """Stop listening and reading."""
        self._is_closed = True
        if self._notices is not None:
            await self._in_thread(self._notices.close)
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def _look(self, agents: Iterable[int]) -> None:
        self._told.update(agents)
        if self._task is None and not self._is_closed:
            self._task = asyncio.get_running_loop().create_task(self._bring_in(), name="narval-mail")

    async def _bring_in(self) -> None:
        try:
            while True:
                agents, self._told = self._told, set()
                await self._bring(agents - {STORE})
                if STORE in agents:
                    await self._bury(await self._in_thread(self._strays))
                if not self._told:
                    break
        except StoreAwayError as error:
            log.info("messages of other daemons wait: %s", error)  # the next heartbeat announces them again
        except Exception:
            log.exception("what other daemons have sent could not be read")
        finally:
            self._task = None
            self._wake()

    async def _bring(self, agents: set[int]) -> None:
        """Deliver new messages to active agents, and wake the others that have some."""
        office = self._office
        office.room.begin_recount()
        waiting: list[WaitingRow] = await self._in_thread(self._store.letters.waiting)
        at_work = ((office.receivers.get(row.agent), row) for row in waiting)
        fresh = {row.agent for to, row in at_work if to is not None and to.reached(row.sender) < row.last}
        asleep = agents - office.receivers.keys()
        rows, held = await self._in_thread(partial(self._read, fresh, asleep))
        for row in office.came(rows):
            log.error("message %d of %s is missing: those after it wait", row.number - 1, sender_of(row))
        self._resting.update(row.agent for row in held if row.state == SUSPENDED)
        office.recount(waiting, held)

    def _read(self, fresh: set[int], asleep: set[int]) -> tuple[list[MessageRow], list[AgentRow]]:
        rows = self._store.letters.messages_of(fresh) if fresh else []
        held = []
        for number in sorted(asleep):
            try:
                held.append(self._store.of(number).identity())
            except StoreAwayError:
                raise
            except StoreError:  # its agent was removed
                continue
        return rows, held

    # --- to agents that are gone --------------------------------------------------------------------------

    def _strays(self) -> list[tuple[AgentRow, list[MessageRow]]]:
        """The messages of agents of this daemon to agents that were removed, by sender."""
        leases = self._store.leases
        held = leases.held() if leases is not None else frozenset()
        of_senders = groupby(self._store.letters.strays(), key=attrgetter("sender"))
        return [
            (self._store.of(sender).identity(), list(rows)) for sender, rows in of_senders if sender in held
        ]

    async def _bury(self, strays: list[tuple[AgentRow, list[MessageRow]]]) -> None:
        """Notify each sender of its messages to agents that are gone."""
        for sender, rows in strays:
            try:
                own = self._agents.own
                if sender.agent == own.agent.store.agent:
                    await own.submit(partial(own.mail.come_back, rows=rows))
                    continue
                async with self._agents.asked(sender.name) as host:
                    await host.submit(partial(host.mail.come_back, rows=rows))
            except NarvalError as error:  # the next heartbeat finds them again
                log.warning("messages of %s to agents that are gone wait: %s", sender.name, error)
