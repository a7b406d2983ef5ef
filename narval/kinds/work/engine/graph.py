"""A work item as a graph: the transitions between its states (P20), and its present state."""

from __future__ import annotations

from typing import cast

from narval.core.engines.graph import Graph, GraphEdge, GraphNode, NodeShape, Tone, clipped
from narval.kinds.work.engine.state import WorkState, asked
from narval.kinds.work.engine.table import DRAWN, PHASES
from narval.kinds.work.language.definition import WorkDefinition

LONGEST = 60
"""The most characters of the text on who is asked."""


def graph(definition: WorkDefinition, state: WorkState) -> Graph:
    """The states of an item, and the transitions between them."""
    names = dict.fromkeys(name for start, end, _ in DRAWN for name in (start, end))
    nodes = [_node(definition, state, name) for name in names]
    edges = [GraphEdge(start, end, "plain", why) for start, end, why in DRAWN]
    return Graph(definition.full_name, (*nodes, *edges))


def _node(definition: WorkDefinition, state: WorkState, name: str) -> GraphNode:
    here = state.status == name
    badge, tone = "", cast("Tone", PHASES.get(name, "active" if name == "claimed" else "waiting"))
    if here and name == "offered":
        badge = clipped(asked(definition, state), LONGEST)
    elif here and state.claim is not None:
        badge = state.claim.by
    elif here and state.outcome:
        badge = state.outcome
    shape: NodeShape = "final" if name in PHASES else "box"
    word = "here" if here else "open"
    return GraphNode(name, (name,), word, shape, kind="state", tone=tone if here else "idle", badge=badge)
