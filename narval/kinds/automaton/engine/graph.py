"""A run of an automaton as a graph: its states, and the transitions followed last."""

from __future__ import annotations

from collections.abc import Iterator

from narval.core.engines.graph import EdgeKind, Graph, GraphEdge, GraphNode, Tone, clipped
from narval.kinds.automaton.engine.state import AutomatonState
from narval.kinds.automaton.language.definition import SUCCESS, Automaton, State

LONGEST = 40
"""The most characters of a command shown."""

STATE_TONES: dict[str, Tone] = {
    "ready": "waiting", "held": "waiting", "running": "active", "done": "done", "erred": "failed",
}  # fmt: skip
"""The tone of each progress of a state; any other progress is idle."""


def graph(definition: Automaton, state: AutomatonState) -> Graph:
    """Draw the states with their commands, and an edge for each label that leads on."""
    nodes = [_node(part, state) for part in definition.states.values()]
    edges = [edge for part in definition.states.values() for edge in _edges(part, state)]
    return Graph(definition.full_name, (*nodes, *edges))


def _node(part: State, state: AutomatonState) -> GraphNode:
    run = state.of(part.name)
    runs = part.called or " ".join(part.contenders[0].words if part.contenders else ())
    label = (part.name, *([clipped(runs, LONGEST)] if runs else []))
    again = f"×{run.visits}" if run.visits > 1 else ""
    return GraphNode(
        part.name,
        label,
        run.state,
        "final" if part.is_final else "box",
        kind="state",
        tone=STATE_TONES.get(run.state, "idle"),
        target=part.target[1] if part.target is not None else "",
        badge=f"{run.label} {again}".strip(),
        tooltip=clipped(run.output, LONGEST * 5),
    )


def _edges(part: State, state: AutomatonState) -> Iterator[GraphEdge]:
    last = state.of(part.name).label
    for label, successors in part.follow.items():
        for successor in successors:
            kind: EdgeKind = "followed" if label == last else "success" if label == SUCCESS else "failure"
            yield GraphEdge(part.name, successor.name, kind, label)
