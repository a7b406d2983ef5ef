"""The vocabulary of recipes, as a table: which elements and attributes there are, and their values (N12)."""

from __future__ import annotations

import re
from collections.abc import Callable

from narval.definitions.kinds import KINDS
from narval.definitions.reading import durations, xml
from narval.definitions.reading.xml import COMMON, Attribute, Word, Words
from narval.definitions.schedule import Ranges
from narval.definitions.suggestions import closest


def ranges(least: int, most: int) -> Callable[[str], Ranges]:
    """A field of a date: `*`, or a list of numbers and ranges."""

    def read(text: str) -> Ranges:
        if text == "*":
            return ()
        wanted = ValueError(f"* or a list of numbers and ranges from {least} to {most}, such as 1,3,5-7")
        found = []
        for part in text.split(","):
            written = re.fullmatch(r"\s*(-?[0-9]{1,5})(?:\s*-\s*(-?[0-9]{1,5}))?\s*", part)
            if written is None:
                raise wanted
            first = int(written[1])
            last = first if written[2] is None else int(written[2])
            if not least <= first <= last <= most:
                raise wanted
            found.append((first, last))
        return tuple(sorted(found))

    return read


def kind(text: str) -> str:
    """The kind of a target: any that narval knows."""
    if text not in KINDS:
        raise ValueError("a kind of definition", closest(text, KINDS))
    return text


def target(text: str) -> str:
    """The full name of a definition."""
    if not re.fullmatch(r"[^\s./]+\.[^\s./]+", text):
        raise ValueError("a full name, such as group.name")
    return text


def timeout(text: str) -> float:
    """A length of time that is not nothing."""
    if not (limit := xml.seconds(text)):
        raise ValueError("more than 0 seconds")
    return limit


def duration(text: str) -> float:
    """A length of time with its units, that is not nothing."""
    if not (lasting := durations.read_duration(text)):
        raise ValueError("more than no time")
    return lasting


FIELDS = {
    "seconds": (0, 59),
    "minutes": (0, 59),
    "hours": (0, 23),
    "monthdays": (1, 31),
    "months": (1, 12),
    "years": (-10000, 10000),
    "yeardays": (1, 366),
    "weekdays": (0, 6),
}
"""The fields of a date and their bounds (table 2.9); weekday 0 is Monday."""

_RECIPE = Word(
    {
        "group": Attribute(xml.name),
        "name": Attribute(xml.name, required=True),
        "start_step": Attribute(xml.identifier, required=True),
        "end_step": Attribute(xml.identifier, required=True),
        "restart": Attribute(xml.yes_no),
        "decay": Attribute(xml.seconds),
    },
    ("description", "step", "transition"),
)
_STEP = Word(
    {
        "id": Attribute(xml.identifier, required=True),
        "type": Attribute(kind, required=True),
        "target": Attribute(target, required=True),
        "foreach": Attribute(xml.anything),
        "timeout": Attribute(timeout),
        "retries": Attribute(xml.integer(0)),
        "backoff": Attribute(xml.seconds),
        "max-parallel": Attribute(xml.integer(1)),
        "on-restart": Attribute(xml.one_of("retry", "error")),
    },
    ("arguments", "context", "description", "input", "output"),
)
_TRANSITION = Word(
    {"id": Attribute(xml.identifier, required=True), "priority": Attribute(xml.integer())},
    ("condition", "context", "description", "in", "out", "time"),
)
TIME = Word(
    {
        **{name: Attribute(ranges(*bounds)) for name, bounds in FIELDS.items()},
        "missed": Attribute(xml.one_of("once", "skip")),
    }
)
WORDS: Words = {
    **COMMON,
    "cookbook": Word(
        {"group": Attribute(xml.name), "name": Attribute(xml.anything)}, ("description", "recipe")
    ),
    "recipe": _RECIPE,
    "step": _STEP,
    "arguments": Word(children=None),
    "context": Word({"from": Attribute(xml.one_of("memory", "plan"), required=True)}, ("match",)),
    "transition": _TRANSITION,
    "in": Word({"idref": Attribute(xml.identifier, required=True), "on-error": Attribute(xml.yes_no)}),
    "out": Word({"idref": Attribute(xml.identifier, required=True)}),
    "condition": Word({"use": Attribute(xml.yes_no), "for": Attribute(duration)}, ("match",)),
    "time": TIME,
}
