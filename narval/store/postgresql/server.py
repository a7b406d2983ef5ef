"""The connections to a PostgreSQL server, by psycopg 3 (G44): narval's tables and functions there, the
meaning of its errors, and waiting while it does not answer (G52).
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from threading import BoundedSemaphore
from typing import Any

from psycopg import Connection, Cursor, DataError, Error, NotSupportedError, ProgrammingError
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import Format

from narval import __version__
from narval.core.errors import StoreAwayError, StoreError
from narval.store import tables
from narval.store.postgresql.functions import COUNTS, FENCED, LEASES, OF_SERVERS, record
from narval.store.postgresql.leases import given_up
from narval.store.postgresql.urls import of_libpq, shown
from narval.store.releases import note_oldest, oldest_for, version_of
from narval.store.statements import make_schema, statements
from narval.store.tables import POSTGRESQL

logger = logging.getLogger("narval.store")

Rows = tuple[Any, ...]

READERS = 4
"""The most connections that read at once."""

_NOTICING: dict[str, Any] = {
    "application_name": "narval",
    "client_encoding": "UTF8",
    "connect_timeout": 5,
    "keepalives": 1,
    "keepalives_idle": 2,
    "keepalives_interval": 1,
    "keepalives_count": 2,
    "tcp_user_timeout": 5000,  # milliseconds
}
"""The settings of a connection, unless the URL says otherwise: a broken network is detected in 5 s."""


class BinaryCursor(Cursor[Rows]):
    """A cursor whose rows come in the binary form, which is read without parsing."""

    def __init__(self, connection: Connection[Any], **how: Any) -> None:
        super().__init__(connection, **how)
        self.format = Format.BINARY


class Server:
    """Connections to a server; each commits by itself."""

    dialect = POSTGRESQL
    errors: tuple[type[Exception], ...] = (Error,)

    def __init__(self, url: str) -> None:
        self.url, self.name = url, shown(url)
        try:
            self._asked: dict[str, Any] = {**_NOTICING, **conninfo_to_dict(of_libpq(url))}
        except ProgrammingError:  # the message may contain a part of the password
            raise StoreError(
                f"expected a URL such as postgresql://me@host/narval, found one that libpq does not read: "
                f"{self.name.partition('://')[0]}://…; quote odd characters by %"
            ) from None
        self.statements: Mapping[str, str] = {**statements(POSTGRESQL), **OF_SERVERS}
        self._idle: list[Connection[Rows]] = []
        self._places = BoundedSemaphore(READERS)
        self._closed = False

    def connect(self) -> Connection[Rows]:
        """A new connection."""
        return Connection.connect(autocommit=True, cursor_factory=BinaryCursor, **self._asked)

    @contextmanager
    def reading(self) -> Iterator[Connection[Rows]]:
        """A connection for the duration of a read, kept for the next reader unless it broke."""
        with self._places:
            connection = self._idle.pop() if self._idle else self.connect()
            try:
                yield connection
            finally:
                if self._closed or connection.broken:
                    connection.close()
                else:
                    self._idle.append(connection)

    def trouble(self, error: BaseException, consequence: str = "") -> StoreError:
        """The error for the operator: the meaning of a driver's error, and what to do next."""
        away = is_away(error)
        what = "the server of the store does not answer" if away else "the store failed"
        advice = "start it, or correct the URL" if away else "correct that, and start again"
        words = str(error) if away and not getattr(error, "sqlstate", None) else ""
        for pattern, meaning, remedy in _CONNECTING:
            if re.search(pattern, words):
                what, advice = meaning, remedy
        for code, meaning, remedy in _REMEDIES:
            if _begins(error, (code,)):
                what, advice = meaning, remedy
        parts = (f"{what}: {self.name} ({said(error)})", consequence, advice)
        kind = StoreAwayError if away else StoreError
        return kind("; ".join(part for part in parts if part))

    def tables(self, connection: Connection[Rows]) -> set[str]:
        """The names of the existing tables."""
        cursor = connection.execute(
            "SELECT tablename::text FROM pg_tables WHERE schemaname = current_schema()"
        )
        return {name for (name,) in cursor}

    def keep_daemons_out(self, connection: Connection[Rows]) -> str:
        """Keep daemons from joining until the end of the connection; return those running, by their homes."""
        connection.execute(f"SELECT pg_advisory_lock({_LOCK})")
        return _at_work(self, connection)

    def drop_idle(self) -> None:
        """Close the idle connections of readers, which are dead after an outage."""
        while self._idle:
            self._idle.pop().close()

    def close(self) -> None:
        """End the connections of the readers."""
        self._closed = True
        self.drop_idle()


# --- opening --------------------------------------------------------------------------------------------

_LOCK = "hashtext('narval'), hashtext(current_schema())"
"""The key of the lock of a schema: commits that add texts share it; making or dropping takes it
exclusively.
"""


def ensure(server: Server) -> None:
    """Make missing tables and functions, or migrate them.

    One daemon at a time does so. Raises StoreError for tables of a newer version, or of another program, and
    for a pooler that shares connections.
    """
    with closing(server.connect()) as connection:
        _refuse_sharing(server, connection)
        if _is_ready(server, connection):
            return
        connection.execute(f"SELECT pg_advisory_lock({_LOCK})")  # it ends with the connection
        if not server.tables(connection):
            logger.info("making the tables of a new store: %s", server.name)
            with connection.transaction():
                make_schema(connection.cursor(), server.statements)
                note_oldest(server, connection.cursor(), tables.HEAD)
        elif (version := _version(server, connection)) < tables.HEAD:
            from narval.store.migrate import migrate

            if oldest_for(server, tables.HEAD) > version:
                _refuse_at_work(server, connection, version)
            migrate(server, connection, version)
        with connection.transaction():
            if "leases" not in server.tables(connection):
                _execute(connection, LEASES)
            if not _has_counts(connection):
                _execute(connection, COUNTS)
            if not _has_function(connection):
                for (left,) in connection.execute(_TYPES_LEFT, (f"{record().name}_",)).fetchall():
                    connection.execute(f"DROP TYPE {left}")
                _execute(connection, record().text)


def _refuse_sharing(server: Server, connection: Connection[Rows]) -> None:
    """Raise StoreError if a pooler before the server gives a connection of its own to another client between
    two transactions. Settings, locks and prepared statements would be those of other clients.
    """
    process = _server_process(connection)
    if process == connection.info.backend_pid:  # there is no pooler
        return
    with closing(server.connect()) as other, other.transaction():
        if _server_process(other) == process:
            raise StoreError(f"{_SHARES}: {server.name}; {_SESSIONS}")


def _server_process(connection: Connection[Rows]) -> int:
    """The process of the server that serves a connection now."""
    (process,) = connection.execute("SELECT pg_backend_pid()").fetchone() or (0,)
    return int(process)


def _is_ready(server: Server, connection: Connection[Rows]) -> bool:
    names = server.tables(connection)
    if not names:
        return False
    is_current = _version(server, connection) >= tables.HEAD
    return is_current and "leases" in names and _has_counts(connection) and _has_function(connection)


def _at_work(server: Server, connection: Connection[Rows]) -> str:
    """The homes of the running daemons, each with its release. One whose time is over starts over if it
    still runs, and meets the other tables then.
    """
    if "daemons" not in server.tables(connection):
        return ""
    connection.execute("DELETE FROM daemons WHERE until <= clock_timestamp()")
    found = connection.execute("SELECT home, version FROM daemons ORDER BY home")
    return ", ".join(f"{home} ({release})" for home, release in found)


def _refuse_at_work(server: Server, connection: Connection[Rows], version: int) -> None:
    """Raise StoreError if daemons are running on tables that must be altered."""
    if homes := _at_work(server, connection):
        raise StoreError(
            f"the tables of {server.name} are of version {version}, those of this narval, {__version__}, of "
            f"{tables.HEAD}, and daemons are running on them: {homes}; stop these, back the store up "
            "(narval backup FILE), and start this one again"
        )


def _version(server: Server, connection: Connection[Rows]) -> int:
    return version_of(server, connection)[0]


def refuse_other_tables(server: Server, connection: Connection[Rows]) -> None:
    """Raise StoreError if this program cannot work on tables of their version, or no longer."""
    if (version := _version(server, connection)) < tables.HEAD:
        raise StoreError(
            f"the tables of {server.name} were taken back to version {version} meanwhile, and those of this "
            f"narval, {__version__}, are of {tables.HEAD}; start it again, which brings them up to date"
        )


def _has_counts(connection: Connection[Rows]) -> bool:
    asked = "SELECT FROM pg_attribute WHERE attrelid = 'leases'::regclass AND attname = 'given'"
    return bool(connection.execute(asked).rowcount)


def _has_function(connection: Connection[Rows]) -> bool:
    row = connection.execute("SELECT to_regproc(%s) IS NOT NULL", (record().name,)).fetchone()
    return row == (True,)


_TYPES_LEFT = """
SELECT typname::text FROM pg_type
    WHERE typnamespace = quote_ident(current_schema())::regnamespace AND typtype = 'c'
        AND starts_with(typname, %s)"""
"""The types of a function of that name that is gone."""


def _execute(connection: Connection[Rows], text: str) -> None:
    for statement in text.split(";\n\n"):
        connection.execute(statement.encode())


def keep_tables(connection: Connection[Rows]) -> None:
    """Keep tables from being altered, and texts from being dropped, until the end of the transaction."""
    connection.execute(f"SELECT pg_advisory_xact_lock_shared({_LOCK})")


def drop_unused(server: Server) -> None:
    """Drop versions of definitions that no run needs, of agents that no daemon holds, and texts that nothing
    names. No commit adds texts during that.
    """
    with closing(server.connect()) as connection, connection.transaction():
        connection.execute(f"SELECT pg_advisory_xact_lock({_LOCK})")
        held = "AND agent NOT IN (SELECT agent FROM leases WHERE owner IS NOT NULL)"
        connection.execute(f"{server.statements['drop definitions']} {held}".encode())
        connection.execute(server.statements["drop texts"].encode())


# --- errors, and waiting while it is away ---------------------------------------------------------------

_AWAY = ("08", "53", "57P", "58", "25006")
"""The prefixes of codes for a server that is temporarily unable, such as one with a full disk."""

_OF_ROWS = ("22", "23", "54")
"""The prefixes of codes about values: data exceptions, constraints, limits of the program."""

_AGAIN = ("40001", "40P01", "55P03")
"""Codes for conflicts: nothing was done, and another attempt may succeed."""

_SHARES = "a pooler before the server shares connections between transactions"

_SESSIONS = "have it pool sessions (pool_mode = session in PgBouncer), or name the server itself"

_REMEDIES = (
    ("42P05", _SHARES, _SESSIONS),  # a prepared statement is of another client
    ("26000", _SHARES, _SESSIONS),  # or it is gone
    ("28", "the server refuses this user", "look at the URL, the pass file of libpq and pg_hba.conf"),
    ("42501", "the user may not do that", "grant the role of the daemon what it needs"),
    ("3D", "the server has no such database", "create it, or correct the URL"),
    ("3F", "no schema is there", "create the schema that the URL names"),
    ("53100", "the disk of the server is full", "free space there: it continues by itself"),
    ("25006", "the server only reads", "a standby: let the URL name the primary; it continues by itself"),
)


def is_away(error: BaseException) -> bool:
    """True if the server does not answer now; the request may have been carried out."""
    if isinstance(error, Error) and not error.sqlstate:  # the client's own error: the connection broke
        return not isinstance(error, (DataError, ProgrammingError, NotSupportedError))
    return _begins(error, _AWAY)


def refuses_rows(error: BaseException) -> bool:
    """True if an error is about the values to be recorded."""
    return _begins(error, _OF_ROWS)


def is_in_the_way(error: BaseException) -> bool:
    """True if another program was in the way: nothing was done, and a retry may succeed."""
    return _begins(error, _AGAIN)


def fenced_agents(error: BaseException) -> frozenset[int] | None:
    """The agents that are now another daemon's; None if the error is not about that."""
    if not isinstance(error, Error) or error.sqlstate != FENCED:
        return None
    return frozenset(map(int, (error.diag.message_detail or "").split(",")))


def said(error: BaseException) -> str:
    """The text of an error, without the place in our function where it was raised."""
    diag = error.diag if isinstance(error, Error) else None
    words = " ".join(filter(None, (diag.message_primary, diag.message_detail))) if diag else ""
    return " ".join((words or str(error) or type(error).__name__).split())


_REFUSED = (
    (r'database ".*" does not exist', "the server has no such database", "create it, or correct the URL"),
    (
        r'role ".*" does not exist|authentication failed|no password supplied|pg_hba\.conf',
        "the server refuses this user",
        "look at the URL, the pass file of libpq (~/.pgpass) and pg_hba.conf",
    ),
)
"""The messages of a server that refuses a connection, which have no code, each with meaning and remedy."""

_CONNECTING = (
    *_REFUSED,
    (r"resolve host|translate host name", "there is no such host", "correct the URL"),
)


def is_refused(error: BaseException) -> bool:
    """True if the server answers, but refuses the connection as requested."""
    return any(re.search(pattern, str(error)) for pattern, _, _ in _REFUSED)


def _begins(error: BaseException, codes: tuple[str, ...]) -> bool:
    return str(getattr(error, "sqlstate", None) or "").startswith(codes)


FIRST_WAIT, LONGEST_WAIT = 0.1, 2.0
"""Seconds between two attempts: twice as many each time."""


class Outage:
    """The state of a server: away or not, since when and why; `patience` is the seconds for which an outage
    is tolerated.
    """

    def __init__(self, patience: float | None) -> None:
        self.away: tuple[float, str] | None = None
        """The moment since which it is away (seconds since 1970), and why; None while it answers."""
        self.patience = patience
        self._next = FIRST_WAIT
        self._began = 0.0
        self._ends = threading.Event()

    def delay(self, error: StoreError) -> float:
        """The seconds until the next attempt. Raises StoreAwayError when patience is exhausted."""
        now = time.monotonic()
        if self.away is None:
            self._began, self._next = now, FIRST_WAIT
        self.away = (self.away[0] if self.away else time.time()), str(error)
        if self.patience is not None and now - self._began > self.patience:
            raise given_up(error, self.patience) from error
        seconds, self._next = self._next, min(2 * self._next, LONGEST_WAIT)
        return seconds

    def wait(self, error: StoreError) -> None:
        """Wait until the next attempt. Raises StoreAwayError if no more attempts are wanted."""
        if self._ends.wait(self.delay(error)):
            raise StoreAwayError(f"{error}; the store is closed") from error

    def over(self) -> None:
        """Record that it answers again."""
        self.away = None

    def end(self) -> None:
        """End all waits."""
        self._ends.set()
