"""Reading of feeds: the bytes of RSS and Atom as `item` elements with plain texts."""

from __future__ import annotations

import contextlib
import hashlib
import io
import re
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urljoin

from lxml import etree

from narval.api import is_web

from ..files.places import UNWANTED

MAX_BYTES = 10 * 1024 * 1024
MAX_TAGS = 500_000
"""The most `<` in a feed: nine megabytes of unclosed tags took feedparser 50 s and 2 GB."""
LONGEST = {"feed": 200, "title": 500, "id": 1_000, "link": 2_000, "author": 200, "summary": 20_000}

Items = list[etree._Element]


class FeedError(Exception):
    """A feed could not be read: `kind` becomes the type of the error element.

    `wait` is the pause that the server requested, in seconds; `refused` says that it answered, but not with a
    feed.
    """

    def __init__(self, kind: str, message: str, *, wait: float = 0.0, refused: bool = False) -> None:
        self.kind, self.wait, self.refused = kind, wait, refused
        super().__init__(message)

    def element(self, name: str) -> etree._Element:
        """The `error` element of the fault."""
        error = etree.Element("error", type=self.kind, feed=name)
        wish = f'if that does not pass, set <feed name="{name}"> right'
        etree.SubElement(error, "message").text = cut(line_of(f"feed {name}: {self}; {wish}"), 2_000)
        return error


def items_of(data: bytes, name: str, base: str = "", content_type: str = "") -> Items:
    """The `item` elements in a feed's bytes, each once, in order. Raises FeedError.

    `base` is the URL of the feed, `content_type` its media type according to the server.
    """
    if len(data) > MAX_BYTES or data.count(b"<") > MAX_TAGS:
        raise FeedError("bad-feed", f"expected at most {MAX_BYTES:,} bytes and {MAX_TAGS:,} tags, got more")
    parsed = _parsed(data, {"content-location": base, "content-type": content_type})
    once: dict[str | None, etree._Element] = {}
    for entry in parsed.entries:
        item = _item(entry, name, line_of(parsed.feed.get("link")))
        if item is not None:
            once.setdefault(item.get("id"), item)
    return list(once.values())


def _parsed(data: bytes, headers: dict[str, str]) -> Any:
    import feedparser

    try:
        # Wrapped, because bytes would be taken for a file name. Not sanitised, as only text is kept.
        parsed = feedparser.parse(
            io.BytesIO(data), response_headers=headers, sanitize_html=False, resolve_relative_uris=False
        )
    except Exception as error:  # any parser error makes it a bad feed
        raise FeedError("bad-feed", f"it cannot be read: {type(error).__name__}: {error}") from None
    why = parsed.get("bozo_exception")
    harmless = isinstance(why, feedparser.CharacterEncodingOverride | feedparser.NonXMLContentType | None)
    if not parsed.entries and not (parsed.get("version") and harmless):
        raise FeedError("bad-feed", f"it is neither RSS nor Atom: {why or 'there is no feed in it'}")
    return parsed


def _item(entry: Any, name: str, base: str) -> etree._Element | None:
    """The element of an entry, or None if it is empty."""
    title = line_of(_readable(entry.get("title"), entry.get("title_detail")))
    texts = (entry.get("summary_detail"), *(entry.get("content") or ()))
    summary = next(filter(None, (_readable(text.get("value"), text) for text in texts if text)), "")
    link, ident = _link(base, entry.get("link")), line_of(entry.get("id"))
    if not (title or summary or link or ident):
        return None
    dated = line_of(_own(entry, "published") or _own(entry, "updated"))
    if not ident or len(ident) > LONGEST["id"]:
        ident = "sha256:" + hashlib.sha256("\0".join((ident, link, title, dated)).encode()).hexdigest()[:40]
    author = line_of((entry.get("author_detail") or {}).get("name")) or line_of(entry.get("author"))
    values = {"feed": name, "title": title, "link": link, "id": ident, "author": author}
    values["published"] = _published(entry, dated)
    item = etree.Element(
        "item", {key: cut(value, LONGEST.get(key, 100)) for key, value in values.items() if value}
    )
    if summary:
        etree.SubElement(item, "summary").text = cut(summary, LONGEST["summary"])
    return item


def _link(base: str, link: Any) -> str:
    """An absolute http or https URL, or nothing: other links of a feed are not for people to follow."""
    url = joined(base, line_of(link)) if line_of(link) else ""
    return url if is_web(url) and len(url) <= LONGEST["link"] else ""


def joined(base: str, link: str) -> str:
    """The absolute URL of a link; "" for an invalid one."""
    try:
        return urljoin(base, link)
    except ValueError:
        return ""


WRITTEN_DATES = ("%d %B %Y", "%d %b %Y", "%B %d %Y", "%b %d %Y", "%Y/%m/%d", "%d.%m.%Y")
"""Date formats in feeds that no library parses. 03/04/2026 is not one: it may be either of two days."""


def _published(entry: Any, dated: str) -> str:
    """The moment as ISO 8601 in UTC; nothing if the text is not an unambiguous moment."""
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
    """The content of an entry itself: if it has none, its `get` returns another date, and a warning."""
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
    """A listener to the events of an HTML parser that collects the readable text; it builds no tree."""

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
        """Keep visible text; a line break within it is a space."""
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
    except (etree.XMLSyntaxError, ValueError):  # markup is better than nothing
        return markup


def _clean(text: Any) -> str:
    return UNWANTED.sub("", text) if isinstance(text, str) else ""


def line_of(text: Any) -> str:
    """A text in one line, without the characters that XML cannot have; "" for anything else."""
    return " ".join(_clean(text).split())


def cut(text: str, longest: int) -> str:
    """A text of at most `longest` characters; a longer one ends with an ellipsis."""
    return text if len(text) <= longest else text[: longest - 1].rstrip() + "…"
