"""Notices on PostgreSQL: daemons notify one another of messages between heartbeats, by NOTIFY and LISTEN
(G44).

A NOTIFY takes a lock for which all commits with a NOTIFY wait. So it is a transaction of its own, on the
listening connection, and is sent at most once in `SPACING`. The holder of an agent is looked up when it is
sent. The next heartbeat finds what is lost here.
"""

from __future__ import annotations

import logging
import os
import select
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress

from psycopg import Connection, Error
from psycopg.sql import SQL, Identifier

from narval.store.postgresql.leases import DaemonNotices
from narval.store.postgresql.postgresql import Rows, Server

log = logging.getLogger("narval.store")

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
                    told, self._told = list(self._told), set()
                sent = time.monotonic()
                connection.execute(_TELL, (channel, told))
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
