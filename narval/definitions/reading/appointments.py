"""The words of appointments: a `time` with `after`, which comes once (N41)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from narval.definitions.appointment import Appointment
from narval.definitions.reading.schedule import TIME
from narval.definitions.reading.vocabulary import Attribute, Word, length
from narval.definitions.reading.xml import Entry, Reading

TIME_OR_APPOINTMENT = Word({**TIME.attributes, "after": Attribute(length)})

_ALLOWED = frozenset({"after", "weekdays", "missed"})


def interval(text: str) -> Appointment:
    """The time from one moment to the next (N40), a length by the calendar."""
    return Appointment(text, length(text))


def is_appointment(entry: Entry) -> bool:
    """True if a `time` comes once."""
    return "after" in entry.written


def appointments(reading: Reading, entries: Iterable[Entry]) -> Iterator[Appointment]:
    """The appointments among `time` entries; a field that goes with none of them is a fault."""
    for entry in filter(is_appointment, entries):
        for field in entry.written:
            if field not in _ALLOWED:
                other = "for a date that comes again add another time node, the earliest of them counts"
                reading.fault(entry, f"{field}: with after only weekdays may be given; {other}", field)
        if "after" in entry.values:
            yield Appointment(
                _text(entry), entry.get("after"), entry.get("weekdays", ()), entry.get("missed", "once")
            )


def _text(entry: Entry) -> str:
    """An appointment as it is written."""
    attributes = {name: entry.node.attributes[written].strip() for name, written in entry.written.items()}
    days = f" of weekdays {attributes['weekdays']}" if "weekdays" in attributes else ""
    return f"after {attributes['after']}{days}"
