"""Login links and sessions, stored in `var/web/` by their hashes, and the people who may have them.

A link is valid for one login within ten minutes; a session is a random secret in a cookie. Several programs
may alter the file at once (`narval web`, and `narval web login` beside it): each takes a lock, reads it, and
writes it whole or not at all.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
import secrets
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from narval.core.agreeing import Role
from narval.core.errors import NarvalError

LINK = 600.0
"""Seconds for which a login link is valid."""

IDLE, WHOLE = 12 * 3600.0, 7 * 86400.0
"""Seconds without a request after which a session ends, and seconds after which it always ends."""

_BROWSERS = (
    ("Firefox/", "Firefox"), ("Edg", "Edge"), ("OPR/", "Opera"), ("HeadlessChrome/", "Chrome"),
    ("Chrome/", "Chrome"), ("CriOS/", "Chrome"), ("FxiOS/", "Firefox"), ("Safari/", "Safari"),
)  # fmt: skip
_SYSTEMS = (
    ("Android", "Android"), ("iPhone", "iPhone"), ("iPad", "iPad"), ("Windows", "Windows"),
    ("Mac OS", "macOS"), ("CrOS", "ChromeOS"), ("Linux", "Linux"),
)  # fmt: skip
"""The words for browsers and systems in a header, with their names; the first match counts."""

NOTED = 600.0
"""Seconds between two records that a session is in use, so that not every request writes the file."""

BYTES = 16
"""The random bytes of a link and of a session: 128 bits."""

ENDED = 64
"""The most ended sessions that are remembered, so that their browsers can be told."""

FOLDER = "web"
"""The folder within `var` for everything that the pages store."""


class LoginLink(msgspec.Struct, frozen=True):
    """A link by its hash: its person, and until when it is valid (seconds since 1970, UTC).

    A link made while no daemon could be asked has, instead of a `person`, the `login` of a user of the
    machine.
    """

    digest: str
    person: str
    until: float
    login: str = ""


class WebSession(msgspec.Struct, frozen=True):
    """A session by the hash of its secret: its number, its person, the role it began with, when it began,
    when it was last seen (seconds since 1970, UTC; updated every ten minutes), and in which browser.
    """

    digest: str
    number: int
    person: str
    role: Role
    begun: float
    seen: float
    browser: str = ""


class _Stored(msgspec.Struct, frozen=True):
    """The content of the file; `last` is the number of the last session, `ended` has those that ended."""

    last: int = 0
    links: tuple[LoginLink, ...] = ()
    sessions: tuple[WebSession, ...] = ()
    ended: tuple[WebSession, ...] = ()

    def still(self, now: float) -> _Stored:
        """The part that is still valid at a moment."""
        links = tuple(link for link in self.links if now < link.until)
        over = (one for one in self.sessions if now >= min(one.seen + IDLE, one.begun + WHOLE))
        return msgspec.structs.replace(self, links=links).without(*over)

    def without(self, *over: WebSession) -> _Stored:
        """The content after some sessions have ended."""
        if not over:
            return self
        alive = tuple(one for one in self.sessions if one not in over)
        return msgspec.structs.replace(self, sessions=alive, ended=(*self.ended, *over)[-ENDED:])


class Sessions:
    """The links and sessions in a folder, which is made if missing, for its user only."""

    def __init__(self, folder: Path, clock: Callable[[], float] = time.time) -> None:
        folder.mkdir(mode=0o700, exist_ok=True)
        self._file, self._lock, self._clock = folder / "sessions.json", folder / "lock", clock
        self._known: tuple[tuple[int, int, int] | None, _Stored] = None, _Stored()
        """The state of the file when it was last read, and its content."""

    # --- links ------------------------------------------------------------------------------------------

    def new_link(self, person: str, login: str = "") -> str:
        """The token of a new link, for a person or for the person with a login; only its hash is stored."""
        token = secrets.token_urlsafe(BYTES)
        link = LoginLink(_digest(token), person, self._clock() + LINK, login)
        with self._altering() as (state, write):
            write(msgspec.structs.replace(state, links=(*state.links, link)))
        return token

    def link(self, token: str) -> LoginLink | None:
        """The link of a token; None if it is used up, expired or invalid."""
        digest = _digest(token)
        links = self._read().still(self._clock()).links
        return next((link for link in links if link.digest == digest), None)

    def log_in(self, token: str, person: str, role: Role, browser: str = "") -> str | None:
        """Use up a link, in a browser if it is known. Returns the secret of a new session; None if it was
        used before.
        """
        digest, secret, now = _digest(token), secrets.token_urlsafe(BYTES), self._clock()
        with self._altering() as (state, write):
            others = tuple(link for link in state.links if link.digest != digest)
            if len(others) == len(state.links):
                return None
            begun = WebSession(_digest(secret), state.last + 1, person, role, now, now, browser)
            write(_Stored(begun.number, others, (*state.sessions, begun), state.ended))
        return secret

    # --- sessions ---------------------------------------------------------------------------------------

    def find(self, secret: str) -> WebSession | None:
        """The session of a secret, recorded as in use; None if it does not exist or has ended."""
        session = self.peek(secret)
        now = self._clock()
        if session is not None and now - session.seen > NOTED:
            with self._altering() as (state, write):
                seen = msgspec.structs.replace(session, seen=now)
                own = tuple(seen if one.digest == seen.digest else one for one in state.sessions)
                write(msgspec.structs.replace(state, sessions=own))
        return session

    def peek(self, secret: str) -> WebSession | None:
        """The session of a secret, without recording its use."""
        digest = _digest(secret)
        sessions = self._read().still(self._clock()).sessions
        return next((one for one in sessions if one.digest == digest), None)

    def ended(self, secret: str) -> WebSession | None:
        """The ended session of a secret, if it is remembered."""
        digest = _digest(secret)
        ended = self._read().still(self._clock()).ended
        return next((one for one in ended if one.digest == digest), None)

    def listed(self) -> list[WebSession]:
        """The current sessions, the oldest first."""
        return list(self._read().still(self._clock()).sessions)

    def end(self, number: int) -> bool:
        """End a session; False if no session has that number."""
        with self._altering() as (state, write):
            over = [one for one in state.sessions if one.number == number]
            if over:
                write(state.without(*over))
        return bool(over)

    # --- the file ---------------------------------------------------------------------------------------

    def _read(self) -> _Stored:
        """The content of the file; empty if it cannot be read, so that every person logs in again."""
        try:
            status = self._file.stat()
            state = status.st_ino, status.st_mtime_ns, status.st_size
            if self._known[0] != state:
                self._known = state, msgspec.json.decode(self._file.read_bytes(), type=_Stored)
        except (FileNotFoundError, msgspec.DecodeError, UnicodeDecodeError):
            return _Stored()
        return self._known[1]

    @contextmanager
    def _altering(self) -> Iterator[tuple[_Stored, Callable[[_Stored], None]]]:
        """The valid content and a function to write it, under the lock."""
        handle = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield self._read().still(self._clock()), self._write
        finally:
            os.close(handle)

    def _write(self, state: _Stored) -> None:
        scratch = self._file.with_suffix(".new")
        with suppress(FileNotFoundError):
            scratch.unlink()
        handle = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(handle, "wb") as file:
            file.write(msgspec.json.encode(state))
            file.flush()
            os.fsync(handle)
        scratch.replace(self._file)


def session_form(session: WebSession) -> dict[str, Any]:
    """A session as plain data."""
    return {
        "session": session.number,
        "person": session.person,
        "role": session.role,
        "begun": _moment(session.begun),
        "seen": _moment(session.seen),
        "browser": session.browser,
    }


def browser_of(agent: str) -> str:
    """The browser and system that a header names, such as "Firefox on Linux"; "" if it names none."""
    browser = next((name for word, name in _BROWSERS if word in agent), "")
    system = next((name for word, name in _SYSTEMS if word in agent), "")
    return f"{browser} on {system}" if browser and system else browser or system


def own_person(people: Sequence[Mapping[str, Any]], login: str) -> str | None:
    """The person who has a login, else the only person, since any user of the home is that one."""
    alone = people[0]["person"] if len(people) == 1 else None
    return next((row["person"] for row in people if row["login"] == login), alone)


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).astimezone().isoformat(timespec="seconds")


def form_token(secret: str) -> str:
    """The token of a session's forms: it does not reveal the secret, and cannot be computed without it."""
    return _digest(f"form {secret}")


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


# --- people -------------------------------------------------------------------------------------------------


PATIENCE = 5.0
"""Seconds for the daemon to return the roles."""


class PeopleOfHome:
    """The people of a home, as its daemon has them; the last known ones while no daemon answers."""

    def __init__(self, ask: Callable[..., Awaitable[Any]]) -> None:
        self._ask = ask
        self._last: list[dict[str, Any]] | None = None
        self._asked = 0.0

    async def people(self, not_older: float = 0.0) -> list[dict[str, Any]] | None:
        """The people of the home, asked again if older than `not_older` seconds; None before any answer."""
        if self._last is None or time.monotonic() - self._asked > not_older:
            try:
                async with asyncio.timeout(PATIENCE):
                    self._last = await self._ask("people")
                self._asked = time.monotonic()
            except (NarvalError, TimeoutError):
                pass
        return self._last
