"""Dataflow: inputs, a graph of operators without circles, outputs (T1–T17).

A definition holds the graphs of its plan and of every plan that it calls, so a run needs no library. The data
of a graph have names. A call has its arguments by parameter, in the order of the table of operators, whatever
the order in the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import msgspec

from narval.core.definitions.library import OwnNeed, RunDefinition
from narval.core.trust.needs import host_of
from narval.kinds.dataflow.language.operators import Operator
from narval.kinds.dataflow.language.syntax import PlanSource

STREAMED = "TupleStream"
"""The only type that streams; all others are per stream."""


class FixedValue(msgspec.Struct, frozen=True):
    """An argument written in the file: a text, a number, or the name of a function (type Function)."""

    value: str | int | float
    type: str
    line: int = 1
    column: int = 1


TO_MEMORY = "element:"
"""The prefix of an address for which `notify` adds elements to memory."""

SOURCE_PORTS = {
    "retrieve": "wrapper",
    "query": "source",
    "query2": "source",
    "importrelation": "source",
    "exportrelation": "dest",
    "exportrelation2": "dest",
}
"""The operators on sources of the settings, with the port that has the name of the source."""


class DataRef(msgspec.Struct, frozen=True):
    """An argument that is a datum of the graph."""

    name: str
    line: int = 1
    column: int = 1


Argument = FixedValue | DataRef | tuple[FixedValue | DataRef, ...]
"""An argument; several if the parameter takes many."""


class Datum(msgspec.Struct, frozen=True):
    """A datum of a graph. `attributes` are those of its tuples; None if they are only known in a run.

    A value (String, Number, Object) has the single attribute `value`.
    """

    name: str
    type: str
    attributes: tuple[str, ...] | None = None
    line: int = 1
    column: int = 1


class OperatorCall(msgspec.Struct, frozen=True):
    """A call of an operator.

    `key` is unique in the graph and stays the same as long as the plan does. `arguments` and `outputs` are by
    the names of the operator's ports. An output is None if it is `_` or omitted; omitted parameters are
    absent. The ports of a call of a plan are the names of its inputs and outputs. `parsed` has the constants
    that are conditions, formats and rules, as values (`conditions.parse_text`). `lifted` are parameters that
    are fed a stream, so that the operator runs once for each tuple (TA7). `plan` is the full name of the
    called plan, "" for other operators. A `tail` call gives all its outputs to the outputs of its own plan
    (T36). A call that `spills` is on a branch that could deadlock on bounds (TA41). A call fires only if
    everything that it `needs` has happened: outputs of conditional operators were chosen, calls were done or
    failed (the key of a call, and which), streams were not empty (the name of a datum). A call that is not
    `possible` never fires. `columns` are the attributes of an export's tuples, or of all inputs of a union,
    if the plan fixes them.
    """

    key: str
    operator: Operator
    arguments: Mapping[str, Argument] = {}
    outputs: Mapping[str, str | tuple[str | None, ...] | None] = {}
    parsed: Mapping[str, Any] = {}
    wait: tuple[DataRef, ...] = ()
    enable: tuple[str, ...] = ()
    started: tuple[str, ...] = ()
    on_error: tuple[str, ...] = ()
    lifted: tuple[str, ...] = ()
    plan: str = ""
    tail: bool = False
    spills: bool = False
    needs: tuple[tuple[str, str], ...] = ()
    possible: bool = True
    columns: tuple[str, ...] = ()
    line: int = 1
    column: int = 1

    @property
    def consumed(self) -> Iterator[tuple[str, int, DataRef]]:
        """The arguments that are data: the parameter, the index among many (0 for one), the datum."""
        for name, argument in self.arguments.items():
            if isinstance(argument, tuple):
                yield from ((name, at, one) for at, one in enumerate(argument) if isinstance(one, DataRef))
            elif isinstance(argument, DataRef):
                yield name, 0, argument

    @property
    def produced(self) -> Iterator[tuple[str, int, str]]:
        """The named outputs: the port, the index among many (0 for one), the datum."""
        for name, output in self.outputs.items():
            if isinstance(output, tuple):
                yield from ((name, at, one) for at, one in enumerate(output) if one is not None)
            elif output is not None:
                yield name, 0, output

    @property
    def goes_outside(self) -> bool:
        """True if it reads or changes something outside the home. A notice whose address in the file is
        `element:NAME` does not. For a plan, the calls of its own graph decide.
        """
        operator = self.operator
        if self.plan or operator.at_home or not (operator.io or operator.effect):
            return False
        address = self.arguments.get("dest") if operator.name == "notify" else None
        return not (isinstance(address, FixedValue) and str(address.value).startswith(TO_MEMORY))

    @property
    def needs_outside(self) -> Iterator[tuple[str, str]]:
        """The places outside that it reaches, as far as the file names them; else `anything`."""
        name = self.operator.name
        if name == "constructfunction" and not isinstance(self.arguments["name"], FixedValue):
            yield "anything", ""
        if not self.goes_outside:
            return
        place = self.arguments.get("url" if name == "fetch" else SOURCE_PORTS.get(name, ""))
        if name == "listen":
            yield "folder", "var/listen rw"
        elif not isinstance(place, FixedValue):
            yield "anything", ""
        elif name == "fetch":
            yield "host", host_of(str(place.value))
        else:
            yield "host", f"[sources.{place.value}]"
            yield "folder", f"[sources.{place.value}] {'rw' if self.operator.effect else 'r'}"

    @property
    def enabled(self) -> tuple[str, ...]:
        """The data that its clauses produce, all of type Enablement."""
        return (*self.enable, *self.started, *self.on_error)


class DataflowGraph(msgspec.Struct, frozen=True):
    """The checked graph of a plan; in `calls`, producers come before consumers.

    A datum may have several producers if only one of them can produce it in a transaction (TA5).
    """

    full_name: str
    inputs: tuple[Datum, ...] = ()
    outputs: tuple[Datum, ...] = ()
    calls: tuple[OperatorCall, ...] = ()
    data: Mapping[str, Datum] = {}
    path: str = ""
    line: int = 1
    column: int = 1


class DataflowDefinition(RunDefinition, frozen=True, eq=False, kw_only=True):
    """A dataflow: the graphs of its plan and of every plan that it calls, by full name.

    `source` is the plan as written. There are no graphs until everything that it calls is known.
    """

    kind: ClassVar[str] = "dataflow"

    source: PlanSource
    graphs: Mapping[str, DataflowGraph] = {}

    @property
    def cannot_start(self) -> tuple[str, str] | None:
        """The reason why no run of it can begin: something that it calls is missing."""
        if not self.graphs:
            return "not-whole", f"something that {self.full_name} calls is not loaded: narval check"
        return None

    @property
    def goes_outside(self) -> bool:
        """True if it, or a plan that it calls, reads or changes something outside the home."""
        return any(call.goes_outside for graph in self.graphs.values() for call in graph.calls)

    @property
    def own_needs(self) -> Iterator[OwnNeed]:
        """The needs of operators that act outside."""
        for graph in self.graphs.values():
            for call in graph.calls:
                for what, value in call.needs_outside:
                    yield OwnNeed(what, value, f"operator {call.operator.name!r}", call.line)

    @property
    def sources(self) -> Iterator[tuple[str, int]]:
        """The sources and wrappers that its own plan names, with the line of each call."""
        for call in self.graph.calls if self.graphs else ():
            place = call.arguments.get(SOURCE_PORTS.get(call.operator.name, ""))
            if isinstance(place, FixedValue):
                yield str(place.value), call.line

    @property
    def graph(self) -> DataflowGraph:
        """The graph of its own plan."""
        return self.graphs[self.full_name]

    @property
    def inputs(self) -> tuple[Datum, ...]:
        """The inputs of its plan."""
        return self.graph.inputs

    @property
    def outputs(self) -> tuple[Datum, ...]:
        """The outputs of its plan."""
        return self.graph.outputs
