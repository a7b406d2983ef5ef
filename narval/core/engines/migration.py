"""The plan of a migration: an active run continues with another version of its definition.

A kind that supports this has a pure function `migrated`, which gives the state of the run in the other
version, or the parts without a place there. The event `Migrated` tells the run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec


class NoPlace(NamedTuple):
    """A part of a run that has no place in a version, and why; with the line in that version's file, or with
    `before` in the file of the version that the run follows.
    """

    part: str
    why: str
    line: int = 1
    before: bool = False


class MovedPart(NamedTuple):
    """A part that keeps its state, with its name in both versions."""

    part: str
    name: str
    state: str


class Migration(NamedTuple):
    """The place of a run in another version; `state` is valid only if nothing is `refused`."""

    state: Any
    """The new state of the run."""
    keeps: tuple[MovedPart, ...] = ()
    """The parts that keep their state."""
    gone: tuple[str, ...] = ()
    """The parts that have ended or only waited, and that the new version lacks."""
    new: tuple[str, ...] = ()
    """The parts that are new to the run."""
    begins: tuple[str, ...] = ()
    """The new parts that start at once."""
    refused: tuple[NoPlace, ...] = ()
    """The parts without a place."""


def copied(state: Any) -> Any:
    """A deep copy of a state."""
    return msgspec.msgpack.decode(msgspec.msgpack.encode(state), type=type(state))


def take_over(state: Any, other: Any) -> None:
    """Make a state equal to another, without sharing data."""
    fresh = copied(other)
    for field in state.__struct_fields__:
        setattr(state, field, getattr(fresh, field))


def renamed(names: Mapping[str, str], old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, str]:
    """The new name of each old part that exists in the new version."""
    pairs = ((part, names.get(part, part)) for part in old)
    return {part: name for part, name in pairs if name in new}


def misnamed(names: Mapping[str, str], old: Mapping[str, Any], new: Mapping[str, Any]) -> list[NoPlace]:
    """The faults of a map of names: unknown parts, and two parts with the same new name."""
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
