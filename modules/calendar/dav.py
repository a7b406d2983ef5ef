"""Calendars on servers: CalDAV (RFC 4791) by three requests, or one file, through the guarded client.

Detecting changes takes few bytes: the mark of the whole (ctag, or sync-token), then the marks of its entries
(ETags), then the entries whose marks differ. An answer is untrusted: it is bounded, has no entities, and
entries from other places are ignored.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from html import escape
from typing import NamedTuple
from urllib.parse import quote, unquote, urljoin, urlsplit

from lxml import etree

from narval import Fetched, FetchError, fetch, service, sleep

from ..feeds.origins import DAY_SECONDS, asked_pause, sendable
from .origins import MAX_FILES, within
from .parsing import MAX_BYTES, CalendarError

USUAL_SECONDS, SHORTEST_SECONDS = 900.0, 1.0
TOTAL_SECONDS = 60.0
AT_ONCE = 100
"""The most entries in one request."""
NAMES = {"d": "DAV:", "c": "urn:ietf:params:xml:ns:caldav", "s": "http://calendarserver.org/ns/"}

_MARKS = (
    b'<d:propfind xmlns:d="DAV:" xmlns:s="http://calendarserver.org/ns/"><d:prop>%s</d:prop></d:propfind>'
)
OF_WHOLE = _MARKS % b"<s:getctag/><d:sync-token/>"
OF_ENTRIES = _MARKS % b"<d:getetag/><d:resourcetype/>"
MULTIGET = (
    '<c:calendar-multiget xmlns:d="DAV:" xmlns:c="urn:ietf:params:xml:ns:caldav"><d:prop><d:getetag/>'
    "<c:calendar-data/></d:prop>{}</c:calendar-multiget>"
)
BY_UID = (
    '<c:calendar-query xmlns:d="DAV:" xmlns:c="urn:ietf:params:xml:ns:caldav"><d:prop><d:getetag/>'
    '<c:calendar-data/></d:prop><c:filter><c:comp-filter name="VCALENDAR"><c:comp-filter name="VEVENT">'
    '<c:prop-filter name="UID"><c:text-match collation="i;octet">{}</c:text-match></c:prop-filter>'
    "</c:comp-filter></c:comp-filter></c:filter></c:calendar-query>"
)


class Stored(NamedTuple):
    """An entry on a server: its address, its mark, and its text if that was requested."""

    href: str
    etag: str
    data: bytes = b""
    is_folder: bool = False


class Server:
    """A calendar that the settings name, polled at an interval, and no more often than its server wishes."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._mark = self._seen = ""
        self._kept: dict[str, Stored] = {}
        self._failures = 0
        self._pause = 0.0

    async def files(self) -> list[bytes] | None:
        """The current entries; None if the server says that they are unchanged."""
        settings = service("calendars", self._name)
        every = max(settings.every or USUAL_SECONDS, SHORTEST_SECONDS)
        try:
            files = await (self._file() if is_file(settings.url) else self._entries())
        except CalendarError as error:
            self._failures += error.refused
            doubled = every * 2.0 ** max(0, min(self._failures, 30) - 1)
            self._pause = max(error.wait, min(doubled, max(DAY_SECONDS, every)))
            raise
        self._failures, self._pause = 0, every
        return files

    async def news(self) -> None:
        """Wait until the next request, with some jitter, so that many calendars do not ask at once."""
        await sleep(self._pause * random.SystemRandom().uniform(1.0, 1.1))

    async def recorded(self) -> None:
        """Use the new mark from now on: the entries it covers are in memory."""
        self._mark = self._seen

    def close(self) -> None:
        """Do nothing: there is nothing to release."""

    async def _file(self) -> list[bytes] | None:
        headers = {"If-None-Match": self._mark} if self._mark else {}
        answer = await asked(self._name, "GET", headers=headers, well=(200, 304))
        if answer.status == 304:
            return None
        self._seen = sendable(answer.headers.get("etag", ""))
        return [answer.body]

    async def _entries(self) -> list[bytes] | None:
        marks = _marks_in(await asked(self._name, "PROPFIND", body=OF_WHOLE, headers={"Depth": "0"}))
        mark = next(iter(marks), "")
        if mark and mark == self._mark:
            return None
        there = await self._listed()
        fresh = [entry.href for entry in there.values() if self._is_new(entry)]
        for start in range(0, len(fresh), AT_ONCE):
            for entry in await self._got(fresh[start : start + AT_ONCE]):
                self._kept[entry.href] = entry
            within([entry.data for entry in self._kept.values()])
        self._kept = {href: entry for href, entry in self._kept.items() if href in there}
        self._seen = mark
        return [entry.data for _, entry in sorted(self._kept.items())]

    def _is_new(self, entry: Stored) -> bool:
        stored = self._kept.get(entry.href)
        return stored is None or not entry.etag or stored.etag != entry.etag

    async def _listed(self) -> dict[str, Stored]:
        answer = await asked(self._name, "PROPFIND", body=OF_ENTRIES, headers={"Depth": "1"})
        there = {entry.href: entry for entry in stored_in(answer, self._name) if not entry.is_folder}
        if len(there) > MAX_FILES:
            raise CalendarError("too-large", f"expected at most {MAX_FILES:,} entries, found more")
        return there

    async def _got(self, hrefs: list[str]) -> list[Stored]:
        elements = "".join(f"<d:href>{escape(quote(href))}</d:href>" for href in hrefs)
        body = MULTIGET.format(elements).encode()
        answer = await asked(self._name, "REPORT", body=body, headers={"Depth": "1"}, most=2 * MAX_BYTES)
        return [entry for entry in stored_in(answer, self._name) if entry.data and entry.href in hrefs]


def is_file(url: str) -> bool:
    """True if an address is that of one file, not of a folder of entries."""
    return urlsplit(url).path.lower().endswith(".ics")


async def asked(
    name: str,
    method: str,
    path: str = "",
    *,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    well: tuple[int, ...] = (200, 207),
    most: int = MAX_BYTES,
) -> Fetched:
    """Ask the server of a calendar. Raises CalendarError for a status other than success, or no answer."""
    settings = service("calendars", name)
    sent = dict(headers or {})
    if body is not None:
        sent.setdefault("Content-Type", "application/xml; charset=utf-8")
    url = urljoin(settings.url, path) if path else settings.url
    try:
        answer = await fetch(
            url, method=method, headers=sent, body=body, service=settings, most=most, seconds=TOTAL_SECONDS
        )
    except FetchError as error:
        kind = "too-large" if error.kind == "too-large" else "calendar-unreachable"
        raise CalendarError(kind, str(error), refused=error.kind != "unreachable") from None
    if answer.status in well:
        return answer
    hint = {
        401: f"; see user and secret of {settings} in etc/narval.toml",
        404: f"; see the url of {settings} in etc/narval.toml",
    }
    moved = f"; it is now at {answer.headers['location'][:300]}" if "location" in answer.headers else ""
    said = f"the server answered {answer.status} {answer.reason[:100]} to {method}"
    wait = asked_pause(answer)
    raise CalendarError(
        "calendar-unreachable", said + moved + hint.get(answer.status, ""), wait=wait, refused=True
    )


def stored_in(answer: Fetched, name: str) -> list[Stored]:
    """The entries in an answer that lie within the calendar. Raises CalendarError."""
    base = service("calendars", name).url
    place, entries = urlsplit(base), list[Stored]()
    inside = unquote(place.path).rstrip("/") + "/"
    for response in _responses(answer):
        text = (response.findtext("d:href", "", NAMES)).strip()
        try:
            parts = urlsplit(urljoin(base, text))
        except ValueError:
            continue
        href = unquote(parts.path)
        if parts[:2] != place[:2] or not href.startswith(inside) or ".." in href.split("/"):
            continue
        data, etag = "", ""
        is_folder = href.rstrip("/") + "/" == inside
        for properties in _well(response):
            data = properties.findtext("c:calendar-data", "", NAMES) or data
            etag = sendable(properties.findtext("d:getetag", "", NAMES)) or etag
            is_folder |= properties.find("d:resourcetype/d:collection", NAMES) is not None
        entries.append(Stored(href, etag, data.encode("utf-8", "replace"), is_folder))
    return entries


def _marks_in(answer: Fetched) -> Iterator[str]:
    for response in _responses(answer):
        for properties in _well(response):
            for word in ("s:getctag", "d:sync-token"):
                if mark := properties.findtext(word, "", NAMES).strip():
                    yield mark


def _responses(answer: Fetched) -> list[etree._Element]:
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False)
    try:
        root = etree.fromstring(answer.body, parser)
    except (etree.XMLSyntaxError, ValueError) as error:
        raise CalendarError("bad-calendar", f"the server's answer is no XML: {error}", refused=True) from None
    if root.getroottree().docinfo.doctype:
        raise CalendarError("bad-calendar", "the server's answer has a DOCTYPE", refused=True)
    if root.tag != "{DAV:}multistatus":
        raise CalendarError("bad-calendar", "expected an answer of CalDAV: is the url right?", refused=True)
    return root.findall("d:response", NAMES)


def _well(response: etree._Element) -> Iterator[etree._Element]:
    """The properties that a server returned, without those it does not have."""
    for part in response.findall("d:propstat", NAMES):
        status = part.findtext("d:status", "", NAMES).split()
        properties = part.find("d:prop", NAMES)
        if len(status) > 1 and status[1] == "200" and properties is not None:
            yield properties
