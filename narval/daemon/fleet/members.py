"""A daemon's part in its fleet. It renews, takes agents and gives some back, as the protocol decides.

    beat: renew -> take over, or let go and give;   every half second, or whenever a test asks

Blocking work is done in a thread, one task at a time; work on agents is done in the event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import suppress

from narval.core.errors import FencedError, StoreAwayError, StoreError
from narval.daemon.agents.agents import Agents
from narval.daemon.fleet import protocol
from narval.daemon.fleet.departing import Departures
from narval.daemon.fleet.holding import LeaseGate, TakingOver
from narval.daemon.main_loop import MainLoop
from narval.store.postgresql.leases import RENEWAL, WEIGHT, Beat, DaemonRow, Leases, given_up

log = logging.getLogger("narval.fleet")

APART = 2.0
"""Seconds of difference from which there is a warning."""

FAR_APART = 30.0
"""Seconds of difference from which a daemon takes no agents, and is given none: it would compute wrong dates.
"""


class Clocks:
    """The difference between the machine's clock and the store's."""

    def __init__(self) -> None:
        self.apart = 0.0
        """The least number of seconds by which the machine's clock is ahead; below 0, behind."""
        self._is_warned = False

    @property
    def are_far_apart(self) -> bool:
        """True if no agents may be taken."""
        return abs(self.apart) > FAR_APART

    @property
    def warning(self) -> str:
        """A sentence for people if the clocks are apart, or ""."""
        if abs(self.apart) <= APART:
            return ""
        way = "ahead of" if self.apart > 0 else "behind"
        said = f"the clock of this machine is {abs(self.apart):.0f} s {way} that of the store"
        return said + ("; it takes no agents by itself until it is set" if self.are_far_apart else "")

    def compare(self, at: float, sent: float, answered: float) -> None:
        """Compare the store's clock with the two times of the machine's clock between which it was read; log
        a difference once.
        """
        self.apart = max(sent - at, min(answered - at, 0.0))
        if self.warning and not self._is_warned:
            log.warning("%s", self.warning)
        self._is_warned = bool(self.warning)


class Members:
    """The membership of one daemon: `agents` are those that it has, `leases` is its access to the store.

    At each renewal `hold_until` gets the time at which programs must be ended (G48).
    """

    def __init__(
        self,
        leases: Leases,
        agents: Agents,
        main_loop: MainLoop,
        gate: LeaseGate,
        taking_over: TakingOver,
        hold_until: Callable[[float], None],
    ) -> None:
        self._leases, self._agents, self._main_loop = leases, agents, main_loop
        self.gate, self._hold_until, self._taking_over = gate, hold_until, taking_over
        self.clocks = Clocks()
        self.answered_in, self.renewals = 0.0, 0
        """Seconds that the last heartbeat took, and the number of renewals that were answered."""
        self.lost: tuple[float, ...] = ()
        """The moments at which this program lost its lease, and started over (seconds since 1970)."""
        self._hurry = taking_over.hurry
        self.departures = Departures(agents, leases, gate.monotonic, self._hurry.set)
        self.on_beat: list[Callable[[Beat], None]] = []
        """Functions that get each answer to a renewal, in the event loop."""

    async def begin(self) -> None:
        """Make sure of what the daemon holds, before anything is decided. Raises FencedError, StoreError."""
        sent = self.gate.monotonic()
        await self._renewed()
        self._note(protocol.joined(sent))

    def has_lost(self, moments: Iterable[float]) -> None:
        """Record leases that this program lost before it started over."""
        self.lost = tuple(moments)

    def store_is_away(self, error: StoreAwayError) -> None:
        """Record that a renewal was not answered; when patience is exhausted, the main loop ends."""
        gate, patience = self.gate, self._leases.patience
        gate.store_is_away(self._main_loop.rounds.clock.now(), error)
        if patience is not None and gate.monotonic() - gate.member.renewed > patience:
            self._main_loop.rounds.give_up(given_up(error, patience))
            self._main_loop.wake()

    async def beat(self) -> None:
        """Renew once, and carry out what follows from the answer. Raises FencedError if all is lost."""
        self.departures.look()
        try:
            await self._tell(protocol.Due(self.gate.monotonic()))
            for to, agents in self.departures.gone().items():
                await self._tell(protocol.AtRest(tuple(agents), to))
        except StoreAwayError as error:
            self.store_is_away(error)

    async def run(self) -> None:
        """Renew every half second, until cancelled or everything is lost."""
        while not self.gate.member.over:
            began = self.gate.monotonic()
            try:
                await self.beat()
            except FencedError:
                return
            except StoreError as error:
                log.error("the membership of this daemon could not be renewed: %s", error)
            except Exception:
                log.exception("a renewal broke down")
            with suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, began + RENEWAL - self.gate.monotonic())):
                    await self._hurry.wait()
            self._hurry.clear()

    def kept(self, sent: float) -> None:
        """Record a renewal that the program beside the daemon sent at a time."""
        was_open = self.gate.is_open()
        self._open(protocol.advance(self.gate.member, protocol.Kept(sent))[0])
        if self.gate.is_open() and not was_open:
            self._main_loop.wake()

    @property
    def daemons(self) -> tuple[DaemonRow, ...]:
        """The running daemons of the store, as of the last renewal."""
        return () if self._leases.latest is None else self._leases.latest.daemons

    @property
    def is_draining(self) -> bool:
        """True once all agents must be given away."""
        return self.gate.member.draining

    @property
    def takes_none(self) -> bool:
        """True if others must give it no agents."""
        return self.is_draining or self.clocks.are_far_apart or self._agents.takes != "all"

    def drain(self) -> None:
        """Take no further agents, and give away those that come to rest (G56)."""
        self.gate.follow(protocol.advance(self.gate.member, protocol.Drain())[0])

    # --- decisions of the protocol --------------------------------------------------------------------

    async def _tell(self, event: protocol.Event) -> None:
        member, commands = protocol.advance(self.gate.member, event)
        if isinstance(event, protocol.Prolonged):
            self._note(member)
        else:
            self.gate.follow(member)
        for command in commands:
            try:
                following = await self._perform(command)
            except FencedError as error:
                self._start_over(error)
                raise
            if following is not None:
                await self._tell(following)

    async def _perform(self, command: protocol.Command) -> protocol.Event | None:
        match command:
            case protocol.Renew():
                return await self._renew(draining=command.draining)
            case protocol.Take():
                taken = await asyncio.to_thread(self._leases.take, command.most, of_others=command.of_others)
                room = self._taking_over.expect([one.row for one in taken])
                self.departures.arrived(one.row.agent for one in taken if one.was_given)
                numbers = tuple(one.row.agent for one in taken)
                return protocol.Took(self.gate.monotonic(), numbers, len(numbers) < command.most, room)
            case protocol.TakeOver():
                log.info("agents taken over: %d", len(command.agents))
                self._taking_over.take_over(command.agents)
            case protocol.FindAtRest():
                idle = self.departures.at_rest(command.most, command.to)
                if len(idle) < command.most:
                    self.departures.begin_some(min(command.busy, command.most - len(idle)), command.to)
                return protocol.AtRest(idle, command.to)
            case protocol.LetGo():
                self._agents.supervisor.lose(frozenset(command.agents))
            case protocol.Give():
                await self._give(command.agents, command.to)
        return None

    async def _give(self, agents: tuple[int, ...], to: int) -> None:
        """Give agents to a daemon, or back; if that daemon is gone they are taken again."""
        if to:
            log.info("agents given to another daemon: %d", len(agents))
            is_given = await asyncio.to_thread(self._leases.hand_over, agents, to)
        else:
            log.info("agents given back: %d", len(agents))
            await asyncio.to_thread(self._leases.give, agents)
            is_given = True
        self.departures.given(agents, is_given=is_given)

    async def _renew(self, *, draining: bool) -> protocol.Prolonged:
        sent = self.gate.monotonic()
        beat = await self._renewed(draining=draining)
        most = beat.unknown if self.clocks.are_far_apart else beat.free  # unknown ones are its own already
        free = most if self._agents.takes == "all" else 0
        number = sum(row.agents for row in beat.daemons) + beat.free
        held = len(self._leases.held())
        return protocol.Prolonged(
            self.gate.monotonic(),
            sent,
            held,
            number,
            free,
            _others(beat, self._leases.daemon),
            weight=next((row.weight for row in beat.daemons if row.daemon == self._leases.daemon), WEIGHT),
            unknown=min(beat.unknown, free),
            room=self._taking_over.room(),
        )

    async def _renewed(self, *, draining: bool = False) -> Beat:
        now = self._main_loop.rounds.clock.now
        sent = now()
        began = self.gate.monotonic()
        beat = await asyncio.to_thread(self._leases.renew, draining=draining or self.takes_none)
        self.answered_in = self.gate.monotonic() - began
        self.clocks.compare(beat.at, sent, now())
        return beat

    def _note(self, member: protocol.Membership) -> None:
        """Apply a renewal: the gate opens, and programs may continue for a while."""
        self._open(member)
        self._main_loop.wake()
        if (beat := self._leases.latest) is not None:
            for hear in tuple(self.on_beat):
                hear(beat)

    def _open(self, member: protocol.Membership) -> None:
        self.gate.follow(member)
        self.renewals += 1
        self.gate.store_is_back(self._main_loop.rounds.clock.now())
        self._hold_until(protocol.calls_until(member))

    def _start_over(self, error: FencedError) -> None:
        """Stop deciding and performing: the main loop ends with the error."""
        if self.gate.member.over:
            return
        self.gate.follow(protocol.advance(self.gate.member, protocol.Gone())[0])
        log.error("the time of this daemon was over, and others may have its agents: it starts over")
        self._main_loop.rounds.give_up(error)
        self._main_loop.wake()


def _others(beat: Beat, daemon: int) -> tuple[protocol.Other, ...]:
    """The other daemons that do not drain."""
    there = (row for row in beat.daemons if not row.draining and row.daemon != daemon)
    return tuple(protocol.Other(row.daemon, row.agents, row.weight) for row in there)
