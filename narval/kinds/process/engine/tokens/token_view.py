"""Tokens as plain data, for the user's code."""

from __future__ import annotations

from typing import Any

from narval.kinds.process.engine.state import ArcToken, NodeToken, ProcessState
from narval.kinds.process.language.definition import Node, Process


def token_view(process: Process, state: ProcessState, token: int | None) -> dict[str, Any]:
    """Everything that code may know about a node token and its process, or without a token about the process
    alone.
    """
    node_token = state.nodes.get(token) if token is not None else None
    about = {
        "run": state.eid,
        "name": process.full_name,
        "state": state.status,
        "environment": dict(state.environment),
    }
    if node_token is None:
        return {"process": about}
    node = process.nodes[node_token.node]
    view = {
        "node": {**_brief_node(node), **_rest_of(node)},
        "sets": _sets(state, node_token),
        "process": about,
    }
    return {**brief_view(process, state, node_token), **view}


def brief_view(process: Process, state: ProcessState, token: NodeToken) -> dict[str, Any]:
    """A node token itself, without its node's texts, its sets and its process."""
    return {
        "id": token.id,
        "complete": token.completed is not None,
        "guard_action": token.guard or None,
        "execution_type": token.execution_type,
        "node": _brief_node(process.nodes[token.node]),
        "environment": dict(token.environment),
        "parents": [state.arcs[arc].parent for arc in token.parents],
    }


def _brief_node(node: Node) -> dict[str, Any]:
    path = node.external
    about = {"id": node.id, "name": node.name, "type": node.type}
    return {**about, "external": path[0] if path else None, "external_path": list(path)}


def _rest_of(node: Node) -> dict[str, Any]:
    return {
        "custom": dict(node.custom),
        "arcs": [{"name": arc.name, "to": arc.end.name} for arc in node.outs],
        "external_environment": dict(node.external_environment),
        "guard": node.guard_text,
        "join": node.join_text,
    }


def _sets(state: ProcessState, token: NodeToken) -> list[dict[str, Any]]:
    """The sets a token is a member of, with their attributes and those of the member."""
    sets = ((state.sets[number], index) for number, index in token.sets.items())
    return [
        {
            "id": token_set.id,
            "name": token_set.name,
            "index": index,
            "level": token_set.level,
            "max_index": token_set.count - 1,
            "environment": dict(token_set.environment),
            "member": dict(token_set.members.get(index, {})),
        }
        for token_set, index in sets
    ]


def arc_token_told(process: Process, token: ArcToken) -> dict[str, Any]:
    """An arc token as the user's join class sees it."""
    arc = process.arcs[token.arc]
    return {"id": token.id, "arc": arc.name, "from": arc.start.name, "parent": token.parent}
