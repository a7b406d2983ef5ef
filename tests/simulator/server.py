"""The server of a store that daemons share, in memory but for a scratch file that holds its tables (G96).

It stands in the place of PostgreSQL: the tables, who holds which agent under which epoch and turn, a clock.
`shared_store.py` is how a daemon reaches it.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from itertools import count
from pathlib import Path
from threading import RLock
from time import time
from typing import NamedTuple

from narval.core.agent_name import stands_for_peer
from narval.core.errors import ElsewhereError, FencedError, SettingsError
from narval.store.batch import ACTIVE, HOME_AGENT, STORE, SUSPENDED, AgentRow, Batch, MessageRow, new_agent
from narval.store.database import open_database
from narval.store.postgresql.leases import LEASE, WEIGHT, Beat, DaemonRow, Ownership, Taken
from narval.store.releases import is_older, refuse_newer, refuse_older
from narval.store.sqlite import File


class Mark(NamedTuple):
    """How far an agent has come: the number of its ownership, and of its last commit."""

    epoch: int = 0
    turn: int = 0


class Lease(NamedTuple):
    """Who may commit for an agent; pinned to a home if that is not ""."""

    home: str = ""
    owner: int | None = None
    mark: Mark = Mark()


class Watch:
    """Somebody who watches what is recorded; this one does not."""

    def holds(self, daemon: int, agent: int, mark: Mark) -> None:
        """A daemon has an agent from now on."""

    def commits(self, daemon: int, marks: dict[int, Mark], batches: tuple[Batch, ...]) -> None:
        """A daemon has committed turns of agents at these marks."""


class Server:
    """The tables and leases of a store that daemons share; `now` is its clock, in seconds since 1970."""

    def __init__(self, path: Path, now: Callable[[], float] = time) -> None:
        self.now, self.path = now, path
        self.tables = open_database(File(path, "crash", 5.0))
        self.leases: dict[int, Lease] = {}
        self.daemons: dict[int, DaemonRow] = {}
        self.lost: set[str] = set()
        """The homes of daemons that were removed because their time was over, until they join again."""
        self.needs = ""
        self.given_at: dict[int, float] = {}
        """The moments at which agents were last handed over from a daemon to another."""
        self.published: dict[str, str] = {}
        self._numbers = count(1)
        self.hearers: dict[int, Callable[[frozenset[int]], None]] = {}
        """Daemons that listen: each is told agents of its own for which there is a message."""
        self.lock = RLock()
        self.watch: Watch = Watch()

    # --- commits ------------------------------------------------------------------------------------------

    def record(self, daemon: int, marks: dict[int, Mark], batches: tuple[Batch, ...]) -> None:
        """Record batches of agents at these marks, and count their turns up. Raises FencedError."""
        with self.lock:
            lost = [number for number, mark in marks.items() if not self.is_at(daemon, number, mark)]
            if lost:
                raise fenced(lost)
            batches = tuple(self._allowed(daemon, batch) for batch in batches)
            left = self._left_for_strays(batches)
            self.tables.commit(*batches, Batch(STORE, messages=left))
            for number in marks:
                known = self.lease(number)
                mark = Mark(known.mark.epoch, known.mark.turn + 1)
                self.leases[number] = known._replace(mark=mark)
            self.watch.commits(daemon, marks, batches)
            for batch in batches:
                for row in batch.agents:
                    if row.agent not in self.leases:
                        self.hold(daemon, row.agent)
                for number in batch.removed_agents:
                    self.leases.pop(number, None)

    def record_unheld(self, batches: tuple[Batch, ...]) -> None:
        """Record batches of a store that no daemon has joined."""
        with self.lock:
            self.tables.commit(*batches)

    def is_at(self, daemon: int, number: int, mark: Mark) -> bool:
        """True if a daemon has an agent, which is at that mark: the fence."""
        known = self.lease(number)
        return (known.owner, known.mark) == (daemon, mark)

    def _allowed(self, daemon: int, batch: Batch) -> Batch:
        """A batch without rows of other agents that another daemon holds."""
        rows = [row for row in batch.agents if self.lease(row.agent, daemon).owner == daemon]
        gone = [number for number in batch.removed_agents if self.lease(number).owner == daemon]
        if len(rows) == len(batch.agents) and len(gone) == len(batch.removed_agents):
            return batch
        return Batch(batch.agent, **(vars(batch) | {"agents": rows, "removed_agents": gone}))

    def _left_for_strays(self, batches: tuple[Batch, ...]) -> list[MessageRow]:
        """The messages to agents that go, which stay for their senders to find."""
        gone = [number for batch in batches for number in batch.removed_agents]
        last = {row[:2]: row.number for batch in batches for row in batch.taken}
        rows = [row for number in gone for row in self.tables.letters.messages(number)]
        return [row for row in rows if row.number > last.get(row[:2], 0)]

    def marks(self, agents: Iterable[int]) -> dict[int, tuple[int | None, Mark]]:
        """Owner and mark of agents, once no commit of theirs is under way."""
        with self.lock:
            return {number: (self.lease(number).owner, self.lease(number).mark) for number in agents}

    # --- leases -------------------------------------------------------------------------------------------

    def lease(self, agent: int, owner: int | None = None) -> Lease:
        """Who may commit for an agent; `owner` if nobody ever might."""
        return self.leases.get(agent, Lease("", owner))

    def hold(self, daemon: int, agent: int, home: str | None = None) -> Mark:
        """Let a daemon have an agent from now on, under a new epoch."""
        known = self.lease(agent)
        mark = Mark(known.mark.epoch + 1, known.mark.turn)
        self.leases[agent] = Lease(known.home if home is None else home, daemon, mark)
        self.watch.holds(daemon, agent, mark)
        return mark

    def join(
        self, home: str, address: str, version: str, digest: str, weight: int = WEIGHT
    ) -> tuple[int, AgentRow, Mark]:
        """Begin a daemon."""
        now = self.now()
        refuse_newer("the simulated server", self.needs, version)
        for other in [row for row in self.daemons.values() if row.home == home]:
            if other.until > now:
                raise ElsewhereError(
                    f"expected no other daemon of the home {home}, found one at {other.address}; give this "
                    f"home another `name` in etc/narval.toml, or start it with `narval run --standby`"
                )
            self.drop(other.daemon)
        self.lost.discard(home)
        own = self._own(home)
        daemon = next(self._numbers)
        self.daemons[daemon] = DaemonRow(
            daemon, home, address, version, digest, now, now + LEASE, draining=False, agents=0, weight=weight
        )
        return daemon, own, self.hold(daemon, own.agent, home)

    def need(self, release: str, what: str) -> None:
        """Refuse daemons of older releases from now on, if none is there."""
        if is_older(self.needs, release):
            refuse_older(what, release, ((row.home, row.version) for row in self.daemons.values()))
            self.needs = release

    def _own(self, home: str) -> AgentRow:
        rows = {row.agent: row for row in self.tables.agents()}
        named = next((row for row in rows.values() if row.name == home), None)
        if named is not None and self.lease(named.agent).home == home:
            return named
        is_new = not self.lease(HOME_AGENT).home and HOME_AGENT in rows
        if named is not None and not (is_new and named.agent == HOME_AGENT):
            raise SettingsError(
                f"expected a name for the home's own agent that no other agent has, found {home!r}; "
                "choose another `name` in etc/narval.toml"
            )
        own = rows[HOME_AGENT]._replace(name=home) if is_new else self._new(home)
        made = (Batch(own.agent, agents=[own]),)
        self.tables.commit(*made)
        self.watch.commits(0, {}, made)
        return own

    def _new(self, name: str) -> AgentRow:
        numbers = [row.agent for row in self.tables.agents()]
        return new_agent(max(*numbers, self.tables.letters.last_correspondent()) + 1, name)

    def make(self, daemon: int, name: str, state: str) -> tuple[Taken, Mark] | None:
        """Make an agent, which a daemon has."""
        self.known(daemon)
        if any(row.name == name for row in self.tables.agents()):
            return None
        row = self._new(name)._replace(state=state)
        made = (Batch(row.agent, agents=[row]),)
        self.tables.commit(*made)
        self.watch.commits(0, {}, made)
        mark = self.hold(daemon, row.agent)
        return Taken(row, mark.epoch), mark

    def owners(self) -> list[Ownership]:
        """Who holds each agent."""
        homes = {row.daemon: row.home for row in self.daemons.values() if row.until > self.now()}
        known = ((row.agent, self.lease(row.agent)) for row in self.tables.agents())
        return [Ownership(agent, homes.get(of.owner or 0, ""), of.mark.epoch, of.home) for agent, of in known]

    def renew(self, daemon: int, held: Container[int], draining: bool) -> Beat:
        """Let a daemon hold its agents for longer."""
        known, now = self.known(daemon), self.now()
        self.daemons[daemon] = known._replace(until=now + LEASE, draining=draining)
        owners = [lease.owner for lease in self.leases.values()]
        there = (row for row in self.daemons.values() if row.until > now)
        rows = tuple(row._replace(agents=owners.count(row.daemon)) for row in there)
        waiting = {row.agent for row in self.tables.letters.waiting()}
        mail = frozenset(number for number in waiting if self.lease(number).owner == daemon)
        free = self._free(daemon, held, over=self._over(daemon))
        unknown = sum(self.lease(row.agent).owner == daemon for row in free)
        over = {self.daemons[other].home for other in self._over(daemon)}
        lost = tuple(sorted((self.lost | over) - {row.home for row in rows}))
        return Beat(now, rows, mail, tuple(sorted(self.published.items())), len(free), unknown, lost)

    def prolong(self, seconds: float) -> None:
        """Let all daemons hold what they hold for longer: they have renewed all the while."""
        for daemon, row in self.daemons.items():
            self.daemons[daemon] = row._replace(until=row.until + seconds)

    def known(self, daemon: int) -> DaemonRow:
        """The row of a daemon. Raises FencedError where it is gone."""
        if daemon not in self.daemons:
            raise fenced(())
        return self.daemons[daemon]

    def take(
        self, daemon: int, held: Container[int], most: int, of_others: bool, name: str | None = None
    ) -> list[tuple[Taken, Mark]]:
        """Let a daemon have agents that nobody holds, those with work first; `name` the one that is meant.

        `held` are those it knows that it has: one that it has besides, because an answer was lost, is among
        what it takes.
        """
        self.known(daemon)
        for other in self._over(daemon) if of_others else ():
            self.lost.add(self.daemons[other].home)
            self.drop(other)
        mail, now = {row.agent for row in self.tables.letters.waiting()}, self.now()

        def rank(row: AgentRow) -> tuple[bool, bool, int]:
            has_work = row.state == ACTIVE or row.agent in mail or (row.wake_at or now) < now
            return row.agent not in mine, not has_work or row.state == SUSPENDED, row.agent

        free = [row for row in self._free(daemon, held, name or "") if name in (None, row.name)]
        mine = {row.agent for row in free if self.lease(row.agent).owner == daemon}
        taken = [(row, self.hold(daemon, row.agent)) for row in sorted(free, key=rank)[:most]]
        return [(Taken(row, mark.epoch, row.agent in mine), mark) for row, mark in taken]

    def _over(self, daemon: int) -> list[int]:
        """The other daemons whose time is over."""
        now = self.now()
        return [row.daemon for row in self.daemons.values() if row.until <= now and row.daemon != daemon]

    def _free(
        self, daemon: int, held: Container[int], name: str = "", over: Iterable[int] = ()
    ) -> list[AgentRow]:
        """The agents that a daemon may have, which are nobody's, or of one whose time is `over`."""
        home, owners = self.daemons[daemon].home, (None, daemon, *over)
        return [
            row
            for row in self.tables.agents()
            if row.agent not in held
            and self.lease(row.agent).owner in owners
            and self.lease(row.agent).home in ("", home, *((name,) if stands_for_peer(name) else ()))
        ]

    def pin(self, daemon: int, agent: int, home: str) -> None:
        """Let an agent be taken by daemons of a home alone."""
        if self.lease(agent).owner != daemon:
            raise fenced([agent])
        self.leases[agent] = self.leases[agent]._replace(home=home)

    def give(self, daemon: int, agents: Iterable[int]) -> None:
        """Let go of agents."""
        for agent in agents:
            if self.lease(agent).owner == daemon:
                self.leases[agent] = self.leases[agent]._replace(owner=None)

    def hand_over(self, daemon: int, agents: Iterable[int], to: int) -> bool:
        """Let another daemon have agents, unless its time is over or it drains."""
        receiver, given = self.daemons.get(to), False
        if receiver is None or receiver.until <= self.now() or receiver.draining:
            return False
        for agent in agents:
            if self.lease(agent).owner == daemon:
                self.hold(to, agent)
                self.given_at[agent], given = self.now(), True
        return given

    def find(self, name: str) -> tuple[AgentRow, DaemonRow | None] | None:
        """An agent by its name, and who holds it."""
        row = next((row for row in self.tables.agents() if row.name == name), None)
        return None if row is None else (row, self.daemons.get(self.lease(row.agent).owner or 0))

    def drop(self, daemon: int) -> None:
        """End a daemon: nobody holds what it held."""
        self.daemons.pop(daemon, None)
        self.give(daemon, list(self.leases))

    def tell(self, agent: int) -> None:
        """Let who holds an agent know that there is a message for it, if it listens."""
        hear = self.hearers.get(self.lease(agent).owner or 0)
        if hear is not None:
            hear(frozenset([agent]))

    def close(self) -> None:
        """End it."""
        self.tables.close()


def fenced(agents: Iterable[int]) -> FencedError:
    """The error that agents are another daemon's now; without any, that all are."""
    which = ", ".join(map(str, sorted(agents)))
    what = f"agents {which} are" if which else "the time of this daemon was over, and its agents are"
    return FencedError(f"{what} another daemon's now; nothing was recorded", frozenset(agents))
