"""Occurrences: the events of a calendar within a window, an `event` element for each occurrence."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, time, timedelta, tzinfo
from itertools import islice
from typing import NamedTuple

from lxml import etree

from narval.api import is_web

from ..feeds.reading import cut, line_of
from ..files.places import clean
from .parsing import (
    LONG_AGO,
    Entry,
    Fault,
    Moment,
    Property,
    entries_of,
    moment_without_zones,
    unescaped,
    wall_of,
)
from .recurring import Budget, RuleError, walls

MAX_STEPS = 1_000_000
"""The most candidates tried for all rules of one calendar: some seconds of work."""
MAX_OF_ONE = 1_000
"""The most occurrences of one event within the window."""
MAX_EVENTS = 10_000
"""The most occurrences of a calendar within the window."""
MAX_FAULTS = 20
LONGEST = {"summary": 500, "location": 500, "categories": 500, "organizer": 200, "url": 2_000}
DAY = timedelta(days=1)


class Window(NamedTuple):
    """The time span to examine, and the zone of the home."""

    start: datetime
    end: datetime
    zone: tzinfo

    @classmethod
    def around(cls, now: datetime, past: int, days: int) -> Window:
        """The window from `past` whole days before today to `days` days after it, in the zone of `now`."""
        zone = now.tzinfo or UTC
        edges = (now.date() + timedelta(offset) for offset in (-past, days + 1))
        start, end = (datetime.combine(day, time(), zone).astimezone(UTC) for day in edges)
        return cls(start, end, zone)


class Occurrence(NamedTuple):
    """One occurrence of an event; `original` identifies it among several, None for a single one."""

    start: Moment
    end: Moment
    original: Moment | None
    entry: Entry


class Found(NamedTuple):
    """The events of a calendar by key, in order of time; and the faults of unreadable ones."""

    events: dict[str, etree._Element]
    faults: list[Fault]


def events_of(files: Iterable[bytes], name: str, window: Window) -> Found:
    """The `event` elements of the calendar in these files. Raises CalendarError."""
    budget, entries = Budget(MAX_STEPS), list[Entry]()
    faults: list[Fault] = []
    for data in files:
        more, wrong = entries_of(data, budget)
        entries += more
        faults += wrong
    occurrences: list[Occurrence] = []
    for of_one in _by_uid(entries).values():
        try:
            found = list(islice(_of_one(of_one, window, budget.part()), MAX_OF_ONE + 1))
        except (RuleError, OverflowError) as error:
            faults.append(Fault(str(error), of_one[0].uid))
            continue
        if len(found) > MAX_OF_ONE:
            faults.append(Fault(f"occurs more than {MAX_OF_ONE} times in the window", of_one[0].uid))
        occurrences += found[:MAX_OF_ONE]
    occurrences.sort(key=lambda occurrence: (_instant(occurrence.start, window.zone), occurrence.entry.uid))
    if len(occurrences) > MAX_EVENTS:
        faults.append(Fault(f"expected at most {MAX_EVENTS:,} events, found {len(occurrences):,}"))
    elements = (element_of(found, name, window.zone) for found in occurrences[:MAX_EVENTS])
    return Found({str(element.get("key")): element for element in elements}, faults[:MAX_FAULTS])


def events_in(data: bytes, name: str, zone: tzinfo) -> Iterator[etree._Element]:
    """The `event` elements of events in a file that occur once. Raises CalendarError."""
    for entry in entries_of(data, Budget(MAX_STEPS))[0]:
        if entry.rule is None and not entry.more and entry.instance is None:
            occurrence = Occurrence(entry.start, _end(entry.start, entry.length), None, entry)
            yield element_of(occurrence, name, zone)


def _by_uid(entries: Iterable[Entry]) -> dict[str, list[Entry]]:
    found: dict[str, list[Entry]] = {}
    for entry in entries:
        found.setdefault(entry.uid, []).append(entry)
    return found


def _of_one(entries: list[Entry], window: Window, budget: Budget) -> Iterator[Occurrence]:
    """The occurrences of one event: those of its rule without the changed ones, and the changed ones."""
    whole, single = None, dict[Moment, Entry]()
    for entry in sorted(entries, key=lambda entry: entry.sequence):  # of equals, the last in the file wins
        if entry.instance is None:
            whole = entry
        else:
            single[_identity(entry.instance, window.zone)] = entry
    if whole is not None and not whole.is_cancelled:
        gone = {_identity(moment, window.zone) for moment in whole.without}
        days = {moment for moment in whole.without if not isinstance(moment, datetime)}
        several = whole.rule is not None or bool(whole.more)
        for start in _starts(whole, window, budget):
            identity = _identity(start, window.zone)
            day = start.date() if isinstance(start, datetime) else start
            if identity in single or identity in gone or day in days:
                continue
            occurrence = Occurrence(start, _end(start, whole.length), identity if several else None, whole)
            if _is_within(occurrence, window):
                yield occurrence
    for identity, entry in single.items():
        occurrence = Occurrence(entry.start, _end(entry.start, entry.length), identity, entry)
        if not entry.is_cancelled and _is_within(occurrence, window):
            yield occurrence


def _starts(entry: Entry, window: Window, budget: Budget) -> Iterator[Moment]:
    """The beginnings of an event that may be in the window, each once."""
    seen = set[Moment]()
    for start in (*entry.more, *(() if entry.rule is not None else (entry.start,))):
        if start not in seen:
            seen.add(start)
            yield start
    if entry.rule is None:
        return
    start = entry.start
    is_day = not isinstance(start, datetime)
    zone = start.tzinfo if isinstance(start, datetime) else None
    begun = wall_of(start)
    # A day more on both sides, because of other time zones.
    first = max(begun, _before(window.start, entry.length + DAY))
    last = window.end.replace(tzinfo=None) + DAY
    until = _until(entry, window.zone) if entry.rule.until else None
    for wall in walls(entry.rule, begun, first, last, budget):
        found: Moment = wall.date() if is_day else wall.replace(tzinfo=zone)
        if until is not None and _instant(found, window.zone) > until:
            return
        if found not in seen:
            yield found


def _before(moment: datetime, length: timedelta) -> datetime:
    plain = moment.replace(tzinfo=None)
    return plain - length if plain - LONG_AGO > length else LONG_AGO


def _until(entry: Entry, home: tzinfo) -> datetime:
    """The last moment at which a rule may have an occurrence. Raises RuleError."""
    assert entry.rule is not None, entry
    text = entry.rule.until
    zone = entry.start.tzinfo if isinstance(entry.start, datetime) else None
    try:
        moment = moment_without_zones(text)
    except ValueError as error:
        raise RuleError(f"UNTIL: {error}") from None
    if not isinstance(moment, datetime):  # the whole day
        moment = datetime.combine(moment, time(23, 59, 59))
    elif not isinstance(entry.start, datetime):
        moment = datetime.combine(moment.date(), time(23, 59, 59))
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=zone or home)).astimezone(UTC)


def _instant(moment: Moment, home: tzinfo) -> datetime:
    """The moment in UTC; for a day, its beginning at home."""
    if not isinstance(moment, datetime):
        return datetime.combine(moment, time(), home).astimezone(UTC)
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=home)).astimezone(UTC)


def _identity(moment: Moment, home: tzinfo) -> Moment:
    """The moment in a comparable form: a day, or a moment in UTC."""
    return _instant(moment, home) if isinstance(moment, datetime) else moment


def _end(start: Moment, length: timedelta) -> Moment:
    if not isinstance(start, datetime) or start.tzinfo is None:
        return start + length
    return (start.astimezone(UTC) + length).astimezone(UTC)


def _is_within(occurrence: Occurrence, window: Window) -> bool:
    begins, ends = (_instant(moment, window.zone) for moment in (occurrence.start, occurrence.end))
    return begins < window.end and (ends > window.start or begins >= window.start)


# --- elements -------------------------------------------------------------------------------------------


def element_of(occurrence: Occurrence, name: str, home: tzinfo) -> etree._Element:
    """The `event` element of an occurrence, with its times in the zone of the home."""
    part = occurrence.entry.component
    values = {
        "key": key_of(name, occurrence.entry.uid, occurrence.original),
        "uid": _short(occurrence.entry.uid),
        "calendar": line_of(name),
        "start": _shown(occurrence.start, home),
        "end": _shown(occurrence.end, home),
        "all-day": "" if isinstance(occurrence.start, datetime) else "yes",
        "summary": line_of(part.text("SUMMARY")),
        "location": line_of(part.text("LOCATION")),
        "status": line_of(part.text("STATUS")).lower()[:20],
        "organizer": _address(part.first("ORGANIZER")),
        "url": _link(part.text("URL")),
        "categories": ", ".join(
            line_of(unescaped(category.value).replace(",", ", "))
            for category in part.properties.get("CATEGORIES", ())
        ),
        "recurrence": "" if occurrence.original is None else _shown(occurrence.original, home),
    }
    element = etree.Element(
        "event", {key: cut(value, LONGEST.get(key, 1_000)) for key, value in values.items() if value}
    )
    description = clean(part.text("DESCRIPTION")).strip()
    if description:
        etree.SubElement(element, "description").text = cut(description, 20_000)
    return element


def key_of(name: str, uid: str, original: Moment | None) -> str:
    """The key of an occurrence: calendar, UID, and its original time if there are several."""
    if original is None:
        which = ""
    elif isinstance(original, datetime):
        which = original.astimezone(UTC).strftime(" %Y%m%dT%H%M%SZ")
    else:
        which = original.strftime(" %Y%m%d")
    return f"{line_of(name)} {_short(uid)}{which}"


def _short(uid: str) -> str:
    """A UID suitable for an attribute; a long or odd one as its digest."""
    if len(uid) <= 250 and uid == " ".join(uid.split()) == line_of(uid):
        return uid
    return "sha256:" + hashlib.sha256(uid.encode("utf-8", "surrogatepass")).hexdigest()[:40]


def _shown(moment: Moment, home: tzinfo) -> str:
    if not isinstance(moment, datetime):
        return moment.isoformat()
    return _instant(moment, home).astimezone(home).isoformat(timespec="seconds")


def _address(address: Property | None) -> str:
    if address is None:
        return ""
    value = line_of(address.value)
    return value[7:] if value.lower().startswith("mailto:") else value


def _link(text: str) -> str:
    url = line_of(text)
    return url if is_web(url) and len(url) <= LONGEST["url"] else ""
