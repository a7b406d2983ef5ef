"""iCalendar files (RFC 5545) as entries: their lines about events, and the zones that they name.

icalendar splits the lines. Their content is parsed here, since its components compute each zone that a file
describes, and a file may describe one with a change every second. Here a useless property is skipped as a
line, and a fault affects only its event.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import cache
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from .recurring import Budget, Rule, RuleError, walls

MAX_BYTES = 10 * 1024 * 1024
MAX_LINES = 250_000
MAX_LINE = 100_000
"""The most characters of a property; a longer one is truncated."""
MAX_DATES = 2_000
"""The most dates that an event's RDATE, and its EXDATE, list."""

LONG_AGO = datetime.fromordinal(1)
Moment = date | datetime
"""A date for a whole day, else a date and time; without a zone it is local everywhere."""


class CalendarError(Exception):
    """A calendar cannot be read or reached: `kind` becomes the type of the error element.

    `refused` says that a server answered, but not with a calendar; `wait` is the pause that it requested, in
    seconds.
    """

    def __init__(self, kind: str, message: str, *, refused: bool = False, wait: float = 0.0) -> None:
        self.kind, self.refused, self.wait = kind, refused, wait
        super().__init__(message)


class Fault(NamedTuple):
    """The fault of an event, in a sentence; `uid` is "" if it belongs to no single event."""

    text: str
    uid: str = ""


class EntryError(ValueError):
    """An event cannot be read."""


class Property(NamedTuple):
    """A property as written: its parameters, and its value with backslashes."""

    params: Mapping[str, Any]
    value: str


class Component(NamedTuple):
    """A component: its properties by name, and the components within it."""

    name: str
    properties: dict[str, list[Property]]
    parts: list[Component]

    def first(self, name: str) -> Property | None:
        return next(iter(self.properties.get(name, ())), None)

    def text(self, name: str) -> str:
        """The text of a property, without backslashes; "" if it is missing."""
        value = self.first(name)
        return "" if value is None else unescaped(value.value)


class Entry(NamedTuple):
    """A VEVENT: an event, or a changed occurrence of one.

    `start` is the beginning; `length` its duration; `instance` the beginning that an occurrence would have
    had, else None.
    """

    uid: str
    start: Moment
    length: timedelta
    instance: Moment | None
    rule: Rule | None
    more: tuple[Moment, ...]
    without: tuple[Moment, ...]
    sequence: int
    is_cancelled: bool
    component: Component


READ = frozenset((
    "BEGIN", "END", "UID", "DTSTART", "DTEND", "DURATION", "RRULE", "RDATE", "EXDATE", "RECURRENCE-ID",
    "SUMMARY", "LOCATION", "DESCRIPTION", "STATUS", "URL", "ORGANIZER", "CATEGORIES", "SEQUENCE", "TZID",
    "TZOFFSETTO", "X-LIC-LOCATION",
))  # fmt: skip
"""The properties that are read; the lines of others are skipped."""
PLAIN = re.compile("([^:;]{0,40})(.?)(.*)", re.DOTALL)


def entries_of(data: bytes, budget: Budget) -> tuple[list[Entry], list[Fault]]:
    """The events of a file, and the faults of unreadable ones. Raises CalendarError."""
    calendars = [found for found in _components(data) if found.name == "VCALENDAR"]
    if not calendars:
        raise CalendarError("bad-calendar", "expected a VCALENDAR, found none: is it an .ics file?")
    found: list[Entry] = []
    faults: list[Fault] = []
    for calendar in calendars:
        zones = Zones([part for part in calendar.parts if part.name == "VTIMEZONE"], budget.part())
        for part in calendar.parts:
            if part.name == "VEVENT":
                try:
                    found.append(_entry(part, zones))
                except (ValueError, OverflowError) as error:
                    faults.append(Fault(str(error), part.text("UID")))
        faults += map(Fault, zones.faults)
    return found, faults


def _components(data: bytes) -> list[Component]:
    """The components of a file, with those within them. Raises CalendarError."""
    if len(data) > MAX_BYTES or data.count(b"\n") > MAX_LINES:
        raise CalendarError(
            "too-large", f"expected at most {MAX_BYTES:,} bytes and {MAX_LINES:,} lines, found more"
        )
    top = Component("", {}, [])
    stack = [top]
    for name, value in _lines(data):
        if name == "BEGIN":
            # As deep as an alarm in an event in a calendar; deeper components are not needed.
            if len(stack) < 5:
                part = Component(value.value.strip().upper(), {}, [])
                stack[-1].parts.append(part)
                stack.append(part)
            else:
                stack.append(stack[-1])
        elif name == "END":
            if len(stack) > 1:
                stack.pop()
        else:
            stack[-1].properties.setdefault(name, []).append(value)
    return top.parts


def _lines(data: bytes) -> Iterator[tuple[str, Property]]:
    from icalendar.parser import Contentlines

    text = data.decode("utf-8-sig", "replace").replace("\0", "").replace("\r\n", "\n").replace("\r", "\n")
    for line in Contentlines.from_ical(text):  # type: ignore[no-untyped-call]
        if (plain := PLAIN.match(line)) is None:
            continue
        name, mark, value = plain.groups()
        if (name := name.strip().upper()) not in READ:
            continue
        if mark == ":":  # without parameters, so there is nothing to split
            yield name, Property({}, value[:MAX_LINE])
            continue
        try:
            _, params, value = type(line)(line[:MAX_LINE]).raw_parts()
        except ValueError:
            continue
        yield name, Property({key.upper(): values for key, values in params.items()}, value)


def unescaped(value: str) -> str:
    """A text of iCalendar without its escapes."""
    return re.sub(r"\\([\\;,Nn])", lambda match: "\n" if match[1] in "Nn" else match[1], value)


# --- events ---------------------------------------------------------------------------------------------


def _entry(part: Component, zones: Zones) -> Entry:
    begins, when = part.first("DTSTART"), part.text("UID").strip()
    if begins is None:
        raise EntryError("it has no DTSTART")
    if not when:
        raise EntryError("it has no UID")
    start = zones.moment(begins.value, begins.params)
    instance, rule = part.first("RECURRENCE-ID"), part.first("RRULE")
    sequence = part.text("SEQUENCE").strip()
    return Entry(
        when,
        start,
        _length(part, start, zones),
        instance and zones.moment(instance.value, instance.params),
        rule and Rule.of(rule.value.strip()),
        tuple(_dates(part, "RDATE", zones)),
        tuple(_dates(part, "EXDATE", zones)),
        int(sequence) if sequence.isdecimal() and len(sequence) < 10 else 0,
        part.text("STATUS").strip().upper() == "CANCELLED",
        part,
    )


def _length(part: Component, start: Moment, zones: Zones) -> timedelta:
    """The length of an event; by default a day for one of whole days. Raises EntryError."""
    ends, length = part.first("DTEND"), part.first("DURATION")
    is_day = not isinstance(start, datetime)
    delta = timedelta(is_day)
    if ends is not None:
        end = zones.moment(ends.value, ends.params)
        if isinstance(end, datetime) == is_day:
            raise EntryError("DTEND and DTSTART are not alike: one is a date, the other has a time")
        if isinstance(start, datetime) and isinstance(end, datetime):
            if (start.tzinfo is None) != (end.tzinfo is None):
                raise EntryError("DTEND and DTSTART are not alike: one has a zone, the other has none")
            aware = start.tzinfo is not None
            delta = end.astimezone(UTC) - start.astimezone(UTC) if aware else end - start
        else:
            delta = end - start
    elif length is not None:
        delta = duration(length.value)
    if delta < timedelta(0):
        raise EntryError("it ends before it begins")
    return delta


def duration(text: str) -> timedelta:
    """A duration such as PT1H30M. Raises EntryError."""
    match = re.fullmatch(
        r"\+?P(?:(\d{1,5})W)?(?:(\d{1,5})D)?(?:T(?:(\d{1,6})H)?(?:(\d{1,7})M)?(?:(\d{1,9})S)?)?", text.strip()
    )
    if match is None or match[0].endswith(("P", "T")):
        raise EntryError(f"expected a duration such as PT1H30M, found {text[:40]!r}")
    weeks, days, hours, minutes, seconds = (int(number or 0) for number in match.groups())
    return timedelta(weeks=weeks, days=days, hours=hours, minutes=minutes, seconds=seconds)


def _dates(part: Component, name: str, zones: Zones) -> Iterator[Moment]:
    left = MAX_DATES
    for field in part.properties.get(name, ()):
        for text in field.value.split(","):
            left -= 1
            if left < 0:
                raise EntryError(f"expected at most {MAX_DATES} dates of {name}, found more")
            # A PERIOD's beginning: each occurrence lasts as long as the first.
            yield zones.moment(text.partition("/")[0], field.params)


# --- zones ----------------------------------------------------------------------------------------------

_MOMENT = re.compile(r"(\d{4})(\d\d)(\d\d)(?:T(\d\d)(\d\d)(\d\d)(Z?))?")


class Zones:
    """The zones that a calendar names: known ones of the machine, and those that it describes itself."""

    def __init__(self, described: list[Component], budget: Budget) -> None:
        self._described = {part.text("TZID").strip(): part for part in described}
        self._budget = budget
        self._known: dict[str, tzinfo | None] = {}
        self._unknown: Counter[str] = Counter()

    @property
    def faults(self) -> list[str]:
        """A sentence for each unknown zone."""
        return [
            f"zone {name[:100]!r} is not known, nor described in the file; taken for that of the home"
            for name in self._unknown
        ]

    def moment(self, text: str, params: Mapping[str, Any]) -> Moment:
        """Parse a date, or a date and time with its zone if it has one. Raises ValueError."""
        match = _MOMENT.fullmatch(text.strip())
        if match is None:
            raise EntryError(f"expected a date such as 20261124T100000, found {text[:40]!r}")
        year, month, day = int(match[1]), int(match[2]), int(match[3])
        if match[4] is None:
            return date(year, month, day)
        zone = UTC if match[7] else self._of(str(params.get("TZID") or ""))
        return datetime(year, month, day, int(match[4]), int(match[5]), min(int(match[6]), 59), tzinfo=zone)

    def _of(self, name: str) -> tzinfo | None:
        if not name:
            return None
        if name not in self._known:
            self._known[name] = zone = self._found(name.strip())
            if zone is None:
                self._unknown[name] += 1
        return self._known[name]

    def _found(self, name: str) -> tzinfo | None:
        part = self._described.get(name)
        # Names such as /freeassociation.sourceforge.net/Europe/Paris mean the same zones.
        tails = ["/".join(name.split("/")[-count:]) for count in (2, 3)] if "/" in name else []
        also = [part.text("X-LIC-LOCATION").strip()] if part is not None else []
        for text in (name, *tails, *also):
            if (zone := _zone_named(text)) is not None:
                return zone
        return Described(part, self._budget) if part is not None else None


@cache
def _windows_names() -> Mapping[str, str]:
    from icalendar.timezone.windows_to_olson import WINDOWS_TO_OLSON

    return WINDOWS_TO_OLSON


def _zone_named(name: str) -> tzinfo | None:
    if not re.fullmatch(r"[\w+/. ()&-]{1,64}", name):
        return None
    try:
        return ZoneInfo(_windows_names().get(name, name))
    except (ValueError, OSError, KeyError):  # no zone of that name, or a folder of zones
        return None


class Described(tzinfo):
    """A zone described in a calendar: the offset is that of the last change."""

    def __init__(self, part: Component, budget: Budget) -> None:
        self._changes = [change for change in map(_change, part.parts) if change is not None]
        self._budget = budget
        if not self._changes:
            raise EntryError(f"zone {part.text('TZID')[:100]!r} has no STANDARD and no DAYLIGHT part")

    def utcoffset(self, wall: datetime | None) -> timedelta:
        """The offset when clocks show this time."""
        clock = (wall or LONG_AGO).replace(tzinfo=None)
        return max((self._last(change, clock), change.offset) for change in self._changes)[1]

    def dst(self, _wall: datetime | None) -> timedelta | None:
        """None: it is not needed."""
        return None

    def tzname(self, _wall: datetime | None) -> str:
        """Return no name."""
        return ""

    def _last(self, change: Change, clock: datetime) -> datetime:
        """The moment of the last occurrence of a change; long ago if it has not occurred yet."""
        if clock < change.start:
            return LONG_AGO
        last = change.start
        if change.rule is not None:
            year_before = max(change.start, clock - timedelta(days=366))
            # None within the year: the rule has ended.
            for since in (year_before, change.start):
                for wall in walls(change.rule, change.start, since, clock, self._budget):
                    if change.until is not None and wall > change.until:
                        break
                    last = max(last, wall)
                if last > year_before or since == change.start:
                    break
        return max([last, *(wall for wall in change.more if wall <= clock)])


class Change(NamedTuple):
    """A recurring change of the clock, with the offset from then on."""

    start: datetime
    offset: timedelta
    rule: Rule | None
    until: datetime | None
    more: tuple[datetime, ...]


def _change(part: Component) -> Change | None:
    begins, offset, rule = part.first("DTSTART"), part.first("TZOFFSETTO"), part.first("RRULE")
    match = re.fullmatch(r"([+-])(\d\d)(\d\d)(\d\d)?", offset.value.strip()) if offset else None
    if begins is None or match is None or int(match[2]) > 23:
        return None
    start = wall_of(moment_without_zones(begins.value))
    amount = timedelta(hours=int(match[2]), minutes=int(match[3]))
    try:
        parsed = Rule.of(rule.value.strip()) if rule else None
    except RuleError:
        parsed = None
    until = wall_of(moment_without_zones(parsed.until)) if parsed is not None and parsed.until else None
    more = tuple(map(wall_of, _dates(part, "RDATE", Zones([], Budget(0)))))
    return Change(start, amount if match[1] == "+" else -amount, parsed, until, more)


def moment_without_zones(text: str) -> Moment:
    """Parse a date, or a date and time, in UTC or without a zone. Raises ValueError."""
    return Zones([], Budget(0)).moment(text, {})


def wall_of(moment: Moment) -> datetime:
    """The date and time that a clock shows then; for a day, its beginning."""
    return moment.replace(tzinfo=None) if isinstance(moment, datetime) else datetime.combine(moment, time())
