"""Activations: the agents of a home that are at work besides its own (G5 to G9, G18).

    passive -> at work -> passive -> …        an operation, a moment; idle for long enough
               at work -> at work             what it does broke down: after a while, as if killed
               at work -> suspended           so often that it is not tried again

An activation may be given up at any time: the store has all of it. What is active when a daemon is killed is
found active; its next start activates that, and whom a moment waits for.
"""

from __future__ import annotations

import logging
from collections.abc import Container
from functools import partial

from narval.agent.loop import Request
from narval.agent.recovery import restore_runs
from narval.agent.turn import Turn
from narval.core.elements.control_elements import ACTED
from narval.core.errors import (
    FencedError,
    InternalError,
    NarvalError,
    RequestError,
)
from narval.daemon.agents.active_memory import ActiveMemory
from narval.daemon.agents.agent_host import AgentHost
from narval.daemon.agents.agent_rows import AgentRows, register
from narval.daemon.agents.breakdowns import Breakdowns
from narval.daemon.agents.damage_report import report_damage
from narval.daemon.agents.laying_down import LayingDown
from narval.daemon.agents.restorations import Restorations
from narval.daemon.agents.wake_ups import WakeUps
from narval.daemon.followers import PEOPLE, sync, tell_of_people
from narval.daemon.home_files import AgentFiles
from narval.daemon.reload import FilesInForce
from narval.daemon.rounds import Rounds
from narval.store.batch import ACTIVE, PASSIVE, SUSPENDED, AgentRow

log = logging.getLogger("narval.daemon")

LEAST_IDLE = 1.0
"""Seconds after which it is looked again at least, if an agent that was idle for long enough is at rest."""


def bring_back_runs(host: AgentHost, now: float) -> None:
    """Restore the runs of an agent, as of a moment. Raises StoreError."""
    runs_are_back(host, restore_runs(host.agent), now)


def runs_are_back(host: AgentHost, latest: float, now: float) -> None:
    """Have the dates of an agent worked out anew if they may be others than at its last turn.

    `latest` is the latest moment that was recorded of its runs.
    """
    agent = host.agent
    has_moved = agent.store.meta.get("zone", agent.clockwork.zone) != agent.clockwork.zone
    if not host.loop.record_only and (has_moved or now < latest):
        agent.work_dates_out_anew()  # the zone is another, or the clock was set back meanwhile


def acted_before(host: AgentHost) -> Container[int]:
    """The control elements that acted already: of these some act once more at the start of a daemon."""
    return frozenset(host.agent.memory.marks.get(ACTED, ()))


def go_on(turn: Turn, host: AgentHost, files: AgentFiles, again: Container[int]) -> None:
    """Report what the store could not give back, and bring memory in line with what declares it.

    Claims are looked at again if the directory of people was altered meanwhile (P18). The `start-plan`
    elements of `again` that say so act once more.
    """
    agent = host.agent
    if not host.loop.record_only:
        known = agent.store.meta
        if known.get("zone") != agent.clockwork.zone:
            turn.transaction.batch.meta.append(("zone", agent.clockwork.zone))
        for run in [run for run in agent.runs.active.values() if run.unreadable]:
            turn.fail_unreadable(run)
        report_damage(turn)
        tell_of_people(turn, known.get(PEOPLE, ""))
    sync(turn, files, again)


def begin_own(
    host: AgentHost,
    files: FilesInForce,
    declared: list[bytes] | None,
    again: Container[int],
    turn: Turn,
) -> None:
    """Have the home's own agent go on, and the store have its name as the settings say it now."""
    known, name = host.agent.store.identity(), files.settings.name
    if known.name != name and not host.loop.record_only:
        register(known._replace(name=name), turn)
    go_on(turn, host, files.own(declared), again)


class Activations:
    """The hosts of the agents at work, and the moments at which others are to be.

    `files` has the definitions that all follow; `restorations` brings agents back.
    """

    def __init__(
        self, rows: AgentRows, rounds: Rounds, files: FilesInForce, restorations: Restorations
    ) -> None:
        self._rows, self._rounds, self._files = rows, rounds, files
        self._hosts: dict[str, AgentHost] = {}
        self.calls = restorations.calls
        self.breakdowns = Breakdowns(rows, self.calls, self._now, self._wait)
        self._wake_ups = WakeUps(rounds, self._come, self.breakdowns.clock_was_set)
        """For passive agents, and for those at work that may have been idle for long enough."""
        self.laying_down = LayingDown(rows, self._is_passive, is_possible=restorations.are_possible)
        self._memory = ActiveMemory()
        self.restorations = restorations

    @property
    def record_only(self) -> bool:
        """True if requests are committed, and nothing else is done."""
        return self._rows.own.loop.record_only

    def host(self, name: str) -> AgentHost | None:
        """The host of an agent; None of one that is not at work."""
        return self._hosts.get(name)

    def start(self) -> None:
        """A daemon starts: activate who was active or is to be always, and for whom a moment has come."""
        now, rows = self._now(), self._rows
        wanted = {row.name for row in rows.in_full() if row.state == ACTIVE}
        wanted |= {name for name in self._files.followers.always_active if name in rows}
        wanted |= {name for at, name in rows.moments if at <= now}
        self._wake_ups.begin(moment for moment in rows.moments if moment[1] not in wanted)
        rows.begun()
        for row in sorted(rows[name] for name in wanted):
            if row.state != SUSPENDED:
                self.go_on_with(row.name, is_start=True)

    def begin(self, row: AgentRow) -> None:
        """Have an agent that this daemon has from now on go on, as at a daemon's start."""
        is_wanted = row.state == ACTIVE or row.name in self._files.followers.always_active
        if is_wanted and row.state != SUSPENDED:
            self.go_on_with(row.name, is_start=True)
        elif row.wake_at is not None:
            self._wait(row.name, row.wake_at)

    async def activated(self, name: str) -> AgentHost:
        """The host of an agent, activated if it is not at work.

        Raises RequestError where there is none, StoreError where it cannot be restored.
        """
        await self.settled(name)
        row = self._rows.find(name)
        if name not in self._hosts:
            if (rest := self.breakdowns.faults.rest(name, self._now())) is not None:
                raise RequestError(f"agent {name} broke down, and is made anew in {rest:.0f} s; see the log")
            await self.restorations.finish(row, partial(self._put_to_work, row, False))
        if (host := self._hosts.get(name)) is None:
            raise RequestError(f"agent {name} is not at work any more")
        return host

    def go_on_with(self, name: str, *, is_start: bool = False) -> None:
        """Activate an agent; where that fails it is tried again, as if it had broken down."""
        if name in self._hosts or name not in self._rows or self.record_only:
            return
        row = self._rows[name]
        if name not in self.restorations:
            then = partial(self._put_to_work, row, is_start)
            self.restorations.begin(row, then, partial(self.breakdowns.rest_or_suspend, name))

    def go_on_soon(self, name: str) -> None:
        """Activate an agent in the next round, unless it is suspended, or rests: then it will be anyway."""
        now, row = self._now(), None if name in self._hosts else self._rows.get(name)
        if row is not None and row.state != SUSPENDED and self.breakdowns.faults.rest(name, now) is None:
            self._wait(name, now)

    async def lay_down(self, name: str) -> bool:
        """Make an agent passive if it has nothing to do; True if it is."""
        await self.restorations.over(name)
        if (host := self._hosts.get(name)) is None:
            return True
        request = self.laying_down.request(name, host)
        return await host.submit(request.work, request.settle) is not None

    def end(self, name: str, id: str | None) -> None:
        """Give up the activation of an agent, if there is one, and all calls of it; one that is not in memory
        whole has no `id` here, and no calls.
        """
        self._wait(name, None)
        self.restorations.drop(name)
        if (host := self._hosts.get(name)) is not None:
            id = host.dispatcher.identity.id
            self._give_up(name, host, RequestError(f"agent {name} is not at work here any more"))
        if id is not None:
            self.calls.end(id)

    async def settled(self, name: str) -> None:
        """Wait until an agent that is about to be active, or passive, is, or is not."""
        await self.restorations.over(name)
        await self.laying_down.settled(name)

    # --- beginning and ending -------------------------------------------------------------------------

    def _now(self) -> float:
        return self._rounds.clock.now()

    def _put_to_work(self, row: AgentRow, is_start: bool, host: AgentHost, latest: float) -> None:
        """Have an agent that is restored take part in rounds."""
        files, name = self._files, row.name
        runs_are_back(host, latest, self._now())
        self.breakdowns.faults.caution(name, self._now(), host.loop)
        runs = host.agent.runs.active.values()
        files.keep((run.definition for run in runs if run.definition is not None), name)
        files.followers.follow(host)
        again = acted_before(host) if is_start else ()
        if not host.loop.record_only:
            host.dispatcher.resume()
            self.calls.taken(row.id)
        host.post(Request(partial(self._begin, host, row, again), self._begun))
        host.hear_of_faults(partial(self._broke_down, name, host))
        if not host.loop.record_only:
            host.mail.mailbox.open()
        self._hosts[name] = host
        self._rounds.add(host)
        self._wait(name, self._now() + host.settings.idle_after)
        self._memory.reckon(host)
        for other in self._memory.over(files.settings.active_memory, host):
            other.post(self.laying_down.request(other.dispatcher.identity.name, other))

    def _begin(self, host: AgentHost, row: AgentRow, again: Container[int], turn: Turn) -> AgentRow:
        """Make the first turn of an activation; from its commit on the row says that the agent is active."""
        if row.state == PASSIVE or (row.wake_at is not None and not host.loop.record_only):
            row = row._replace(state=ACTIVE, wake_at=None)
            register(row, turn)
        go_on(turn, host, self._files.followers.of(row.name), again)
        return row

    def _begun(self, row: AgentRow | None, error: BaseException | None) -> None:
        if row is not None and error is None and row.name in self._rows:
            self._rows.note(row)

    def _give_up(self, name: str, host: AgentHost, error: NarvalError) -> None:
        """Drop an activation, as if it had been killed; the calls of it go on."""
        del self._hosts[name]
        self._wait(name, None)
        self._rounds.remove(host)
        self._files.followers.leave(host)
        self._memory.leave(host)
        performing = host.dispatcher
        self.calls.keep(performing.identity.id, performing.in_flight, partial(self.go_on_soon, name))
        host.give_up(error)

    # --- coming to rest -------------------------------------------------------------------------------

    def _come(self, now: float) -> None:
        """Activate those whose moment has come, and make passive those that were idle for long enough."""
        for name in self._wake_ups.due(now):
            host = self._hosts.get(name)
            if host is not None:
                host.loop.set_limit(self._files.settings.turn_limit)  # it may have been one
            if host is None:
                self.go_on_with(name)
            elif host.last_used + host.settings.idle_after > now:
                self._wait(name, host.last_used + host.settings.idle_after)
                self._memory.reckon(host)
            else:
                self._wait(name, now + max(host.settings.idle_after, LEAST_IDLE))
                if not host.is_in_use:
                    host.post(self.laying_down.request(name, host))

    def _wait(self, name: str, at: float | None) -> None:
        """Look after an agent at a moment; None: no more."""
        if not self.record_only:
            self._wake_ups.set(name, at)

    def _is_passive(self, host: AgentHost, row: AgentRow) -> None:
        """Let go of an agent that is recorded as passive."""
        self._rows.note(row)
        self._give_up(row.name, host, RequestError(f"agent {row.name} has become passive"))
        self._wait(row.name, self._now() if host.dispatcher.in_flight.has_reports() else row.wake_at)
        host.mail.office.remind(row.agent)

    # --- faults ---------------------------------------------------------------------------------------

    def _broke_down(self, name: str, host: AgentHost, error: Exception) -> bool:
        """Give up the activation of an agent whose turn broke down."""
        if not isinstance(error, FencedError):
            log.error("a turn of agent %s broke down", name, exc_info=error)
        if self._hosts.get(name) is host and isinstance(error, FencedError):
            for gone in self._rows.forget(error.agents):
                self.end(*gone)
        elif self._hosts.get(name) is host:  # else it was let go within that turn
            why = InternalError(f"agent {name} broke down: {error!r}; the log says where")
            self._give_up(name, host, why)
            self.breakdowns.rest_or_suspend(name, error, host.loop.suspects())
        return True
