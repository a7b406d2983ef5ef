"""The meaning of PostgreSQL's errors: away, refused, fenced, or something for the operator to fix."""

from __future__ import annotations

import re
import threading
import time

from psycopg import DataError, Error, NotSupportedError, ProgrammingError

from narval.core.errors import StoreAwayError, StoreError
from narval.store.postgresql.functions import FENCED

_AWAY = ("08", "53", "57P", "58", "25006")
"""The prefixes of codes for a server that is temporarily unable, such as one with a full disk."""

_OF_ROWS = ("22", "23", "54")
"""The prefixes of codes about values: data exceptions, constraints, limits of the program."""

_AGAIN = ("40001", "40P01", "55P03")
"""Codes for conflicts: nothing was done, and another attempt may succeed."""

_REMEDIES = (
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


def server_trouble(name: str, error: BaseException, consequence: str) -> StoreError:
    """The error for the operator: the meaning of a driver's error, and what to do next."""
    away = is_away(error)
    what = "the server of the store does not answer" if away else "the store failed"
    advice = "start it, or correct the URL" if away else "set that right and start again"
    words = str(error) if away and not getattr(error, "sqlstate", None) else ""
    for pattern, meaning, remedy in _CONNECTING:
        if re.search(pattern, words):
            what, advice = meaning, remedy
    for code, meaning, remedy in _REMEDIES:
        if _begins(error, (code,)):
            what, advice = meaning, remedy
    parts = (f"{what}: {name} ({said(error)})", consequence, advice)
    kind = StoreAwayError if away else StoreError
    return kind("; ".join(part for part in parts if part))


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
        self._patience = patience
        self._next = FIRST_WAIT
        self._began = 0.0
        self._ends = threading.Event()

    def delay(self, error: StoreError) -> float:
        """The seconds until the next attempt. Raises StoreAwayError when patience is exhausted."""
        now = time.monotonic()
        if self.away is None:
            self._began, self._next = now, FIRST_WAIT
        self.away = (self.away[0] if self.away else time.time()), str(error)
        if self._patience is not None and now - self._began > self._patience:
            raise StoreAwayError(
                f"{error}; given up after {self._patience:g} seconds (store_patience)"
            ) from error
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
