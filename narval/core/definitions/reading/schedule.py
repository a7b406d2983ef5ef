"""The word `time`: recurring dates, as written in definitions (table 2.9, N25)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

from msgspec.structs import replace

from narval.core.definitions.reading.vocabulary import Attribute, PartError, Word, one_of
from narval.core.definitions.reading.xml import Entry, Reading
from narval.core.definitions.schedule import FIELDS, Ranges, Time, never
from narval.core.definitions.suggestions import closest

_RARE = ("monthdays", "yeardays", "weekdays", "months", "years")
"""The fields that can make a date impossible, the likeliest first."""

_PART = re.compile(r"\s*(?:\*|(-?[0-9]{1,5})(?:\s*-\s*(-?[0-9]{1,5}))?)(?:\s*/\s*([0-9]{1,5}))?\s*")
_NAMED = re.compile(r"\s*([a-z]+)(?:\s*-\s*([a-z]+))?\s*", re.IGNORECASE)

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


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


_NAMES = {"months": MONTHS, "weekdays": WEEKDAYS}
_READERS = {
    field: FieldReader(*FIELDS[field], from_last=field == "monthdays", names=_NAMES.get(field, ()))
    for field in FIELDS
}
weekdays = _READERS["weekdays"]
"""A reader for days of the week; 0 is Monday."""


# --- cron -----------------------------------------------------------------------------------------------

_SUNDAY_FIRST = (WEEKDAYS[-1], *WEEKDAYS[:-1])
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
