"""Cancelling: a node that is done ends other tokens, of the whole process or of a region (section 2)."""

from __future__ import annotations

from narval.kinds.process.engine.changes import (
    ArcTokenCancelled,
    NodeTokenCancelled,
    NodeTokenCompleted,
    UndoingEnded,
)
from narval.kinds.process.engine.decision import ProcessDecision
from narval.kinds.process.engine.tokens.token import NodeToken
from narval.kinds.process.language.definition import Node


def cancel(decision: ProcessDecision, by: NodeToken, node: Node) -> frozenset[int]:
    """End what stands on the nodes that a node cancels, and on arcs that lead there; the sets it was in.

    The token `by`, which has left its node, is not among it, nor is what comes of it.
    """
    state, sets = decision.state, set[int]()
    whole, region = node.cancels_all, node.cancels
    coming = [-number for number in state.undoing if number < 0]
    for number in (*state.active_nodes, *coming):
        token = state.nodes[number]
        if whole or token.node in region:
            decision.stop_waiting(token)
            if number in coming:
                decision.change(UndoingEnded(number))
            decision.change(NodeTokenCancelled(number, by.id))
            decision.happens(NodeTokenCompleted(number, decision.event.at))
            sets.update(token.sets)
    pending = state.queue.all(lambda number: state.arcs[number].pending)
    for number in (*state.active_arcs, *pending):
        arc_token = state.arcs[number]
        if whole or arc_token.to in region:
            decision.change(ArcTokenCancelled(number, by.id))
            sets.update(arc_token.sets)
    return frozenset(sets)
