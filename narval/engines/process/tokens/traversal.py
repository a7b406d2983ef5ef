"""The walk over all that came of a token (section 12). Nothing is altered."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import heappop, heappush

from narval.engines.process.state import ProcessState
from narval.engines.process.tokens.token import ArcToken, NodeToken


def by_creation(
    state: ProcessState, start: int, follow: Callable[[ArcToken], bool]
) -> Iterator[NodeToken | ArcToken]:
    """Tokens forward from a node token, in the order in which they were made.

    Node tokens are met once, arc tokens whenever they are followed. Whether one is
    followed is asked when the node token before it has been met.
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
