"""Spilling: the calls that hold back a stream while they wait for data from the same source (TA41).

Bounded queues could fill up there before that data is complete, so their streams may go to disk.
"""

from __future__ import annotations

import msgspec

from narval.kinds.dataflow.language.definition import STREAMED, DataflowGraph, OperatorCall


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
