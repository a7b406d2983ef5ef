"""The agents of a home besides its own, as surfaces query and change them (G5, G20)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from functools import partial
from itertools import groupby, takewhile
from operator import attrgetter
from typing import TYPE_CHECKING, Literal

from narval.agent.loop import Request
from narval.agent.turn import Turn
from narval.core.agent_name import agent_name, peer_of, row_of_peer, stands_for_peer
from narval.core.errors import ElsewhereError, InternalError, NarvalError, RequestError
from narval.daemon.agents.agent_host import AgentHost
from narval.daemon.agents.agent_rows import AgentRows, register
from narval.daemon.agents.lifecycle import ELSEWHERE, state_of
from narval.daemon.agents.supervisor import Supervisor
from narval.daemon.messages.envelope import OVERDUE, Refusal, unseal
from narval.daemon.messages.remote_calls import CALL
from narval.daemon.rounds import Alarm, Rounds
from narval.store.batch import ACTIVE, PASSIVE, STORE, SUSPENDED, AgentRow, MessageRow, TakenRow, new_agent
from narval.store.links import answered
from narval.store.store import Store

if TYPE_CHECKING:  # a store of one daemon has none
    from narval.daemon.fleet.roaming import RoamingAgents
    from narval.store.postgresql.leases import Leases

log = logging.getLogger("narval.daemon")


class Agents:
    """The agents of a home besides its `own`: their rows, and the supervisor of their lives.

    `go_on` continues agents that come to this daemon.
    """

    def __init__(
        self,
        own: AgentHost,
        rows: AgentRows,
        supervisor: Supervisor,
        store: Store,
        go_on: Callable[[Iterable[AgentRow]], None],
    ) -> None:
        self.own, self.rows, self.supervisor = own, rows, supervisor
        self._store, self._go_on = store, go_on
        self.elsewhere: dict[str, str] = {}
        """The agents with a folder here that another daemon has, and why their folder has no effect."""
        self._last = 0
        """The highest number given so far, or named by messages: a number belongs to one agent for ever."""
        self._held: tuple[int, list[tuple[int, int, int]]] | None = None
        """The count of dropped activations when passive agents' contents were last counted; the result."""
        self._changing: dict[str, AgentRow] = {}
        """The agents that are being registered or removed: their names and numbers are not free."""
        self._leaving: set[str] = set()
        """The agents that are being removed, from the request on."""

    @property
    def takes(self) -> Literal["none", "asked", "all"]:
        """The agents that it may take from a store that daemons share: those it is asked for, or any."""
        if self._store.leases is None:
            return "none"
        return "asked" if self.supervisor.record_only else "all"

    def start(self, rounds: Rounds) -> None:
        """Start: activate the agents that have something to do, and deliver messages. Raises StoreError."""
        own, alarm = self.own, Alarm(self._look_for_overdue, lambda by: None)
        look_at = partial(rounds.call_at, alarm=alarm)
        own.mail.office.open(self._everybody(), self.supervisor.need, look_at)
        own.mail.mailbox.open()
        self._go_on(self.supervisor.start())
        for _, number in self.rows.numbers():
            own.mail.office.remind(number)

    def _everybody(self) -> Iterator[AgentRow]:
        yield self.own.mail.identity
        yield from self.rows.with_peers()

    async def held_by_passive(self) -> list[tuple[int, int, int]]:
        """For each passive agent: its number, the number of its elements and runs, and that of its active
        runs. All rows of the store are counted, and again only after an activation was dropped. Raises
        StoreError.
        """
        dropped = self.supervisor.dropped
        if self._held is None or self._held[0] != dropped:
            self._held = dropped, await asyncio.to_thread(self._store.held)
        return self._held[1]

    @asynccontextmanager
    async def asked(self, name: str, *, reads: bool = False) -> AsyncIterator[AgentHost]:
        """The host of an agent, activated if necessary; it stays active within the `with` block.

        With `reads`, an agent of another daemon is shown as stored. Raises RequestError if there is no such
        agent, ElsewhereError, and StoreError or InternalError if it cannot be restored.
        """
        if not reads:
            self._check_stays(name)
        if self._store.leases is not None and (elsewhere := await self._elsewhere(name)) is not None:
            if not reads:
                raise elsewhere[1]
            yield await self.supervisor.shown(*elsewhere)
            return
        try:
            host = await self.supervisor.activated(name)
        except NarvalError:
            raise
        except Exception as error:
            log.exception("agent %s could not be activated", name)
            raise InternalError(f"agent {name} could not be activated: {error!r}") from error
        with host.in_use():
            if not host.loop.turns:
                await host.submit(lambda turn: None)
            yield host

    async def here(self, name: str) -> AgentRow:
        """An agent besides the home's own that this daemon has; one that no daemon has is taken.

        Raises ElsewhereError, and RequestError if there is none of that name.
        """
        if self._store.leases is not None and (elsewhere := await self._elsewhere(name)) is not None:
            raise elsewhere[1]
        return self.rows.find(name)

    async def pinned(self, name: str) -> AgentRow | None:
        """An agent with files in this home, pinned to it so that no other home has it; None if there is none
        of that name. The row of a peer may be active wherever an exchange with the peer is requested. Raises
        ElsewhereError.
        """
        leases = self._store.leases
        if leases is not None and (elsewhere := await self._elsewhere(name)) is not None:
            raise elsewhere[1]
        if (row := self.rows.get(name)) is not None and leases is not None:
            home = name if stands_for_peer(name) else self.rows.own.name
            await asyncio.to_thread(leases.pin, row.agent, home)
        return row

    async def _elsewhere(self, name: str) -> tuple[AgentRow, ElsewhereError] | None:
        """An agent that another daemon has, with the error to raise; None for one here, or nowhere."""
        from narval.daemon.fleet.holding import look_for

        leases = self._store.leases
        while leases is not None and name not in self.rows and name != self.rows.own.name:
            place = await asyncio.to_thread(look_for, leases, name)
            if not isinstance(place, AgentRow):
                return place
            if name not in self.rows:  # else it was taken for another reason by now
                self.rows.note(place)
                self._go_on([place])
        return None

    def state_of(self, row: AgentRow) -> str:
        """The state of an agent, as this daemon sees it; a suspended agent is suspended everywhere."""
        if row.state == SUSPENDED:
            return row.state
        if row.name not in self.rows:
            return ELSEWHERE if self.takes != "none" else PASSIVE
        state = state_of(self.supervisor.life(row.name))
        return row.state if self.supervisor.record_only and state == PASSIVE else state

    async def add(self, name: str, state: str = PASSIVE) -> AgentRow:
        """Create an agent in that state. Raises RequestError for a name that is invalid or taken."""
        [row] = await self.add_all([name], state)
        return row

    async def add_peer(self, name: str) -> AgentRow:
        """Create the row that represents a peer. Raises RequestError if it exists."""
        [row] = await self._add([row_of_peer(name)], PASSIVE)
        return row

    async def add_all(self, names: Sequence[str], state: str = PASSIVE) -> list[AgentRow]:
        """Create agents in that state: in one turn, if no other daemon shares the store.

        Raises RequestError for a name that is invalid, taken, or listed twice.
        """
        for name in names:
            try:
                agent_name(name)
            except ValueError as error:
                raise RequestError(f"expected {error}, got {name!r:.80}") from None
        return await self._add(names, state)

    async def _add(self, names: Sequence[str], state: str) -> list[AgentRow]:
        if len({*names}) < len(names):
            raise RequestError("expected each name once")
        for name in names:
            if name in self.rows or name in self._changing or name == self.rows.own.name:
                raise RequestError(f"there is an agent {name} already")
        if self._store.leases is not None:
            return [await self._make(self._store.leases, name, state) for name in names]
        first = 1 + (self._last or self._highest())
        self._last = first + len(names) - 1
        made = enumerate(names, first)
        rows = [new_agent(number, name)._replace(state=state) for number, name in made]
        with ExitStack() as changing:  # nothing is sent to them before they are recorded
            for row in rows:
                changing.enter_context(self._changes(row))
            await self._register(*rows)
        return rows

    async def _make(self, leases: Leases, name: str, state: str) -> AgentRow:
        """Create an agent in a store that daemons share; the store numbers it."""
        with self._changes(AgentRow(STORE, "", name)):
            made = await asyncio.to_thread(leases.make, name, state)
        if made is None:
            raise RequestError(f"there is an agent {name} already, which another daemon of this store made")
        self.rows.note(made.row)
        return made.row

    def _highest(self) -> int:
        """The highest number that an agent has, or that messages name."""
        changing = (row.agent for row in self._changing.values())
        addressed = self.own.mail.office.letters.last_correspondent()
        here = (number for _, number in self.rows.numbers())
        return max((self._store.own, addressed, *here, *changing))

    @contextmanager
    def _changes(self, row: AgentRow) -> Iterator[None]:
        """Reserve the name and number of an agent within the `with` block."""
        self._changing[row.name] = row
        try:
            yield
        finally:
            del self._changing[row.name]

    async def _register(self, *rows: AgentRow) -> AgentRow:
        """Register agents as they are now; return the last of them."""

        def work(turn: Turn) -> None:
            for row in rows:
                register(row, turn)

        await self.own.submit(work)
        for row in rows:
            self.rows.note(row)
        return rows[-1]

    async def give_settings(self, roaming: RoamingAgents, name: str, text: str) -> None:
        """Give settings to an agent without a folder from now on.

        Raises NotFetchedError if the collections that it would follow are not here, RequestError, StoreError.
        """
        with roaming.settings.coming(name, text):
            async with self.asked(name) as host:
                await roaming.fetch_for(name)
                roaming.require(name)
                await host.submit(partial(roaming.record, host, text))

    async def suspend(self, name: str, why: str) -> AgentRow:
        """Suspend an agent until it is resumed: it only records requests. Raises RequestError."""
        self._check_stays(name)
        await self.supervisor.settled(name)
        row = (await self.here(name))._replace(state=SUSPENDED, why=why, wake_at=None)
        await self.supervisor.suspend(row)
        return await self._register(row)

    async def resume(self, name: str) -> AgentRow:
        """Let a suspended agent continue. Raises RequestError."""
        self._check_stays(name)
        row = await self.here(name)
        if row.state != SUSPENDED:
            raise RequestError(f"expected an agent that is suspended, got {name}, which is {row.state}")
        await self.supervisor.settled(name)
        row = row._replace(state=ACTIVE, why="")
        await self.supervisor.resume(row)
        await self._register(row)
        self.supervisor.need(name, at_once=True)
        return row

    async def passivate(self, name: str) -> AgentRow:
        """Make an agent passive that has nothing to do. Raises RequestError if it has, or is suspended."""
        if (row := await self.here(name)).state == SUSPENDED:
            raise RequestError(f"{name} is suspended, and does nothing until `narval agents resume {name}`")
        if self.supervisor.record_only:
            raise RequestError(f"no daemon runs, so {row.name} is not in memory")
        if not await self.supervisor.passivated(row.name):
            if (host := self.supervisor.host(name)) is not None and host.is_in_use:
                raise RequestError(f"{name} is in use: by another request, or by a program that has it open")
            raise RequestError(f"{name} still has work: events to deliver, or running code of a process")
        return self.rows[name]

    async def remove(
        self, name: str, *, now: bool = False, keep: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        """Remove an agent with everything that it has; one with active runs only with `now`.

        Before, `keep` may write it elsewhere: by then it does nothing more. If that fails, it stays. Raises
        RequestError, and what `keep` raises.
        """
        self._check_stays(name)
        self._leaving.add(name)
        try:
            await self._remove(name, now, keep)
        finally:
            self._leaving.discard(name)

    def _check_stays(self, name: str) -> None:
        """Raise RequestError for an agent that is being removed."""
        if name in self._leaving:
            raise RequestError(f"{name} is being removed")

    async def _remove(self, name: str, now: bool, keep: Callable[[], Awaitable[None]] | None) -> None:
        peer = self.rows.get(name) if stands_for_peer(name) else None
        row = peer if peer is not None else await self.here(name)
        active = sum(run.phase == "active" for run in self._store.of(row.agent).runs())
        if active and not now:
            runs = f"{active} run{'s' * (active > 1)}"
            raise RequestError(f"{name} has {runs} under way; cancel them, or have it go at once (--now)")
        await self.supervisor.settled(name)
        if keep is not None:
            await self._keep(row, keep)
        mail, asked = self.own.mail, list(self._asked_of(row))
        left = self._store.letters.messages(row.agent)
        ended = frozenset[str]() if peer is None else answered(self._store.of(row.agent))
        why = "it was removed" if peer is None else f"the link with {peer_of(name)} was removed"

        def leave(turn: Turn) -> None:
            turn.transaction.batch.removed_agents.append(row.agent)
            mail.calls.notify_of_gone(turn, name=name, asked=asked)
            mail.bury(turn, [one for one in left if one.id not in ended], name, Refusal("removed", why))
            if self._store.leases is not None:  # later messages are strays of their sender
                turn.transaction.batch.taken.extend(TakenRow(*message[:3]) for message in left)

        self.supervisor.lose({row.agent})
        with self._changes(row):
            await self.own.submit(leave)
        await self.supervisor.calls.ended(row.agent)
        mail.office.forget(row.agent)

    async def _keep(self, row: AgentRow, keep: Callable[[], Awaitable[None]]) -> None:
        """Write an agent elsewhere while it is suspended; if that fails, it continues."""
        await self.supervisor.suspend(row._replace(state=SUSPENDED, why="it is being removed", wake_at=None))
        try:
            await self.own.submit(lambda turn: None)  # what it decided last is recorded by then
            await keep()
        except BaseException:
            if row.state == SUSPENDED:
                self.rows.note(row)
            else:
                await self.supervisor.resume(row)
                self.supervisor.need(row.name, at_once=True)
            raise

    def _asked_of(self, row: AgentRow) -> Iterator[tuple[str, str]]:
        """The calls that others wait for this agent to answer: the caller, and the id of the call."""
        for run in self._store.of(row.agent).runs():
            if run.phase == "active" and run.parent_run == 0:
                yield run.parent_step, run.parent_call
        for message in self._store.letters.messages(row.agent):
            if message.kind == CALL:
                yield unseal(message.origin).sender, message.id

    def _look_for_overdue(self, now: float) -> None:
        """Turn messages that waited too long into dead letters, also those for suspended agents."""
        for name in self.own.mail.office.overdue(now):
            row = self.rows.address(name)
            if row is not None and row.state == SUSPENDED:
                self.own.post(Request(partial(self._bury_overdue, row), self._buried))
            else:
                self.supervisor.need(name)
                if (host := self.supervisor.host(name)) is not None:
                    host.mail.mailbox.try_again()

    def _bury_overdue(self, row: AgentRow, turn: Turn) -> list[MessageRow]:
        """Take the overdue messages of an agent that takes none itself, as far as their order allows."""
        overdue: list[MessageRow] = []
        of_senders = groupby(self._store.letters.messages(row.agent), key=attrgetter("sender"))
        for _, messages in of_senders:
            overdue += takewhile(lambda sent: sent.until is not None and sent.until <= turn.at, messages)
        self.own.mail.bury(turn, overdue, row.name, OVERDUE)
        last = {message.sender: message.number for message in overdue}
        turn.transaction.batch.taken.extend(TakenRow(row.agent, *pair) for pair in last.items())
        return overdue

    def _buried(self, overdue: list[MessageRow] | None, error: BaseException | None) -> None:
        if overdue is not None and error is None:
            self.own.mail.office.taken(overdue)
