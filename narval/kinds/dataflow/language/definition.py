"""Dataflow: inputs, a graph of operators without circles, outputs (T1–T17).

A definition holds the graph of its plan and those of all plans that it calls, so a run needs no library. The
data of a graph have names; a call of an operator has its arguments by parameter, in the order of the table of
operators, whatever order the file has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Literal

import msgspec

from narval.core.definitions.library import OwnNeed, RunDefinition
from narval.kinds.dataflow.language.operators import Operator
from narval.kinds.dataflow.language.syntax import PlanSource

DataClass = Literal["streaming", "per-stream", "static"]
"""The classes of data (T5). Constants are static; inputs never are (TA33)."""

STREAMED = "TupleStream"
"""The one type that streams; all others are per stream (T6)."""


class FixedValue(msgspec.Struct, frozen=True):
    """An argument that stands in the file: a text, a number, or the name of a function (type Function)."""

    value: str | int | float
    type: str
    line: int = 1
    column: int = 1


TO_MEMORY = "element:"
"""The start of an address by which a notice becomes elements of memory."""


class DataRef(msgspec.Struct, frozen=True):
    """An argument that is a datum of the graph."""

    name: str
    line: int = 1
    column: int = 1


Argument = FixedValue | DataRef | tuple[FixedValue | DataRef, ...]
"""An argument; several where the parameter takes many."""


class Datum(msgspec.Struct, frozen=True):
    """A datum of a graph. `attributes` are those of its tuples; None where only a run can tell.

    A value (String, Number, Object) has the one attribute `value`.
    """

    name: str
    type: str
    attributes: tuple[str, ...] | None = None
    line: int = 1
    column: int = 1

    @property
    def data_class(self) -> DataClass:
        """The class of its type."""
        return "streaming" if self.type == STREAMED else "per-stream"


class OperatorCall(msgspec.Struct, frozen=True):
    """A call of an operator.

    `key` is its own in the graph and stays the same as long as the plan does. `arguments` and `outputs` are
    by the names of the operator's ports; an output is None where `_` stands for it, or where it is left out;
    parameters that are left out are not there. The ports of a call of a plan are the names of its inputs and
    outputs. `parsed` are the constants that are conditions, formats and rules, as values
    (`conditions.parse_text`). `lifted` are parameters that are fed a stream, so that the operator runs once
    for each tuple (TA7). `plan` is the full name of the plan that is called, "" for other operators. A `tail`
    call gives all it has to the outputs of its own plan (T36). One that `spills` lies on a branch that could
    deadlock on bounds (TA41). It fires only where all that it `needs` has happened: outputs of conditional
    operators that were chosen, calls that were done or failed (the key of a call, and which), streams that
    were not empty (the name of a datum). One that is not `possible` never fires. Of an
    export, `columns` are the attributes of its tuples, of a union those of all inputs, where the plan tells.
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
        """Its arguments that are data: the parameter, the place among many (0 for one), the datum."""
        for name, argument in self.arguments.items():
            if isinstance(argument, tuple):
                yield from ((name, at, one) for at, one in enumerate(argument) if isinstance(one, DataRef))
            elif isinstance(argument, DataRef):
                yield name, 0, argument

    @property
    def produced(self) -> Iterator[tuple[str, int, str]]:
        """Its outputs that are named: the port, the place among many (0 for one), the datum."""
        for name, output in self.outputs.items():
            if isinstance(output, tuple):
                yield from ((name, at, one) for at, one in enumerate(output) if one is not None)
            elif output is not None:
                yield name, 0, output

    @property
    def goes_outside(self) -> bool:
        """True if it asks or changes something outside the home. A notice whose address stands in the file
        as `element:NAME` does not; that of a plan is told by the calls of its own graph.
        """
        operator = self.operator
        if self.plan or operator.at_home or not (operator.io or operator.effect):
            return False
        address = self.arguments.get("dest") if operator.name == "notify" else None
        return not (isinstance(address, FixedValue) and str(address.value).startswith(TO_MEMORY))

    @property
    def enabled(self) -> tuple[str, ...]:
        """The data that its clauses produce, all of type Enablement."""
        return (*self.enable, *self.started, *self.on_error)


class DataflowGraph(msgspec.Struct, frozen=True):
    """The graph of a plan, checked: `calls` are in an order in which producers come before consumers.

    A datum may have several producers where only one of them can produce it in a transaction (TA5).
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
    """A dataflow: the graphs of its plan and of all that it calls, by full name.

    `source` is the plan as it is written. There are no graphs until all that it calls is known.
    """

    kind: ClassVar[str] = "dataflow"

    source: PlanSource
    graphs: Mapping[str, DataflowGraph] = {}

    @property
    def cannot_start(self) -> tuple[str, str] | None:
        """The reason why no run of it can begin: something that it calls is not there."""
        if not self.graphs:
            return "not-whole", f"something that {self.full_name} calls is not loaded: narval check"
        return None

    @property
    def goes_outside(self) -> bool:
        """True if it, or a plan that it calls, asks or changes something outside the home."""
        return any(call.goes_outside for graph in self.graphs.values() for call in graph.calls)

    @property
    def own_needs(self) -> Iterator[OwnNeed]:
        """Operators that act outside may need anything."""
        for graph in self.graphs.values():
            for call in graph.calls:
                if call.goes_outside:
                    yield OwnNeed("anything", "", f"operator {call.operator.name!r}", call.line)

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
