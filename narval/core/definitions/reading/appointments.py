"""The words of appointments: a `time` with `after`, `at` or `before`, which comes once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

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
from narval.core.definitions.reading.schedule import TIME, weekdays
from narval.core.definitions.reading.vocabulary import Attribute, Word, anything, length
from narval.core.definitions.reading.xml import Entry, Reading
from narval.core.patterns.pattern import Pattern

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
