"""Views of tokens: plain data for the user's code, and walks over their ancestors and descendants (section
12). Nothing is altered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from heapq import heappop, heappush
from itertools import islice
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
    """The node tokens whose transient attributes a token copies, in order; later ones win."""
    while token.reverses is not None:
        token = state.nodes[token.reverses]
    return [root(state, state.arcs[number]).parent for number in token.parents]


def root(state: ProcessState, token: ArcToken) -> ArcToken:
    """The forward token at the end of a token's chain of reversals; itself if it is forward."""
    while token.reverses is not None:
        token = state.arcs[token.reverses]
    return token


def inputs(state: ProcessState, token: NodeToken) -> list[ArcToken]:
    """The arc tokens that brought a node token about: it was made from them, or they have merged into it, or
    into a token that it reverses. Tokens that came back to it are not among them, nor those of undone tokens.
    """
    arcs: list[ArcToken] = []
    while True:
        own = [state.arcs[number] for number in token.parents]
        sources = [root(state, arc).parent for arc in own]
        arcs[:0] = [
            arc
            for arc, source in zip(own, sources, strict=True)
            if source != token.reverses and not state.nodes[source].backtracked
        ]
        if token.reverses is None:
            return arcs
        token = state.nodes[token.reverses]


def ancestors(state: ProcessState, token: NodeToken) -> Iterator[NodeToken]:
    """The node tokens that were before a token and led to it, the nearest first."""
    line, seen = [token], {token.id}
    for one in line:
        for source in _before(state, one):
            if source.id not in seen:
                seen.add(source.id)
                line.append(source)
                yield source


def _before(state: ProcessState, token: NodeToken) -> list[NodeToken]:
    """The node tokens directly before a token; not those that may have merged into it after it had left."""
    if len(token.parents) == 1 and token.reverses is None:  # most are made from one arc token, quickly
        arc = state.arcs[token.parents[0]]
        if arc.reverses is None and arc.id < token.id:
            return [state.nodes[arc.parent]]
    arcs = [arc for arc in inputs(state, token) if token.completed is None or arc.id < token.id]
    return [state.nodes[root(state, arc).parent] for arc in arcs]


PATH = 64
"""The most tokens before a token that are searched for what they produced, if no more lead directly to it."""


def newest_before(state: ProcessState, token: NodeToken) -> Iterator[tuple[NodeToken, list[NodeToken]]]:
    """The node tokens that led to a token, the newest first, each with those directly before it."""
    waiting, seen, sources = list[int](), {token.id}, _before(state, token)
    while True:
        for source in sources:
            if source.id not in seen:
                seen.add(source.id)
                heappush(waiting, -source.id)
        if not waiting:
            return
        one = state.nodes[-heappop(waiting)]
        sources = _before(state, one)
        yield one, sources


def produced_before(state: ProcessState, token: NodeToken) -> tuple[tuple[int, ...], ...]:
    """The elements that the tokens on the path to a token produced, by rank, the nearest first. What led to
    something produced on the path is one rank farther than that.

    A list takes a whole rank. So none is given of which some may be beyond the search; at least what the
    tokens directly before produced is.
    """
    direct, ranks = _before(state, token), list[set[int]]()
    waiting = {source.id: 0 for source in direct}  # the ranks of those that are not searched yet
    for one, sources in islice(newest_before(state, token), max(PATH, len(direct))):
        rank = waiting.pop(one.id)
        if one.produced:
            if rank == len(ranks):
                ranks.append(set())
            ranks[rank].update(one.produced)
            rank += 1
        for source in sources:
            waiting[source.id] = max(rank, waiting.get(source.id, 0))
    whole = ranks[: min(waiting.values(), default=len(ranks))]
    if not whole:
        whole = [{eid for source in direct for eid in source.produced}]
    return tuple(tuple(sorted(eids)) for eids in whole if eids)
