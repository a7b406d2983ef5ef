"""A service run as a graph: its queue, its instances, and the three queues of events (K62)."""

from __future__ import annotations

from itertools import pairwise

from narval.core.engines.graph import Graph, GraphEdge, GraphNode, Tone
from narval.kinds.task.engine.server.explain import QUEUES
from narval.kinds.task.engine.server.state import TaskServerState
from narval.kinds.task.language.definition import TaskDefinition


def graph(definition: TaskDefinition, state: TaskServerState) -> Graph:
    """The queue and the queues of events, with the number in each."""
    counts = dict.fromkeys(QUEUES, 0)
    for event in state.events.values():
        counts[event.queue] += 1
    nodes = [_node("queue", len(state.queue)), _node("instances", len(state.at_work) + len(state.called))]
    nodes += [_node(name, count) for name, count in counts.items()]
    ways = [("queue", "instances"), *pairwise(QUEUES), (QUEUES[-1], "instances")]
    return Graph(definition.full_name, (*nodes, *(GraphEdge(*way) for way in ways)))


def _node(name: str, count: int) -> GraphNode:
    tone: Tone = ("active" if name == "instances" else "waiting") if count else "idle"
    status = "there" if count else "empty"
    return GraphNode(name, (name,), status, "tokens", kind="queue", tone=tone, badge=str(count or ""))
