"""Flow: what each kind declares about a definition, so that labels can be followed through it before it runs.

A kind declares in `language.flow` which calls its runs can make, where the elements of each input can come
from, and what its runs return. What it cannot determine in detail it declares for the run as a whole:
declaring more is always safe.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from importlib import import_module
from itertools import chain
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

import msgspec

from narval.core.definitions.library import Definition, Library
from narval.core.definitions.prototype import EMPTY, Prototype
from narval.core.definitions.reading.values import values_in
from narval.core.elements.element import children, parse
from narval.core.elements.names import STARTING
from narval.core.engines.commands import PROGRAM
from narval.core.kinds import KINDS
from narval.core.patterns.pattern import Condition
from narval.core.trust.parts import VALUES


class InMemory(NamedTuple):
    """Any element of memory that matches a condition; None: any element."""

    condition: Condition | None


class GivenBy(NamedTuple):
    """The outputs of a part of the run; with `errors`, also its errors."""

    part: str
    """The part."""
    errors: bool = False
    """True if its errors are included."""
    fits: Condition | None = None
    """The condition that they match; None: all of them."""


class ThisRun(NamedTuple):
    """The run itself: everything it holds."""


class TheArgument(NamedTuple):
    """An element that the author wrote in the part, by its position there."""

    at: int


Origin: TypeAlias = InMemory | GivenBy | ThisRun | TheArgument
"""The source of an element."""


class Value(NamedTuple):
    """A piece of an origin's element, by the path of an attribute or a child; "" for the whole."""

    origin: Origin
    path: str = ""


class Taken(NamedTuple):
    """A place from which an input can get its elements."""

    origin: Origin
    fallback: bool = False
    """True if it is searched only when nothing nearer matches: all of memory, by rank."""


class Literal(NamedTuple):
    """An element that an author wrote: its name, and its attributes, None for an unknown value."""

    name: str
    attributes: tuple[tuple[str, str | None], ...]


class Written(msgspec.Struct, frozen=True, dict=True):
    """An element that the author wrote, with values from elsewhere in some parts."""

    name: str
    """The name of the element."""
    xml: bytes
    """The element as written."""
    parts: Mapping[str, tuple[Value, ...]] = {}
    """The sources of a part's values, by the part's path."""

    @cached_property
    def literal(self) -> Literal:
        """The known facts about it before its values are filled in."""
        attributes = parse(self.xml).attrib.items()
        return Literal(self.name, tuple((str(name), _plain(str(text))) for name, text in attributes))

    @property
    def within(self) -> tuple[Literal, ...]:
        """The elements within it that enter memory, if it starts a run."""
        pending = [parse(self.xml)]
        for outer in pending:
            pending += children(outer) if outer.tag in STARTING else ()
        return tuple(Literal(name, ()) for name in dict.fromkeys(str(inner.tag) for inner in pending[1:]))


class CallFlow(msgspec.Struct, frozen=True):
    """A call that runs of a definition can make."""

    part: str
    """The step, node or state that makes it."""
    kind: str
    """The kind of the target."""
    target: str
    """The full name of the target; "" if unknown."""
    line: int = 1
    """The line of the part."""
    agent: str = ""
    """The agent that is called; "": the run's own."""
    prototype: Prototype = EMPTY
    """The inputs and outputs of the target, as narrowed by the part."""
    inputs: Mapping[str, tuple[Taken, ...]] = {}
    """The places from which each input can get its elements, by input id."""
    arguments: tuple[Written, ...] = ()
    """The elements that the author wrote in the part."""
    elements: tuple[Taken, ...] = ()
    """The elements that a called run gets besides its inputs."""
    sends: bool = False
    """True if it sends its elements to other agents."""
    selects: str = ""
    """The expression that names the receiving agents; "" if the author names them."""
    undo: str = ""
    """The action that undoes it, as named by the part's author; "": the one that the called action names."""
    undoes: str = ""
    """The part whose calls it undoes; "" for any other call."""
    approve: str = ""
    """The work, required by the part's author, that must approve the call; "" for none."""

    @property
    def takes(self) -> Iterator[Taken]:
        """The places from which any input can get its elements."""
        return chain.from_iterable(self.inputs.values())


class Flow(msgspec.Struct, frozen=True):
    """The paths of elements through the runs of a definition."""

    calls: tuple[CallFlow, ...] = ()
    """The calls that runs can make."""
    holds: tuple[Origin, ...] = ()
    """The other elements that a run can hold or judge: those that its conditions match."""
    first: tuple[tuple[Condition, ...], ...] = ()
    """The conditions of the elements that a run takes before any others and without a date, as a group for
    each way of starting; the first of each group is the one that is taken once.
    """
    gives: tuple[Origin, ...] = (ThisRun(),)
    """The elements returned to its caller."""
    makes: tuple[Condition | None, ...] = ()
    """The elements that it makes besides the outputs of its calls, by the conditions that they match; None:
    any.
    """
    labels: frozenset[str] = frozenset()
    """The labels of what it brings in itself."""
    writes_files: bool = False
    """True if its runs write files by themselves, with anything that they hold."""
    written: frozenset[str] = frozenset()
    """The channels by which its runs write to people about what they show."""


def flow_of(definition: Definition, library: Library) -> Flow:
    """The flow of a definition, as declared by its kind."""
    flow: Flow = import_module(f"{KINDS[definition.kind].language}.flow").flow(definition, library)
    return flow


def _plain(text: str) -> str | None:
    """The literal value of an attribute; None if it contains values from elsewhere."""
    return None if any(True for _ in values_in(text)) else text.replace("{{", "{")


def coarse_call(
    part: str,
    kind: str,
    target: str,
    library: Library,
    *,
    group: str = "",
    line: int = 1,
    agent: str = "",
) -> Iterator[CallFlow]:
    """The possible calls of a part of which only the target is known: they can get everything that their run
    holds, and what matches in memory. The `kind` "" means any.
    """
    kinds = (kind,) if kind else tuple(KINDS)
    if agent:
        yield from (CallFlow(part, each, target, line, agent, elements=(Taken(ThisRun()),)) for each in kinds)
        return
    meant = [called for each in kinds for called in library.called(each, target, group)]
    for called in meant or (None,):
        prototype = getattr(called, "prototype", None) or EMPTY
        inputs = {
            slot.id: (Taken(ThisRun()), Taken(InMemory(slot.condition), fallback=True))
            for slot in prototype.inputs
        }
        kind, name = (called.kind, called.full_name) if called is not None else (kind, target)
        elements = (Taken(ThisRun()),)
        yield CallFlow(part, kind, name, line, prototype=prototype, inputs=inputs, elements=elements)


def program_call(
    part: str,
    name: str,
    line: int = 1,
    inputs: Mapping[str, Origin] = MappingProxyType({}),
    *,
    values: bool = True,
) -> CallFlow:
    """The call of a program, which gets elements as inputs, and with `values` some that its run holds."""
    taken = {slot: (Taken(origin),) for slot, origin in inputs.items()}
    if values:
        taken[VALUES] = (Taken(ThisRun()),)
    return CallFlow(part, PROGRAM, name, line, inputs=taken)
