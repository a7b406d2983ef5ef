"""The parts of a definition for exploration: optional capabilities of engines.

An engine offers `structure` if all states of its runs can be explored, and `unreachable` if its definitions
are analysed without exploring. An engine that offers neither is skipped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, Protocol, runtime_checkable

import msgspec

from narval.core.definitions.library import Library
from narval.core.patterns.pattern import Condition

PartKey = tuple[str, str]
"""The list in which an engine shows a part, and the part's id there."""


class Part(msgspec.Struct, frozen=True):
    """One part of a definition."""

    key: PartKey
    """Its list and its id."""
    line: int
    """The line of its file."""
    name: str
    """Its name in findings."""
    cannot: str
    """The phrase for what it never does if it is never in one of the states `did`."""
    did: frozenset[str]
    """The states in which it has done its purpose."""
    lost: frozenset[str] = frozenset({"impossible", "fail"})
    """The states in which it never will."""
    ended: frozenset[str] = frozenset({"failed"})
    """The states in which it has failed."""
    waits: frozenset[str] = frozenset({"ready", "wait-condition", "wait-time"})
    """The states in which it still may do it."""
    after: tuple[PartKey, ...] = ()
    """The parts that must act before this one can."""
    needs_all: bool = False
    """True if all of these must act, False if one is enough."""


class Structure(msgspec.Struct, frozen=True):
    """The parts of a definition; `end` ends its runs successfully, those of the list `calling` make calls.

    An error of a part is handled when the part moves from the state `in_error` to `handled`. `outlived` is
    true if some dates stop recurring in some year.
    """

    parts: Mapping[PartKey, Part]
    end: PartKey
    calling: str
    run: str
    in_error: str
    handled: str
    restarts: bool = False
    outlived: bool = False


class Finding(msgspec.Struct, frozen=True, order=True):
    """One result of exploring a definition: a place, a message, and the shortest story that leads there.

    An *error* proves that something is impossible; a *note* is a story of what may happen. `part` is the id
    of the part concerned, or "".
    """

    path: str
    line: int
    column: int
    severity: Literal["error", "note"]
    part: str
    message: str
    story: tuple[str, ...] = ()


class Exit(msgspec.Struct, frozen=True):
    """A part that calls a definition, by kind and name, and its exits: the conditions of each.

    `on_error` are the exits that take its errors.
    """

    part: str
    line: int
    target: tuple[str, str]
    ways: tuple[tuple[Condition, ...], ...]
    on_error: tuple[tuple[Condition, ...], ...] = ()


@runtime_checkable
class HasExits(Protocol):
    """An engine whose definitions continue according to the answers that their parts get (P81)."""

    def exits(self, definition: Any, /) -> Iterator[Exit]:
        """The exits of each part that calls a definition."""


@runtime_checkable
class Walkable(Protocol):
    """An engine whose runs can be explored, state by state."""

    def structure(self, definition: Any, /) -> Structure:
        """The parts of a definition."""


@runtime_checkable
class Analysable(Protocol):
    """An engine whose definitions are analysed without a run."""

    def unreachable(self, definition: Any, library: Library, /) -> list[Finding]:
        """The parts that no run can ever reach."""
