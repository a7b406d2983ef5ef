"""Views of tokens: plain data for the user's code, and walks over their ancestors and descendants (section
12). Nothing is altered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from heapq import heappop, heappush
from typing import Any, Literal

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


# --- walks ------------------------------------------------------------------------------------------------

Order = Literal["creation", "breadth", "depth"]
Direction = Literal["forward", "back"]

_RANKS: Mapping[str, Callable[[int, int], int]] = {
    "creation": lambda number, place: number,
    "breadth": lambda number, place: place,
    "depth": lambda number, place: -place,
}
"""The rank by which tokens are taken, from a token's number and its place among all found."""


def walk(
    state: ProcessState,
    start: int,
    order: Order = "creation",
    direction: Direction = "forward",
    follow: Callable[[ArcToken], bool] = lambda token: True,
) -> Iterator[NodeToken | ArcToken]:
    """Tokens of both kinds from a token on, itself first: forward, or back over its ancestors.

    They come in the order in which they were made (going back, the newest first), level by level, or one
    branch after another; each is met once. `follow` is asked about an arc token after the node token that it
    leads on from has been met.
    """
    forward, rank = direction == "forward", _RANKS[order]
    waiting, seen, count = [(0, start)], set[int](), 0
    while waiting:
        _, number = heappop(waiting)
        if number in seen:
            continue
        seen.add(number)
        token = state.nodes.get(number) or state.arcs[number]
        yield token
        if isinstance(token, NodeToken):
            arcs = token.children if forward else token.parents
            beyond = [arc for arc in arcs if follow(state.arcs[arc])]
        else:
            end = token.child if forward else token.parent
            beyond = [] if end is None else [end]
        for next_one in reversed(beyond) if order == "depth" else beyond:
            count += 1
            heappush(waiting, (rank(next_one if forward else -next_one, count), next_one))


def nearest_token(process: Process, state: ProcessState, start: int, node: str) -> NodeToken | None:
    """The nearest token on a node of that name, or id, that was not backtracked: the token itself, or an
    ancestor; None if there is none.
    """
    named = {other.id for other in process.named(node)}
    for token in walk(state, start, "breadth", "back"):
        if isinstance(token, NodeToken) and token.node in named and not token.backtracked:
            return token
    return None


def environment_of(state: ProcessState, token: NodeToken) -> dict[str, str]:
    """The attributes of a token, layered over those of its process."""
    return {**state.environment, **token.environment}


def sources(state: ProcessState, token: NodeToken) -> list[int]:
    """The node tokens whose attributes a token has copied, in order; later ones won.

    The reverse of a token copies from the parents of that token.
    """
    like = token if token.reverses is None else state.nodes[token.reverses]
    return [_source(state, like, state.arcs[number]) for number in like.parents]


def _source(state: ProcessState, token: NodeToken, arc: ArcToken) -> int:
    """The node token behind an arc token. One that turned round at a dead end stands for the token that it
    reverses.
    """
    turned = arc.execution_type == "UTurn" and state.nodes[arc.parent].node == token.node
    return state.arcs[arc.reverses].parent if turned and arc.reverses is not None else arc.parent
