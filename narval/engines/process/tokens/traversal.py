"""Walks over tokens: forward to what came of them, or back to what they came of (section 12).

Node tokens are met once, arc tokens each time they are followed. Nothing is altered.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from typing import Literal

from narval.engines.process.state import ProcessState
from narval.engines.process.tokens.token import ArcToken, NodeToken

Token = NodeToken | ArcToken
Follow = Callable[[ArcToken], bool]


def _everywhere(token: ArcToken) -> bool:
    return True


def breadth_first(
    state: ProcessState,
    start: int,
    follow: Follow = _everywhere,
    *,
    over: Literal["children", "parents"] = "children",
) -> Iterator[Token]:
    """Tokens in the order of their distance from a node token, which is the first."""
    seen, waiting = {start}, deque([state.nodes[start]])
    while waiting:
        token = waiting.popleft()
        yield token
        for arc_token, beyond in _ways(state, token, over, follow):
            yield arc_token
            if beyond is not None and beyond.id not in seen:
                seen.add(beyond.id)
                waiting.append(beyond)


def depth_first(
    state: ProcessState,
    start: int,
    follow: Follow = _everywhere,
    *,
    over: Literal["children", "parents"] = "children",
) -> Iterator[Token]:
    """Tokens in the order in which one way after another is followed to its end."""
    first = state.nodes[start]
    seen = {start}
    yield first
    ways = [_ways(state, first, over, follow)]
    while ways:
        step = next(ways[-1], None)
        if step is None:
            ways.pop()
            continue
        arc_token, beyond = step
        yield arc_token
        if beyond is not None and beyond.id not in seen:
            seen.add(beyond.id)
            yield beyond
            ways.append(_ways(state, beyond, over, follow))


def by_creation(state: ProcessState, start: int, follow: Follow = _everywhere) -> Iterator[Token]:
    """Tokens forward from a node token, in the order in which they were made.

    Whether an arc token is followed is asked when the node token before it has been met.
    """
    seen = {start}
    waiting = [start]
    while waiting:
        number = heappop(waiting)
        token = state.nodes.get(number)
        if token is not None:
            yield token
            for number in token.children:
                if follow(state.arcs[number]):
                    heappush(waiting, number)
            continue
        arc_token = state.arcs[number]
        yield arc_token
        if arc_token.child is not None and arc_token.child not in seen:
            seen.add(arc_token.child)
            heappush(waiting, arc_token.child)


def nearest(state: ProcessState, start: int, node: str) -> NodeToken | None:
    """The nearest token on a node of that name that was not gone back from, of those a token came of.

    It may be the token itself.
    """
    for token in breadth_first(state, start, over="parents"):
        if isinstance(token, NodeToken) and not token.backtracked and _named(token.node, node):
            return token
    return None


def _named(identifier: str, name: str) -> bool:
    return identifier == name or identifier.rpartition(":")[2] == name


def _ways(
    state: ProcessState, token: NodeToken, over: Literal["children", "parents"], follow: Follow
) -> Iterator[tuple[ArcToken, NodeToken | None]]:
    """The arc tokens on one side of a node token that are to be followed, and what lies beyond each."""
    forward = over == "children"
    for number in tuple(token.children if forward else token.parents):
        arc_token = state.arcs[number]
        if follow(arc_token):
            beyond = arc_token.child if forward else arc_token.parent
            yield arc_token, state.nodes[beyond] if beyond is not None else None
