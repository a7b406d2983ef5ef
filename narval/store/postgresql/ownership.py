"""The leases of a daemon on PostgreSQL: who holds which agent, under which epoch (G46 to G50).

The owner of an agent is a number of `daemons`; if that row is gone, no daemon holds the agent. So an expired
daemon loses everything with one row, and others take its agents portion by portion.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from psycopg import Connection, Error

from narval.core.agent_name import stands_for_peer
from narval.core.errors import ElsewhereError, InternalError, SettingsError
from narval.store.batch import ACTIVE, HOME_AGENT, STORE, AgentRow, new_agent
from narval.store.postgresql import functions as statements
from narval.store.postgresql import leases
from narval.store.postgresql.record import Commit, TurnMark, fenced
from narval.store.postgresql.server import Rows, Server, is_away, keep_tables, refuse_other_tables
from narval.store.releases import NEEDS, is_older, refuse_newer, refuse_older

MOST_COUNTED = 16 * leases.PORTION
"""The most free agents that are counted, or searched for at once."""

CANDIDATES_KEPT = 2.0
"""Seconds for which the result of a search is used, one portion after another."""


class ServerLeases(leases.Leases):
    """The leases of one daemon, on a connection of its own; `be` receives its own agent's number."""

    def __init__(self, server: Server, be: Callable[[int], None], patience: float | None = None) -> None:
        self.daemon, self.url, self.patience = 0, server.url, patience
        self.marks: dict[int, TurnMark] = {}
        """The agents that it holds, as far as it knows."""
        self._is_unsure = True
        """True if it may hold others without knowing it: an answer was lost, or a commit refused."""
        self._home = ""
        self._candidates: deque[int] = deque()
        """Agents that no daemon held when they were searched for, those with work first."""
        self._candidates_until = 0.0
        self._pinned: set[int] = set()
        self._server, self._be = server, be
        self._connection: Connection[Rows] | None = None
        self._lock = threading.Lock()

    # --- what the store reports -----------------------------------------------------------------------

    def add(self, agents: Iterable[int]) -> None:
        """Hold agents that were made."""
        self.marks.update((agent, TurnMark(1, 0)) for agent in agents if agent not in self.marks)

    def count(self, commit: Commit) -> None:
        """Record a commit."""
        for agent, mark in commit.after.items():
            if self.marks.get(agent) == commit.before[agent]:  # unless it was given away since
                self.marks[agent] = mark
        self.forget(commit.removed)

    def forget(self, agents: Iterable[int]) -> None:
        """Drop agents from those that it knows it holds."""
        for agent in agents:
            self._is_unsure = True
            self._drop([agent])

    def _drop(self, agents: Iterable[int]) -> None:
        for agent in agents:
            self.marks.pop(agent, None)
            self._pinned.discard(agent)

    # --- requests -------------------------------------------------------------------------------------

    @contextmanager
    def _asking(self) -> Iterator[Connection[Rows]]:
        """A transaction on the connection. Raises StoreError, StoreAwayError."""
        with self._connected() as connection, connection.transaction():
            yield connection

    @contextmanager
    def _connected(self) -> Iterator[Connection[Rows]]:
        """The connection, made again if it broke; each statement commits by itself."""
        with self._lock:
            try:
                if self._connection is None or self._connection.closed:
                    self._connection = self._server.connect()
                yield self._connection
            except Error as error:
                self._is_unsure = True
                if self._connection is not None and is_away(error):
                    self._connection.close()
                raise self._server.trouble(error) from error

    def join(
        self, home: str, address: str, version: str, digest: str = "", weight: int = leases.WEIGHT
    ) -> AgentRow:
        """Join the store as a daemon."""
        with self._asking() as connection:
            keep_tables(connection)
            connection.execute(statements.ONE_JOINS.encode())
            refuse_other_tables(self._server, connection)  # it may have waited for long to join
            refuse_newer(self._server.name, _needs(connection), version)
            connection.execute("DELETE FROM daemons WHERE home = %s AND until <= clock_timestamp()", (home,))
            joining = (home, address, version, digest, weight, leases.LEASE)
            made = connection.execute(statements.JOIN.encode(), joining).fetchone()
            if made is None:
                raise _at_work(home, _daemon_of(connection, "d.home = %s", home))
            own = _own(connection, home)
            hold = "UPDATE leases SET owner = %s, home = %s, epoch = epoch + 1 WHERE agent = %s"
            [mark] = connection.execute(f"{hold} RETURNING epoch, turn".encode(), (made[0], home, own.agent))
        self.daemon, self.marks = made[0], {own.agent: TurnMark(*mark)}
        self._home, self._pinned = home, {own.agent}
        self._be(own.agent)
        return own

    def need(self, release: str, what: str) -> None:
        """Record in the store that it needs a release; no daemon joins during that."""
        with self._asking() as connection:
            connection.execute(statements.ONE_JOINS.encode())
            if not is_older(_needs(connection), release):
                return
            # also expired ones: they may continue until their agents are taken
            refuse_older(what, release, connection.execute("SELECT home, version FROM daemons ORDER BY home"))
            put = self._server.statements["put meta"].encode()
            connection.execute(put, (STORE, NEEDS, release))

    def renew(self, *, draining: bool = False) -> leases.Beat:
        """Extend its leases."""
        with self._asking() as connection:  # alone, so that no read keeps others from the row
            asked = (leases.LEASE, draining, len(self.marks), self.daemon)
            renewed = connection.execute(statements.RENEW.encode(), asked).fetchone()
        if renewed is None:
            lost, self.marks = frozenset(self.marks), {}
            raise fenced(lost)
        with self._asking() as connection:
            daemons = daemons_of(connection)
            mail = connection.execute(statements.MAIL.encode(), (self.daemon,)).fetchall()
            published = connection.execute("SELECT name, digest FROM collections ORDER BY name").fetchall()
            asked_free = {"me": self.daemon, "home": self._home, "most": MOST_COUNTED}
            [(free,)] = connection.execute(statements.FREE.encode(), asked_free)
            unknown = self._unknown(connection)
            homes = connection.execute(statements.LOST_HOMES.encode(), {"me": self.daemon}).fetchall()
        at, agents = renewed[0] - leases.LEASE, frozenset(agent for (agent,) in mail)
        at_work = {row.home for row in daemons}
        gone = tuple(home for (home,) in homes if home not in at_work and not stands_for_peer(home))
        self.latest = leases.Beat(at, daemons, agents, tuple(published), free + unknown, unknown, gone)
        return self.latest

    def _unknown(self, connection: Connection[Rows]) -> int:
        """The number of agents that it holds without knowing it: those that others gave it, or, while it is
        unsure that it knows all of its own, the difference from their count.
        """
        unknown: int
        [(unknown,)] = connection.execute(statements.COUNT_GIVEN.encode(), (self.daemon,))
        if not self._is_unsure:
            return unknown
        self._is_unsure = False  # may become unsure again while they are counted
        mine: int
        [(mine,)] = connection.execute("SELECT count(*) FROM leases WHERE owner = %s", (self.daemon,))
        unknown = max(0, mine - len(self.marks))
        self._is_unsure = self._is_unsure or unknown > 0
        return unknown

    def claim(self, name: str) -> leases.Taken | None:
        """Take the agent of a name."""
        return next(iter(self.take(1, name=name)), None)

    def take(
        self, most: int = leases.PORTION, *, of_others: bool = True, name: str | None = None
    ) -> list[leases.Taken]:
        """Take agents that no daemon holds; with a `name`, the agent of that name."""
        if of_others:
            with self._asking() as connection:
                over = "DELETE FROM daemons WHERE until <= clock_timestamp() AND daemon <> %s"
                connection.execute(over, (self.daemon,))
        with self._asking() as connection:
            if connection.execute("SELECT FROM daemons WHERE daemon = %s", (self.daemon,)).rowcount != 1:
                raise fenced(())
            given_by_others = connection.execute(statements.GIVEN.encode(), (self.daemon, most))
            rows, agents_given = list[Any](), frozenset(agent for (agent,) in given_by_others)
            for agents in self._to_take(connection, most, agents_given, name):
                unknown = [agent for agent in agents if agent not in self.marks][: most - len(rows)]
                peer = name if name is not None and stands_for_peer(name) else ""
                asked = {"me": self.daemon, "home": self._home, "peer": peer, "agents": unknown}
                rows += connection.execute(statements.TAKE.encode(), asked).fetchall()
                if len(rows) == most:
                    break
        self.marks.update((row[0], TurnMark(*row[6:8])) for row in rows)
        self._pinned.update(row[0] for row in rows if row[8])
        return [leases.Taken(AgentRow(*row[:6]), row[6], row[0] in agents_given) for row in rows]

    def _to_take(
        self, connection: Connection[Rows], most: int, agents_given: Iterable[int], name: str | None
    ) -> Iterator[list[int]]:
        """The agents that may be taken, portion by portion: first its own that it does not know of.

        Free agents are searched for at most once, and not while some of a recent search are left, so that the
        cost of a portion does not grow with their number.
        """
        if name is not None:
            named = connection.execute("SELECT agent FROM agents WHERE name = %s", (name,))
            yield [agent for (agent,) in named]
            return
        yield sorted(agents_given)
        if self._is_unsure:
            asked = (self.daemon, list(self.marks), most)
            yield [agent for (agent,) in connection.execute(statements.UNKNOWN.encode(), asked)]
        if time.monotonic() < self._candidates_until:
            yield from self._candidates_left(most)
        where = {"me": self.daemon, "home": self._home, "most": MOST_COUNTED}
        free = connection.execute(statements.CANDIDATES.encode(), where).fetchall()
        self._candidates = deque(agent for (agent,) in free)
        self._candidates_until = time.monotonic() + CANDIDATES_KEPT
        yield from self._candidates_left(most)

    def _candidates_left(self, most: int) -> Iterator[list[int]]:
        while self._candidates:
            yield [self._candidates.popleft() for _ in range(min(most, len(self._candidates)))]

    def make(self, name: str, state: str) -> leases.Taken | None:
        """Make a new agent, which it holds."""
        with self._asking() as connection:
            connection.execute(statements.ONE_JOINS.encode())
            row = _made(connection, name, state)
            if row is None:
                return None
            hold = "UPDATE leases SET owner = %s, epoch = 1 WHERE agent = %s"
            connection.execute(hold, (self.daemon, row.agent))
        self.add([row.agent])
        return leases.Taken(row, 1)

    def pin(self, agent: int, home: str) -> None:
        """Let only daemons of a home take an agent."""
        with self._asking() as connection:
            pinned = "UPDATE leases SET home = %s WHERE agent = %s AND owner = %s"
            if not connection.execute(pinned, (home, agent, self.daemon)).rowcount:
                raise fenced([agent])
        if home:
            self._pinned.add(agent)
        else:
            self._pinned.discard(agent)

    def give(self, agents: Iterable[int]) -> None:
        """Release agents."""
        numbers = list(agents)
        self._drop(numbers)
        with self._asking() as connection:
            gone = "UPDATE leases SET owner = NULL WHERE agent = ANY(%s) AND owner = %s"
            connection.execute(gone, (numbers, self.daemon))

    def hand_over(self, agents: Iterable[int], daemon: int) -> bool:
        """Transfer agents to another daemon."""
        numbers = list(agents)
        self._drop(numbers)
        with self._connected() as connection:
            asked = {"agents": numbers, "me": self.daemon, "to": daemon}
            is_given = connection.execute(statements.HAND_OVER.encode(), asked).rowcount == len(numbers)
        self._is_unsure = self._is_unsure or not is_given
        return is_given

    def pinned(self) -> frozenset[int]:
        """The numbers of the agents it holds whose files are in its home."""
        return frozenset(list(self._pinned))

    def find(self, name: str) -> tuple[AgentRow, leases.DaemonRow | None] | None:
        """An agent of the store by its name, and the daemon that holds it, if one does."""
        with self._asking() as connection:
            row = connection.execute(statements.FIND.encode(), (name,)).fetchone()
            if row is None:
                return None
            return AgentRow(*row[:-1]), _daemon_of(connection, "d.daemon = %s", row[-1])

    def owners(self) -> list[leases.Ownership]:
        """The daemons that hold the agents of the store."""
        with self._asking() as connection:
            return owners_of(connection)

    def held(self) -> frozenset[int]:
        """The numbers of the agents that it holds, as far as it knows."""
        return frozenset(list(self.marks))

    def leave(self) -> None:
        """Give back all agents it holds, and leave the store."""
        self.marks = {}
        with self._asking() as connection:
            connection.execute("UPDATE leases SET owner = NULL WHERE owner = %s", (self.daemon,))
            connection.execute("DELETE FROM daemons WHERE daemon = %s", (self.daemon,))
        self.daemon = 0

    def close(self) -> None:
        """End the connection."""
        if self._connection is not None:
            with suppress(Error):
                self._connection.close()


def owners_of(connection: Connection[Rows]) -> list[leases.Ownership]:
    """The daemons that hold the agents of a store, by number of the agent."""
    return [leases.Ownership(*row) for row in connection.execute(statements.OWNERS.encode())]


def daemons_of(connection: Connection[Rows]) -> tuple[leases.DaemonRow, ...]:
    """The daemons of a store whose leases have not expired."""
    cursor = connection.execute(statements.DAEMONS.format("d.until > clock_timestamp()").encode())
    return tuple(map(leases.DaemonRow._make, cursor.fetchall()))


def _needs(connection: Connection[Rows]) -> str:
    """The release that the store needs; "" if every release can read it."""
    asked = "SELECT value FROM meta WHERE agent = %s AND key = %s"
    row = connection.execute(asked, (STORE, NEEDS)).fetchone()
    return "" if row is None else str(row[0])


def turns_recorded(
    connection: Connection[Rows], daemon: int, marks: Mapping[int, TurnMark]
) -> dict[int, int]:
    """The turns of agents that a daemon still holds, once none of their commits is in progress (G51)."""
    asked = (
        "SELECT agent, epoch, turn FROM leases WHERE agent = ANY(%s) AND owner = %s ORDER BY agent FOR UPDATE"
    )
    rows = connection.execute(asked, (list(marks), daemon)).fetchall()
    return {agent: turn for agent, epoch, turn in rows if epoch == marks[agent].epoch}


def held_of(connection: Connection[Rows], daemon: int, agents: Iterable[int]) -> set[int]:
    """The given agents that a daemon holds."""
    asked = "SELECT agent FROM leases WHERE agent = ANY(%s) AND owner = %s"
    return {agent for (agent,) in connection.execute(asked, (list(agents), daemon))}


def _own(connection: Connection[Rows], home: str) -> AgentRow:
    """The own agent of a home: the one with its name and pin, or the one of a new store, or a new one."""
    named = connection.execute(statements.PINNED.format("a.name = %s").encode(), (home,)).fetchone()
    if named is not None and named[-1] == home:
        return AgentRow(*named[:-1])
    new = statements.PINNED.format("a.agent = %s AND l.home = ''").encode()
    first = connection.execute(new, (HOME_AGENT,)).fetchone()
    if named is not None and (first is None or named[0] != HOME_AGENT):
        raise SettingsError(
            f"expected a name for the home's own agent that no other agent has, found {home!r}; "
            "choose another `name` in etc/narval.toml"
        )
    if first is not None:
        connection.execute("UPDATE agents SET name = %s WHERE agent = %s", (home, HOME_AGENT))
        return AgentRow(*first[:-1])._replace(name=home)
    made = _made(connection, home, ACTIVE)
    if made is None:
        raise InternalError(f"expected no agent {home!r}, where none was found")
    return made


def add_alone(connection: Connection[Rows]) -> None:
    """Keep other daemons from adding an agent, or joining, until the end of the transaction."""
    connection.execute(statements.ONE_JOINS.encode())


def _made(connection: Connection[Rows], name: str, state: str) -> AgentRow | None:
    """A new agent that no daemon holds; None if there is one of that name."""
    [(number,)] = connection.execute(statements.NEXT_NUMBER.encode())
    made = new_agent(number, name)._replace(state=state)
    added = "INSERT INTO agents VALUES (%s, %s, %s, %s, %s, %s) ON CONFLICT (name) DO NOTHING"
    if not connection.execute(added, made).rowcount:
        return None
    connection.execute("INSERT INTO leases (agent) VALUES (%s)", (number,))
    return made


def _daemon_of(connection: Connection[Rows], where: str, value: Any) -> leases.DaemonRow | None:
    row = connection.execute(statements.DAEMONS.format(where).encode(), (value,)).fetchone()
    return None if row is None else leases.DaemonRow._make(row)


def _at_work(home: str, daemon: leases.DaemonRow | None) -> ElsewhereError:
    place = daemon.address if daemon is not None else "another place"
    return ElsewhereError(
        f"expected no other daemon of the home {home}, found one at {place}; give this home another `name` "
        "in etc/narval.toml, or start it with `narval run --standby`, which waits until that one is gone"
    )
