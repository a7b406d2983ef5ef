"""The vocabulary of recipes, as a table: which elements and attributes there are, and their values (N12)."""

from __future__ import annotations

import re
from collections.abc import Callable

from narval.definitions import KINDS, reading
from narval.definitions.hint import closest
from narval.definitions.reading import COMMON, Attribute, Word, Words
from narval.definitions.recipe import Ranges


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
    if not (limit := reading.seconds(text)):
        raise ValueError("more than 0 seconds")
    return limit


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
        "group": Attribute(reading.name),
        "name": Attribute(reading.name, required=True),
        "start_step": Attribute(reading.identifier, required=True),
        "end_step": Attribute(reading.identifier, required=True),
        "restart": Attribute(reading.yes_no),
        "decay": Attribute(reading.seconds),
    },
    ("description", "step", "transition"),
)
_STEP = Word(
    {
        "id": Attribute(reading.identifier, required=True),
        "type": Attribute(kind, required=True),
        "target": Attribute(target, required=True),
        "foreach": Attribute(reading.anything),
        "timeout": Attribute(timeout),
        "retries": Attribute(reading.integer(0)),
        "backoff": Attribute(reading.seconds),
        "max-parallel": Attribute(reading.integer(1)),
        "on-restart": Attribute(reading.one_of("retry", "error")),
    },
    ("arguments", "context", "description", "input", "output"),
)
_TRANSITION = Word(
    {"id": Attribute(reading.identifier, required=True), "priority": Attribute(reading.integer())},
    ("condition", "context", "description", "in", "out", "time"),
)
TIME = Word(
    {
        **{name: Attribute(ranges(*bounds)) for name, bounds in FIELDS.items()},
        "missed": Attribute(reading.one_of("once", "skip")),
    }
)
WORDS: Words = {
    **COMMON,
    "cookbook": Word(
        {"group": Attribute(reading.name), "name": Attribute(reading.anything)}, ("description", "recipe")
    ),
    "recipe": _RECIPE,
    "step": _STEP,
    "arguments": Word(children=None),
    "context": Word({"from": Attribute(reading.one_of("memory", "plan"), required=True)}, ("match",)),
    "transition": _TRANSITION,
    "in": Word(
        {"idref": Attribute(reading.identifier, required=True), "on-error": Attribute(reading.yes_no)}
    ),
    "out": Word({"idref": Attribute(reading.identifier, required=True)}),
    "condition": Word({"use": Attribute(reading.yes_no)}, ("match",)),
    "time": TIME,
}
