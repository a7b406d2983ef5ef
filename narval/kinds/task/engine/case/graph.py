"""A case as a graph: the types that its objects have passed, in order, and where each object is now."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from narval.core.engines.graph import Graph, GraphEdge, GraphNode, TokenMark, Tone
from narval.kinds.task.engine.case.state import UNDER_WAY, CaseState, Member, where
from narval.kinds.task.language.definition import TaskDefinition

MOST_MARKS = 5
"""The most objects drawn at one type; the others are counted."""


def graph(definition: TaskDefinition, state: CaseState) -> Graph:
    """The types that have had objects of the case, and the objects' paths."""
    here: dict[str, list[tuple[int, Member]]] = {}
    for identity, member in state.members.items():
        if member.state in UNDER_WAY:
            here.setdefault(member.type or where(member), []).append((identity, member))
    passed = [step.type for step in state.trail]
    last = [member.type for member in state.members.values() if _is_at(member)]
    names = dict.fromkeys([state.definition, *passed, *here, *last])
    nodes = [_node(state, name, here.get(name, [])) for name in names]
    return Graph(definition.full_name, (*nodes, *_edges(state)))


def _node(state: CaseState, name: str, here: list[tuple[int, Member]]) -> GraphNode:
    steps = [step for step in state.trail if step.type == name]
    undone = [step.state for step in steps if step.state in ("compensated", "none", "failed", "compensating")]
    word = ("not undone" if undone[-1] == "none" else undone[-1]) if undone else "passed"
    marks = tuple(TokenMark(f"object {member.now}", member.state) for _, member in here[-MOST_MARKS:])
    tone: Tone = "failed" if word == "failed" else "cancelled" if undone else "done"
    if here:
        word, tone = "here", "failed" if any(member.state == "held" for _, member in here) else "active"
    times = f"passed {len(steps)} times" if len(steps) > 1 else ""
    return GraphNode(
        name,
        (name,),
        word,
        "tokens",
        marks,
        len(here) - len(marks),
        kind="type",
        tone=tone,
        target=name,
        badge=times,
    )


def _is_at(member: Member) -> bool:
    """True if an object is with a type, or was when its path ended."""
    return bool(member.type) and member.state not in ("new", "parts")


def _edges(state: CaseState) -> Iterator[GraphEdge]:
    """The paths from type to type: of an object between its steps, and of parts from where they were made."""
    ways: dict[tuple[str, str], dict[int, str]] = {}
    for identity, member in state.members.items():
        passed = [state.trail[number].type for number in member.steps]
        stops = [*_origin(state, identity), *passed, *([member.type] if _is_at(member) else [])]
        label = f"part {member.ordinal}" if member.count else ""
        for way in pairwise(stops):
            ways.setdefault(way, {})[identity] = label
    for (start, end), labels in ways.items():
        label = f"{len(labels)} objects" if len(labels) > 1 else next(iter(labels.values()))
        yield GraphEdge(start, end, "taken", label or None)


def _origin(state: CaseState, identity: int) -> list[str]:
    """The type at which a part was made; empty for any other object."""
    member = state.members[identity]
    whole = state.members.get(member.parent)
    if whole is None or not whole.steps:
        return []
    made = [number for number in whole.steps if not member.steps or number < member.steps[0]]
    return [state.trail[made[-1]].type] if made else []
