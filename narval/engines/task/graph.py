"""An instance as a graph: states, edges and rules, and where it is."""

from __future__ import annotations

from narval.definitions.task.definition import TaskDefinition, TaskState
from narval.engines.graph import Graph, GraphEdge, GraphNode, clipped
from narval.engines.task.state import InstanceState

LONGEST_RULE = 60
"""So many characters of a rule are shown."""


def graph(definition: TaskDefinition, state: InstanceState) -> Graph:
    """The states with their rules, and the edges; predefined states that no edge leads to are left out."""
    used = {definition.initial, state.state}
    used.update(target for found in definition.states.values() for target in found.edges.values())
    used.update(name for name, found in definition.states.items() if found.edges or found.rules)
    states = [found for name, found in definition.states.items() if name in used]
    nodes = [_node(definition, state, found) for found in states]
    edges = [
        GraphEdge(found.name, target, "plain", event)
        for found in states
        for event, target in found.edges.items()
    ]
    return Graph(definition.full_name, (*nodes, *edges))


def _node(definition: TaskDefinition, state: InstanceState, found: TaskState) -> GraphNode:
    is_here = found.name == state.state
    label = [found.name, *([] if found.exposed else ["internal"])]
    label += [clipped(f"on {rule.event}", LONGEST_RULE) for rule in found.rules]
    if is_here and state.object:
        label.append(f"object {state.object}")
    shape = "final" if definition.is_terminal(found.name) else "box"
    return GraphNode(found.name, tuple(label), "running" if is_here else "todo", shape)  # type: ignore[arg-type]
