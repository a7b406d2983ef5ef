"""A run of a dataflow as a graph: operators, and the data between them."""

from __future__ import annotations

from narval.definitions.dataflow.definition import DataflowDefinition
from narval.engines.dataflow.explain import counted
from narval.engines.dataflow.state import DataflowState
from narval.engines.graph import EdgeKind, Graph, GraphEdge, GraphNode


def graph(definition: DataflowDefinition, state: DataflowState) -> Graph:
    """The inputs, operators and outputs of its plan; what passed, of sessions that have ended."""
    plan = definition.graph
    produced: dict[str, list[str]] = {datum.name: [f"input {datum.name}"] for datum in plan.inputs}
    nodes = [GraphNode(f"input {datum.name}", (datum.name, datum.type), "input") for datum in plan.inputs]
    edges: list[GraphEdge] = []
    for call in plan.calls:
        counts = counted(state, call.key)
        label = (call.plan or call.operator.name, call.key)
        passed = (f"{counts['taken']} in, {counts['given']} out",) if counts["state"] != "idle" else ()
        nodes.append(GraphNode(call.key, (*label, *passed), counts["state"]))
        for _, _, name in call.produced:
            produced.setdefault(name, []).append(call.key)
        for name in call.enabled:
            produced.setdefault(name, []).append(call.key)
    nodes += [
        GraphNode(f"output {datum.name}", (datum.name, datum.type), "output", "final")
        for datum in plan.outputs
    ]
    for call in plan.calls:
        taken = [(ref.name, "plain") for _, _, ref in call.consumed] + [
            (ref.name, "waiting") for ref in call.wait
        ]
        for name, sort in taken:
            edges += _edges(produced, name, call.key, "waiting" if sort == "waiting" else "plain")
    for datum in plan.outputs:
        edges += _edges(produced, datum.name, f"output {datum.name}", "plain")
    return Graph(definition.full_name, (*nodes, *edges))


def _edges(produced: dict[str, list[str]], name: str, end: str, sort: EdgeKind) -> list[GraphEdge]:
    return [GraphEdge(start, end, sort, name) for start in produced.get(name, ())]
