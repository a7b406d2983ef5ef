"""Writing entries on servers: adding one exactly once by the id of the call, changing and removing only known
versions.

If a server has another version than the one to be changed, nothing is changed: the mark (ETag) of the version
that was read is sent along, so that no change between reading and writing is lost.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta, tzinfo
from html import escape
from urllib.parse import quote, urljoin

from lxml import etree

from narval import ActionError, Element, call, now, service

from .dav import BY_UID, Stored, asked, is_file, stored_in
from .occurring import events_in
from .parsing import CalendarError

CALENDAR_TEXT = {"Content-Type": "text/calendar; charset=utf-8"}
TEXTS = {
    "summary": "SUMMARY",
    "location": "LOCATION",
    "status": "STATUS",
    "url": "URL",
    "description": "DESCRIPTION",
}
"""The attributes of an event besides its times, and the properties for them."""
TIMES = ("start", "end", "all-day")
"""The attributes for an event's times."""
MARK = "X-NARVAL-CALL"
"""The property that says which call last wrote an entry, so that it is written once."""
USUAL_LENGTH = timedelta(hours=1)


async def added(entry: Element) -> etree._Element:
    """Add an event. Raises ActionError."""
    name = _writable(entry.attributes["calendar"])
    attributes = _given(entry)
    mark = _mark()
    uid = f"{mark}@narval"
    lines = [
        "BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//narval//calendar//EN", "BEGIN:VEVENT", f"UID:{uid}",
        *_stamps(mark), *_times(attributes, USUAL_LENGTH), *_texts(attributes), "END:VEVENT", "END:VCALENDAR",
    ]  # fmt: skip
    path = urljoin(service("calendars", name).url.rstrip("/") + "/", f"{mark}.ics")
    headers = {**CALENDAR_TEXT, "If-None-Match": "*"}
    # 412: an earlier try of this call has added it, since its name comes from the call's id.
    await _done(name, "PUT", path, _folded(lines), headers, well=(200, 201, 204, 412))
    return _entered(name, uid, "added")


async def changed(event: Element, change: Element) -> etree._Element:
    """Change an event as requested. Raises ActionError, also if it was changed elsewhere."""
    name = _writable(event.attributes["calendar"])
    uid, mark = _single(event), _mark()
    stored = await _stored(name, uid)
    if stored is None:
        raise ActionError(f"calendar {name} has no event {uid} any more", "gone", final=True)
    lines = _unfolded(stored.data)
    if f"{MARK}:{mark}" in lines:
        return _entered(name, uid, "changed")
    _check_same(event, stored, name)
    attributes = _given(change)
    dropped = {
        "DTSTAMP",
        "LAST-MODIFIED",
        "SEQUENCE",
        MARK,
        *(TEXTS[word] for word in TEXTS if word in attributes),
    }
    if attributes.keys() & set(TIMES):
        dropped |= {"DTSTART", "DTEND", "DURATION"}
        attributes = {
            word: event.attributes[word] for word in ("start",) if word in event.attributes
        } | attributes
    sequence = next((line[9:] for line in lines if re.fullmatch(r"SEQUENCE:[0-9]{1,8}", line)), "0")
    fresh = [*_stamps(mark), f"SEQUENCE:{int(sequence) + 1}", *_texts(attributes)]
    if "DTSTART" in dropped:
        fresh += _times(attributes, _length(event))
    await _put(name, stored, _folded(_with(lines, dropped, fresh)))
    return _entered(name, uid, "changed")


async def removed(event: Element) -> etree._Element:
    """Remove an event; a missing one is not an error: an earlier try of the call may have removed it."""
    name = _writable(event.attributes["calendar"])
    uid = _single(event)
    stored = await _stored(name, uid)
    if stored is not None:
        _check_same(event, stored, name)
        headers = {"If-Match": _etag(stored, name)}
        answer = await _done(name, "DELETE", stored.href, None, headers, well=(200, 204, 404, 412))
        _check_not_otherwise(answer, name)
    return _entered(name, uid, "removed")


def _writable(name: str) -> str:
    """The name of a calendar that may be written. Raises ActionError."""
    settings = service("calendars", name)
    if not settings.write:
        raise ActionError(
            f"expected write = true in {settings} of etc/narval.toml, found none: nothing is altered there "
            "without it",
            "read-only",
            final=True,
        )
    if settings.path or is_file(settings.url):
        raise ActionError(
            f"expected {settings} to be a calendar of a server, found a file: files are only read",
            "read-only",
            final=True,
        )
    return name


def _mark() -> str:
    return hashlib.sha256(call().id.encode()).hexdigest()[:32]


def _single(event: Element) -> str:
    """The UID of an event that occurs once. Raises ActionError."""
    if "recurrence" in event.attributes:
        raise ActionError(
            f"expected an event that occurs once, found an occurrence of {event.attributes['uid']}: alter "
            "those that recur where they were entered",
            "recurring",
            final=True,
        )
    return event.attributes["uid"]


# --- asking ---------------------------------------------------------------------------------------------


async def _stored(name: str, uid: str) -> Stored | None:
    try:
        answer = await asked(name, "REPORT", body=BY_UID.format(escape(uid)).encode(), headers={"Depth": "1"})
        entries = [entry for entry in stored_in(answer, name) if f"UID:{uid}" in _unfolded(entry.data)]
    except CalendarError as error:
        raise ActionError(str(error), error.kind) from None
    return entries[0] if entries else None


async def _put(name: str, stored: Stored, data: bytes) -> None:
    headers = {**CALENDAR_TEXT, "If-Match": _etag(stored, name)}
    answer = await _done(name, "PUT", stored.href, data, headers, well=(200, 201, 204, 412))
    _check_not_otherwise(answer, name)


async def _done(
    name: str,
    method: str,
    path: str,
    data: bytes | None,
    headers: Mapping[str, str],
    *,
    well: tuple[int, ...],
) -> int:
    """The status of an answer. Raises ActionError."""
    where = path if ":" in path else quote(path)
    try:
        return (await asked(name, method, where, body=data, headers=headers, well=well)).status
    except CalendarError as error:
        raise ActionError(str(error), error.kind) from None


def _etag(stored: Stored, name: str) -> str:
    if not stored.etag or stored.etag.startswith("W/"):
        raise ActionError(
            f"calendar {name} gives no ETag, without which writing is not safe", "no-etag", final=True
        )
    return stored.etag


def _check_not_otherwise(status: int, name: str) -> None:
    if status == 412:
        raise ActionError(
            f"it was changed meanwhile in calendar {name} just now; nothing was written", "conflict"
        )


def _check_same(event: Element, stored: Stored, name: str) -> None:
    """Raise ActionError if the server has another version than the known one."""
    zone = now().tzinfo
    assert zone is not None
    for occurrence in events_in(stored.data, name, zone):
        same = {word: text for word, text in event.attributes.items() if word != "eid"}
        description = event.tree().findtext("description") or ""
        if dict(occurrence.attrib) == same and (occurrence.findtext("description") or "") == description:
            return
    raise ActionError(
        f"calendar {name} has another version of {event.attributes['uid']} by now; nothing was written: "
        "decide by the new one",
        "conflict",
        final=True,
    )


def _entered(name: str, uid: str, what: str) -> etree._Element:
    return etree.Element("entered", calendar=name, uid=uid, key=f"{name} {uid}", what=what)


# --- lines ----------------------------------------------------------------------------------------------


def _given(element: Element) -> dict[str, str]:
    """The times and texts of an event in an element."""
    attributes = {word: text for word, text in element.attributes.items() if word in (*TEXTS, *TIMES)}
    description = element.tree().findtext("description")
    return attributes if description is None else attributes | {"description": description.strip()}


def _texts(attributes: Mapping[str, str]) -> list[str]:
    return [
        f"{name}:{_escaped(attributes[word].upper() if word == 'status' else attributes[word])}"
        for word, name in TEXTS.items()
        if attributes.get(word)
    ]


def _escaped(text: str) -> str:
    text = "".join(letter for letter in text if letter >= " " or letter in "\n\t")
    return re.sub(r"([\\;,])", r"\\\1", text).replace("\n", "\\n")


def _stamps(mark: str) -> list[str]:
    moment = now().astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")
    return [f"DTSTAMP:{moment}", f"LAST-MODIFIED:{moment}", f"{MARK}:{mark}"]


def _times(attributes: Mapping[str, str], length: timedelta) -> list[str]:
    """The lines of the beginning and the end. Raises ActionError."""
    zone = now().tzinfo
    assert zone is not None
    begins = _moment(attributes.get("start", ""), zone)
    ends = _moment(attributes["end"], zone) if attributes.get("end") else begins + length
    if isinstance(begins, datetime) != isinstance(ends, datetime) or ends < begins:
        raise ActionError(
            f"expected an end after {attributes['start']}, of its kind, got {attributes['end']!r}",
            "bad-entry",
            final=True,
        )
    if not isinstance(begins, datetime) and ends == begins:
        ends = begins + timedelta(days=1)
    return [_line("DTSTART", begins), _line("DTEND", ends)]


def _moment(text: str, zone: tzinfo) -> date | datetime:
    try:
        if re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text):
            return date.fromisoformat(text)
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ActionError(
            f"expected a date such as 2026-11-24T10:00, or 2026-11-24 for all of a day, got {text!r:.60}",
            "bad-entry",
            final=True,
        ) from None
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=zone)).astimezone(UTC)


def _line(name: str, moment: date | datetime) -> str:
    if isinstance(moment, datetime):
        return f"{name}:{moment:%Y%m%dT%H%M%SZ}"
    return f"{name};VALUE=DATE:{moment:%Y%m%d}"


def _length(event: Element) -> timedelta:
    start, end = (event.attributes[word] for word in ("start", "end"))
    if "T" in start:
        return datetime.fromisoformat(end) - datetime.fromisoformat(start)
    return date.fromisoformat(end) - date.fromisoformat(start)


def _unfolded(data: bytes) -> list[str]:
    from icalendar.parser import Contentlines

    lines = Contentlines.from_ical(data.decode("utf-8", "replace"))  # type: ignore[no-untyped-call]
    return [str(line) for line in lines if line]


def _with(lines: list[str], dropped: set[str], fresh: list[str]) -> list[str]:
    """The lines of a file with other lines in its event; alarms within it stay."""
    kept: list[str] = []
    inside: list[str] = []
    for line in lines:
        name, _, value = line.partition(":")
        if name.upper() == "BEGIN":
            inside.append(value.strip().upper())
        is_of_event = inside[-1:] == ["VEVENT"]
        if name.upper() == "END" and inside:
            if is_of_event:
                kept += fresh
            inside.pop()
        elif is_of_event and re.split("[;:]", line, maxsplit=1)[0].upper() in dropped:
            continue
        kept.append(line)
    return kept


def _folded(lines: list[str]) -> bytes:
    from icalendar.parser import Contentline, Contentlines

    data: bytes = Contentlines(Contentline(line) for line in lines).to_ical()
    return data
