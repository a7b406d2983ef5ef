"""The leases of a daemon on PostgreSQL: who holds which agent, under which epoch (G46 to G50).

The owner of an agent is a number of `daemons`; if that row is gone, nobody holds it. So a daemon whose time
is over loses all it has by one row, and others take what it had portion by portion.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from psycopg import Connection, Error

from narval.core.errors import ElsewhereError, InternalError, SettingsError
from narval.store.batch import ACTIVE, HOME_AGENT, AgentRow, new_agent
from narval.store.postgresql.leases import (
    LEASE,
    PORTION,
    WEIGHT,
    Beat,
    DaemonRow,
    Leases,
    Ownership,
    Taken,
)
from narval.store.postgresql.postgresql import Rows, Server
from narval.store.postgresql.record import Commit, TurnMark, fenced
from narval.store.postgresql.troubles import is_away


class ServerLeases(Leases):
    """The leases of one daemon, asked for on a connection of its own; `be` is told its own agent's number."""

    def __init__(self, server: Server, be: Callable[[int], None]) -> None:
        self.daemon, self.url = 0, server.url
        self.marks: dict[int, TurnMark] = {}
        """The agents that it holds, as far as it knows."""
        self._is_unsure = True
        """True if it may hold others without knowing it: an answer was lost, a commit refused, or another
        daemon gave it some.
        """
        self._given = 0
        """The number of times that others gave it some, as far as it knows."""
        self._pinned: set[int] = set()
        self._server, self._be = server, be
        self._connection: Connection[Rows] | None = None
        self._lock = threading.Lock()

    # --- what the store tells -------------------------------------------------------------------------

    def add(self, agents: Iterable[int]) -> None:
        """Hold agents that were made."""
        self.marks.update((agent, TurnMark(1, 0)) for agent in agents if agent not in self.marks)

    def count(self, commit: Commit) -> None:
        """A commit was recorded."""
        for agent, mark in commit.after.items():
            if self.marks.get(agent) == commit.before[agent]:  # unless it was given away meanwhile
                self.marks[agent] = mark
        self.forget(commit.removed)

    def forget(self, agents: Iterable[int]) -> None:
        """Hold agents no more, as far as is known."""
        for agent in agents:
            self._is_unsure = True
            self.marks.pop(agent, None)
            self._pinned.discard(agent)

    # --- what is asked --------------------------------------------------------------------------------

    @contextmanager
    def _asking(self) -> Iterator[Connection[Rows]]:
        """A transaction on the connection. Raises StoreError, StoreAwayError."""
        with self._connected() as connection, connection.transaction():
            yield connection

    @contextmanager
    def _connected(self) -> Iterator[Connection[Rows]]:
        """The connection, made anew where it broke; each statement commits by itself."""
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

    def join(self, home: str, address: str, version: str, digest: str = "", weight: int = WEIGHT) -> AgentRow:
        """Be a daemon of this store."""
        with self._asking() as connection:
            connection.execute(_ONE_JOINS.encode())
            connection.execute("DELETE FROM daemons WHERE home = %s AND until <= clock_timestamp()", (home,))
            joining = (home, address, version, digest, weight, LEASE)
            made = connection.execute(_JOIN.encode(), joining).fetchone()
            if made is None:
                raise _at_work(home, _daemon_of(connection, "d.home = %s", home))
            own = _own(connection, home)
            hold = "UPDATE leases SET owner = %s, home = %s, epoch = epoch + 1 WHERE agent = %s"
            [mark] = connection.execute(f"{hold} RETURNING epoch, turn".encode(), (made[0], home, own.agent))
        self.daemon, self.marks = made[0], {own.agent: TurnMark(*mark)}
        self._given, self._pinned = 0, {own.agent}
        self._be(own.agent)
        return own

    def renew(self, *, draining: bool = False) -> Beat:
        """Hold what it holds for longer."""
        with self._asking() as connection:  # by itself: no reading keeps others from the row
            asked = (LEASE, draining, len(self.marks), self.daemon)
            known = connection.execute(_RENEW.encode(), asked).fetchone()
        if known is None:
            lost, self.marks = frozenset(self.marks), {}
            raise fenced(lost)
        self._is_unsure = self._is_unsure or known[2] != self._given
        self._given = known[2]
        with self._asking() as connection:
            daemons = daemons_of(connection)
            mail = connection.execute(_MAIL.encode(), (self.daemon,)).fetchall()
            published = connection.execute("SELECT name, digest FROM collections ORDER BY name").fetchall()
            [(free,)] = connection.execute(_FREE.encode(), {"me": self.daemon, "home": known[1]})
            unknown = self._unknown(connection)
        at, agents = known[0] - LEASE, frozenset(agent for (agent,) in mail)
        self.latest = Beat(at, daemons, agents, tuple(published), free + unknown, unknown)
        return self.latest

    def _unknown(self, connection: Connection[Rows]) -> int:
        """The number of agents that it holds without knowing it; they are counted while it is not sure."""
        if not self._is_unsure:
            return 0
        self._is_unsure = False  # it may become so while they are counted
        mine: int
        [(mine,)] = connection.execute("SELECT count(*) FROM leases WHERE owner = %s", (self.daemon,))
        unknown = max(0, mine - len(self.marks))
        self._is_unsure = self._is_unsure or unknown > 0
        return unknown

    def take(self, most: int = PORTION, *, of_others: bool = True) -> list[Taken]:
        """Take agents that nobody holds."""
        return self._take(most, of_others)

    def claim(self, name: str) -> Taken | None:
        """Take the agent of a name."""
        return next(iter(self._take(1, of_others=True, name=name)), None)

    def _take(self, most: int, of_others: bool, name: str | None = None) -> list[Taken]:
        if of_others:
            with self._asking() as connection:
                over = "DELETE FROM daemons WHERE until <= clock_timestamp() AND daemon <> %s"
                connection.execute(over, (self.daemon,))
        with self._asking() as connection:
            if connection.execute("SELECT FROM daemons WHERE daemon = %s", (self.daemon,)).rowcount != 1:
                raise fenced(())
            held = list(self.marks) if self._is_unsure else None
            given = {"me": self.daemon, "held": held, "name": name, "most": most}
            which = _TAKE.format("a.name = %(name)s" if name is not None else "true")
            found = connection.execute(which.encode(), given).fetchall()
        self.marks.update((row[0], TurnMark(*row[6:8])) for row in found)
        self._pinned.update(row[0] for row in found if row[8])
        return [Taken(AgentRow(*row[:6]), row[6], row[9]) for row in found]

    def make(self, name: str, state: str) -> Taken | None:
        """Make a new agent, which it holds."""
        with self._asking() as connection:
            connection.execute(_ONE_JOINS.encode())
            row = _made(connection, name, state)
            if row is None:
                return None
            hold = "UPDATE leases SET owner = %s, epoch = 1 WHERE agent = %s"
            connection.execute(hold, (self.daemon, row.agent))
        self.add([row.agent])
        return Taken(row, 1)

    def pin(self, agent: int, home: str) -> None:
        """Have an agent be taken by daemons of that home alone."""
        with self._asking() as connection:
            pinned = "UPDATE leases SET home = %s WHERE agent = %s AND owner = %s"
            if not connection.execute(pinned, (home, agent, self.daemon)).rowcount:
                raise fenced([agent])
        if home:
            self._pinned.add(agent)
        else:
            self._pinned.discard(agent)

    def give(self, agents: Iterable[int]) -> None:
        """Let go of agents."""
        given = list(agents)
        self.forget(given)
        with self._asking() as connection:
            gone = "UPDATE leases SET owner = NULL WHERE agent = ANY(%s) AND owner = %s"
            connection.execute(gone, (given, self.daemon))

    def hand_over(self, agents: Iterable[int], daemon: int) -> bool:
        """Let a daemon hold agents from now on."""
        numbers = list(agents)
        self.forget(numbers)
        with self._connected() as connection:
            asked = {"agents": numbers, "me": self.daemon, "to": daemon}
            return bool(connection.execute(_HAND_OVER.encode(), asked).rowcount)

    def pinned(self) -> frozenset[int]:
        """The numbers of the agents that it holds which have their files in its home."""
        return frozenset(list(self._pinned))

    def find(self, name: str) -> tuple[AgentRow, DaemonRow | None] | None:
        """An agent of the store by its name, and the daemon that holds it, if one does."""
        with self._asking() as connection:
            found = connection.execute(_FIND.encode(), (name,)).fetchone()
            if found is None:
                return None
            return AgentRow(*found[:-1]), _daemon_of(connection, "d.daemon = %s", found[-1])

    def owners(self) -> list[Ownership]:
        """The daemons that hold the agents of the store."""
        with self._asking() as connection:
            return owners_of(connection)

    def held(self) -> frozenset[int]:
        """The numbers of the agents that it holds, as far as it knows."""
        return frozenset(list(self.marks))

    def leave(self) -> None:
        """Give back all it holds, and be a daemon of this store no more."""
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


def owners_of(connection: Connection[Rows]) -> list[Ownership]:
    """The daemons that hold the agents of a store, by number of the agent."""
    return [Ownership(*row) for row in connection.execute(_OWNERS.encode())]


def daemons_of(connection: Connection[Rows]) -> tuple[DaemonRow, ...]:
    """The daemons of a store whose time is not over."""
    found = connection.execute(_DAEMONS.format("d.until > clock_timestamp()").encode())
    return tuple(map(DaemonRow._make, found.fetchall()))


def turns_recorded(
    connection: Connection[Rows], daemon: int, marks: Mapping[int, TurnMark]
) -> dict[int, int]:
    """The turns of agents that a daemon still holds, once no commit of theirs is under way (G51)."""
    asked = (
        "SELECT agent, epoch, turn FROM leases WHERE agent = ANY(%s) AND owner = %s ORDER BY agent FOR UPDATE"
    )
    found = connection.execute(asked, (list(marks), daemon)).fetchall()
    return {agent: turn for agent, epoch, turn in found if epoch == marks[agent].epoch}


def held_of(connection: Connection[Rows], daemon: int, agents: Iterable[int]) -> set[int]:
    """Agents of these that a daemon holds."""
    asked = "SELECT agent FROM leases WHERE agent = ANY(%s) AND owner = %s"
    return {agent for (agent,) in connection.execute(asked, (list(agents), daemon))}


def _own(connection: Connection[Rows], home: str) -> AgentRow:
    """The own agent of a home: by its name and pin, or the one that a new store has, or a new one."""
    named = connection.execute(_PINNED.format("a.name = %s").encode(), (home,)).fetchone()
    if named is not None and named[-1] == home:
        return AgentRow(*named[:-1])
    new = _PINNED.format("a.agent = %s AND l.home = ''").encode()
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
    """Have nobody else add an agent, or join, before the end of the transaction."""
    connection.execute(_ONE_JOINS.encode())


def _made(connection: Connection[Rows], name: str, state: str) -> AgentRow | None:
    """A new agent that nobody holds; None where there is one of that name."""
    [(number,)] = connection.execute(_NEXT_NUMBER.encode())
    made = new_agent(number, name)._replace(state=state)
    added = "INSERT INTO agents VALUES (%s, %s, %s, %s, %s, %s) ON CONFLICT (name) DO NOTHING"
    if not connection.execute(added, made).rowcount:
        return None
    connection.execute("INSERT INTO leases (agent) VALUES (%s)", (number,))
    return made


def _daemon_of(connection: Connection[Rows], where: str, value: Any) -> DaemonRow | None:
    found = connection.execute(_DAEMONS.format(where).encode(), (value,)).fetchone()
    return None if found is None else DaemonRow._make(found)


def _at_work(home: str, daemon: DaemonRow | None) -> ElsewhereError:
    place = daemon.address if daemon is not None else "another place"
    return ElsewhereError(
        f"expected no other daemon of the home {home}, found one at {place}; give this home another `name` "
        "in etc/narval.toml, or start it with `narval run --standby`, which waits until that one is gone"
    )


_ONE_JOINS = "SELECT pg_advisory_xact_lock(hashtext('narval join'), hashtext(current_schema()))"

_JOIN = """
INSERT INTO daemons (home, address, version, digest, weight, started, until, held)
    VALUES (%s, %s, %s, %s, %s, clock_timestamp(), clock_timestamp() + make_interval(secs => %s), 1)
    ON CONFLICT DO NOTHING RETURNING daemon"""

_PINNED = """
SELECT a.agent, a.id, a.name, a.state, a.why, a.wake_at, l.home
    FROM agents a JOIN leases l ON l.agent = a.agent WHERE {}"""

_NEXT_NUMBER = """
SELECT 1 + greatest(
    (SELECT max(agent) FROM leases), (SELECT max(agent) FROM messages), (SELECT max(sender) FROM messages),
    (SELECT max(agent) FROM taken), (SELECT max(sender) FROM taken))"""
"""A number that no agent has, nor had as long as a message names it."""

_RENEW = """
UPDATE daemons SET until = clock_timestamp() + make_interval(secs => %s), draining = %s, held = %s
    WHERE daemon = %s RETURNING extract(epoch FROM until)::float8, home, given"""

_HAND_OVER = """
WITH receiver AS (
    UPDATE daemons SET given = given + 1
        WHERE daemon = %(to)s AND until > clock_timestamp() AND NOT draining RETURNING daemon)
UPDATE leases l SET owner = receiver.daemon, epoch = l.epoch + 1 FROM receiver
    WHERE l.agent = ANY(%(agents)s) AND l.owner = %(me)s"""
"""The statement commits by itself: a daemon that is stopped keeps no lock on the row of another."""

_DAEMONS = """
SELECT d.daemon, d.home, d.address, d.version, d.digest, extract(epoch FROM d.started)::float8,
    extract(epoch FROM d.until)::float8, d.draining, d.held, d.weight
    FROM daemons d WHERE {} ORDER BY d.daemon"""

_MAIL = "SELECT DISTINCT m.agent FROM messages m JOIN leases l ON l.agent = m.agent WHERE l.owner = %s"

_UNHELD = """
WITH RECURSIVE owners (owner) AS (
    SELECT min(owner) FROM leases UNION ALL
    SELECT (SELECT min(l.owner) FROM leases l WHERE l.owner > o.owner) FROM owners o
        WHERE o.owner IS NOT NULL),
gone (owner) AS (
    SELECT o.owner FROM owners o WHERE o.owner <> %(me)s AND NOT EXISTS (
        SELECT FROM daemons d WHERE d.daemon = o.owner AND {})),
unheld (agent, owner, home) AS (
    SELECT l.agent, l.owner, l.home FROM leases l WHERE l.owner IS NULL UNION ALL
    SELECT of_gone.* FROM gone g, LATERAL (
        SELECT l.agent, l.owner, l.home FROM leases l WHERE l.owner = g.owner OFFSET 0) of_gone)"""
"""The agents that nobody holds: each owner is looked for in the index once, however many agents it has, and
nothing more is read of those that are daemons.
"""

_OF_THOSE = "SELECT count(*) FROM unheld u WHERE u.home IN ('', %(home)s)"
_FREE = " ".join((_UNHELD.format("d.until > clock_timestamp()"), _OF_THOSE))

_FROM_THOSE = """, known (agent, owner, home) AS (
    SELECT * FROM unheld UNION ALL SELECT l.agent, l.owner, l.home FROM leases l
        WHERE %(held)s::bigint[] IS NOT NULL AND l.owner = %(me)s AND l.agent <> ALL(%(held)s::bigint[])),
free AS MATERIALIZED (
    SELECT l.agent, (a.state <> 'suspended' AND (a.state = 'active'
            OR a.wake_at < extract(epoch FROM clock_timestamp())
            OR EXISTS (SELECT FROM messages m WHERE m.agent = l.agent))) IS NOT TRUE AS idle,
            l.owner IS NOT DISTINCT FROM %(me)s AS was_given
        FROM known k JOIN leases l ON l.agent = k.agent AND l.owner IS NOT DISTINCT FROM k.owner
            JOIN agents a ON a.agent = l.agent
        WHERE k.home IN ('', (SELECT d.home FROM daemons d WHERE d.daemon = %(me)s)) AND {}
        ORDER BY was_given DESC, idle, 1 LIMIT %(most)s FOR UPDATE OF l SKIP LOCKED), taken AS (
    UPDATE leases l SET owner = %(me)s, epoch = l.epoch + 1 FROM free WHERE l.agent = free.agent
        RETURNING l.agent, l.epoch, l.turn, l.home, free.idle, free.was_given)
SELECT a.agent, a.id, a.name, a.state, a.why, a.wake_at, t.epoch, t.turn, t.home <> '', t.was_given
    FROM taken t JOIN agents a ON a.agent = t.agent ORDER BY t.idle, t.agent"""
"""Without `held` none of its own is taken anew: it is sure that it knows them all."""
_TAKE = "".join((_UNHELD.format("true"), _FROM_THOSE))

_OWNERS = """
SELECT l.agent, coalesce(d.home, ''), l.epoch, l.home
    FROM leases l LEFT JOIN daemons d ON d.daemon = l.owner ORDER BY l.agent"""

_FIND = """
SELECT a.agent, a.id, a.name, a.state, a.why, a.wake_at, l.owner
    FROM agents a LEFT JOIN leases l ON l.agent = a.agent WHERE a.name = %s"""
