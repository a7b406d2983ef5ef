"""The word `time`: dates that come again, as definitions write them (table 2.9, N25)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from narval.core.definitions.reading.vocabulary import Attribute, Word, one_of
from narval.core.definitions.reading.xml import Entry, Reading
from narval.core.definitions.schedule import FIELDS, Ranges, Time, never

_RARE = ("monthdays", "yeardays", "weekdays", "months", "years")
"""The fields by which a date may never come, the likeliest first."""

_PART = re.compile(r"\s*(?:\*|(-?[0-9]{1,5})(?:\s*-\s*(-?[0-9]{1,5}))?)(?:\s*/\s*([0-9]{1,5}))?\s*")


def ranges(least: int, most: int, *, from_last: bool = False) -> Callable[[str], Ranges]:
    """A reader of a field of a date: `*`, or a list of numbers, ranges, and steps within either (N39).

    With `from_last` values may be counted from the last, which is -1.
    """
    expectation = f"* or a list of numbers and ranges from {least} to {most}, such as 1,3,5-7 or */5"
    if from_last:
        expectation += f", or from -{most} to -1, which is the last"

    def part(text: str) -> tuple[int, ...] | None:
        written = _PART.fullmatch(text)
        if written is None:
            return None
        low, high, step = written.groups()
        first, last = (least, most) if low is None else (int(low), int(high or low))
        bottom, top = (-most, -1) if from_last and first < 0 else (least, most)
        if not bottom <= first <= last <= top:
            return None
        if step is None:
            return (first, last) if low is not None else None
        return (first, last, int(step)) if int(step) and (low is None or high is not None) else None

    def read(text: str) -> Ranges:
        if text == "*":
            return ()
        parts = [part(each) for each in text.split(",")]
        if None in parts:
            raise ValueError(expectation)
        return tuple(sorted(each for each in parts if each is not None))

    return read


TIME = Word(
    {
        **{field: Attribute(ranges(*FIELDS[field], from_last=field == "monthdays")) for field in FIELDS},
        "missed": Attribute(one_of("once", "skip")),
    }
)


def times(reading: Reading, entries: Iterable[Entry]) -> Iterator[Time]:
    """The dates of entries of the word `TIME`; one that never comes is a fault."""
    for entry in entries:
        time = Time(**entry.values, line=entry.node.line)
        if never((time,)):
            fields = [field for field in _RARE if entry.get(field)]
            reading.fault(entry, f"this date never comes; correct {' or '.join(fields)}", fields[0])
        yield time
