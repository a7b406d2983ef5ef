"""Vocabulary: tables of the elements and attributes of XML definitions, and readers for attribute values.

A reader gets the text of an attribute without surrounding blanks. It returns the value, or raises ValueError
with what was expected and, optionally, a hint (N12).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import msgspec

from narval.core.definitions.appointment import Length
from narval.core.definitions.reading.durations import read_duration, read_length
from narval.core.definitions.suggestions import closest
from narval.core.kinds import KINDS
from narval.core.trust.paths import paths_in


class Attribute(msgspec.Struct, frozen=True):
    """An attribute of an element: the reader of its value, and whether it is `required`."""

    read: Callable[[str], Any]
    required: bool = False


class PartError(ValueError):
    """An error in a part of an attribute's value: what was expected in its place, and where it starts."""

    def __init__(self, expectation: str, part: str, offset: int) -> None:
        super().__init__(expectation)
        self._part, self._offset = part, offset

    def within(self, text: str) -> tuple[str, int]:
        """The part, and where it starts in the value as written, including surrounding blanks."""
        return self._part, text.index(text.strip()) + self._offset


@dataclass(frozen=True)
class Word:
    """An element of narval's vocabulary: its attributes, and its child elements; None allows any.

    A `foreign` one is read with the vocabulary of another kind.
    """

    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    children: tuple[str, ...] | None = ()
    foreign: bool = False

    def attribute_named(self, written: str) -> str | None:
        """The name of an attribute in any spelling: on-error, on_error and onError are the same."""
        return self._names.get(_plain(written))

    @cached_property
    def _names(self) -> Mapping[str, str]:
        return {_plain(name): name for name in self.attributes}


Words = Mapping[str, Word]


def _plain(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name).replace("_", "-").lower()


# --- readers --------------------------------------------------------------------------------------------


def yes_no(text: str) -> bool:
    """Read yes or no."""
    if text not in ("yes", "no"):
        raise ValueError("yes or no")
    return text == "yes"


def matching(pattern: str, expectation: str) -> Callable[[str], str]:
    """A reader for texts that match a regular expression; `expectation` describes them."""

    def read(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError(expectation)
        return text

    return read


name = matching(r"[^\s./]+", "a name without dots, slashes and blanks")
"""A group, or the name of a definition: a dot joins the two, so neither contains one."""

full_name = matching(r"[^\s./]+\.[^\s./]+", "a full name, such as group.name")
"""The full name of a definition."""

identifier = matching(r"\S+", "an id without blanks")
"""The id of a part of a definition."""

agent = matching(
    r"[a-z][a-z0-9_-]{0,62}(@[a-z][a-z0-9_-]{0,62})?",
    "the name of an agent: a lower-case letter and up to 62 more, digits, - or _; "
    "of one in another home with its peer: shop@office",
)
"""The name of an agent of this home, or of another with its peer."""

variable = matching(r"[^\W\d][\w.-]*", "a name that may follow a $, such as first")
"""The name of a variable of patterns."""


def kind(text: str) -> str:
    """Read a kind of definitions."""
    if text not in KINDS:
        raise ValueError("a kind of definition", closest(text, KINDS))
    return text


def anything(text: str) -> str:
    """Read any text."""
    return text


def one_of(*words: str) -> Callable[[str], str]:
    """A reader for one of a few words."""

    def read(text: str) -> str:
        if text not in words:
            raise ValueError(f"{', '.join(words[:-1])} or {words[-1]}")
        return text

    return read


def integer(least: int | None = None) -> Callable[[str], int]:
    """A reader for whole numbers."""

    def read(text: str) -> int:
        expectation = "a whole number" if least is None else f"a whole number of {least} or more"
        if not re.fullmatch(r"[+-]?[0-9]{1,9}", text) or (least is not None and int(text) < least):
            raise ValueError(expectation)
        return int(text)

    return read


def seconds(text: str) -> float:
    """Read a length of time in seconds."""
    if not re.fullmatch(r"[0-9]{1,12}(\.[0-9]{1,9})?|\.[0-9]{1,9}", text):
        raise ValueError("a number of seconds, such as 3600 or 0.5")
    return float(text)


def timeout(text: str) -> float:
    """Read a length of time in seconds, with or without a unit, more than 0."""
    if not (limit := read_duration(text)):
        raise ValueError("more than 0 seconds")
    return limit


def duration(text: str) -> float:
    """Read a length of time in seconds, with or without a unit, more than 0."""
    if not (length := read_duration(text)):
        raise ValueError('more than no time, such as "10m"')
    return length


def length(text: str) -> Length:
    """Read a length of time by the calendar: days, and seconds."""
    return Length(*read_length(text))


# --- shared by kinds ------------------------------------------------------------------------------------

RETRIES = {"timeout": Attribute(timeout), "retries": Attribute(integer(0)), "backoff": Attribute(seconds)}
"""The attributes that limit a call and its attempts."""

ON_RESTART = Attribute(one_of("retry", "error"))

CONDITION = Word({"use": Attribute(yes_no)}, ("match",))

COMMON: Words = {
    "description": Word({"lang": Attribute(identifier)}, None),
    "input": Word(
        {
            "id": Attribute(identifier, required=True),
            "use": Attribute(yes_no),
            "list": Attribute(yes_no),
            "optional": Attribute(yes_no),
            "outdates": Attribute(yes_no),
            "newest": Attribute(integer(1)),
        },
        ("match",),
    ),
    "output": Word(
        {
            "id": Attribute(identifier, required=True),
            "list": Attribute(yes_no),
            "optional": Attribute(yes_no),
            "unique": Attribute(anything),
            "replaces": Attribute(anything),
            "own": Attribute(paths_in),
        },
        ("match",),
    ),
    "match": Word(),
}
"""The words of definitions with a prototype."""
