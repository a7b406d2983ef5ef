"""The store of a daemon on a server that others may share (docs/reference/store.md, G43 to G52).

Daemons notify one another of messages between heartbeats, by NOTIFY and LISTEN. A NOTIFY takes a lock for
which all commits with a NOTIFY wait. So it is a transaction of its own, on the listening connection, and is
sent at most once in `SPACING`. The holder of an agent is looked up when it is sent. The next heartbeat finds
what is lost here.
"""

from __future__ import annotations

import logging
import os
import select
import threading
import time
from collections.abc import Callable, Collection, Generator, Iterable
from contextlib import closing, suppress
from typing import Any

from psycopg import Connection, Error
from psycopg.sql import SQL, Identifier

from narval import __version__
from narval.core.errors import RefusedRowsError, StoreError
from narval.store.batch import STORE, Batch, MessageRow
from narval.store.letters import DatabaseLetters
from narval.store.postgresql.leases import DaemonNotices
from narval.store.postgresql.ownership import ServerLeases, held_of, turns_recorded
from narval.store.postgresql.published_table import PublishedTable
from narval.store.postgresql.record import Commit, TurnMark, Writer, fenced, told
from narval.store.postgresql.server import (
    Outage,
    Rows,
    Server,
    drop_unused,
    ensure,
    fenced_agents,
    is_away,
    is_in_the_way,
    is_refused,
    refuses_rows,
    said,
)
from narval.store.reading import CHUNK, ReadTables, Tables
from narval.store.store import Durability

log = logging.getLogger("narval.store")

AT_THE_START = (
    "agent", "meta", "elements", "contexts", "marks", "withdrawals", "labels", "keys", "events",
    "moments", "runs", "results of files", "messages at the start", "taken", "current versions",
)  # fmt: skip
"""The queries that read each agent before its first turn is recorded."""

OF_RUNS = ("entries under way", "snapshots under way")
"""The queries that read its active runs, from one eid to another."""

AHEAD = (*AT_THE_START, *OF_RUNS)

_NOT_PERFORMED = "nothing of this turn was performed"


def open_shared(server: Server, durability: Durability, patience: float | None) -> SharedDatabase:
    """The store on a server, made or migrated as needed.

    `patience` is the seconds that a commit waits while the server is away; None: for ever. Raises StoreError,
    and StoreAwayError if the server is away now.
    """
    try:
        ensure(server)
        drop_unused(server)
        store = SharedDatabase(server, Writer(server, durability), durability, Outage(patience))
        store.commit(Batch(STORE, meta=[("narval", __version__)]))
        return store
    except BaseException as error:
        server.close()
        if isinstance(error, Error):
            trouble = server.trouble(error)
            raise (StoreError(str(trouble)) if is_refused(error) else trouble) from error
        raise


class ServerTables(Tables):
    """The tables of a server, whose rows are fetched at once, since many readers share its connections."""

    def __init__(self, server: Server, leases: ServerLeases) -> None:
        super().__init__(server)
        self._server, self._leases = server, leases
        self._ahead: dict[int, tuple[TurnMark, dict[str, list[Any]]]] = {}

    def read_ahead(self, agents: Collection[int]) -> None:
        """Read in one round trip the rows that restore agents, valid until the agents' next turn."""
        marks = self._leases.marks
        ahead = {
            agent: (mark, {name: list[Any]() for name in AHEAD})
            for agent in agents
            if (mark := marks.get(agent)) is not None
        }
        try:
            with self._server.reading() as connection, connection.pipeline():
                asked = [(name, connection.execute(self._of_many(name), (list(ahead),))) for name in AHEAD]
                results = [(name, cursor.fetchall()) for name, cursor in asked]
        except Error as error:
            raise self._server.trouble(error) from error
        for name, rows in results:
            for agent, *row in rows:
                ahead[agent][1][name].append(tuple(row))
        self._ahead.update(ahead)

    def _of_many(self, name: str) -> bytes:
        """The query for one agent, applied to each of many, so that the rows of one keep their order."""
        asked = self._sql[name].replace("BETWEEN %s AND %s", "> 0").replace("%s", "asked.agent")
        many = "SELECT asked.agent, found.* FROM unnest(%s::bigint[]) AS asked (agent)"
        return f"{many}, LATERAL ({asked}) AS found".encode()

    def forget_ahead(self, agents: Iterable[int]) -> None:
        """Drop what was read ahead for agents."""
        for agent in agents:
            self._ahead.pop(agent, None)

    def read(self, name: str, *values: Any) -> list[Any]:
        """The rows of a query. Raises StoreError, StoreAwayError."""
        if self._ahead and name in AHEAD and (ahead := self._ahead.get(values[0])) is not None:
            mark, rows = ahead
            if (
                self._leases.marks.get(values[0]) == mark
            ):  # else it has had a turn, or another daemon holds it
                if name in AT_THE_START:
                    return rows[name]
                first, last = values[-2:]
                return [row for row in rows[name] if first <= row[0] <= last]
        try:
            return self._rows(name, values)
        except Error as error:
            if not is_away(error):
                raise self._server.trouble(error) from error
        self._server.drop_idle()  # the server may have restarted since they were opened
        try:
            return self._rows(name, values)
        except Error as error:
            raise self._server.trouble(error) from error

    def _rows(self, name: str, values: tuple[Any, ...]) -> list[Any]:
        with self._server.reading() as connection:
            return connection.execute(self._sql[name].encode(), values).fetchall()

    def stream(self, name: str, *values: Any) -> Generator[list[Any]]:
        """The rows, `CHUNK` at a time. Raises StoreError."""
        rows = self.read(name, *values)
        for first in range(0, len(rows), CHUNK):
            yield rows[first : first + CHUNK]


class ServerLetters(DatabaseLetters):
    """The messages on a server, which returns those of many agents in one answer."""

    def messages_of(self, receivers: Collection[int]) -> list[MessageRow]:
        """The messages that several agents have not taken."""
        return self._typed(MessageRow, "messages of several", list(receivers)) if receivers else []


class SharedDatabase(ReadTables):
    """The tables of a server, and the one connection of this daemon that records."""

    is_shared = True
    leases: ServerLeases

    def __init__(self, server: Server, writer: Writer, durability: Durability, outage: Outage) -> None:
        self.leases = ServerLeases(server, self.use_own, outage.patience)
        self._at_hand = ServerTables(server, self.leases)
        super().__init__(self._at_hand)
        self._server, self.writer, self._durability = server, writer, durability
        self._outage = outage
        self._refusal = ""
        self._committing = threading.Lock()
        self._closed = False
        self.published = PublishedTable(server)

    @property
    def away(self) -> tuple[float, str] | None:
        """The moment since which the server does not answer (seconds since 1970), and why; None while it
        does.
        """
        return self._outage.away

    def read_ahead(self, agents: Collection[int]) -> None:
        """Read in one round trip the rows that restore agents."""
        self._at_hand.read_ahead(agents)

    def commit(self, *batches: Batch) -> None:
        """Record the batches, all or nothing, however long the server is away (G51, G52)."""
        if self._refusal:
            raise StoreError(self._refusal)
        filled = [batch for batch in batches if batch]
        if not filled:
            return
        with self._committing:
            self._commit(Commit(filled, self.leases.marks if self.leases.daemon else None))

    def _commit(self, commit: Commit) -> None:
        leases = self.leases
        try:
            calls = [
                self.writer.packed(leases.daemon, marks, told(part))
                for part, marks in zip(commit.parts, commit.marks, strict=True)
            ]
        except Exception as error:
            raise self._refused(error) from error
        made = self._recorded(calls, commit)
        if leases.daemon:
            leases.count(commit)
            leases.add(made)
            self._at_hand.forget_ahead(commit.before)

    def _recorded(self, calls: list[list[bytes | None]], commit: Commit) -> set[int]:
        """Make the calls, repeatedly if necessary, and return the agents that were made."""
        is_cut = False
        while True:
            try:
                if is_cut or self.writer.is_broken:
                    self.writer.close()
                    self.writer = Writer(self._server, self._durability)
                made = self._made_before(commit) if is_cut else None
                if made is None:
                    made = self._record(calls, commit, is_cut=is_cut)
                self._outage.over()
                return made
            except Error as error:
                if is_in_the_way(error):
                    continue
                trouble = self._trouble(error)
                if not is_away(error) or not commit.is_fenced:
                    raise trouble from error
                is_cut = True
                self._wait(trouble)

    def _record(self, calls: list[list[bytes | None]], commit: Commit, *, is_cut: bool) -> set[int]:
        try:
            return self.writer.record(calls)
        except Error as error:
            lost = fenced_agents(error)
            if lost is None:
                raise
            # A request sent before the connection was cut may only now have been done.
            made = self._made_before(commit) if is_cut else None
            if made is None:
                self.leases.forget(lost)
                raise fenced(lost) from error
            return made

    def _made_before(self, commit: Commit) -> set[int] | None:
        """The agents made by a commit whose answer was lost; None if it was not recorded."""
        connection, daemon = self.writer.connection, self.leases.daemon
        turns = turns_recorded(connection, daemon, commit.before)
        if not turns:
            self.leases.forget(commit.before)
            raise fenced(commit.before)
        if all(turn == commit.before[agent].turn for agent, turn in turns.items()):
            return None
        return held_of(connection, daemon, commit.registered)

    def _trouble(self, error: Error) -> StoreError:
        """The error to raise in place of a driver's; after most of them nothing more is recorded."""
        if refuses_rows(error):
            return self._refused(error)
        trouble = self._server.trouble(error, _NOT_PERFORMED)
        if not is_away(error):
            self._refusal = f"no turn is recorded after one that could not be: {trouble}"
        return trouble

    def _wait(self, trouble: StoreError) -> None:
        try:
            self._outage.wait(trouble)
        except StoreError as error:
            self._refusal = self._refusal or str(error)
            raise

    def _refused(self, error: BaseException) -> RefusedRowsError:
        what = f"{self._server.name} does not take what was to be recorded ({said(error)})"
        return RefusedRowsError(f"{what}; {_NOT_PERFORMED}")

    def refuse(self, why: str) -> None:
        """Record nothing from now on."""
        self._refusal = why

    @property
    def letters(self) -> ServerLetters:
        """The messages between its agents, to be read."""
        return ServerLetters(self._tables.read, self._tables.name)

    def listen(self, heard: Callable[[frozenset[int]], None]) -> ServerNotices:
        """Start notifying other daemons of messages, and hearing of them, on another connection."""
        return ServerNotices(self._server, lambda: self.leases.daemon, heard)

    def close(self) -> None:
        """Close the connections to the server, and end all waits for it."""
        if self._closed:
            return
        self._closed = True
        self._refusal = self._refusal or f"the store is closed: {self._server.name}"
        self._outage.end()
        if not self._committing.acquire(blocking=False):
            self.writer.cut()
            self._committing.acquire()
        self._committing.release()
        self.writer.close()
        self.leases.close()
        self._server.close()


# --- notices between daemons ----------------------------------------------------------------------------

SPACING = 0.005
"""Seconds between two notices of a daemon, each of which tells every other daemon at most once."""

AGAIN = 1.0
"""Seconds after which a broken connection is opened again."""

_TELL = """SELECT pg_notify(%s, CASE WHEN length(agents) < 7000 THEN owner || agents ELSE owner::text END)
    FROM (SELECT owner, string_agg(' ' || agent, '') AS agents FROM leases
        WHERE agent = ANY(%s) AND owner IS NOT NULL GROUP BY owner) AS told"""


class ServerNotices(DaemonNotices):
    """The notices of one daemon, whose number is now `daemon`: a thread, and a connection of its own."""

    def __init__(
        self, server: Server, daemon: Callable[[], int], heard: Callable[[frozenset[int]], None]
    ) -> None:
        self._server, self._daemon, self._heard = server, daemon, heard
        self._told: set[int] = set()
        """The agents whose daemons are not notified yet."""
        self._lock = threading.Lock()
        self._bell = os.pipe()
        self._is_over = False
        self._thread = threading.Thread(target=self._follow, name="narval-notices", daemon=True)
        self._thread.start()

    def tell(self, agent: int) -> None:
        """Have the daemon that holds an agent notified."""
        with self._lock:
            is_first = not self._told
            self._told.add(agent)
            if is_first and not self._is_over:
                os.write(self._bell[1], b".")

    def close(self) -> None:
        """Send and receive nothing more."""
        with self._lock:
            if self._is_over:
                return
            self._is_over = True
            os.write(self._bell[1], b".")
        self._thread.join()
        for end in self._bell:
            os.close(end)

    def _follow(self) -> None:
        is_told = False
        while not self._is_over:
            try:
                with closing(self._server.connect()) as connection:
                    is_told = False
                    self._serve(connection)
            except Error as error:
                if not is_told:
                    log.info("notices of other daemons come with the heartbeats: %s", error)
                is_told = True
                self._rings(AGAIN)

    def _serve(self, connection: Connection[Rows]) -> None:
        [(schema,)] = connection.execute("SELECT current_schema()")
        channel = f"narval_{schema}"[:63]
        connection.execute(SQL("LISTEN {}").format(Identifier(channel)))
        sent = 0.0
        while not self._is_over:
            wait = sent + SPACING - time.monotonic() if self._told else None
            if wait is not None and wait <= 0:
                with self._lock:
                    agents, self._told = list(self._told), set()
                sent = time.monotonic()
                connection.execute(_TELL, (channel, agents))
            else:
                self._rings(wait, connection)
            for notice in connection.notifies(timeout=0):
                self._hear(notice.payload)

    def _rings(self, wait: float | None, connection: Connection[Rows] | None = None) -> None:
        """Wait for `wait` seconds, until there is something to send, or until something arrives."""
        ends = [self._bell[0]] if connection is None else [self._bell[0], connection.fileno()]
        ready, _, _ = select.select(ends, [], [], wait)
        if self._bell[0] in ready:
            os.read(self._bell[0], 4096)

    def _hear(self, payload: str) -> None:
        with suppress(ValueError):  # a notice of another program
            daemon, *agents = map(int, payload.split())
            if daemon == self._daemon():
                self._heard(frozenset(agents))
