"""Flow: what each kind says of a definition, so that labels can be followed through it before it runs.

A kind says in `language.flow` which calls its runs can make, where the elements of each input can come from,
and what its runs give. What it cannot tell in detail it says of the run as a whole: more is always safe.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

import msgspec

from narval.core.definitions.library import Definition, Library
from narval.core.definitions.prototype import EMPTY, Prototype
from narval.core.definitions.reading.values import values_in
from narval.core.elements.element import children, parse
from narval.core.engines.commands import PROGRAM
from narval.core.kinds import KINDS
from narval.core.patterns.pattern import Condition
from narval.core.trust.parts import VALUES


class InMemory(NamedTuple):
    """Any element of memory that fits a condition; None: any at all."""

    condition: Condition | None


class GivenBy(NamedTuple):
    """The outputs of a part of the run, and with `errors` its errors."""

    part: str
    """The part."""
    errors: bool = False
    """True if its errors are included."""
    fits: Condition | None = None
    """The condition that they fit; None: all of them."""


class ThisRun(NamedTuple):
    """The run itself: whatever it holds."""


class TheArgument(NamedTuple):
    """An element that the author wrote in the part, by its position there."""

    at: int


Origin: TypeAlias = InMemory | GivenBy | ThisRun | TheArgument
"""The place that an element comes from."""


class Value(NamedTuple):
    """A piece of what an origin has, by the path of an attribute or a child; "" for the whole."""

    origin: Origin
    path: str = ""


class Taken(NamedTuple):
    """A place from which an input can get its elements."""

    origin: Origin
    fallback: bool = False
    """True if it is searched only when nothing nearer fits: all of memory, by rank."""


class Literal(NamedTuple):
    """An element that an author wrote: its name, and its attributes, None where the value is not known."""

    name: str
    attributes: tuple[tuple[str, str | None], ...]


class Written(msgspec.Struct, frozen=True):
    """An element that the author wrote, with values from elsewhere in some of its parts."""

    name: str
    """The name of the element."""
    xml: bytes
    """The element as it is written."""
    parts: Mapping[str, tuple[Value, ...]] = {}
    """The pieces that the values of a part come from, by its path."""

    @property
    def literal(self) -> Literal:
        """The facts about it before it is filled in."""
        attributes = parse(self.xml).attrib.items()
        return Literal(self.name, tuple((str(name), _plain(str(text))) for name, text in attributes))

    @property
    def children(self) -> frozenset[str]:
        """The names of the elements within it."""
        return frozenset(str(child.tag) for child in children(parse(self.xml)))


class CallFlow(msgspec.Struct, frozen=True):
    """A call that runs of a definition can make."""

    part: str
    """The step, node or state that makes it."""
    kind: str
    """The kind of what is called."""
    target: str
    """The full name of what is called; "" where that is not known."""
    line: int = 1
    """The line of the part."""
    agent: str = ""
    """The agent at which it is called; "": its own."""
    prototype: Prototype = EMPTY
    """The inputs and outputs of the target, as the part tightens them."""
    inputs: Mapping[str, tuple[Taken, ...]] = {}
    """The places from which each input can get its elements, by its id."""
    arguments: tuple[Written, ...] = ()
    """The elements that the author wrote in the part."""
    elements: tuple[Taken, ...] = ()
    """The elements that a called run is given beside its inputs."""
    sends: bool = False
    """True if it sends what it takes to other agents."""
    selects: str = ""
    """The expression by which what it sends names the agents; "" if the author names them."""
    undo: str = ""
    """The action that the author of the part names to undo it; "": the one that the called action names."""
    undoes: str = ""
    """The part whose calls it undoes; "" for any other call."""
    approve: str = ""
    """The work that the author of the part has asked before it is made; "" for none."""


class Flow(msgspec.Struct, frozen=True):
    """The ways of elements through the runs of a definition."""

    calls: tuple[CallFlow, ...] = ()
    """The calls that they can make."""
    holds: tuple[Origin, ...] = ()
    """The other elements that a run can hold or judge: those that its conditions find."""
    first: tuple[tuple[Condition, ...], ...] = ()
    """The conditions of the elements that a run takes before any others and without a date, together for each
    way of beginning; the first of each way is the one that is taken once.
    """
    gives: tuple[Origin, ...] = (ThisRun(),)
    """The elements that its caller gets."""
    makes: tuple[Condition | None, ...] = ()
    """The elements that it makes besides the outputs of its calls, by the conditions that they fit; None:
    any.
    """
    labels: frozenset[str] = frozenset()
    """The labels of what it brings in by itself."""
    written: frozenset[str] = frozenset()
    """The ways by which people are written what its runs show."""


def flow_of(definition: Definition, library: Library) -> Flow:
    """The flow of a definition, as its kind tells it."""
    flow: Flow = import_module(f"{KINDS[definition.kind].language}.flow").flow(definition, library)
    return flow


def _plain(text: str) -> str | None:
    """The value of an attribute as it is written; None if it has values from elsewhere."""
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
    """The possible calls of a part of which only the target is known: they can be given all that their run
    holds, and what fits in memory. The `kind` "" is any.
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
    """The call of a program, which is given elements as inputs, and with `values` some that its run holds."""
    taken = {slot: (Taken(origin),) for slot, origin in inputs.items()}
    if values:
        taken[VALUES] = (Taken(ThisRun()),)
    return CallFlow(part, PROGRAM, name, line, inputs=taken)
