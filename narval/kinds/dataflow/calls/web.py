"""The web as dataflows use it: pages, and values that are posted (T60).

Pages are requested politely, and only where the settings allow it. A page that the server can compare is
kept, and fetched again only if it has changed. The cache is an SQLite file in `var/` of the home. Deleting it
costs only time.
"""

from __future__ import annotations

import asyncio
import codecs
import re
import socket
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path
from time import time
from urllib.parse import urlsplit

import msgspec

from narval.calls.context import fetch
from narval.core.errors import ActionError
from narval.system.fetch import Fetched

FILE = "dataflows.sqlite"
"""The name of the file in `var/`."""

MOST_PAGES = 2_000
"""The most pages kept; the oldest are dropped first."""

_SCHEMA = """
PRAGMA journal_mode = WAL;
PRAGMA synchronous = NORMAL;
CREATE TABLE IF NOT EXISTS pages (url TEXT PRIMARY KEY, at REAL NOT NULL, data BLOB NOT NULL) WITHOUT ROWID;
"""


class KeptPage(msgspec.Struct, array_like=True):
    """A fetched page, with the server's validators for conditional requests."""

    etag: str
    modified: str
    status: int
    type: str
    content: str


def pages_file(home: Path) -> Path:
    """The file of a home."""
    return home / "var" / FILE


class PageCache:
    """The pages in a file, or in memory without one."""

    def __init__(self, path: Path | None) -> None:
        self._database = sqlite3.connect(":memory:" if path is None else path, check_same_thread=False)
        if path is not None:
            path.chmod(0o600)
        self._database.executescript(_SCHEMA)

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def page(self, url: str) -> KeptPage | None:
        """The cached page of a URL."""
        row = self._database.execute("SELECT data FROM pages WHERE url = ?", (url,)).fetchone()
        return None if row is None else msgspec.msgpack.decode(row[0], type=KeptPage)

    def keep(self, url: str, page: KeptPage, at: float) -> None:
        """Keep a page, and drop the oldest if there are too many."""
        with self._database as database:
            database.execute(
                "INSERT OR REPLACE INTO pages VALUES (?, ?, ?)", (url, at, msgspec.msgpack.encode(page))
            )
            (count,) = database.execute("SELECT count(*) FROM pages").fetchone()
            if count > MOST_PAGES:
                oldest = "DELETE FROM pages WHERE url IN (SELECT url FROM pages ORDER BY at LIMIT ?)"
                database.execute(oldest, (count - MOST_PAGES,))


AT_ONCE = 20
"""The most requests to one host at once."""

TRIES = 3
WAITS = (1.0, 4.0)
"""Seconds before the second and third try, if the server names none."""

LONGEST_WAIT = 60.0
"""The longest wait in seconds; a server that asks for more is not retried."""

_AGAIN = frozenset({429, 500, 502, 503, 504})
_META = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?([\w-]{1,40})", re.IGNORECASE)
_CHARSET = re.compile(r"charset\s*=\s*[\"']?([\w-]{1,40})", re.IGNORECASE)
_MARKS = ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))
_PIECE = 1 << 20
_DECLARED = re.compile(rb"^\s*<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([\w-]{1,40})")


class Web:
    """The web for dataflows, reached by `narval.fetch` within the call of a session. It makes at most
    `AT_ONCE` requests to a host at once, and fetches known pages only if they have changed.
    """

    def __init__(
        self,
        pages: PageCache,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        now: Callable[[], float] = time,
    ) -> None:
        self._pages, self._sleep, self._now = pages, sleep, now
        self._hosts: dict[str, asyncio.Semaphore] = {}

    async def page(self, url: str) -> KeptPage:
        """Get a page. Raises ActionError if there is none, or none in time, which may be temporary (TA25)."""
        try:
            async with self._hosts.setdefault(_host_of(url), asyncio.Semaphore(AT_ONCE)):
                return await self._asked(url)
        except ActionError as error:
            raise ActionError(str(error), error.kind, final=not _may_pass(error)) from None

    async def post(self, url: str, body: bytes, key: str) -> int:
        """Post JSON to an address, under a key; return the status of the answer. Raises ActionError."""
        headers = {"Content-Type": "application/json", "Idempotency-Key": key}
        try:
            return (await fetch(url, method="POST", headers=headers, body=body)).status
        except ActionError as error:
            raise ActionError(str(error), error.kind, final=not _may_pass(error)) from None

    async def _asked(self, url: str) -> KeptPage:
        page = self._pages.page(url)
        headers = {}
        if page is not None and page.etag:
            headers["If-None-Match"] = page.etag
        if page is not None and page.modified:
            headers["If-Modified-Since"] = page.modified
        for attempt in range(1, TRIES + 1):
            try:
                response = await fetch(url, headers=headers)
            except ActionError as error:
                if not _may_pass(error) or attempt == TRIES:
                    raise
                await self._sleep(WAITS[attempt - 1])
                continue
            if page is not None and response.status == 304:
                return page
            wait = _wait_after(response, attempt, self._now())
            if wait is None:
                return self._kept(url, response, self._now())
            await self._sleep(wait)
        raise AssertionError(url)

    def _kept(self, url: str, response: Fetched, at: float) -> KeptPage:
        type = response.headers.get("content-type", "")
        etag, modified = response.headers.get("etag", ""), response.headers.get("last-modified", "")
        page = KeptPage(etag, modified, response.status, type, text_of_page(response.body, type))
        if response.status == 200 and (etag or modified):
            self._pages.keep(url, page, at)
        return page


def _host_of(url: str) -> str:
    """The host and port of a URL. Raises ActionError."""
    try:
        return urlsplit(url).netloc.rpartition("@")[2].lower()
    except ValueError as error:
        raise ActionError(f"expected an address, found {url!r:.80}: {error}", "bad-address") from None


def _may_pass(error: ActionError) -> bool:
    """True if a retry may succeed; an unknown host name stays unknown."""
    cause = error.__context__
    is_nobody = isinstance(cause, socket.gaierror) and cause.errno == socket.EAI_NONAME
    return error.kind == "unreachable" and not is_nobody


def _wait_after(response: Fetched, attempt: int, now: float) -> float | None:
    """Seconds to wait before asking for a page again; None if the answer is final."""
    if response.status not in _AGAIN or attempt == TRIES:
        return None
    asked = response.retry_after(now)
    wait = WAITS[attempt - 1] if asked is None else asked
    return wait if wait <= LONGEST_WAIT else None


def charset_of_file(path: Path) -> str:
    """The character set of a text file: that of its byte order mark, else UTF-8 if the whole file is valid,
    else one in which every byte is a character. The file is read in pieces. Raises OSError.
    """
    decoder = codecs.getincrementaldecoder("utf-8")()
    with path.open("rb") as file:
        piece = file.read(_PIECE)
        for mark, name in _MARKS:
            if piece.startswith(mark):
                return name
        try:
            while piece:
                decoder.decode(piece)
                piece = file.read(_PIECE)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            return "cp1252"
    return "utf-8"


def text_of_page(body: bytes, type: str) -> str:
    """The text of a page: in the character set named by its type, its byte order mark or its content, else
    UTF-8, else one in which every byte is a character.
    """
    for mark, name in _MARKS:
        if body.startswith(mark):
            return body.decode(name, "replace")
    named = _CHARSET.search(type)
    within = _DECLARED.match(body[:1024]) or _META.search(body[:4096])
    for charset in (named and named[1], within and within[1].decode("ascii"), "utf-8"):
        try:
            if charset:
                return body.decode(charset)
        except (LookupError, UnicodeError, ValueError):
            continue
    return body.decode("cp1252", "replace")
