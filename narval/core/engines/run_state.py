"""The header of a run's state, the same for every kind, and the base of its changes; and the parts that the
elements of all runs share.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce
from operator import or_
from typing import Any, ClassVar, Self

import msgspec
from lxml import etree

from narval.core.engines.events import Caller
from narval.core.errors import InternalError
from narval.core.kinds import ENDED

Moves = Mapping[str, frozenset[str]]
"""For each status, those that may follow."""


class RunChange(msgspec.Struct, frozen=True, tag=True, omit_defaults=True, gc=False):
    """A fact that changes a run. The changes of a kind derive from one subclass of this.

    Its `apply` says what it does to the state of the run; nothing else alters a state.
    """

    def apply(self, state: Any) -> None:
        """Alter the state as the change says: assignments, and no decision.

        Raises InternalError for a move that no table lists, and for a change without an `apply` of its own.
        """
        raise InternalError(f"expected {type(self).__name__} to say in `apply` how it alters a state")

    @classmethod
    def types(cls) -> tuple[type[RunChange], ...]:
        """The types of change that derive from this one, in the order of their definition."""
        derived = cls.__subclasses__()
        return tuple(leaf for change in derived for leaf in change.types()) if derived else (cls,)

    @classmethod
    def union(cls) -> Any:
        """The union of these types, for the journal to read changes back."""
        return reduce(or_, cls.types())


class RunBegan(RunChange, frozen=True):
    """The fields of the change that begins a run; `elements` are its first context."""

    at: float
    elements: tuple[int, ...] = ()
    caller: Caller | None = None
    attempt: int = 0


class RunState(msgspec.Struct, omit_defaults=True):
    """The state of a run: its header here, its parts in the class of its kind."""

    KIND: ClassVar[str]
    MOVES: ClassVar[Moves]
    PHASES: ClassVar[Mapping[str, str]] = {phase: phase for phase in ENDED}
    """The phase of a run that has ended, by status; with any other status it is active."""

    eid: int
    """The number of the run."""
    definition: str
    """The full name of what it follows."""
    status: str = "ready"
    """The state of the run as a whole, in the word of its kind."""
    started: float = 0.0
    """The moment it began, in seconds since 1970, UTC."""
    ended: float | None = None
    """The moment it ended."""
    first: tuple[int, ...] = ()
    """The elements that it began with."""
    caller: Caller | None = None
    """The run and step that called it, if one did."""
    attempt: int = 0
    """The restarts in a row before it."""
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
        """The run that it undoes; 0 if it undoes none."""
        return 0

    @property
    def dies_again(self) -> bool:
        """True if a part of it dies again and again, and is started again each time."""
        return False

    def begin(self, change: RunBegan) -> None:
        """Note when the run began, with which elements, for whom."""
        self.started, self.first = change.at, change.elements
        self.caller, self.attempt = change.caller, change.attempt

    def move(self, to: str, at: float | None = None, error: int | None = None) -> None:
        """Move to another status, at a moment. Raises InternalError where `MOVES` does not list it."""
        if to not in self.MOVES.get(self.status, ()):
            raise illegal_move(self, f"{self.KIND} {self.eid}", self.status, to)
        self.status = to
        if error is not None:
            self.error = error
        if self.over:
            self.ended = at

    def progress(self) -> Iterable[tuple[str, str]]:
        """The parts that have been reached, by name, with their states: the story of the run."""
        return ()


def illegal_move(run: RunState, part: str, current: str, to: str) -> InternalError:
    """The error for a part of a run that cannot go from one state to another, with the run's story."""
    story = ", ".join(f"{name} {state}" for name, state in run.progress())
    return InternalError(
        f"{run.KIND} {run.eid} of {run.definition} ({run.status}): {part} cannot go from {current} to {to}; "
        f"so far: {story or 'nothing'}"
    )


def element_of(tag: str, definition: Any, state: RunState, caller: str) -> etree._Element:
    """The element of a run, which names what it follows and, in the attribute `caller`, who called it."""
    words = {"definition": definition.full_name, "group": definition.group, "name": definition.name}
    root = etree.Element(tag, words | {"state": state.status})
    add_caller(root, state, caller)
    return root


def add_caller(root: etree._Element, state: RunState, attribute: str) -> None:
    """Name the run that called this one in an attribute, and the step of it."""
    if state.caller is not None:
        if state.caller.agent:
            root.set("parent_agent", state.caller.agent)
        root.set(attribute, str(state.caller.run or state.caller.asked_by))
        root.set("parent_step", state.caller.step)


def finished(root: etree._Element, context: Iterable[int]) -> bytes:
    """The element with the run's context by reference, as bytes."""
    elements = etree.SubElement(root, "elements")
    for eid in context:
        etree.SubElement(elements, "element", eid=str(eid))
    return etree.tostring(root, encoding="utf-8")
