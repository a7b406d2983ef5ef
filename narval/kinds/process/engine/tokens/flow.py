"""The movement of tokens: the queue, joins, and the execution and completion of nodes (section 2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from narval.core.engines import commands
from narval.kinds.process.engine import calls, changes, conditions
from narval.kinds.process.engine.decision import (
    NodeFault,
    OperationRefused,
    ProcessDecision,
    complete_if_done,
    stored,
)
from narval.kinds.process.engine.state import ArcToken, NodeToken
from narval.kinds.process.engine.tokens import joins
from narval.kinds.process.engine.tokens.joins import Joined
from narval.kinds.process.engine.tokens.rubric import respond
from narval.kinds.process.engine.tokens.views import root
from narval.kinds.process.language.definition import NODE, WAIT, Arc, Node

MOVED_AT_ONCE = 1_000
"""The most arc tokens moved in one advance; then other runs have their turn before it continues."""
LAPS = 100
"""A process that continued its queue more than `LAPS` times without a wait is in an endless loop."""
PAUSE = 1.0
"""The shortest delay in seconds if the guard has delayed the token before."""
DELAY_EXECUTION = "DELAY_NODE_EXECUTION"
ENDLESS = "endless"
"""The kind of fault that ends the run."""

# --- the queue ------------------------------------------------------------------------------------------


def run_queue(decision: ProcessDecision) -> None:
    """Move tokens until none can move, or as many as one advance may. Raises NodeFault."""
    state = decision.state
    while state.status == "executing":
        first = state.queue.first
        if first is None:
            break
        if decision.ways_back:  # these may undo what is in the queue
            return
        if decision.moved >= MOVED_AT_ONCE:
            _pause(decision)
            return
        decision.moved += 1
        token = state.arcs[first]
        waits = decision.definition.nodes[token.to].join not in joins.WITHOUT_LINES
        decision.happens(changes.ArcTokenProcessed(first, waits))
        retry(decision, token)
    complete_if_done(decision)


def _pause(decision: ProcessDecision) -> None:
    """Continue in another advance, at the same moment."""
    if decision.state.paused:
        return
    laps = decision.state.laps + 1 if decision.goes_on else 1
    if laps > LAPS:
        moved = MOVED_AT_ONCE * LAPS
        raise NodeFault(ENDLESS, f"{moved} tokens were moved, and the process never came to wait")
    wake = decision.identifier()
    decision.change(changes.Paused(wake, laps))
    decision.command(commands.SetTimer(wake, decision.event.at))


def retry(decision: ProcessDecision, token: ArcToken) -> bool:
    """Try the join that a token has reached; return whether it was completed. Raises NodeFault."""
    node = decision.definition.nodes[token.to]
    if node.join == "or":  # the most common join, which looks for no other token
        alone = (token.id,)
        made = create(decision, node, alone, tuple(token.sets.items()) if token.sets else ())
        decision.happens(changes.ArcTokenCompleted(token.id, made.id))
        run_node(decision, node, made)
        return True
    joined = joins.join(decision, node, token)
    if joined is None:
        decision.happens(changes.ArcTokenIncompleteJoin(token.id))
        return False
    if joined.into is not None:
        for number in joined.tokens:
            _into(decision, number, joined.into)
            decision.happens(changes.ArcTokenMerged(number))
        for number in joined.tokens:
            for token_set in decision.state.arcs[number].sets:  # the rest of it may be complete without
                retry_set(decision, token_set)
        return True
    made = create(decision, node, joined.tokens, _memberships(decision, joined))
    for number in joined.tokens:
        _into(decision, number, made.id)
    run_node(decision, node, made)
    return True


def _into(decision: ProcessDecision, token: int, child: int) -> None:
    if decision.state.arcs[token].pending:
        decision.happens(changes.ArcTokenProcessed(token))
    decision.happens(changes.ArcTokenCompleted(token, child))


def _memberships(decision: ProcessDecision, joined: Joined) -> changes.Members:
    """The places in sets of the joined tokens: the first found for each set, without ended sets."""
    arcs = decision.state.arcs
    indexes: dict[int, int] = {}
    for token in joined.tokens:
        for number, index in arcs[token].sets.items():
            if number not in joined.ended:
                indexes.setdefault(number, index)
    return tuple(indexes.items())


def create(
    decision: ProcessDecision, node: Node, parents: tuple[int, ...] = (), sets: changes.Members = ()
) -> NodeToken:
    """Make a token on a node, and return it."""
    state = decision.state
    token, sources = state.next_token, None
    for number in parents:
        if state.arcs[number].reverses is not None:  # it has turned round: its parent is an undone token
            sources = tuple(root(state, state.arcs[each]).parent for each in parents)
            break
    decision.happens(
        changes.NodeTokenCreated(token, node.id, decision.event.at, parents, sets, sources=sources)
    )
    return state.nodes[token]


# --- a node ---------------------------------------------------------------------------------------------


def run_node(decision: ProcessDecision, node: Node, token: NodeToken) -> None:
    """Ask the guard, and act on its answer. Raises NodeFault."""
    try:
        response = respond(decision, node, token)
    except NodeFault as fault:
        decision.change(changes.NodeTokenHeld(token.id))
        fault.token = token.id
        raise
    match response.action:
        case "AcceptToken":
            if DELAY_EXECUTION not in decision.happens(changes.NodeTokenAccepted(token.id)):
                execute(decision, node, token)
        case "DiscardToken":
            decision.stop_waiting(token)
            decision.happens(changes.NodeTokenDiscarded(token.id))
            decision.happens(changes.NodeTokenCompleted(token.id, decision.event.at))
            dead_end(decision, token)
        case "SkipNode":
            decision.happens(changes.NodeTokenSkipped(token.id))
            complete(decision, token, response.arcs)
        case "DelayUntil":
            decision.stop_waiting(token)
            wake = decision.identifier()
            until = max(response.until, decision.event.at + (PAUSE if token.delays else 0.0))
            decision.happens(changes.NodeTokenDelayed(token.id, until, wake))
            decision.command(commands.SetTimer(wake, until))


def execute(decision: ProcessDecision, node: Node, token: NodeToken) -> None:
    """Execute a node according to its type. Raises NodeFault."""
    if node.type == NODE:
        complete(decision, token)
    elif node.type == WAIT:
        if node.conditions and conditions.satisfied(decision, node, token):
            complete(decision, token)
    elif not calls.calls(decision, node):
        complete(decision, token)
    else:
        try:
            if calls.call(decision, node, token):
                return  # the node is executed when the call returns or, if queued, is made
        except NodeFault as fault:
            fault.token = token.id
            raise
    decision.happens(changes.NodeTokenExecuted(token.id))


def run_code(decision: ProcessDecision, token: NodeToken) -> None:
    """Run the code of the next token in line, or start the process nested in its node. Raises NodeFault."""
    try:
        if not calls.make(decision, decision.node(token), token):
            decision.happens(changes.NodeTokenExecuted(token.id))
    except NodeFault as fault:
        fault.token = token.id
        raise


def reevaluate(decision: ProcessDecision, token: NodeToken) -> None:
    """Ask the guard of a delayed token again, or of one that got no answer. Raises NodeFault."""
    decision.stop_waiting(token)
    run_node(decision, decision.node(token), token)


# --- leaving a node -------------------------------------------------------------------------------------


def complete(decision: ProcessDecision, token: NodeToken, names: Sequence[str] = ("",)) -> bool:
    """Complete a token, which leaves on the named arcs; False if it no longer can. The queue is not run."""
    if decision.state.status != "executing" or token.completed is not None:
        return False
    node = decision.definition.nodes[token.node]
    arcs = node.outs_by_name.get(names[0], ()) if len(names) == 1 else exits(node, names)
    if node.goes_back and _goes_back(decision, token, arcs):
        return True
    if token.wake or token.watch or token.call:
        decision.stop_waiting(token)
    decision.happens(changes.NodeTokenCompleted(token.id, decision.event.at, tuple(names)))
    cancelled = cancel(decision, token, node) if node.cancels or node.cancels_all else ()
    sets = tuple(token.sets.items()) if token.sets else ()
    for arc in arcs:
        leave(decision, token, arc, sets)
    if not arcs:
        dead_end(decision, token)
    for number in cancelled:
        retry_set(decision, number)
    return True


def _goes_back(decision: ProcessDecision, token: NodeToken, arcs: Sequence[Arc]) -> bool:
    """Record that a token will go back, if one of its arcs leads back; it stays until then."""
    back = next((arc for arc in arcs if arc.back), None)
    if back is not None:
        decision.ways_back.append((token, back))
    return back is not None


def exits(node: Node, names: Sequence[str]) -> Sequence[Arc]:
    """The named arcs in graph order; an arc is repeated as often as its name."""
    if len(names) == 1:
        return node.outs_by_name.get(names[0], ())
    return [arc for arc in node.outs for _ in range(names.count(arc.name))]


def leave(decision: ProcessDecision, token: NodeToken, arc: Arc, sets: changes.Members) -> None:
    """Make an arc token behind a node token, and put it into the queue."""
    decision.happens(
        changes.ArcTokenCreated(decision.state.next_token, arc.index, token.id, arc.end.id, sets)
    )


def names_of(node: Node, arcs: Any) -> tuple[str, ...]:
    """The names of arcs of a node; only the default one if none are given. Raises OperationRefused."""
    if arcs is None:
        return ("",)
    if not isinstance(arcs, list | tuple):
        raise OperationRefused("bad-argument", f"expected a list of arcs, got: {arcs!r:.80}")
    names = tuple("" if arc is None else str(arc) for arc in arcs)
    unknown = next((name for name in names if name and name not in node.outs_by_name), None)
    if unknown is not None:
        there = ", ".join("the default one" if not name else repr(name) for name in node.outs_by_name)
        raise OperationRefused("no-arc", f"no arc {unknown!r} leaves {node.id}; there is {there or 'none'}")
    return names


def complete_with_set(
    decision: ProcessDecision, token: NodeToken, names: Sequence[str], new: Mapping[str, Any]
) -> int | None:
    """Let the token leave on each arc as the members of a new set (section 2); return the set, if any.

    `new` has its name, its count, and the attributes of the set and of its members, as code or a person gives
    them. If an arc leads back, the token goes back instead, once. Raises OperationRefused.
    """
    count = new.get("count")
    attributes, members = new.get("environment") or {}, new.get("members") or {}
    if isinstance(count, bool) or not isinstance(count, int) or count < 0:
        raise OperationRefused("bad-argument", f"expected a number of members, got: {count!r:.80}")
    if not isinstance(attributes, dict) or not isinstance(members, dict):
        raise OperationRefused("bad-argument", "expected the attributes of a token set by name")
    shared = {name: text for name, value in attributes.items() if (text := stored(value)) is not None}
    own: dict[int, dict[str, str]] = {}  # values beyond `count` are left out
    for name, value in members.items():
        for index, one in enumerate((value if isinstance(value, list) else [value])[:count]):
            if (text := stored(one)) is not None:
                own.setdefault(index, {})[name] = text
    if decision.state.status != "executing" or token.completed is not None:
        return None
    arcs = exits(decision.node(token), names)
    if _goes_back(decision, token, arcs):
        return None
    decision.stop_waiting(token)
    decision.happens(changes.NodeTokenCompleted(token.id, decision.event.at, tuple(names)))
    if not arcs or count < 1:
        dead_end(decision, token)
        return None
    level = 1 + max((decision.state.sets[number].level for number in token.sets), default=0)
    made = decision.state.next_token
    name = str(new.get("name") or "")
    decision.change(changes.TokenSetCreated(made, name, count, level, shared, own))
    inherited = tuple(token.sets.items())
    for index in range(count):
        for arc in arcs:
            leave(decision, token, arc, (*inherited, (made, index)))
    return made


# --- dead ends ------------------------------------------------------------------------------------------


def dead_end(decision: ProcessDecision, token: NodeToken) -> None:
    """Retry the joins that wait for the rest of a set, after one of its tokens ended (section 7)."""
    for number in token.sets:
        retry_set(decision, number)


def retry_set(decision: ProcessDecision, token_set: int) -> None:
    """Retry the join that waits for a set, if all its active tokens head for one node."""
    the_set, state = decision.state.sets[token_set], decision.state
    if the_set.nodes or len(the_set.heading) != 1:
        return
    node = decision.definition.nodes[next(iter(the_set.heading))]
    if node.join not in ("tokenSet", "tokenSetOr"):
        return
    for arc_token in tuple(the_set.arcs):
        token = state.arcs[arc_token]
        if arc_token in state.active_arcs and not token.complete and retry(decision, token):
            return


def cancel(decision: ProcessDecision, by: NodeToken, node: Node) -> frozenset[int]:
    """End the tokens on the nodes that a node cancels, and on arcs that lead there; return their sets.

    The token `by`, which has left its node, is not among them, nor are its descendants.
    """
    state, sets = decision.state, set[int]()
    whole, region = node.cancels_all, node.cancels
    coming = [-number for number in state.undoing if number < 0]
    for number in (*state.active_nodes, *coming):
        token = state.nodes[number]
        if whole or token.node in region:
            decision.stop_waiting(token)
            if number in coming:
                decision.change(changes.UndoingEnded(number))
            decision.change(changes.NodeTokenCancelled(number, by.id))
            decision.happens(changes.NodeTokenCompleted(number, decision.event.at))
            sets.update(token.sets)
    pending = state.queue.all(lambda number: state.arcs[number].pending)
    for number in (*state.active_arcs, *pending):
        arc_token = state.arcs[number]
        if whole or arc_token.to in region:
            decision.change(changes.ArcTokenCancelled(number, by.id))
            sets.update(arc_token.sets)
    return frozenset(sets)
