"""The common parts of the runs of all kinds: the header of a run's state, the base of its changes, parts of
its element, and the migration to another version of its definition.

A kind that supports migration has a pure function `migrated`, which gives the state of the run in the other
version, or the parts without a place there. The event `Migrated` tells the run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce
from operator import or_
from typing import Any, ClassVar, NamedTuple, Self

import msgspec
from lxml import etree

from narval.core.engines.events import Caller
from narval.core.errors import InternalError
from narval.core.kinds import ENDED

Moves = Mapping[str, frozenset[str]]
"""For each status, the possible next ones."""


class RunChange(msgspec.Struct, frozen=True, tag=True, omit_defaults=True, gc=False):
    """A fact that changes a run. The changes of a kind derive from one subclass of this class.

    `apply` defines how it alters the state of the run; nothing else alters a state.
    """

    def apply(self, state: Any) -> None:
        """Alter the state: only assignments, no decisions.

        Raises InternalError for a move that no table lists, and for a change without its own `apply`.
        """
        raise InternalError(f"expected {type(self).__name__} to say in `apply` how it alters a state")

    @classmethod
    def types(cls) -> tuple[type[RunChange], ...]:
        """The types of change derived from this one, in order of definition."""
        derived = cls.__subclasses__()
        return tuple(leaf for change in derived for leaf in change.types()) if derived else (cls,)

    @classmethod
    def union(cls) -> Any:
        """The union of these types, used by the journal to decode changes."""
        return reduce(or_, cls.types())


class RunBegan(RunChange, frozen=True):
    """The fields of the change that starts a run; `elements` are its first context."""

    at: float
    elements: tuple[int, ...] = ()
    caller: Caller | None = None
    attempt: int = 0


class RunState(msgspec.Struct, omit_defaults=True):
    """The state of a run: the common header; the parts are in the class of its kind."""

    KIND: ClassVar[str]
    MOVES: ClassVar[Moves]
    PHASES: ClassVar[Mapping[str, str]] = {phase: phase for phase in ENDED}
    """The phase of an ended run, by status; with any other status it is active."""

    eid: int
    """The number of the run."""
    definition: str
    """The full name of its definition."""
    status: str = "ready"
    """The status of the whole run, in the word of its kind."""
    started: float = 0.0
    """The moment it started, in seconds since 1970, UTC."""
    ended: float | None = None
    """The moment it ended."""
    first: tuple[int, ...] = ()
    """The elements it started with."""
    caller: Caller | None = None
    """The run and step that called it, if any."""
    attempt: int = 0
    """The number of restarts in a row before it."""
    error: int | None = None
    """The error element that says why it failed."""

    @classmethod
    def blank(cls, run: int, definition: Any) -> Self:
        """The state of a run that has not started."""
        return cls(run, definition.full_name)

    @property
    def over(self) -> bool:
        """True if the run has ended."""
        return self.status in self.PHASES

    @property
    def answerers(self) -> Iterable[str]:
        """The people who have answered it, if it asks any."""
        return ()

    @property
    def undone_run(self) -> int:
        """The run that this one undoes; 0 if there is none."""
        return 0

    @property
    def dies_again(self) -> bool:
        """True if a part of it keeps dying and is started again each time."""
        return False

    def begin(self, change: RunBegan) -> None:
        """Record when the run started, with which elements, and its caller."""
        self.started, self.first = change.at, change.elements
        self.caller, self.attempt = change.caller, change.attempt

    def move(self, to: str, at: float | None = None, error: int | None = None) -> None:
        """Move to another status, at a moment. Raises InternalError if `MOVES` does not list it."""
        if to not in self.MOVES.get(self.status, ()):
            raise illegal_move(self, f"{self.KIND} {self.eid}", self.status, to)
        self.status = to
        if error is not None:
            self.error = error
        if self.over:
            self.ended = at

    def progress(self) -> Iterable[tuple[str, str]]:
        """The parts that were reached, by name, with their states: the story of the run."""
        return ()


def illegal_move(run: RunState, part: str, current: str, to: str) -> InternalError:
    """The error for an illegal move of a part from one state to another, with the run's story."""
    story = ", ".join(f"{name} {state}" for name, state in run.progress())
    return InternalError(
        f"{run.KIND} {run.eid} of {run.definition} ({run.status}): {part} cannot go from {current} to {to}; "
        f"so far: {story or 'nothing'}"
    )


def element_of(tag: str, definition: Any, state: RunState, caller: str) -> etree._Element:
    """The element of a run, which names its definition and, in the attribute `caller`, its caller."""
    words = {"definition": definition.full_name, "group": definition.group, "name": definition.name}
    root = etree.Element(tag, words | {"state": state.status})
    add_caller(root, state, caller)
    return root


def add_caller(root: etree._Element, state: RunState, attribute: str) -> None:
    """Name the calling run in an attribute, and its step."""
    if state.caller is not None:
        if state.caller.agent:
            root.set("parent_agent", state.caller.agent)
        root.set(attribute, str(state.caller.run or state.caller.asked_by))
        root.set("parent_step", state.caller.step)


def finished(root: etree._Element, context: Iterable[int]) -> bytes:
    """The element with references to the run's context, as bytes."""
    elements = etree.SubElement(root, "elements")
    for eid in context:
        etree.SubElement(elements, "element", eid=str(eid))
    return etree.tostring(root, encoding="utf-8")


# --- migration --------------------------------------------------------------------------------------------


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
