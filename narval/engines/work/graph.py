"""A work item as a graph: the ways of P20 between its states, and where it is."""

from __future__ import annotations

from narval.definitions.work.definition import WorkDefinition
from narval.engines.graph import Graph, GraphEdge, GraphNode, clipped
from narval.engines.work.eligibility import asked
from narval.engines.work.state import WorkState
from narval.engines.work.table import DRAWN, PHASES

LONGEST = 60
"""So many characters of who is asked are shown."""


def graph(definition: WorkDefinition, state: WorkState) -> Graph:
    """The states of an item, and the ways between them."""
    names = dict.fromkeys(name for start, end, _ in DRAWN for name in (start, end))
    nodes = [_node(definition, state, name) for name in names]
    edges = [GraphEdge(start, end, "plain", why) for start, end, why in DRAWN]
    return Graph(definition.full_name, (*nodes, *edges))


def _node(definition: WorkDefinition, state: WorkState, name: str) -> GraphNode:
    here = state.status == name
    more = []
    if here and name == "offered":
        more = [clipped(asked(definition, state), LONGEST)]
    elif here and state.claim is not None:
        more = [state.claim.by]
    elif here and state.outcome:
        more = [state.outcome]
    return GraphNode(name, (name, *more), "running" if here else "todo", "final" if name in PHASES else "box")
