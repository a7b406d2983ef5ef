"""The word `time`: dates that come again, as definitions write them (table 2.9, N25)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from narval.definitions.reading.vocabulary import Attribute, Word, one_of
from narval.definitions.reading.xml import Entry, Reading
from narval.definitions.schedule import FIELDS, Ranges, Time, never

_RARE = ("monthdays", "yeardays", "weekdays", "months", "years")
"""The fields by which a date may never come, the likeliest first."""


def ranges(least: int, most: int) -> Callable[[str], Ranges]:
    """A reader of a field of a date: `*`, or a list of numbers and ranges."""

    def read(text: str) -> Ranges:
        if text == "*":
            return ()
        wanted = ValueError(f"* or a list of numbers and ranges from {least} to {most}, such as 1,3,5-7")
        reading = []
        for part in text.split(","):
            written = re.fullmatch(r"\s*(-?[0-9]{1,5})(?:\s*-\s*(-?[0-9]{1,5}))?\s*", part)
            if written is None:
                raise wanted
            first = int(written[1])
            last = first if written[2] is None else int(written[2])
            if not least <= first <= last <= most:
                raise wanted
            reading.append((first, last))
        return tuple(sorted(reading))

    return read


TIME = Word(
    {
        **{field: Attribute(ranges(*bounds)) for field, bounds in FIELDS.items()},
        "missed": Attribute(one_of("once", "skip")),
    }
)


def times(reading: Reading, entries: Iterable[Entry]) -> Iterator[Time]:
    """The dates of entries of the word `TIME`; one that never comes is a fault."""
    for entry in entries:
        time = Time(**entry.values, line=entry.node.line)
        if never((time,)):
            given = [field for field in _RARE if entry.get(field)]
            reading.fault(entry, f"this date never comes; correct {' or '.join(given)}", given[0])
        yield time
