"""Tokens move: the queue runs, joins complete, nodes run and complete (section 2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from narval.definitions.process.definition import Arc, Node
from narval.engines import commands
from narval.engines.process import calls, joins, waits
from narval.engines.process.changes import (
    ArcTokenCompleted,
    ArcTokenCreated,
    ArcTokenIncompleteJoin,
    ArcTokenMerged,
    ArcTokenProcessed,
    Members,
    NodeTokenAccepted,
    NodeTokenCompleted,
    NodeTokenCreated,
    NodeTokenDelayed,
    NodeTokenDiscarded,
    NodeTokenExecuted,
    NodeTokenHeld,
    NodeTokenSkipped,
    Paused,
    TokenSetCreated,
)
from narval.engines.process.completion import complete_if_done
from narval.engines.process.decision import NodeFault, ProcessDecision
from narval.engines.process.guards import Response, respond
from narval.engines.process.joins import Joined
from narval.engines.process.node_types import WAIT
from narval.engines.process.tokens import ArcToken, NodeToken

MOVED_AT_ONCE = 1_000
"""So many arc tokens are moved in one advance; then others have their turn, and it goes on."""
LAPS = 100
"""A process that went on so often and never waited is in a loop that does not end."""
PAUSE = 1.0
"""Seconds at least until a guard is asked again that has said a moment in the past before."""
DELAY_EXECUTION = "DELAY_NODE_EXECUTION"

# --- the queue ------------------------------------------------------------------------------------------


def run_queue(run: ProcessDecision) -> None:
    """Move tokens until none is left that can, or as many as may be moved at once. Raises NodeFault."""
    state = run.state
    while state.state == "executing":
        first = state.queue.first
        if first is None:
            break
        if run.moved >= MOVED_AT_ONCE:
            _pause(run)
            return
        run.moved += 1
        _arrive(run, state.arcs[first])
    complete_if_done(run)


def _pause(run: ProcessDecision) -> None:
    """Go on in another advance, at this same moment."""
    if run.state.paused:
        return
    laps = run.state.laps + 1 if run.goes_on else 1
    if laps > LAPS:
        moved = MOVED_AT_ONCE * LAPS
        raise NodeFault("endless", f"{moved} tokens were moved, and the process never came to wait")
    wake = run.record.identifier()
    run.record.change(Paused(wake, laps))
    run.record.command(commands.SetTimer(wake, run.event.at))


def _arrive(run: ProcessDecision, token: ArcToken) -> None:
    node = run.process.nodes[token.to]
    run.happens(ArcTokenProcessed(token.id, node.join not in joins.WITHOUT_LINES))
    _try(run, node, token)


def _try(run: ProcessDecision, node: Node, token: ArcToken) -> bool:
    joined = joins.join(run, node, token)
    if joined is None:
        run.happens(ArcTokenIncompleteJoin(token.id))
        return False
    if joined.into is not None:
        _merge(run, joined, joined.into)
    else:
        _complete_join(run, node, joined)
    return True


def retry(run: ProcessDecision, token: ArcToken) -> bool:
    """Try the join of a token that waits once more; whether it was completed. Raises NodeFault."""
    return _try(run, run.node(token), token)


def _merge(run: ProcessDecision, joined: Joined, into: int) -> None:
    for token in joined.tokens:
        _into(run, token, into)
        run.happens(ArcTokenMerged(token))


def _complete_join(run: ProcessDecision, node: Node, joined: Joined) -> None:
    token = create(run, node, joined.tokens, _memberships(run, joined))
    for each in joined.tokens:
        _into(run, each, token.id)
    run_node(run, node, token)


def _into(run: ProcessDecision, token: int, child: int) -> None:
    if run.state.arcs[token].pending:
        run.happens(ArcTokenProcessed(token))
    run.happens(ArcTokenCompleted(token, child))


def _memberships(run: ProcessDecision, joined: Joined) -> Members:
    """The places in sets of all that joined, of each set the first met, ended sets left out."""
    arcs = run.state.arcs
    if len(joined.tokens) == 1 and not joined.ended:
        sets = arcs[joined.tokens[0]].sets
        return tuple(sets.items()) if sets else ()
    found: dict[int, int] = {}
    for token in joined.tokens:
        for each, index in arcs[token].sets.items():
            if each not in joined.ended:
                found.setdefault(each, index)
    return tuple(found.items())


def create(run: ProcessDecision, node: Node, parents: tuple[int, ...] = (), sets: Members = ()) -> NodeToken:
    """A token comes to be on a node."""
    token = run.next_token()
    run.happens(NodeTokenCreated(token, node.id, run.event.at, parents, sets))
    return run.state.nodes[token]


# --- a node ---------------------------------------------------------------------------------------------


def run_node(run: ProcessDecision, node: Node, token: NodeToken) -> None:
    """Ask the guard, and do as it says. Raises NodeFault."""
    try:
        response = respond(run, node, token)
    except NodeFault:
        run.record.change(NodeTokenHeld(token.id))
        raise
    _ANSWERS[response.action](run, node, token, response)


def _accept(run: ProcessDecision, node: Node, token: NodeToken, response: Response) -> None:
    if DELAY_EXECUTION not in run.happens(NodeTokenAccepted(token.id)):
        execute(run, node, token)


def _discard(run: ProcessDecision, node: Node, token: NodeToken, response: Response) -> None:
    run.stop_waiting(token)
    run.happens(NodeTokenDiscarded(token.id))
    run.happens(NodeTokenCompleted(token.id, run.event.at))
    dead_end(run, token)


def _skip(run: ProcessDecision, node: Node, token: NodeToken, response: Response) -> None:
    run.happens(NodeTokenSkipped(token.id))
    complete(run, token, response.arcs)


def _delay(run: ProcessDecision, node: Node, token: NodeToken, response: Response) -> None:
    run.stop_waiting(token)
    wake = run.record.identifier()
    soonest = run.event.at + (PAUSE if token.delays else 0.0)
    until = max(response.until, soonest)
    run.happens(NodeTokenDelayed(token.id, until, wake))
    run.record.command(commands.SetTimer(wake, until))


_ANSWERS = {
    "AcceptToken": _accept,
    "DiscardToken": _discard,
    "SkipNode": _skip,
    "DelayUntil": _delay,
}


def execute(run: ProcessDecision, node: Node, token: NodeToken) -> None:
    """The node does what its type says. Raises NodeFault."""
    if node.type == WAIT:
        if node.conditions and waits.satisfied(run, node, token):
            complete(run, token)
    elif not calls.calls(run, node):
        complete(run, token)
    elif calls.call(run, node, token):
        return  # it is executed when the call is back
    run.happens(NodeTokenExecuted(token.id))


def reevaluate(run: ProcessDecision, token: NodeToken) -> None:
    """Ask the guard of a delayed token again, or of one that got no answer. Raises NodeFault."""
    run.stop_waiting(token)
    run_node(run, run.node(token), token)


# --- leaving it -----------------------------------------------------------------------------------------


def complete(run: ProcessDecision, token: NodeToken, names: Sequence[str] = ("",)) -> bool:
    """The token leaves on the arcs of these names; False where it cannot any more. Does not run the queue."""
    if run.state.state != "executing" or token.completed is not None:
        return False
    run.stop_waiting(token)
    run.happens(NodeTokenCompleted(token.id, run.event.at, tuple(names)))
    arcs = exits(run.node(token), names)
    sets = tuple(token.sets.items()) if token.sets else ()
    for arc in arcs:
        leave(run, token, arc, sets)
    if not arcs:
        dead_end(run, token)
    return True


def exits(node: Node, names: Sequence[str]) -> Sequence[Arc]:
    """The arcs of these names in graph order, one for each time that its name is there."""
    if len(names) == 1:
        return node.outs_by_name.get(names[0], ())
    return [arc for arc in node.outs for _ in range(names.count(arc.name))]


def leave(run: ProcessDecision, token: NodeToken, arc: Arc, sets: Members) -> None:
    """An arc token comes to be behind a node token, and is put into the queue."""
    run.happens(ArcTokenCreated(run.next_token(), arc.index, token.id, arc.end.id, sets))


def complete_with_set(
    run: ProcessDecision,
    token: NodeToken,
    names: Sequence[str],
    name: str,
    count: int,
    environment: Mapping[str, str],
    members: Mapping[int, dict[str, str]],
) -> int | None:
    """The token leaves on each arc `count` times, as the members of a new set; the set, if there is one."""
    if run.state.state != "executing" or token.completed is not None:
        return None
    run.stop_waiting(token)
    run.happens(NodeTokenCompleted(token.id, run.event.at, tuple(names)))
    arcs = exits(run.node(token), names)
    if not arcs or count < 1:
        dead_end(run, token)
        return None
    level = 1 + max((run.state.sets[each].level for each in token.sets), default=0)
    made = run.next_token()
    run.record.change(TokenSetCreated(made, name, count, level, dict(environment), dict(members)))
    inherited = tuple(token.sets.items())
    for index in range(count):
        for arc in arcs:
            leave(run, token, arc, (*inherited, (made, index)))
    return made


# --- dead ends ------------------------------------------------------------------------------------------


def dead_end(run: ProcessDecision, token: NodeToken) -> None:
    """A token of a set went nowhere: what waits for the rest of the set may go on (section 7)."""
    for each in token.sets:
        retry_set(run, each)


def retry_set(run: ProcessDecision, token_set: int) -> None:
    """Try what waits for a set anew, where that can be of use: all that is active of it is in one place."""
    found, state = run.state.sets[token_set], run.state
    if found.nodes or len(found.heading) != 1:
        return
    node = run.process.nodes[next(iter(found.heading))]
    if node.join not in ("tokenSet", "tokenSetOr"):
        return
    for arc_token in tuple(found.arcs):
        token = state.arcs[arc_token]
        if arc_token in state.active_arcs and not token.complete and retry(run, token):
            return
