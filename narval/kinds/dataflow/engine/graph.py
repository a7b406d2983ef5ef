"""A run of a dataflow as a graph: operators, and the data between them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from narval.core.engines.graph import EdgeKind, Graph, GraphEdge, GraphNode, NodeShape, Tone
from narval.kinds.dataflow.engine.explain import IDLE, carried_by, counted
from narval.kinds.dataflow.engine.state import DataflowState
from narval.kinds.dataflow.language.definition import DataflowDefinition, Datum, OperatorCall


def graph(definition: DataflowDefinition, state: DataflowState) -> Graph:
    """Draw the inputs, operators and outputs of its plan, with what has passed in its sessions so far."""
    plan = definition.graph
    produced: dict[str, list[str]] = {datum.name: [f"input {datum.name}"] for datum in plan.inputs}
    nodes = [_datum("input", datum) for datum in plan.inputs]
    edges: list[GraphEdge] = []
    counts = counted(state)
    for call in plan.calls:
        nodes.append(_operator(call, counts.get(call.key, IDLE)))
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
            edges += _edges(state, produced, name, call.key, "waiting" if sort == "waiting" else "plain")
    for datum in plan.outputs:
        edges += _edges(state, produced, datum.name, f"output {datum.name}", "plain")
    return Graph(definition.full_name, (*nodes, *edges))


def _datum(kind: str, datum: Datum) -> GraphNode:
    shape: NodeShape = "final" if kind == "output" else "box"
    return GraphNode(f"{kind} {datum.name}", (datum.name, datum.type), kind, shape, kind=kind)


_TONES: tuple[tuple[str, Tone], ...] = (
    ("failed", "failed"), ("at work", "active"), ("finishing", "active"), ("waiting", "waiting"),
    ("cancelled", "cancelled"), ("idle", "idle"),
)  # fmt: skip
"""The tones of the states of operators; of several states, the first in this order counts."""


def _operator(call: OperatorCall, counts: Mapping[str, Any]) -> GraphNode:
    """An operator, with the tuples that have passed in sessions so far."""
    word, target = counts["state"], call.plan or call.operator.name
    tone: Tone = next((tone for name, tone in _TONES if name in word), "done")
    passed = f"{counts['taken']:,} in, {counts['given']:,} out" if counts["state"] != "idle" else ""
    return GraphNode(
        call.key,
        (target, call.key),
        word,
        kind="operator",
        tone=tone,
        target=call.plan or "",
        badge=passed,
    )


def _edges(
    state: DataflowState, produced: dict[str, list[str]], name: str, end: str, sort: EdgeKind
) -> list[GraphEdge]:
    carried = carried_by(state, name)
    badge = f"{carried:,}" if carried else ""
    return [GraphEdge(start, end, sort, name, badge=badge) for start in produced.get(name, ())]
