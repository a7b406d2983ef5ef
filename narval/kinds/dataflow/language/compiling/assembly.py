"""Assembly: the graph of a plan without faults.

Calls that hold back a stream while they wait for data from the same source are marked (TA41): bounded queues
could fill up there before that data is complete, so their streams may go to disk.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from narval.kinds.dataflow.language.compiling.inference import Inferred
from narval.kinds.dataflow.language.compiling.matching import (
    FUNCTION,
    LIFTED,
    NUMBER,
    TEXT,
    UNKNOWN,
    Match,
    fit,
)
from narval.kinds.dataflow.language.compiling.wiring import Conditions, Wiring
from narval.kinds.dataflow.language.definition import (
    STREAMED,
    Argument,
    DataflowGraph,
    DataRef,
    Datum,
    FixedValue,
    OperatorCall,
)
from narval.kinds.dataflow.language.operators import Port
from narval.kinds.dataflow.language.syntax import Declared, PlanSource, Written


def assembled(
    source: PlanSource,
    wiring: Wiring,
    inferred: Inferred,
    parsed: Mapping[str, Mapping[str, Any]],
    called: Mapping[int, str],
    conditions: Conditions,
) -> DataflowGraph:
    """Assemble the graph of a plan; `parsed` are the texts of its calls by key, `called` the plans called."""
    types = inferred.types
    tails = wiring.tail_calls(called, source.full_name)
    calls = []
    for at in wiring.order:
        match = wiring.matches[at]
        assert match.operator is not None
        statement, clauses = match.statement, match.statement.clauses
        calls.append(
            OperatorCall(
                match.key,
                match.operator,
                arguments={
                    name: _argument(value, match.operator.input(name), types)
                    for name, value in match.arguments.items()
                },
                outputs={name: _output(value) for name, value in match.outputs.items()},
                parsed=parsed[match.key],
                wait=tuple(_ref(written) for written in clauses.wait),
                enable=_names(clauses.enable),
                started=_names(clauses.started),
                on_error=_names(clauses.on_error),
                lifted=lifted_of(match, types),
                plan=called.get(at, ""),
                tail=at in tails,
                needs=tuple(conditions.chosen(conditions.of_call(match.key))),
                possible=conditions.is_possible(conditions.of_call(match.key)),
                columns=_columns(match, inferred),
                line=statement.line,
                column=statement.column,
            )
        )
    data = {name: _datum(name, wiring, inferred) for name in (*wiring.inputs, *wiring.producers)}
    graph = DataflowGraph(
        source.full_name,
        inputs=tuple(data[name] for name in wiring.inputs),
        outputs=tuple(_declared(data[declared.name], declared) for declared in wiring.outputs.values()),
        calls=tuple(calls),
        data=data,
        path=source.path,
        line=source.syntax.line,
        column=source.syntax.column,
    )
    return with_spilling(graph)


def _columns(match: Match, inferred: Inferred) -> tuple[str, ...]:
    """The attributes of what an export stores, or of a union's inputs, as far as the plan fixes them."""
    argument = match.arguments.get("in")
    if match.operator is None or match.operator.name not in ("exportrelation", "exportrelation2", "union"):
        return ()
    inputs = argument if isinstance(argument, tuple) else (argument,)
    columns = [inferred.columns.get(one.text) or () for one in inputs if isinstance(one, Written)]
    return tuple(dict.fromkeys(name for some in columns for name in some))


def lifted_of(match: Match, types: Mapping[str, str]) -> tuple[str, ...]:
    """The parameters of a call that take a value and are fed a stream (TA7)."""
    lifted = [
        port.name
        for port, written in match.consumed
        if port is not None and written.kind == "name" and fit(port, written, types) == LIFTED
    ]
    return tuple(dict.fromkeys(lifted))


def _argument(
    written: Written | tuple[Written, ...], port: Port | None, types: Mapping[str, str]
) -> Argument:
    if isinstance(written, tuple):
        return tuple(_single(one, port, types) for one in written)
    return _single(written, port, types)


def _single(written: Written, port: Port | None, types: Mapping[str, str]) -> FixedValue | DataRef:
    is_function = port is not None and port.type == FUNCTION
    if written.kind == "name" and (written.text in types or not is_function):
        return _ref(written)
    type = FUNCTION if is_function else NUMBER if written.kind == "number" else TEXT
    value = written.text if type == FUNCTION else written.value
    return FixedValue(value, type, written.line, written.column)


def _ref(written: Written) -> DataRef:
    return DataRef(written.text, written.line, written.column)


def _names(written: Iterable[Written]) -> tuple[str, ...]:
    return tuple(one.text for one in written)


def _output(written: Written | tuple[Written, ...]) -> str | tuple[str | None, ...] | None:
    if isinstance(written, tuple):
        return tuple(_named(one) for one in written)
    return _named(written)


def _named(written: Written) -> str | None:
    return None if written.text == "_" else written.text


def _datum(name: str, wiring: Wiring, inferred: Inferred) -> Datum:
    at: Declared | Written = (
        wiring.inputs[name] if name in wiring.inputs else wiring.producers[name][0].written
    )
    columns = inferred.columns.get(name)
    return Datum(name, inferred.types.get(name, UNKNOWN), columns, at.line, at.column)


def _declared(datum: Datum, declared: Declared) -> Datum:
    return Datum(datum.name, datum.type, datum.attributes, declared.line, declared.column)


def with_spilling(graph: DataflowGraph) -> DataflowGraph:
    """Mark the calls of a graph that hold back a stream."""
    sources = {datum.name: (datum.type == STREAMED) << at for at, datum in enumerate(graph.inputs)}
    calls: list[OperatorCall] = []
    for at, call in enumerate(graph.calls, len(graph.inputs)):
        streams, gates = 0, 0
        for port, _, datum in call.consumed:
            if _holds_back(call, port):
                gates |= sources.get(datum.name, 0)
            else:
                streams |= sources.get(datum.name, 0)
        for waited in call.wait:
            gates |= sources.get(waited.name, 0)
        produced = [name for _, _, name in call.produced]
        for name in (*produced, *call.enabled):
            own = (graph.data[name].type == STREAMED) << at
            sources[name] = sources.get(name, 0) | streams | gates | own
        calls.append(msgspec.structs.replace(call, spills=bool(streams & gates)))
    return msgspec.structs.replace(graph, calls=tuple(calls))


def _holds_back(call: OperatorCall, name: str) -> bool:
    """True for a parameter that must be present, or complete, before streams are taken."""
    port = call.operator.input(name)
    streams = port is not None and port.type in (STREAMED, "Relation")
    return not streams or name in call.operator.waits_for
