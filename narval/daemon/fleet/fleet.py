"""A daemon's fleet work beside its rounds, if others use the same store: heartbeats, mail, draining."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from narval.daemon.agents.agents import Agents
from narval.daemon.fleet.holding import LeaseGate, TakingOver
from narval.daemon.fleet.mail import FleetMail
from narval.daemon.fleet.members import Members
from narval.daemon.fleet.renewer_client import RenewerClient
from narval.daemon.main_loop import MainLoop
from narval.store.postgresql.leases import Leases
from narval.store.store import Store

log = logging.getLogger("narval.fleet")


async def in_thread(work: Callable[..., Any], *given: Any) -> Any:
    """Do some work that may block."""
    return await asyncio.to_thread(work, *given)


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
        at_hand = (leases, agents, main_loop, gate, taking_over, in_thread)
        self.members = Members(*at_hand, main_loop.calls.executor.programs.reaper.hold_until)
        self.mail = FleetMail(store, agents, in_thread, main_loop.wake)
        self._task: asyncio.Task[None] | None = None
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

    def start(self, *, listens: bool = False) -> None:
        """Send heartbeats from now on, and receive messages of others, with `listens` at once; a daemon that
        only records receives none. Agents that any daemon may have follow what heartbeats report as
        published.
        """
        if (roaming := self._agents.supervisor.roaming) is not None:
            self.members.on_beat.append(lambda beat: roaming.hear(beat.published))
        if self._agents.takes == "all":
            if listens:
                self.mail.listen()
            self.members.on_beat.append(self.mail.beat)
            self._main_loop.expect(self.mail.is_busy)
        self._is_started.set()

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
        await self.mail.close()
        await self.taking_over.close()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
