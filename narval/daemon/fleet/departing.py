"""Departures: active agents leave this daemon at the end of a turn (G54, G55).

    begin -> its calls end, none begins -> its last turn, after which nothing is performed -> gone -> given

The agent continues elsewhere as after a takeover, but nothing is repeated: no call runs, and all outcomes of
calls are recorded. If its calls do not end in time, the agent stays, or the calls are ended, depending on the
departure. Each heartbeat checks the progress.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice

from narval.agent.loop import Request
from narval.agent.turn import Turn
from narval.calls.book import CallBook
from narval.daemon.agents.agent_host import AgentHost
from narval.daemon.agents.agents import Agents
from narval.daemon.agents.lifecycle import ACTIVE, PASSIVE
from narval.daemon.agents.supervisor import needs_memory
from narval.daemon.waiters import future, settle
from narval.store.batch import SUSPENDED
from narval.store.postgresql.leases import Leases

log = logging.getLogger("narval.fleet")

GRACE = 2.0
"""Seconds that the calls of an agent have to end when it leaves for even shares; otherwise it stays."""

SETTLED = 60.0
"""Seconds for which an agent stays where it was moved, or where its calls took too long to end."""


class Departure:
    """An agent that must leave for a daemon (0: any), and the deadline of its calls."""

    def __init__(self, name: str, number: int, to: int, until: float, *, is_forced: bool) -> None:
        self.name, self.number, self.to, self.until = name, number, to, until
        self.is_forced = is_forced
        """True if its calls are ended at the deadline."""
        self.is_asked = False
        """True once its last turn is requested."""
        self.is_gone = False
        """True once nothing more is decided or performed for it here."""
        self.given: asyncio.Future[bool] = future()
        """Done when it is given (True), or is not: it stays, or the other daemon is gone."""


class Departures:
    """The agents that are about to leave; `hurry` is called when one can be given.

    `monotonic` returns the seconds of a clock that cannot be set.
    """

    def __init__(
        self, agents: Agents, leases: Leases, monotonic: Callable[[], float], hurry: Callable[[], None]
    ) -> None:
        self._agents, self._leases = agents, leases
        self._monotonic, self._hurry = monotonic, hurry
        self._under_way: dict[str, Departure] = {}
        self._stays_until: dict[int, float] = {}
        """The times until which agents must not leave for even shares."""

    @property
    def _book(self) -> CallBook:
        return self._agents.supervisor.calls

    def arrived(self, agents: Iterable[int]) -> None:
        """Keep agents that another daemon gave to this one here for a while."""
        now = self._monotonic()
        self._stays_until = {number: at for number, at in self._stays_until.items() if at > now}
        self._stays_until.update((number, now + SETTLED) for number in agents)

    def at_rest(self, most: int, to: int) -> tuple[int, ...]:
        """Return at most `most` agents that have nothing to do here, and may be elsewhere."""
        rows, supervisor, pinned = self._agents.rows, self._agents.supervisor, self._leases.pinned()
        whole = {row.name for row in rows.in_full() if row.state != SUSPENDED}
        idle = (
            number
            for name, number in rows.numbers()
            if name not in whole and number not in pinned and not (to and self._stays(number))
            if supervisor.life(name).phase == PASSIVE and name not in self._under_way
        )
        return tuple(islice(idle, most))

    def begin_some(self, most: int, to: int) -> None:
        """Make busy agents leave, up to `most` at a time, starting with those without a running call."""
        most -= len(self._under_way)
        if most <= 0:
            return
        hosts = list(self._candidates(to))
        hosts.sort(key=lambda host: not self._book.is_quiet(host.agent.store.agent))
        for host in hosts[:most]:
            self._begin(host.name, host.agent.store.agent, to, GRACE)
        self.look()

    def _candidates(self, to: int) -> Iterator[AgentHost]:
        rows, pinned = self._agents.rows, self._leases.pinned()
        for name, number in rows.numbers():
            host = self._agents.supervisor.host(name)
            if host is None or host.is_in_use or name in self._under_way or rows.is_suspended(name):
                continue
            if number not in pinned and not (to and self._stays(number)):
                yield host

    def _stays(self, number: int) -> bool:
        return self._stays_until.get(number, 0.0) > self._monotonic()

    async def move(self, name: str, to: int, grace: float) -> bool:
        """Make an agent leave for a daemon, like `begin`; return True when it is given.

        Return False if that daemon is gone, or the agent was lost.
        """
        departure = self.begin(name, to, grace)
        return departure is not None and await asyncio.shield(departure.given)

    def begin(self, name: str, to: int, grace: float) -> Departure | None:
        """Make an agent leave for a daemon, at most `grace` seconds from now regardless of its calls. Return
        None for an agent that is not here.
        """
        number = self._agents.rows.number(name)
        if number is None:
            return None
        if (under_way := self._under_way.get(name)) is not None:
            under_way.to, under_way.is_forced = to, True
            under_way.until = self._monotonic() + grace
        else:
            under_way = self._begin(name, number, to, grace, is_forced=True)
        self.look()
        return under_way

    def _begin(self, name: str, number: int, to: int, grace: float, *, is_forced: bool = False) -> Departure:
        until = self._monotonic() + grace
        departure = self._under_way[name] = Departure(name, number, to, until, is_forced=is_forced)
        return departure

    def look(self) -> None:
        """Check the progress of the agents that are about to leave."""
        for departure in tuple(self._under_way.values()):
            if not departure.is_gone and not departure.is_asked:
                self._look(departure)

    def _look(self, departure: Departure) -> None:
        name, number = departure.name, departure.number
        supervisor = self._agents.supervisor
        if self._agents.rows.number(name) != number:
            self._end(departure, is_given=False)
            return
        self._book.hold(number)
        phase, host = supervisor.life(name).phase, supervisor.host(name)
        is_late = self._monotonic() >= departure.until
        if phase == ACTIVE and host is not None:
            if self._may_leave(departure, host):
                departure.is_asked = True
                last_turn = partial(self._last_turn, departure, host)
                host.post(Request(last_turn, partial(self._has_turned, departure, host)))
                return
        elif phase == PASSIVE and (self._book.is_quiet(number) or (is_late and departure.is_forced)):
            self._leave(departure)
            return
        if is_late and not departure.is_forced:
            self._stays_until[number] = self._monotonic() + SETTLED
            self._end(departure, is_given=False)

    def _may_leave(self, departure: Departure, host: AgentHost) -> bool:
        """True if everything under way for an agent is recorded, or its time is up."""
        if departure.is_forced and self._monotonic() >= departure.until:
            return True
        is_quiet = self._book.is_quiet(departure.number) and not needs_memory(host)
        return is_quiet and not host.is_in_use

    def _last_turn(self, departure: Departure, host: AgentHost, turn: Turn) -> bool:
        """Make this turn the agent's last here, with nothing performed after it, if it may still leave."""
        if departure.given.done() or not self._may_leave(departure, host):
            return False
        host.dispatcher.stop()
        return True

    def _has_turned(
        self, departure: Departure, host: AgentHost, is_last: bool, error: BaseException | None
    ) -> None:
        """Continue when the turn in which the agent should leave is recorded."""
        departure.is_asked = False
        if is_last and error is None and self._agents.supervisor.host(departure.name) is host:
            self._leave(departure)

    def _leave(self, departure: Departure) -> None:
        departure.is_gone = True
        self._agents.supervisor.lose({departure.number})
        self._hurry()

    def gone(self) -> dict[int, list[int]]:
        """The agents for which nothing runs here any longer, by the daemon that will get each."""
        gone: dict[int, list[int]] = {}
        for departure in self._under_way.values():
            if departure.is_gone and not self._book.is_ending(departure.number):
                gone.setdefault(departure.to, []).append(departure.number)
        return gone

    def given(self, agents: Iterable[int], *, is_given: bool) -> None:
        """Record which agents were given, or were not."""
        numbers = set(agents)
        for departure in [one for one in self._under_way.values() if one.number in numbers]:
            self._end(departure, is_given=is_given)

    def _end(self, departure: Departure, *, is_given: bool) -> None:
        self._under_way.pop(departure.name, None)
        self._book.release(departure.number)
        settle(departure.given, is_given, None)

    def close(self) -> None:
        """Stop all departures."""
        for departure in tuple(self._under_way.values()):
            self._end(departure, is_given=False)
