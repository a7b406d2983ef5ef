"""A run of a dataflow as a graph: operators, and the data between them."""

from __future__ import annotations

from narval.core.engines.graph import EdgeKind, Graph, GraphEdge, GraphNode, NodeShape, Tone
from narval.kinds.dataflow.engine.explain import counted
from narval.kinds.dataflow.engine.state import DataflowState
from narval.kinds.dataflow.language.definition import DataflowDefinition, Datum, OperatorCall


def graph(definition: DataflowDefinition, state: DataflowState) -> Graph:
    """The inputs, operators and outputs of its plan; what passed, of sessions that have ended."""
    plan = definition.graph
    produced: dict[str, list[str]] = {datum.name: [f"input {datum.name}"] for datum in plan.inputs}
    nodes = [_datum("input", datum) for datum in plan.inputs]
    edges: list[GraphEdge] = []
    for call in plan.calls:
        nodes.append(_operator(state, call))
        for _, _, name in call.produced:
            produced.setdefault(name, []).append(call.key)
        for name in call.enabled:
            produced.setdefault(name, []).append(call.key)
    nodes += [_datum("output", datum) for datum in plan.outputs]
    for call in plan.calls:
        taken = [(ref.name, "plain") for _, _, ref in call.consumed] + [
            (ref.name, "waiting") for ref in call.wait
        ]
        for name, sort in taken:
            edges += _edges(produced, name, call.key, "waiting" if sort == "waiting" else "plain")
    for datum in plan.outputs:
        edges += _edges(produced, datum.name, f"output {datum.name}", "plain")
    return Graph(definition.full_name, (*nodes, *edges))


def _datum(kind: str, datum: Datum) -> GraphNode:
    shape: NodeShape = "final" if kind == "output" else "box"
    return GraphNode(f"{kind} {datum.name}", (datum.name, datum.type), kind, shape, kind=kind)


def _operator(state: DataflowState, call: OperatorCall) -> GraphNode:
    """An operator, with the tuples that passed in sessions that have ended; others may be under way."""
    counts = counted(state, call.key)
    word, target = counts["state"], call.plan or call.operator.name
    tone: Tone = "failed" if "failed" in word else "cancelled" if "cancelled" in word else "done"
    if state.calls:
        word, tone = "running", "active"
    elif word == "idle":
        tone = "idle"
    passed = f"{counts['taken']} in, {counts['given']} out" if counts["state"] != "idle" else ""
    return GraphNode(
        call.key,
        (target, call.key),
        word,
        kind="operator",
        tone=tone,
        target=call.plan or "",
        badge=passed,
    )


def _edges(produced: dict[str, list[str]], name: str, end: str, sort: EdgeKind) -> list[GraphEdge]:
    return [GraphEdge(start, end, sort, name) for start in produced.get(name, ())]
