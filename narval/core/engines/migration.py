"""The plan of a migration: a run under way that continues with another version of its definition.

A kind that can do that has a pure function `migrated`, which gives the state of the run in the other version,
or the parts for which there is no place. `Migrated` tells the run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec


class NoPlace(NamedTuple):
    """A part of a run that has no place in a version, and why; on a line of the file of that version, or with
    `before` of the one that the run follows.
    """

    part: str
    why: str
    line: int = 1
    before: bool = False


class MovedPart(NamedTuple):
    """A part that keeps its state, with its name in either version."""

    part: str
    name: str
    state: str


class Migration(NamedTuple):
    """The place of a run in another version: `state` holds only if nothing is `refused`."""

    state: Any
    """The state that the run would have."""
    keeps: tuple[MovedPart, ...] = ()
    """The parts that keep their state."""
    gone: tuple[str, ...] = ()
    """The parts that have ended, or had only waited, and that the version no longer has."""
    new: tuple[str, ...] = ()
    """The parts that the run has not had."""
    begins: tuple[str, ...] = ()
    """The parts among these that begin at once."""
    refused: tuple[NoPlace, ...] = ()
    """The parts without a place."""


def copied(state: Any) -> Any:
    """A copy of a state that shares no part with it."""
    return msgspec.msgpack.decode(msgspec.msgpack.encode(state), type=type(state))


def take_over(state: Any, other: Any) -> None:
    """Make a state equal to another one; they share nothing."""
    fresh = copied(other)
    for field in state.__struct_fields__:
        setattr(state, field, getattr(fresh, field))


def renamed(names: Mapping[str, str], old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, str]:
    """The name in the new version of each part of an old one that has one there."""
    pairs = ((part, names.get(part, part)) for part in old)
    return {part: name for part, name in pairs if name in new}


def misnamed(names: Mapping[str, str], old: Mapping[str, Any], new: Mapping[str, Any]) -> list[NoPlace]:
    """The faults of a map of names: parts that are not there, and two that would be the same."""
    faults = [
        NoPlace(part, f"the version that the run follows has no part {part}", before=True)
        for part in names
        if part not in old
    ]
    faults += [
        NoPlace(part, f"the new version has no part {name}")
        for part, name in names.items()
        if name not in new
    ]
    places: dict[str, str] = {}
    for part, name in renamed(names, old, new).items():
        if name in places:
            why = f"{places[name]} and {part} would both be {name}; name another part for one of them"
            faults.append(NoPlace(part, why))
        places[name] = part
    return faults
