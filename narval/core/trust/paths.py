"""Paths of parts: attributes, texts and children of an element, also within an input or output.

`@to` is an attribute, `body` a child and everything in it, `address/@mail` an attribute of a child, `text()`
the text directly in the element. Names have no prefixes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

TEXT = "text()"
"""The path of the text directly in an element, not in a child."""

_NAME = r"[^\W\d][\w.-]*"
_PATH = re.compile(rf"(?:{_NAME}/)*(?:@?{_NAME}|text\(\))")

WRITTEN = "a path such as @to, body, address/@mail or text()"
"""The expected form of a path, for people."""


class SlotPath(NamedTuple):
    """A part of an input or output: its id, and the path within the element; "" is the whole."""

    slot: str
    path: str = ""

    def __str__(self) -> str:
        return f"{self.slot}/{self.path}" if self.path else self.slot


class Keep(NamedTuple):
    """A part of an output that is passed on: it contains only what these parts of inputs contain."""

    part: SlotPath
    sources: tuple[SlotPath, ...]

    def __str__(self) -> str:
        return f"{self.part}={'+'.join(map(str, self.sources))}"


def is_path(text: object) -> bool:
    """True for a valid path."""
    return isinstance(text, str) and _PATH.fullmatch(text) is not None


def slot_path(text: object) -> SlotPath:
    """Parse a part of a slot, such as `email/@to`. Raises ValueError with what was expected."""
    slot, slash, path = text.partition("/") if isinstance(text, str) else ("", "", "")
    if not slot or re.search(r"[\s=+]", slot) or (slash and not is_path(path)):
        raise ValueError(f"an id, or an id and {WRITTEN}, as in email/@to")
    return SlotPath(slot, path)


def slot_paths(text: str) -> tuple[SlotPath, ...]:
    """The parts that an attribute lists, separated by blanks. Raises ValueError."""
    return tuple(map(slot_path, text.split()))


def keeps_of(declared: Mapping[str, str | Iterable[str]]) -> tuple[Keep, ...]:
    """The parts of outputs that are passed on, each with its parts of inputs.

    Raises ValueError with what was expected.
    """
    return tuple(
        Keep(slot_path(part), tuple(map(slot_path, [sources] if isinstance(sources, str) else sources)))
        for part, sources in declared.items()
    )


def keeps_in(text: str) -> tuple[Keep, ...]:
    """Parse an attribute of passed-on parts: `answer/@to=mail/@from answer/body=mail/body+note`.

    Raises ValueError.
    """
    pairs = [word.partition("=") for word in text.split()]
    if not all(equals for _, equals, _ in pairs):
        raise ValueError("OUTPUT/PATH=INPUT/PATH, as in answer/@to=mail/@from")
    return keeps_of({part: sources.split("+") for part, _, sources in pairs})


def is_within(path: str, part: str) -> bool:
    """True if a path is a part, or is within it."""
    return not part or path == part or path.startswith(f"{part}/")


def paths_in(text: str) -> tuple[str, ...]:
    """The paths that an attribute lists, separated by blanks. Raises ValueError."""
    words = tuple(text.split())
    if not words or not all(map(is_path, words)):
        raise ValueError(WRITTEN)
    return words


def local_part(name: object) -> str:
    """The name of an element or attribute as used in a path: without its namespace."""
    return str(name).rpartition("}")[2]
