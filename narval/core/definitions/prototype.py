"""Prototype: inputs and outputs of anything callable, and how a step narrows them (§1.4.1, N14); and what
else steps and transitions require of memory.

Authors of actions write `Input` and `Output` too. Their patterns are compiled on first use, so that declaring
them costs nothing.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

import msgspec

from narval.core.definitions.suggestions import closest
from narval.core.errors import DefinitionError, Fault, PatternError
from narval.core.patterns.pattern import Bound, Condition, condition
from narval.core.trust.paths import Keep

HOLDS = ("pattern", "number", "duration", "date")
"""The kinds of values that an attribute of an input may be declared to hold."""
NAME_OF = "name of "
"""The prefix of an element name: the attribute holds the `name` of such an element."""

NO_NAMESPACES: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, init=False)
class Input:
    """An element, or a list of elements, given to a call.

    All patterns of `match` must hold for the same element. `use`: an element is given to this input at most
    once. `list`: it takes every candidate of its best rank, or the `newest` of them. `optional`: it may be
    left empty. `outdates`: the elements taken are replaced once the call has succeeded. `holds` declares the
    contents of attributes; what `data/memory.xml` declares is checked against it. `reads` are all attributes
    that are read from such an element: another is reported as a slip.
    """

    id: str
    """The name of the input."""
    match: tuple[str, ...]
    """The patterns, all of which must hold for the same element."""
    use: bool = False
    """True if no element is given twice to this input."""
    list: bool = False
    """True if it takes every candidate of its best rank."""
    optional: bool = False
    """True if it may be left empty."""
    outdates: bool = False
    """True if the elements taken are replaced once the call has succeeded."""
    namespaces: Mapping[str, str] = field(default_factory=dict, hash=False)
    """The namespaces of the patterns, by prefix."""
    tightens: Input | None = field(default=None, repr=False)
    """The target's input that a step narrowed to this one."""
    holds: Mapping[str, str | tuple[str, ...]] = field(default_factory=dict, hash=False)
    """The contents of attributes, by name: one of `HOLDS`, the name of an element (`"name of template"`), or
    words.
    """
    newest: int = 0
    """The number of newest candidates that a list takes; 0: all."""
    reads: tuple[str, ...] = ()
    """All attributes that are read from such an element: another is reported as a slip. (): not declared."""

    def __init__(
        self,
        id: str,
        match: str | Iterable[str] = (),
        use: bool = False,
        list: bool = False,
        optional: bool = False,
        outdates: bool = False,
        namespaces: Mapping[str, str] = NO_NAMESPACES,
        tightens: Input | None = None,
        holds: Mapping[str, str | tuple[str, ...]] = NO_NAMESPACES,
        newest: int = 0,
        reads: str | Iterable[str] = (),
    ) -> None:
        words = reads.split() if isinstance(reads, str) else reads
        _set(self, holds=MappingProxyType(dict(holds)), newest=newest, reads=tuple(words))
        _set(self, id=id, match=_texts(match), use=use, list=list, optional=optional, outdates=outdates)
        _set(self, namespaces=MappingProxyType(dict(namespaces)), tightens=tightens)

    @cached_property
    def condition(self) -> Condition:
        """The condition on an element for this input. Raises PatternError."""
        return _condition(self.match, self.namespaces, self.tightens)

    @cached_property
    def bound(self) -> Bound | None:
        """The condition, bound once for every call; None if it uses variables. Raises PatternError."""
        return None if self.condition.variables else self.condition.bind()


@dataclass(frozen=True, init=False)
class Output:
    """An element, or a list of elements, returned by a call.

    All of `match` must hold for the same element. `unique` is an XPath: an element whose value for it has
    been returned before, by an element of the same name, is dropped. `replaces` is an attribute, such as
    "@key", or one of another element, such as "event/@key": the current element with the same value there is
    outdated by this one, which is dropped if it is equal. `own` are the parts that contain nothing that was
    read, such as "@id" or "@size", since narval or the action itself makes them.
    """

    id: str
    """The name of the output."""
    match: tuple[str, ...]
    """The patterns, all of which must hold for the same element."""
    list: bool = False
    """True if there may be several."""
    optional: bool = False
    """True if there may be none."""
    unique: str | None = None
    """The XPath of a value that may be returned only once."""
    namespaces: Mapping[str, str] = field(default_factory=dict, hash=False)
    """The namespaces of the patterns, by prefix."""
    tightens: Output | None = field(default=None, repr=False)
    """The target's output that a step narrowed to this one."""
    replaces: str | None = None
    """The attribute that identifies the element it replaces."""
    own: tuple[str, ...] = ()
    """The parts that contain nothing that was read."""

    def __init__(
        self,
        id: str,
        match: str | Iterable[str] = (),
        list: bool = False,
        optional: bool = False,
        unique: str | None = None,
        namespaces: Mapping[str, str] = NO_NAMESPACES,
        tightens: Output | None = None,
        replaces: str | None = None,
        own: Iterable[str] = (),
    ) -> None:
        _set(self, id=id, match=_texts(match), list=list, optional=optional, unique=unique, replaces=replaces)
        _set(self, own=_texts(own))
        _set(self, namespaces=MappingProxyType(dict(namespaces)), tightens=tightens)

    @cached_property
    def condition(self) -> Condition:
        """The condition on an element for this output. Raises PatternError."""
        return _condition(self.match, self.namespaces, self.tightens)


REPLACES = re.compile(r"(?:(?P<name>[\w.-]+)/)?@(?P<attribute>[\w.-]+)")
"""The form of an output's `replaces`."""


def check_replaces(text: str, _namespaces: Mapping[str, str]) -> None:
    """Raise PatternError unless a text has the form of `replaces`."""
    if not REPLACES.fullmatch(text):
        raise PatternError(text, "expected an attribute, such as @key, or event/@key of another element")


@dataclass(frozen=True)
class Prototype:
    """The inputs and outputs of a call, in order of declaration, and the parts of outputs that pass on parts
    of inputs.
    """

    inputs: tuple[Input, ...] = ()
    outputs: tuple[Output, ...] = ()
    keeps: tuple[Keep, ...] = ()

    @cached_property
    def lists(self) -> tuple[str, ...]:
        """The ids of the inputs that are lists."""
        return tuple(input.id for input in self.inputs if input.list)

    @cached_property
    def outdating(self) -> frozenset[str]:
        """The ids of the inputs that outdate what they take."""
        return frozenset(input.id for input in self.inputs if input.outdates)

    @cached_property
    def input_variables(self) -> frozenset[str]:
        """The variables in the patterns of inputs. Raises PatternError."""
        return frozenset[str]().union(*(slot.condition.variables for slot in self.inputs))

    @cached_property
    def output_variables(self) -> frozenset[str]:
        """The variables in the patterns of outputs. Raises PatternError."""
        return frozenset[str]().union(*(output.condition.variables for output in self.outputs))

    @cached_property
    def declares_parts(self) -> bool:
        """True if its author declares the sources of some parts of outputs, or that they have none."""
        return bool(self.keeps) or any(output.own for output in self.outputs)

    @cached_property
    def bound_outputs(self) -> tuple[tuple[Output, Bound], ...]:
        """The outputs, and the condition of each, bound without variables. Raises PatternError."""
        return tuple((output, output.condition.bind()) for output in self.outputs)

    @cached_property
    def each_output_once(self) -> dict[str, int]:
        """The number of elements of each output if each is returned once, by id."""
        return {output.id: 1 for output in self.outputs}


EMPTY = Prototype()


@dataclass(frozen=True)
class Narrowing:
    """An `input` or `output` node of a step: its additions to the target's input or output (§1.4.1.6).

    `stated` has the attributes written by the author; `places` the line and column of each attribute's value.
    """

    id: str
    match: tuple[str, ...] = ()
    stated: Mapping[str, bool] = field(default_factory=dict, hash=False)
    namespaces: Mapping[str, str] = field(default_factory=dict, hash=False)
    path: str = ""
    line: int = 1
    column: int = 1
    places: Mapping[str, tuple[int, int]] = field(default_factory=dict, hash=False, repr=False)

    def fault(self, message: str, attribute: str | None = None) -> Fault:
        """A fault at this node, or at one of its attributes."""
        line, column = self.places.get(attribute or "", (self.line, self.column))
        return Fault(self.path, line, column, message)


def parameter(id: str) -> str:
    """The name of the Python parameter for an input: "in-reply-to" is `in_reply_to`, "from" is `from_`, "2nd"
    is `_2nd`.
    """
    name = re.sub(r"\W", "_", id)
    if keyword.iskeyword(name):
        return name + "_"
    return name if name.isidentifier() else "_" + name


INPUT_OVERRIDES = {"optional": False, "list": False, "use": True, "outdates": True}
OUTPUT_OVERRIDES = {"optional": False, "list": False}
"""The only value to which a step may change each attribute: a step may only require more (N14, Table 1.1)."""

_WHY = {
    "optional": "the target cannot do without it",
    "list": "the target takes one element at a time",
    "use": "the target must not see an element twice",
    "outdates": "the target replaces what it takes",
}


def stated_inputs(written: Iterable[Narrowing]) -> Prototype:
    """The inputs declared only by a step, whose target declares none.

    Raises DefinitionError.
    """
    faults: list[Fault] = []
    inputs = []
    for slot in written:
        faults += (
            slot.fault(f"a step cannot set {attribute!r} of an input: only its target can", attribute)
            for attribute in slot.stated
            if attribute not in INPUT_OVERRIDES
        )
        if not slot.match:
            faults.append(slot.fault("input needs a match that says which elements it takes; add one"))
        use, listed, optional, outdates = (
            slot.stated.get(name, False) for name in ("use", "list", "optional", "outdates")
        )
        inputs.append(Input(slot.id, slot.match, use, listed, optional, outdates, slot.namespaces))
    if faults:
        raise DefinitionError(faults)
    return Prototype(tuple(inputs))


def narrow(prototype: Prototype, inputs: Iterable[Narrowing], outputs: Iterable[Narrowing]) -> Prototype:
    """The prototype as narrowed by a step. Raises DefinitionError for what would require less (N14)."""
    faults: list[Fault] = []
    of_inputs, of_outputs = tuple(inputs), tuple(outputs)
    if not of_inputs and not of_outputs:
        return prototype
    narrowed = Prototype(
        tuple(_narrowed(prototype.inputs, of_inputs, "input", INPUT_OVERRIDES, faults)),
        tuple(_narrowed(prototype.outputs, of_outputs, "output", OUTPUT_OVERRIDES, faults)),
        prototype.keeps,
    )
    if faults:
        raise DefinitionError(faults)
    return narrowed


def _narrowed(
    declared: tuple[Any, ...],
    narrowings: tuple[Narrowing, ...],
    what: str,
    overrides: Mapping[str, bool],
    faults: list[Fault],
) -> Iterator[Any]:
    by_id: dict[str, Narrowing] = {}
    ids = [slot.id for slot in declared]
    for narrowing in narrowings:
        if narrowing.id in by_id:
            message = f"expected one {what} node for {narrowing.id!r}, found two"
            faults.append(narrowing.fault(message, "id"))
        elif narrowing.id not in ids:
            suggestion = closest(narrowing.id, ids) or f"; the target has no {what}"
            message = f"expected the id of an {what} of the target, found {narrowing.id!r}{suggestion}"
            faults.append(narrowing.fault(message, "id"))
        by_id[narrowing.id] = narrowing
    for slot in declared:
        asked = by_id.get(slot.id)
        yield slot if asked is None else _tightened(slot, asked, what, overrides, faults)


def _tightened(
    declared: Any, narrowing: Narrowing, what: str, overrides: Mapping[str, bool], faults: list[Fault]
) -> Any:
    changed: dict[str, Any] = {}
    for attribute, value in narrowing.stated.items():
        if attribute not in overrides:
            message = f"a step cannot set {attribute!r} of an {what}: only its target can"
            faults.append(narrowing.fault(message, attribute))
        elif value != getattr(declared, attribute) and value != overrides[attribute]:
            turn = "from no to yes" if value else "from yes to no"
            message = f"a step cannot change {attribute!r} of the {what} {declared.id!r} {turn}"
            faults.append(narrowing.fault(f"{message}: {_WHY[attribute]}; remove the attribute", attribute))
        elif value != getattr(declared, attribute):
            changed[attribute] = value
    if narrowing.match:
        changed |= {"match": narrowing.match, "namespaces": narrowing.namespaces, "tightens": declared}
    return replace(declared, **changed) if changed else declared


def _condition(
    match: tuple[str, ...], namespaces: Mapping[str, str], tightens: Input | Output | None
) -> Condition:
    own = condition(*match, namespaces=namespaces)
    return own if tightens is None else Condition((*tightens.condition.patterns, *own.patterns))


def _texts(match: str | Iterable[str]) -> tuple[str, ...]:
    return (match,) if isinstance(match, str) else tuple(match)


def _set(target: object, **values: object) -> None:
    for name, value in values.items():
        object.__setattr__(target, name, value)


class Context(msgspec.Struct, frozen=True):
    """The elements to look at first (table 2.7): those that match one of `alternatives` are nearer (N15).

    With `of_run` these are elements in the context of the run itself, else elements in memory.
    """

    of_run: bool
    alternatives: tuple[Condition, ...]


class TransitionCondition(msgspec.Struct, frozen=True):
    """An element that must exist before a transition fires (table 2.6); `use`: it triggers it only once.

    `lasting`: it, or the elements it replaced, must have matched for that long (N38). `name` is the variable
    for it from then on. `listed`: it takes all matching elements, at least one (N43). `absent`: it holds
    while nothing matches, used or not, and takes nothing (N44).
    """

    condition: Condition
    use: bool = False
    lasting: float | None = None
    name: str = ""
    listed: bool = False
    absent: bool = False
