"""Warnings about dataflows: valid, but perhaps not intended (TA8, TA9)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from narval.core.definitions.library import Library
from narval.core.errors import Fault
from narval.kinds.dataflow.language.definition import (
    DataflowDefinition,
    DataflowGraph,
    DataRef,
    FixedValue,
    OperatorCall,
)


def warnings(dataflows: Iterable[DataflowDefinition], library: Library) -> list[Fault]:
    """The warnings about dataflows of a library, each about its own plan."""
    return sorted(
        Fault(definition.path, line, column, message, warning=True)
        for definition in dataflows
        if definition.graphs
        for call in definition.graph.calls
        for line, column, message in (*_doubts(call), *_lacking(call, definition.graph))
    )


def _doubts(call: OperatorCall) -> Iterator[tuple[int, int, str]]:
    """The place and message of each warning about a call."""
    name = call.operator.name
    if name == "join" and call.parsed.get("cond") == ():
        message = (
            "join: an empty condition joins each tuple with all of the other side; "
            "write union to have those of both, or a condition"
        )
        yield call.line, call.column, message
    if name == "retrieve":
        wrapper, query = call.arguments["wrapper"], call.arguments["query"]
        if isinstance(wrapper, DataRef) and isinstance(query, FixedValue):
            message = (
                f"retrieve: the wrapper comes first, and here it is what {wrapper.name!r} holds; "
                f'if {query.value!r} is one, write retrieve("{query.value}", {wrapper.name} : …)'
            )
            yield wrapper.line, wrapper.column, message
    if not call.possible:
        yield call.line, call.column, never(call)


def _lacking(call: OperatorCall, graph: DataflowGraph) -> Iterator[tuple[int, int, str]]:
    """The place and message of each input of a union or difference that lacks attributes of another."""
    if call.operator.name not in ("union", "difference"):
        return
    inputs = [(ref, columns) for _, _, ref in call.consumed if (columns := graph.data[ref.name].attributes)]
    everything = dict.fromkeys(name for _, columns in inputs for name in columns)
    for ref, columns in inputs:
        if lacking := [name for name in everything if name not in columns]:
            message = (
                f"{call.operator.name}: {ref.name!r} has no {', '.join(lacking)}, which is no value in its "
                "tuples; if that is not meant, project all inputs to the same attributes"
            )
            yield ref.line, ref.column, message


def never(call: OperatorCall) -> str:
    """The message that a call never fires, because its needs exclude each other."""
    needs = " and ".join(f"{way!r} of {key}" for key, way in call.needs)
    return f"{call.operator.name} never fires: it needs {needs}, which exclude each other"
