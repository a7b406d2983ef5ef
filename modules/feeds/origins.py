"""Origins of feeds: a URL asked over HTTP, or a file read whenever it has changed (docs/feeds.md)."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import importlib
import json
import os
import random
import time
import zlib
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from ..files.watching import WHOLE, Notices
from .reading import MAX_BYTES, FeedError, Items, cut, is_web, items_of, joined

MAX_REDIRECTS = 5
TOTAL_SECONDS = 60.0
"""A whole answer, redirects included, takes at most this long, however steadily it drips."""
SILENT_SECONDS = 20.0
DAY_SECONDS = 86_400.0
QUIET_SECONDS = 0.2
"""A file is read once it has been left alone for this long: most programs write in several strokes."""


# --- over HTTP ------------------------------------------------------------------------------------------


class Kept(NamedTuple):
    """The state of a server that is kept from one request to the next: `var/feeds/DIGEST.json`."""

    etag: str = ""
    modified: str = ""
    not_before: float = 0.0


class Answer(NamedTuple):
    """The answer of a server; no `body` when nothing has changed."""

    body: bytes | None
    url: str = ""
    content_type: str = ""
    etag: str = ""
    modified: str = ""


class Web:
    """A feed behind a URL, asked every so often and no more than its server wishes."""

    def __init__(self, name: str, url: str, every: float, home: Path | None) -> None:
        self._name, self._url, self._every = name, url, every
        digest = hashlib.sha256(f"{name}\0{url}".encode()).hexdigest()[:32]
        self._path = home and home / "var" / "feeds" / f"{digest}.json"
        self._written = self._kept = _recalled(self._path)
        self._failures = 0
        self.pause = every

    async def __aenter__(self) -> Web:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None

    async def items(self) -> Items:
        """The items of the feed, none when it has not changed. Raises FeedError."""
        self.pause = self._kept.not_before - time.time()
        if self.pause > 0:
            return []
        try:
            answer = await _fetch(self._url, self._kept)
        except FeedError as error:
            self.back_off(error)
            raise
        self._failures, self.pause = 0, self._every
        self._kept = self._kept._replace(not_before=0.0)
        if answer.body is None:
            return []
        self._kept = Kept(answer.etag, answer.modified)
        return await asyncio.to_thread(items_of, answer.body, self._name, answer.url, answer.content_type)

    async def recorded(self) -> None:
        """Keep the caching headers: only now, when what they vouch for is in memory."""
        if self._path and self._kept != self._written:
            # A home that cannot be written to costs a little traffic, not the feed.
            with contextlib.suppress(OSError):
                await asyncio.to_thread(_replace, self._path, json.dumps(self._kept._asdict()).encode())
            self._written = self._kept

    async def news(self) -> None:
        """Wait until it is time to ask again, or a little later: a thousand feeds should not ask at once."""
        await asyncio.sleep(self.pause * random.SystemRandom().uniform(1.0, 1.1))

    def back_off(self, error: FeedError) -> None:
        """Ask a server that refuses less and less often; one that is out of reach is asked as before."""
        self._failures += error.refused
        doubled = self._every * 2.0 ** max(0, min(self._failures, 30) - 1)
        self.pause = max(error.wait, min(doubled, max(DAY_SECONDS, self._every)))
        if error.wait:
            self._kept = self._kept._replace(not_before=time.time() + error.wait)


def _recalled(path: Path | None) -> Kept:
    try:
        found = json.loads(path.read_bytes()) if path else {}
        headers = [_sendable(found.get(name, "")) for name in ("etag", "modified")]
        return Kept(headers[0], headers[1], float(found.get("not_before", 0.0)))
    except (OSError, ValueError, TypeError, AttributeError):
        return Kept()


def _replace(path: Path, data: bytes) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = path.with_suffix(".new")
    fresh.write_bytes(data)
    fresh.replace(path)


async def _fetch(url: str, kept: Kept) -> Answer:
    """Ask a server for a feed. Raises FeedError, whatever the server does."""
    # Its import takes 0.2 s, and its TLS context reads the certificates: not in the loop.
    httpx2 = await asyncio.to_thread(importlib.import_module, "httpx2")
    tls = await asyncio.to_thread(_tls)
    headers = {
        "User-Agent": "narval",
        "Accept": "application/atom+xml, application/rss+xml, application/xml;q=0.9, */*;q=0.5",
        "Accept-Encoding": "gzip",
        "If-None-Match": kept.etag,
        "If-Modified-Since": kept.modified,
    }
    headers = {name: value for name, value in headers.items() if value}
    try:
        async with (
            asyncio.timeout(TOTAL_SECONDS),
            httpx2.AsyncClient(verify=tls, timeout=SILENT_SECONDS, headers=headers) as client,
        ):
            return await _follow(client, url)
    except TimeoutError:
        raise FeedError("feed-unreachable", f"no whole answer within {TOTAL_SECONDS:g} s") from None
    except (httpx2.HTTPError, httpx2.InvalidURL, UnicodeError) as error:
        raise FeedError("feed-unreachable", str(error) or type(error).__name__) from None
    except zlib.error as error:
        raise FeedError(
            "feed-unreachable", f"the answer is badly compressed: {error}", refused=True
        ) from None


@cache
def _tls() -> Any:
    return importlib.import_module("httpx2").create_ssl_context()


async def _follow(client: Any, url: str) -> Answer:
    # By hand, because httpx2 reads the whole body of a redirect before it follows it, however long it is.
    for _ in range(MAX_REDIRECTS + 1):
        async with client.stream("GET", url) as response:
            if not response.has_redirect_location:
                return await _answer(response)
            url = joined(str(response.url), response.headers["location"])
        if not is_web(url):
            raise FeedError("feed-unreachable", f"redirected to {cut(url, 200)!r}", refused=True)
    raise FeedError("feed-unreachable", f"redirected more than {MAX_REDIRECTS} times", refused=True)


async def _answer(response: Any) -> Answer:
    given = response.headers
    if response.status_code in (204, 304):
        return Answer(None)
    if response.status_code != 200:
        raise FeedError(
            "feed-unreachable",
            f"the server answered {response.status_code} {response.reason_phrase}",
            wait=retry_after(given.get("retry-after", "")),
            refused=True,
        )
    return Answer(
        await _body(response),
        _without_password(str(response.url)),
        given.get("content-type", ""),
        _sendable(given.get("etag", "")),
        _sendable(given.get("last-modified", "")),
    )


async def _body(response: Any) -> bytes:
    """The body, and never more of it than is allowed: a kilobyte may unfold to a megabyte."""
    encoding = response.headers.get("content-encoding", "").strip().lower()
    if encoding not in ("", "identity", "gzip", "x-gzip", "deflate"):
        raise FeedError("feed-unreachable", f"the answer is encoded as {encoding!r}, unasked", refused=True)
    unfold = None if encoding in ("", "identity") else zlib.decompressobj(wbits=47)
    body = bytearray()
    async for chunk in response.aiter_raw():
        body += unfold.decompress(chunk, MAX_BYTES + 1 - len(body)) if unfold else chunk
        if len(body) > MAX_BYTES:
            raise FeedError("bad-feed", f"expected at most {MAX_BYTES:,} bytes, got more", refused=True)
    return bytes(body)


def retry_after(text: str) -> float:
    """The seconds that a Retry-After header asks for, at most a day; it holds seconds or a date."""
    from email.utils import parsedate_to_datetime

    try:
        plain = text.strip().isdecimal()
        seconds = float(text) if plain else parsedate_to_datetime(text).timestamp() - time.time()
    except (ValueError, OverflowError):
        return 0.0
    return min(max(seconds, 0.0), DAY_SECONDS)


def _without_password(url: str) -> str:
    """The URL as it may be shown: what is relative in a feed becomes a link that begins with it."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def _sendable(header: str) -> str:
    """A header's value if it can be sent back."""
    return header if header.isascii() and header.isprintable() and len(header) < 1_000 else ""


# --- from a file ----------------------------------------------------------------------------------------


class File:
    """A feed in a file, read again when the system says that it changed: nothing is polled."""

    def __init__(self, name: str, path: Path, *, watched: bool) -> None:
        self._name, self._path = name, Path(os.path.abspath(path))
        self._notices = Notices(self._path.parent, QUIET_SECONDS) if watched else None
        self._last = b""

    async def __aenter__(self) -> File:
        if self._notices is not None:
            await asyncio.to_thread(self._notices.arm)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._notices is not None:
            self._notices.close()

    async def items(self) -> Items:
        """The items of the file, none when its content has not changed. Raises FeedError."""
        return await asyncio.to_thread(self.scan)

    async def recorded(self) -> None:
        """Nothing is kept: reading a file again is cheap."""

    async def news(self) -> None:
        """Wait until the file may have changed and has been left alone for a moment."""
        changed: dict[str, bool] = {}
        while self._notices is not None and changed.keys().isdisjoint((self._path.name, WHOLE)):
            changed = await self._notices.quiet()
            await asyncio.to_thread(self._notices.arm)

    def scan(self) -> Items:
        """The items of the file, none when its content has not changed. Blocks; raises FeedError."""
        try:
            # Not blocking, because opening a pipe would wait for its writer.
            with open(
                self._path, "rb", opener=lambda path, flags: os.open(path, flags | os.O_NONBLOCK)
            ) as file:
                data = file.read(MAX_BYTES + 1)
        except OSError as error:
            self._last = b""
            raise FeedError("feed-unreachable", f"{self._path}: {error.strerror}") from None
        digest = hashlib.sha256(data).digest()
        if digest == self._last:
            return []
        self._last = digest
        return items_of(data, self._name)
