"""Feeds: the items of RSS and Atom feeds, each once (N36, N37; the page is docs/feeds.md).

`<feed name="…" url="https://…" every="900"/>` is asked over HTTP now and then; `<feed name="…" path="…"/>` is
a file, read again when the system says that it changed. `watch` is the source that goes on, `read` one pass.
What is malformed is read as far as it can be; what cannot be read is told by an `error` element. The
sections: actions, over HTTP, from a file, reading, text.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import importlib
import io
import json
import os
import random
import re
import time
import zlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urljoin, urlsplit

from lxml import etree

from narval import ActionError, Element, Input, Output, action, call

from .files_places import UNWANTED
from .files_watching import WHOLE, Notices

MAX_BYTES = 10 * 1024 * 1024
MAX_TAGS = 500_000
"""A feed with more `<` is refused: nine megabytes of unclosed tags took feedparser 50 s and 2 GB."""
MAX_REDIRECTS = 5
TOTAL_SECONDS = 60.0
"""A whole answer, redirects included, takes at most this long, however steadily it drips."""
SILENT_SECONDS = 20.0
USUAL_SECONDS, SHORTEST_SECONDS, DAY_SECONDS = 900.0, 1.0, 86_400.0
QUIET_SECONDS = 0.2
"""A file is read once it has been left alone for this long: most programs write in several strokes."""
LONGEST = {"feed": 200, "title": 500, "id": 1_000, "link": 2_000, "author": 200, "summary": 20_000}

FEED = Input("feed", "feed[@url or @path]")
ITEMS = Output("items", "item[@feed and @id]", list=True, optional=True, unique="concat(@feed,' ',@id)")
TROUBLES = Output("troubles", "error[@feed]", list=True, optional=True)
"""Declared, so that the trouble of an hour does not end a source that goes on."""

Items = list[etree._Element]


# --- actions --------------------------------------------------------------------------------------------


@action(
    source=True, inputs=[FEED], outputs=[ITEMS, TROUBLES], description="The items of a feed, as they appear."
)
async def watch(feed: Element) -> AsyncIterator[Items]:
    """Give the items of a feed, then those that are added to it; a trouble is told once until it changes."""
    here = call()
    wanted = Feed.of(feed)
    told, caught_up = "", False
    async with wanted.origin(here.home, watched=True) as origin:
        while True:
            try:
                found, told = await origin.items(), ""
            except FeedError as error:
                found = [error.element(wanted.name)] if str(error) != told else []
                told = str(error)
            if found:
                yield found
            await origin.recorded()
            if not caught_up:
                here.caught_up()
                caught_up = True
            await origin.news()


@action(inputs=[FEED], outputs=[ITEMS], description="The items that a feed holds now.")
async def read(feed: Element) -> Items:
    """Give the items that a feed holds now; one that cannot be read is an error."""
    wanted = Feed.of(feed)
    try:
        async with wanted.origin(call().home, watched=False) as origin:
            return await origin.items()
    except FeedError as error:
        return [error.element(wanted.name)]


class FeedError(Exception):
    """A feed could not be read: `kind` becomes the type of the error element.

    `wait` is what the server asked for, in seconds; `refused` says that it answered, but with no feed.
    """

    def __init__(self, kind: str, message: str, *, wait: float = 0.0, refused: bool = False) -> None:
        self.kind, self.wait, self.refused = kind, wait, refused
        super().__init__(message)

    def element(self, name: str) -> etree._Element:
        """The `error` element of the fault."""
        error = etree.Element("error", type=self.kind, feed=name)
        etree.SubElement(error, "message").text = _cut(_line(f"feed {name}: {self}"), 2_000)
        return error


class Feed(NamedTuple):
    """The values of a `feed` element."""

    name: str
    url: str
    path: str
    every: float

    @classmethod
    def of(cls, element: Element) -> Feed:
        """Read the element; its items are known by its name, so one is derived where none is given."""
        given = element.attributes
        url, path = given.get("url", "").strip(), given.get("path", "")
        if url and not _is_web(url):
            raise ActionError(
                f"expected a feed's url to begin with http:// or https://, got {url!r}", "bad-feed"
            )
        derived = f"{urlsplit(url).hostname}{urlsplit(url).path}" if url else path
        name = _cut(_line(given.get("name")) or derived, LONGEST["feed"])
        return cls(name, url, path, _seconds(given.get("every")))

    def origin(self, home: Path | None, *, watched: bool) -> Web | File:
        """The origin of its items; one that is not watched gives all of them, whatever was seen before."""
        if self.url:
            return Web(self, home if watched else None)
        path = Path(self.path).expanduser()
        if home is None and not path.is_absolute():
            raise ActionError(
                f"expected an absolute path, as this home is in memory, got {self.path!r}", "bad-feed"
            )
        return File(self, (home or Path("/")) / path, watched=watched)


def _seconds(text: str | None) -> float:
    if text is None:
        return USUAL_SECONDS
    with contextlib.suppress(ValueError):
        if SHORTEST_SECONDS <= float(text) <= 366 * DAY_SECONDS:
            return float(text)
    raise ActionError(
        f"expected every to be seconds, at least {SHORTEST_SECONDS:g}, got {text!r}", "bad-feed"
    )


def _is_web(url: str) -> bool:
    """True for a URL that may be asked, and shown as a link."""
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


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

    def __init__(self, feed: Feed, home: Path | None) -> None:
        self._feed = feed
        digest = hashlib.sha256(f"{feed.name}\0{feed.url}".encode()).hexdigest()[:32]
        self._path = home and home / "var" / "feeds" / f"{digest}.json"
        self._written = self._kept = _recalled(self._path)
        self._failures = 0
        self._pause = feed.every

    async def __aenter__(self) -> Web:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None

    async def items(self) -> Items:
        """The bytes of the feed, none when it has not changed. Raises FeedError."""
        self._pause = self._kept.not_before - time.time()
        if self._pause > 0:
            return []
        try:
            answer = await _fetch(self._feed.url, self._kept)
        except FeedError as error:
            self._back_off(error)
            raise
        self._failures, self._pause = 0, self._feed.every
        self._kept = self._kept._replace(not_before=0.0)
        if answer.body is None:
            return []
        self._kept = Kept(answer.etag, answer.modified)
        return await asyncio.to_thread(
            items_of, answer.body, self._feed.name, answer.url, answer.content_type
        )

    async def recorded(self) -> None:
        """Keep the caching headers: only now, when what they vouch for is in memory."""
        if self._path and self._kept != self._written:
            # A home that cannot be written to costs a little traffic, not the feed.
            with contextlib.suppress(OSError):
                await asyncio.to_thread(_replace, self._path, json.dumps(self._kept._asdict()).encode())
            self._written = self._kept

    async def news(self) -> None:
        """Wait until it is time to ask again, or a little later: a thousand feeds should not ask at once."""
        await asyncio.sleep(self._pause * random.SystemRandom().uniform(1.0, 1.1))

    def _back_off(self, error: FeedError) -> None:
        """Ask a server that refuses less and less often; one that is out of reach costs nobody anything."""
        self._failures += error.refused
        doubled = self._feed.every * 2.0 ** max(0, min(self._failures, 30) - 1)
        self._pause = max(error.wait, min(doubled, max(DAY_SECONDS, self._feed.every)))
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
            url = _joined(str(response.url), response.headers["location"])
        if not _is_web(url):
            raise FeedError("feed-unreachable", f"redirected to {_cut(url, 200)!r}", refused=True)
    raise FeedError("feed-unreachable", f"redirected more than {MAX_REDIRECTS} times", refused=True)


async def _answer(response: Any) -> Answer:
    given = response.headers
    if response.status_code in (204, 304):
        return Answer(None)
    if response.status_code != 200:
        raise FeedError(
            "feed-unreachable",
            f"the server answered {response.status_code} {response.reason_phrase}",
            wait=_retry_after(given.get("retry-after", "")),
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


def _retry_after(text: str) -> float:
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

    def __init__(self, feed: Feed, path: Path, *, watched: bool) -> None:
        self._feed, self._path = feed, Path(os.path.abspath(path))
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
        """The bytes of the file, none when its content has not changed. Raises FeedError."""
        return await asyncio.to_thread(self._items)

    async def recorded(self) -> None:
        """Nothing is kept: reading a file again is cheap."""

    async def news(self) -> None:
        """Wait until the file may have changed and has been left alone for a moment."""
        changed: dict[str, bool] = {}
        while self._notices is not None and changed.keys().isdisjoint((self._path.name, WHOLE)):
            changed = await self._notices.quiet()
            await asyncio.to_thread(self._notices.arm)

    def _items(self) -> Items:
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
        return items_of(data, self._feed.name)


# --- reading --------------------------------------------------------------------------------------------


def items_of(data: bytes, name: str, base: str = "", content_type: str = "") -> Items:
    """The `item` elements that a feed's bytes hold, each once, in their order. Raises FeedError.

    `base` is the URL they came from, `content_type` what the server called them.
    """
    if len(data) > MAX_BYTES or data.count(b"<") > MAX_TAGS:
        raise FeedError("bad-feed", f"expected at most {MAX_BYTES:,} bytes and {MAX_TAGS:,} tags, got more")
    parsed = _parsed(data, {"content-location": base, "content-type": content_type})
    once: dict[str | None, etree._Element] = {}
    for entry in parsed.entries:
        item = _item(entry, name, _line(parsed.feed.get("link")))
        if item is not None:
            once.setdefault(item.get("id"), item)
    return list(once.values())


def _parsed(data: bytes, headers: dict[str, str]) -> Any:
    import feedparser

    try:
        # Wrapped, because bytes would be taken for the name of a file. Not sanitised, as only text is kept.
        parsed = feedparser.parse(
            io.BytesIO(data), response_headers=headers, sanitize_html=False, resolve_relative_uris=False
        )
    except Exception as error:  # whatever a hostile feed makes a parser trip over makes it a bad feed
        raise FeedError("bad-feed", f"it cannot be read: {type(error).__name__}: {error}") from None
    why = parsed.get("bozo_exception")
    harmless = isinstance(why, feedparser.CharacterEncodingOverride | feedparser.NonXMLContentType | None)
    if not parsed.entries and not (parsed.get("version") and harmless):
        raise FeedError("bad-feed", f"it is neither RSS nor Atom: {why or 'there is no feed in it'}")
    return parsed


def _item(entry: Any, name: str, base: str) -> etree._Element | None:
    """The element of an entry, or None when it is empty."""
    title = _line(_readable(entry.get("title"), entry.get("title_detail")))
    texts = (entry.get("summary_detail"), *(entry.get("content") or ()))
    summary = next(filter(None, (_readable(text.get("value"), text) for text in texts if text)), "")
    link, given = _link(base, entry.get("link")), _line(entry.get("id"))
    if not (title or summary or link or given):
        return None
    dated = _line(_own(entry, "published") or _own(entry, "updated"))
    if not given or len(given) > LONGEST["id"]:
        given = "sha256:" + hashlib.sha256("\0".join((given, link, title, dated)).encode()).hexdigest()[:40]
    author = _line((entry.get("author_detail") or {}).get("name")) or _line(entry.get("author"))
    values = {"feed": name, "title": title, "link": link, "id": given, "author": author}
    values["published"] = _published(entry, dated)
    item = etree.Element(
        "item", {key: _cut(value, LONGEST.get(key, 100)) for key, value in values.items() if value}
    )
    if summary:
        etree.SubElement(item, "summary").text = _cut(summary, LONGEST["summary"])
    return item


def _link(base: str, link: Any) -> str:
    """An absolute http or https URL, or nothing: what else a feed links to is not for a person to follow."""
    joined = _joined(base, _line(link)) if _line(link) else ""
    return joined if _is_web(joined) and len(joined) <= LONGEST["link"] else ""


def _joined(base: str, link: str) -> str:
    try:
        return urljoin(base, link)
    except ValueError:
        return ""


WRITTEN_DATES = ("%d %B %Y", "%d %b %Y", "%B %d %Y", "%b %d %Y", "%Y/%m/%d", "%d.%m.%Y")
"""Forms met in feeds that no library reads. 03/04/2026 is not among them: it may be either of two days."""


def _published(entry: Any, dated: str) -> str:
    """The moment as ISO 8601 in UTC; nothing when what is written is no moment anyone can be sure of."""
    # feedparser last, as it takes 2026/11/02 for the day before.
    for reading in (_written_date, _mail_date, _parsed_date):
        with contextlib.suppress(ValueError, OverflowError, TypeError, OSError):
            moment = reading(entry, dated)
            return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return ""


def _parsed_date(entry: Any, _dated: str) -> datetime:
    from calendar import timegm

    parsed = _own(entry, "published_parsed") or _own(entry, "updated_parsed")
    return datetime.fromtimestamp(timegm(parsed), UTC)


def _own(entry: Any, key: str) -> Any:
    """The content of an entry itself: its `get` gives another date, and a warning, where there is none."""
    return dict.get(entry, key)


def _mail_date(_entry: Any, dated: str) -> datetime:
    from email.utils import parsedate_to_datetime

    moment = parsedate_to_datetime(dated)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _written_date(_entry: Any, dated: str) -> datetime:
    day = re.sub(r"^(mon|tue|wed|thu|fri|sat|sun)[a-z]*,?\s+|,", "", dated, flags=re.IGNORECASE)
    for form in WRITTEN_DATES:
        with contextlib.suppress(ValueError):
            return datetime.strptime(day, form).replace(tzinfo=UTC)
    raise ValueError(dated)


# --- text -----------------------------------------------------------------------------------------------

BREAKS = {"td": " ", "th": " ", "li": "\n• ", "br": "\n", "tr": "\n", "dt": "\n", "dd": "\n"}
BLOCKS = frozenset((
    "address", "article", "aside", "blockquote", "div", "dl", "figure", "footer", "form", "h1", "h2", "h3",
    "h4", "h5", "h6", "header", "hr", "main", "nav", "ol", "p", "pre", "section", "table", "ul",
))  # fmt: skip
HIDDEN = frozenset(("script", "style", "head", "title", "template", "iframe", "object", "svg", "math"))


class Readable:
    """A listener to the events of an HTML parser that keeps the text as people read it; it builds no tree."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._hidden = 0

    def start(self, tag: str, attributes: Any) -> None:
        """Break the line where a browser would."""
        self._hidden += tag in HIDDEN
        self._parts.append("\n\n" if tag in BLOCKS else BREAKS.get(tag, ""))
        if tag == "img":
            self.data(attributes.get("alt") or "")

    def end(self, tag: str) -> None:
        """Break after a block as before it."""
        self._hidden -= tag in HIDDEN
        self._parts.append("\n\n" if tag in BLOCKS else "")

    def data(self, text: str) -> None:
        """Keep what is shown; a line break within it is a space."""
        if self._hidden <= 0:
            self._parts.append(re.sub(r"\s+", " ", text))

    def close(self) -> str:
        """The text so far."""
        return "".join(self._parts)


def _readable(text: Any, detail: Any) -> str:
    """A value as plain text; `detail` says whether it is HTML."""
    cleaned = _clean(text)
    if (detail or {}).get("type", "text/plain") != "text/plain" and re.search("[<&]", cleaned):
        cleaned = _text_of(cleaned)
    lines = (" ".join(line.split()) for line in cleaned.splitlines())
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


def _text_of(markup: str) -> str:
    listener: Any = Readable()
    try:
        return _clean(etree.fromstring(f"<div>{markup}</div>", etree.HTMLParser(target=listener)))
    except (etree.XMLSyntaxError, ValueError):  # better to see the markup than nothing
        return markup


def _clean(text: Any) -> str:
    return UNWANTED.sub("", text) if isinstance(text, str) else ""


def _line(text: Any) -> str:
    return " ".join(_clean(text).split())


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1].rstrip() + "…"
