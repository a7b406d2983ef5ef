"""The branches of a dataflow, found in its graphs: calls that never fire, that exclude each other, and that
spill (TA41).

An *error* here is true of every transaction; notes say what depends on what.
"""

from __future__ import annotations

from collections.abc import Iterator

from narval.core.definitions.library import Library
from narval.core.engines.structure import Finding
from narval.kinds.dataflow.language.checks import never
from narval.kinds.dataflow.language.definition import DataflowDefinition, DataflowGraph, OperatorCall


def unreachable(definition: DataflowDefinition, library: Library) -> list[Finding]:
    """The calls of its plan that never fire (errors), its branches, and the calls that spill (notes)."""
    if not definition.graphs:
        return []
    graph = definition.graph
    return sorted(
        {
            *(_finding(graph, call, "error", never(call)) for call in graph.calls if not call.possible),
            *_branches(graph),
            *(_finding(graph, call, "note", _spilling(call)) for call in graph.calls if call.spills),
            *_recursion(definition),
        }
    )


def _finding(graph: DataflowGraph, call: OperatorCall, severity: str, message: str) -> Finding:
    is_error = severity == "error"
    return Finding(graph.path, call.line, call.column, "error" if is_error else "note", call.key, message)


def _branches(graph: DataflowGraph) -> Iterator[Finding]:
    """The calls that fire on each branch of a conditional operator."""
    for call in graph.calls:
        if not call.operator.conditional:
            continue
        ways = []
        for port in call.operator.outputs:
            on = [
                other.key for other in graph.calls if other.possible and (call.key, port.name) in other.needs
            ]
            ways.append(f"{port.name}: {', '.join(on) or 'nothing more'}")
        yield _finding(graph, call, "note", f"{call.key} takes one way ({'; '.join(ways)})")


def _spilling(call: OperatorCall) -> str:
    return (
        f"{call.key} holds back a stream until more of what it comes from is there; beyond its bounds it "
        f"spills to disk"
    )


def _recursion(definition: DataflowDefinition) -> Iterator[Finding]:
    """The calls by which the plan calls itself, and what each depends on."""
    graph = definition.graph
    for call in graph.calls:
        if call.plan == definition.full_name:
            needs = " and ".join(f"{way!r} of {key}" for key, way in call.needs) or "a tuple that comes"
            yield _finding(graph, call, "note", f"{call.key} calls its own dataflow, only after {needs}")
