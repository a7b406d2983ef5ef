"""The word `time` as written in definitions: recurring dates (table 2.9, N25), or a line of crontab(5); or,
with `after`, `at` or `before`, an appointment, which comes once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

from msgspec.structs import replace

from narval.core.definitions.appointment import (
    DAY,
    MOST_WEEKS,
    Appointment,
    Hours,
    Length,
    WorkingTime,
    days_of,
)
from narval.core.definitions.reading.durations import LENGTH
from narval.core.definitions.reading.patterns import Patterns
from narval.core.definitions.reading.vocabulary import Attribute, PartError, Word, anything, length, one_of
from narval.core.definitions.reading.xml import Entry, Reading
from narval.core.definitions.schedule import FIELDS, Ranges, Time, never
from narval.core.definitions.suggestions import closest
from narval.core.definitions.wall import MONTHS, WEEKDAYS
from narval.core.patterns.pattern import Pattern

_RARE = ("monthdays", "yeardays", "weekdays", "months", "years")
"""The fields that can make a date impossible, the likeliest first."""

_PART = re.compile(r"\s*(?:\*|(-?[0-9]{1,5})(?:\s*-\s*(-?[0-9]{1,5}))?)(?:\s*/\s*([0-9]{1,5}))?\s*")
_NAMED = re.compile(r"\s*([a-z]+)(?:\s*-\s*([a-z]+))?\s*", re.IGNORECASE)

_WEEKDAYS = tuple(name[:3] for name in WEEKDAYS)


class FieldReader:
    """A reader for a field of a date: `*`, or a list of numbers, ranges, and steps within either (N39).

    With `from_last`, values may be counted from the last, which is -1. The values from `least` on may have
    `names`; a range of names may wrap around, as sun-thu does.
    """

    def __init__(self, least: int, most: int, *, from_last: bool = False, names: Sequence[str] = ()) -> None:
        self._least, self._most, self._from_last = least, most, from_last
        self._numbers = {name: number for number, name in enumerate(names, least)}
        self.expectation = f"* or a list of numbers and ranges from {least} to {most}, such as 1,3,5-7 or */5"
        if from_last:
            self.expectation += f", or from -{most} to -1, which is the last"
        if names:
            self.expectation += f", or of names, such as {names[0]} or {names[1]}-{names[5]}"

    def __call__(self, text: str) -> Ranges:
        """Parse the values of a field. Raises ValueError."""
        return () if text == "*" else tuple(sorted(chain(*map(self.part, text.split(",")))))

    def part(self, text: str) -> Ranges:
        """Parse one part of a list. Raises ValueError."""
        named = _NAMED.fullmatch(text)
        values = self._named(*named.groups()) if named else self._numbered(text)
        if values is None:
            raise ValueError(self.expectation)
        return values

    def _named(self, *names: str | None) -> Ranges | None:
        first, last = (self._numbers.get((name or names[0] or "").lower()) for name in names)
        if first is None or last is None:
            return None
        return (
            ((first, last),) if first <= last else ((first, max(self._numbers.values())), (self._least, last))
        )

    def _numbered(self, text: str) -> Ranges | None:
        written = _PART.fullmatch(text)
        if written is None:
            return None
        low, high, step = written.groups()
        first, last = (self._least, self._most) if low is None else (int(low), int(high or low))
        bottom, top = (-self._most, -1) if self._from_last and first < 0 else (self._least, self._most)
        if not bottom <= first <= last <= top:
            return None
        if step is None:
            return ((first, last),) if low is not None else None
        return ((first, last, int(step)),) if int(step) and (low is None or high is not None) else None


_NAMES = {"months": tuple(name[:3] for name in MONTHS), "weekdays": _WEEKDAYS}
_READERS = {
    field: FieldReader(*FIELDS[field], from_last=field == "monthdays", names=_NAMES.get(field, ()))
    for field in FIELDS
}
weekdays = _READERS["weekdays"]
"""A reader for days of the week; 0 is Monday."""


# --- cron -----------------------------------------------------------------------------------------------

_SUNDAY_FIRST = (_WEEKDAYS[-1], *_WEEKDAYS[:-1])
_CRON = {
    "minutes": _READERS["minutes"],
    "hours": _READERS["hours"],
    "monthdays": FieldReader(*FIELDS["monthdays"]),
    "months": _READERS["months"],
    "weekdays": FieldReader(0, 7, names=_SUNDAY_FIRST),
}
"""The fields of cron in order; Sunday is 0 or 7 there."""

_SHORTHANDS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_LAST = "L"
_LAST_WEEK = ((-7, -1),)
_FIVE = 'minutes, hours, days of the month, months and weekdays of cron, such as "0 7 * * 1-5", or @daily'


def cron(text: str) -> tuple[Time, ...]:
    """The dates of a crontab(5) line of five fields, or of a shorthand such as @daily. Raises ValueError.

    If both days of the month and weekdays are given, either is enough: each becomes a date of its own. If one
    of them starts with `*`, as */2 does, both must match.
    """
    if text.startswith("@"):
        if text == "@reboot":
            raise ValueError(_FIVE, "; to begin with the daemon, write <start-plan> in data/memory.xml")
        if text not in _SHORTHANDS:
            raise ValueError(f"one of {', '.join(_SHORTHANDS)}", closest(text, _SHORTHANDS))
        return cron(_SHORTHANDS[text])
    written = list(re.finditer(r"\S+", text))
    if len(written) != len(_CRON):
        raise ValueError(_FIVE)
    fields = dict(zip(_CRON, written, strict=True))
    common: dict[str, Any] = {name: _read(name, fields[name]) for name in ("minutes", "hours", "months")}
    either = not any(fields[name][0].startswith("*") for name in ("monthdays", "weekdays"))
    monthdays = _read("monthdays", fields["monthdays"])
    of_weeks = list(_of_weeks(fields["weekdays"]))
    if either:
        days: list[dict[str, Any]] = [{"monthdays": monthdays}, *of_weeks]
    elif monthdays and any("monthdays" in each for each in of_weeks):
        remedy = "* for the days of the month beside the last of a weekday"
        raise PartError(remedy, fields["monthdays"][0], fields["monthdays"].start())
    else:
        days = [{"monthdays": monthdays, **each} for each in of_weeks]
    dates = tuple([Time(seconds=((0, 0),), **common, **each) for each in days])
    return tuple(date for date in dates if not never((date,))) or dates


def _read(name: str, written: re.Match[str]) -> Ranges:
    """The values of a field of cron, in which L is the last day of a month. Raises PartError."""
    parts = written[0].split(",")
    last = [part for part in parts if part.upper() == _LAST and name == "monthdays"]
    rest = [part for part in parts if part not in last]
    try:
        values = _CRON[name](written[0]) if not last else tuple(chain(*map(_CRON[name].part, rest)))
    except ValueError as error:
        also = ", or L, the last day" if name == "monthdays" else ""
        raise PartError(f"{name} as {error.args[0]}{also}", written[0], written.start()) from None
    return (*(((-1, -1),) if last else ()), *values)


def _of_weeks(written: re.Match[str]) -> Iterator[dict[str, Ranges]]:
    """The fields for the weekdays of cron: of every week, or of a month's last week if L follows.

    Raises PartError.
    """
    if written[0] == "*":
        yield {}
        return
    each_week, last_week = set[int](), set[int]()
    reader = _CRON["weekdays"]
    for part in written[0].split(","):
        is_last = len(part) > 1 and part[-1].upper() == _LAST and part[:-1].isalnum()
        try:
            spans = reader.part(part[:-1] if is_last else part)
        except ValueError:
            expectation = f"weekdays as {reader.expectation}, 0 and 7 being Sunday, or as 5L, the last Friday"
            raise PartError(expectation, written[0], written.start()) from None
        days = {(day - 1) % 7 for first, last, *step in spans for day in range(first, last + 1, *step)}
        (last_week if is_last else each_week).update(days)
    if each_week:
        yield {"weekdays": _spans(each_week)}
    if last_week:
        yield {"weekdays": _spans(last_week), "monthdays": _LAST_WEEK}


def _spans(days: set[int]) -> Ranges:
    """The ranges of some days; all seven are a range too, not left out."""
    firsts = [day for day in sorted(days) if day - 1 not in days]
    lasts = [day for day in sorted(days) if day + 1 not in days]
    return tuple(zip(firsts, lasts, strict=True))


# --- the word -------------------------------------------------------------------------------------------

TIME = Word(
    {
        **{field: Attribute(reader) for field, reader in _READERS.items()},
        "cron": Attribute(cron),
        "missed": Attribute(one_of("once", "skip")),
    }
)


def times(reading: Reading, entries: Iterable[Entry]) -> Iterator[Time]:
    """The dates of `TIME` entries; report a fault for one that never comes."""
    for entry in entries:
        line, missed = entry.node.line, entry.get("missed", "once")
        if "cron" in entry.written:
            for field in entry.written.keys() & FIELDS.keys():
                remedy = "remove it, or write another time node: the earliest of them counts"
                reading.fault(entry, f"{field}: with cron no field may be given; {remedy}", field)
            dates = tuple([replace(date, missed=missed, line=line) for date in entry.get("cron", ())])
        else:
            dates = (Time(**entry.values, line=line),)
        if dates and never(dates):
            fields = ["cron"] if "cron" in entry.values else [field for field in _RARE if entry.get(field)]
            reading.fault(entry, f"this date never comes; correct {' or '.join(fields)}", fields[0])
        yield from dates


# --- appointments -----------------------------------------------------------------------------------------

TIME_OR_APPOINTMENT = Word(
    {**TIME.attributes, "after": Attribute(length), "before": Attribute(length), "at": Attribute(anything)}
)

_A_DATE = re.compile(r"\d{4}-\d\d-\d\d|\d\d?:\d\d")
_WORDS = ("after", "before", "at")
_ALLOWED = frozenset({*_WORDS, "weekdays", "missed"})

_ON_WEEKDAYS = re.compile(r"(.*\S)\s+([a-z]{3}.*)", re.IGNORECASE | re.DOTALL)
_HOURS = re.compile(r"(.*\S)\s+(\d\S*-\d\S*)", re.DOTALL)
_PART_OF_DAY = re.compile(r"([01]?\d|2[0-4])(?::([0-5]\d))?-([01]?\d|2[0-4])(?::([0-5]\d))?")


def interval(text: str) -> Appointment:
    """Parse the time from one moment to the next (N40): a length by the calendar; if weekdays follow, only
    these count, and if hours of the day follow, only these hours.
    """
    of_day = _HOURS.fullmatch(text)
    hours = () if of_day is None else _hours(of_day[2])
    rest = text if of_day is None else of_day[1]
    written = _ON_WEEKDAYS.fullmatch(rest)
    try:
        if written is None:
            made = Appointment(text, length(rest), hours=hours)
        else:
            made = Appointment(text, length(written[1]), weekdays(written[2]), hours=hours)
    except ValueError:  # the rest may be a misspelt unit, or misspelt weekdays
        raise ValueError(
            f'{LENGTH}; weekdays may follow, such as "1d mon-fri", and hours, such as "4h mon-fri 9-17"'
        ) from None
    if hours and made.length.days:
        raise ValueError('a length of hours where hours of the day follow, such as "8h mon-fri 9-17"')
    working = WorkingTime(hours, days_of(made.weekdays))
    if hours and made.length.seconds > MOST_WEEKS * working.a_week:
        raise ValueError("working time that passes within ten years")
    return made


def _hours(text: str) -> Hours:
    """Parse the hours of a day, such as `9-12,13:30-17`. Raises ValueError."""
    parts: list[tuple[int, int]] = []
    for part in text.split(","):
        read = _PART_OF_DAY.fullmatch(part)
        first, last = (0, 0) if read is None else (_second(read[1], read[2]), _second(read[3], read[4]))
        if not first < last <= DAY or (parts and first < parts[-1][1]):
            raise ValueError('hours of the day in order, such as "9-17" or "9-12,13:30-17"')
        parts.append((first, last))
    return tuple(parts)


def _second(hours: str, minutes: str | None) -> int:
    return int(hours) * 3600 + int(minutes or 0) * 60


def is_appointment(entry: Entry) -> bool:
    """True if a `time` comes only once."""
    return any(word in entry.written for word in _WORDS)


def appointments(
    reading: Reading, patterns: Patterns, entries: Iterable[Entry], own: frozenset[str]
) -> Iterator[Appointment]:
    """The appointments among `time` entries; `own` are the names that the conditions beside them give."""
    for entry in filter(is_appointment, entries):
        _check(reading, entry)
        at = _expression(reading, patterns, entry, own) if "at" in entry.written else None
        if any(word in entry.written and word not in entry.values for word in _WORDS):
            continue
        if at is not None or "after" in entry.values:
            yield Appointment(
                _text(entry),
                entry.get("before") or entry.get("after") or Length(),
                entry.get("weekdays", ()),
                entry.get("missed", "once"),
                at,
                "before" in entry.values,
            )


def _check(reading: Reading, entry: Entry) -> None:
    """Report fields that do not go together."""
    word = next(word for word in _WORDS if word in entry.written)
    for field in entry.written:
        if field not in _ALLOWED:
            other = "for a date that comes again add another time node, the earliest of them counts"
            reading.fault(entry, f"{field}: with {word} only weekdays may be given; {other}", field)
    if "before" in entry.written and "after" in entry.written:
        reading.fault(entry, "before: this time has after as well; remove one of them", "before")
    if "before" in entry.written and "at" not in entry.written:
        missing = 'what was before its in-steps had ended is past; add at, such as at="$STEP/@start"'
        reading.fault(entry, f"before: {missing}, or write after", "before")
    if word == "at" and "weekdays" in entry.written:
        reading.fault(
            entry, "weekdays: with at they say which days count of before or after; add one", "weekdays"
        )


def _expression(reading: Reading, patterns: Patterns, entry: Entry, own: frozenset[str]) -> Pattern | None:
    """The date expression of an entry; report a fault if it can give no date of an element."""
    expectation = "at: expected an expression of an element that a step produced, such as $STEP/@start"
    if _A_DATE.match(written := entry.get("at", "")):
        reading.fault(entry, f"{expectation}, found {written!r}; for a fixed date give its fields", "at")
        return None
    pattern = patterns.of_attribute(entry, "at")
    if pattern is None:
        return None
    names = sorted(pattern.variables & own)
    if pattern.shape.xpath3:
        reading.fault(entry, f"at: expected an expression of XPath 1.0, found {pattern.text!r}", "at")
    elif not pattern.variables:
        reading.fault(entry, f"{expectation}, found {pattern.text!r}; for a fixed date give its fields", "at")
    elif names:
        late = (
            f"${names[0]} is given by a condition of this transition, which is judged when the date has come"
        )
        reading.fault(entry, f"at: {late}; let a transition before it take the element", "at")
    return pattern


def _text(entry: Entry) -> str:
    """The written form of an appointment."""
    attributes = {name: entry.node.attributes[written].strip() for name, written in entry.written.items()}
    days = f" of weekdays {attributes['weekdays']}" if "weekdays" in attributes else ""
    for word in ("before", "after"):
        if word in attributes and "at" in attributes:
            return f"{attributes[word]}{days} {word} {attributes['at']}"
    return f"at {attributes['at']}" if "at" in attributes else f"after {attributes['after']}{days}"
