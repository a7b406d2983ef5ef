"""Walks over the descendants and the ancestors of a token (section 12). Nothing is altered."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from heapq import heappop, heappush
from typing import Literal

from narval.kinds.process.engine.state import ArcToken, NodeToken, ProcessState
from narval.kinds.process.language.definition import Process

Order = Literal["creation", "breadth", "depth"]
Direction = Literal["forward", "back"]

_RANKS: Mapping[str, Callable[[int, int], int]] = {
    "creation": lambda number, place: number,
    "breadth": lambda number, place: place,
    "depth": lambda number, place: -place,
}
"""The rank by which tokens are taken, from a token's number and its place among all found."""


def traverse(
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


def nearest(process: Process, state: ProcessState, start: int, node: str) -> NodeToken | None:
    """The nearest token on a node of that name, or id, that was not backtracked: the token itself, or an
    ancestor; None if there is none.
    """
    named = {other.id for other in process.named(node)}
    for token in traverse(state, start, "breadth", "back"):
        if isinstance(token, NodeToken) and token.node in named and not token.backtracked:
            return token
    return None
