"""Origins of feeds: a URL fetched over HTTP, or a file read whenever it has changed."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import random
import time
from pathlib import Path
from typing import NamedTuple

from narval import Fetched, FetchError, fetch

from ..files.watching import WHOLE, Notices
from .reading import MAX_BYTES, FeedError, Items, items_of

TOTAL_SECONDS = 60.0
"""The most seconds for a whole answer, redirects included, however steadily it trickles in."""
DAY_SECONDS = 86_400.0
QUIET_SECONDS = 0.2
"""Seconds without changes after which a file is read: most programs write in several steps."""


# --- over HTTP ------------------------------------------------------------------------------------------


class Kept(NamedTuple):
    """The state of a server kept between requests: `var/feeds/DIGEST.json`."""

    etag: str = ""
    modified: str = ""
    not_before: float = 0.0


class Answer(NamedTuple):
    """The answer of a server; no `body` if nothing has changed."""

    body: bytes | None
    url: str = ""
    content_type: str = ""
    etag: str = ""
    modified: str = ""


class Web:
    """A feed behind a URL, polled at an interval, and no more often than its server wishes."""

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
        """The items of the feed; none if it has not changed. Raises FeedError."""
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
        """Store the caching headers: only now are the items they cover in memory."""
        if self._path and self._kept != self._written:
            # A read-only home costs a little traffic, not the feed.
            with contextlib.suppress(OSError):
                await asyncio.to_thread(keep, self._path, json.dumps(self._kept._asdict()).encode())
            self._written = self._kept

    async def news(self) -> None:
        """Wait until the next request, with some jitter, so that a thousand feeds do not ask at once."""
        await asyncio.sleep(self.pause * random.SystemRandom().uniform(1.0, 1.1))

    def back_off(self, error: FeedError) -> None:
        """Ask a refusing server less and less often, an unreachable one at the usual interval."""
        self._failures += error.refused
        doubled = self._every * 2.0 ** max(0, min(self._failures, 30) - 1)
        self.pause = max(error.wait, min(doubled, max(DAY_SECONDS, self._every)))
        if error.wait:
            self._kept = self._kept._replace(not_before=time.time() + error.wait)


def _recalled(path: Path | None) -> Kept:
    try:
        data = json.loads(path.read_bytes()) if path else {}
        headers = [sendable(data.get(name, "")) for name in ("etag", "modified")]
        return Kept(headers[0], headers[1], float(data.get("not_before", 0.0)))
    except (OSError, ValueError, TypeError, AttributeError):
        return Kept()


def keep(path: Path, data: bytes) -> None:
    """Write a file in var/ whole, or leave it unchanged. Blocks."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = path.with_suffix(".new")
    fresh.write_bytes(data)
    fresh.replace(path)


async def _fetch(url: str, cached: Kept) -> Answer:
    """Ask a server for a feed. Raises FeedError, whatever the server does."""
    headers = {
        "Accept": "application/atom+xml, application/rss+xml, application/xml;q=0.9, */*;q=0.5",
        "If-None-Match": cached.etag,
        "If-Modified-Since": cached.modified,
    }
    headers = {name: value for name, value in headers.items() if value}
    try:
        answer = await fetch(url, headers=headers, most=MAX_BYTES, seconds=TOTAL_SECONDS)
    except FetchError as error:
        kind = "bad-feed" if error.kind == "too-large" else "feed-unreachable"
        raise FeedError(kind, str(error), refused=error.kind != "unreachable") from None
    received = answer.headers
    if answer.status in (204, 304):
        return Answer(None)
    if answer.status != 200:
        wait = asked_pause(answer)
        message = f"the server answered {answer.status} {answer.reason}"
        raise FeedError("feed-unreachable", message, wait=wait, refused=True)
    vouched = (sendable(received.get(name, "")) for name in ("etag", "last-modified"))
    return Answer(answer.body, answer.url, received.get("content-type", ""), *vouched)


def asked_pause(answer: Fetched) -> float:
    """The seconds for which a server asks not to be contacted, at most a day."""
    return min(answer.retry_after(time.time()) or 0.0, DAY_SECONDS)


def sendable(header: str) -> str:
    """A header's value if it can be sent back."""
    return header if header.isascii() and header.isprintable() and len(header) < 1_000 else ""


# --- from a file ----------------------------------------------------------------------------------------


class File:
    """A feed in a file, read again when the system reports a change: nothing is polled."""

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
        """The items of the file, none if its content has not changed. Raises FeedError."""
        return await asyncio.to_thread(self.scan)

    async def recorded(self) -> None:
        """Do nothing: reading a file again is cheap."""

    async def news(self) -> None:
        """Wait until the file may have changed, and has then rested for a moment."""
        changed: dict[str, bool] = {}
        while self._notices is not None and changed.keys().isdisjoint((self._path.name, WHOLE)):
            changed = await self._notices.quiet()
            await asyncio.to_thread(self._notices.arm)

    def scan(self) -> Items:
        """The items of the file, none if its content has not changed. Blocks; raises FeedError."""
        try:
            # Nonblocking, because opening a pipe would wait for its writer.
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
