"""An instance as a graph: states, edges and rules, and where it is."""

from __future__ import annotations

from typing import cast

from narval.core.engines.graph import Graph, GraphEdge, GraphNode, NodeShape, Tone, clipped
from narval.kinds.task.engine.state import InstanceState
from narval.kinds.task.language.definition import TaskDefinition, TaskState
from narval.kinds.task.language.texts_of import rule_text

LONGEST_LABEL = 60
"""The most characters shown of a rule."""


def graph(definition: TaskDefinition, state: InstanceState) -> Graph:
    """The states with their rules, and the edges, without predefined states that no edge leads to."""
    used = {definition.initial, state.state}
    used.update(target for task_state in definition.states.values() for target in task_state.edges.values())
    used.update(
        name for name, task_state in definition.states.items() if task_state.edges or task_state.rules
    )
    states = [task_state for name, task_state in definition.states.items() if name in used]
    nodes = [_node(definition, state, task_state) for task_state in states]
    edges = [
        GraphEdge(task_state.name, target, "plain", event)
        for task_state in states
        for event, target in task_state.edges.items()
    ]
    return Graph(definition.full_name, (*nodes, *edges))


def _node(definition: TaskDefinition, state: InstanceState, task_state: TaskState) -> GraphNode:
    is_here = task_state.name == state.state
    rules = [rule_text(rule) for rule in task_state.rules]
    label = [task_state.name, *([] if task_state.exposed else ["internal"])]
    label += [clipped(text, LONGEST_LABEL) for text in rules]
    shape: NodeShape = "final" if definition.is_terminal(task_state.name) else "box"
    return GraphNode(
        task_state.name,
        tuple(label),
        "here" if is_here else "open",
        shape,
        tooltip="\n".join(rules),
        kind="state",
        tone=_tone(definition, state) if is_here else "idle",
        badge=f"object {state.object}" if is_here and state.object else "",
    )


def _tone(definition: TaskDefinition, state: InstanceState) -> Tone:
    """The tone of an instance's state: it works, waits for people, or has ended."""
    if state.over:
        return cast("Tone", state.PHASES[state.status])
    asks = definition.is_interactive and "code" in state.calls.values()
    return "waiting" if asks or not (state.calls or state.frames) else "active"
