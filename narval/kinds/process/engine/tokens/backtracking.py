"""Backtracking: going back to where a token was active, and undoing everything that descends from it (section
11).

The token's descendants are surveyed first, and nothing is altered if one of them must not be undone. Then
they are undone, newest first. An active token ends. A complete one gets a *reverse*: a token on the same
node, into which the tokens that left it come back. From there, new tokens go back along the arcs by which it
came. Where such an arc comes from a node that is not backtracked, the token on it makes a *u-turn*: it
travels forward again, and waits at the join it came from.

An arc token that goes back names the one that it `reverses`. The forward token at the end of that chain is
its *root*, and it comes back to the node token that the root left. (The source finds it by pairing arcs,
which goes wrong where several tokens took one arc; section 17.)

A merge can give a node token an input that is younger than itself. Such a token comes back before the node
token that it is part of is undone. If it had merged into an ancestor of the destination, that ancestor stays.
"""

from __future__ import annotations

from functools import cached_property

from narval.kinds.process.engine import calls, changes
from narval.kinds.process.engine.decision import NodeFault, OperationRefused, ProcessDecision
from narval.kinds.process.engine.state import ArcToken, ExecutionType, NodeToken, ProcessState
from narval.kinds.process.engine.tokens import flow
from narval.kinds.process.engine.tokens.rubric import ask_hook
from narval.kinds.process.engine.tokens.views import ancestors, inputs, root
from narval.kinds.process.language.definition import Arc


def backtrack(
    decision: ProcessDecision, destination: NodeToken, by: changes.WayBackTaken | None = None
) -> NodeToken:
    """Go back to a token; return the token that is then on its node, and has run.

    `by` is recorded before anything is undone. Raises OperationRefused and NodeFault.
    """
    _check(decision.state, destination)
    if not leaving(decision.state, destination):
        result = _from_dead_end(decision, destination)
        flow.run_node(decision, decision.node(result), result)
        return result
    way = _WayBack(decision, destination)
    if by is not None:
        decision.change(by)
    result = way.back()
    if way.told:
        decision.change(changes.UndoingQueued(tuple(way.told), result.id))
        undo(decision)
    else:
        flow.run_node(decision, decision.node(result), result)
    for number in sorted(way.sets):
        flow.retry_set(decision, number)
    return result


def take_ways_back(decision: ProcessDecision) -> None:
    """Send back each token that leaves by an arc that leads back, to its nearest ancestor on the arc's end
    node. Raises NodeFault, and OperationRefused for a token that cannot go back, which then stays where it
    is.
    """
    while decision.ways_back:
        token, arc = decision.ways_back.pop(0)
        if token.completed is not None:
            continue  # another token went back past it
        destination = _before(decision, token, arc)
        if destination is None:
            message = (
                f"token {token.id} on {token.node} did not come from {arc.end.id}: it cannot go back there"
            )
            raise OperationRefused("no-way-back", message)
        backtrack(decision, destination, by=changes.WayBackTaken(token.id, arc.index, destination.id))


def _before(decision: ProcessDecision, token: NodeToken, arc: Arc) -> NodeToken | None:
    """The nearest ancestor of a token on the node at the end of an arc."""
    return next((one for one in ancestors(decision.state, token) if one.node == arc.end.id), None)


def undo(decision: ProcessDecision) -> None:
    """Tell the next node that it was backtracked; once all have been told, run the token on the destination.

    A node does not run again before it has undone its effects. Raises NodeFault.
    """
    state = decision.state
    while state.undoing and not state.code:
        token = state.nodes[abs(state.undoing[0])]
        if state.undoing[0] > 0:
            _notify_listeners(decision, token)
            continue
        decision.change(changes.UndoingEnded(token.id))
        if token.completed is None:
            flow.run_node(decision, decision.node(token), token)


def _notify_listeners(decision: ProcessDecision, token: NodeToken) -> None:
    """Call the code that undoes the effects of a node; add an error element if it cannot be called."""
    node = decision.node(token)
    try:
        calls.call_code(decision, node, token, "backtrack")
    except NodeFault as fault:
        call = decision.identifier()
        decision.change(changes.NodeCallMade(token.id, call, hook=True))
        decision.change(changes.NodeCallBack(call))
        decision.add_error(fault.kind, fault.message, node, token=token.id)


def _check(state: ProcessState, token: NodeToken) -> None:
    if state.status != "executing":
        kind = "cancelled" if state.status in ("pending-cancel", "cancelled") else "not-executing"
        raise OperationRefused(kind, f"process {state.eid} is {state.status}: it cannot go back")
    if token.completed is None:
        raise OperationRefused(
            "not-complete", f"token {token.id} on {token.node} is not complete: it is there already"
        )
    if token.backtracked:
        raise OperationRefused(
            "already-backtracked", f"token {token.id} on {token.node} was gone back from before"
        )


def leaving(state: ProcessState, token: NodeToken) -> list[int]:
    """The arc tokens that left a node token on its arcs; not those that went back from it."""
    return [child for child in token.children if state.arcs[child].reverses is None]


def _from_dead_end(decision: ProcessDecision, token: NodeToken) -> NodeToken:
    """Go back to a token that has no children: its arc tokens turn round and reach its node again."""
    state = decision.state
    turning = []
    before = inputs(state, token)
    origins = tuple(root(state, arc).parent for arc in before)
    decision.happens(changes.NodeTokenBacktracked(token.id))
    for arc in before:
        decision.happens(changes.ArcTokenBacktracked(arc.id))
        made = state.next_token
        sets = tuple(arc.sets.items())
        decision.happens(
            changes.ArcTokenCreated(made, arc.arc, token.id, arc.to, sets, "UTurn", arc.id, aside=True)
        )
        turning.append(made)
    result = state.next_token
    sets = tuple(token.sets.items())
    decision.happens(
        changes.NodeTokenCreated(
            result, token.node, decision.event.at, tuple(turning), sets, "Forward", sources=origins
        )
    )
    for made in turning:
        decision.happens(changes.ArcTokenProcessed(made))
        decision.happens(changes.ArcTokenCompleted(made, result))
    return state.nodes[result]


class _Survey:
    """The descendants of a token, surveyed before anything is undone."""

    def __init__(self, decision: ProcessDecision, destination: NodeToken) -> None:
        self._decision, self._state, self._destination = decision, decision.state, destination
        self.left: dict[int, dict[int, ArcToken]] = {}
        """The node tokens that descend from it, and itself; of each, what the arc tokens that left it have
        become, by their roots.
        """
        self.reached: dict[int, int] = {}
        """The node tokens that these arc tokens are part of."""
        self._reversals = {
            token.reverses: token.id
            for tokens in (self._state.nodes, self._state.arcs)
            for token in tokens.values()
            if token.reverses is not None
        }
        pending = [destination.id]
        while pending:
            number = pending.pop()
            if number not in self.left:
                pending += self._follow(self._state.nodes[number])
        for number in sorted(self.left):
            self._check(self._state.nodes[number])

    def _follow(self, token: NodeToken) -> list[int]:
        """Note where the arc tokens are that left a token; return the node tokens that descend from it."""
        children = leaving(self._state, token)
        self.left[token.id] = {child: self._state.arcs[self._latest(child)] for child in children}
        descendants = []
        for arc in self.left[token.id].values():
            if arc.child is not None:
                self.reached[arc.id] = child = self._latest(arc.child)
                if child > self._destination.id or child not in self._ancestors:
                    descendants.append(child)
        return descendants

    def _latest(self, number: int) -> int:
        """The last token in the chain of those that reverse a token; itself if there are none."""
        while number in self._reversals:
            number = self._reversals[number]
        return number

    @cached_property
    def _ancestors(self) -> set[int]:
        return {self._destination.id, *(one.id for one in ancestors(self._state, self._destination))}

    def _check(self, token: NodeToken) -> None:
        if token.backtracked:  # it is where an earlier version of narval lost the way back
            raise OperationRefused(
                "not-backtrackable", f"the way back from token {token.id} on {token.node} is lost"
            )
        if not self._is_backtrackable(token):
            raise OperationRefused(
                "not-backtrackable", f"token {token.id} on {token.node}: what it has done cannot be undone"
            )

    def _is_backtrackable(self, token: NodeToken) -> bool:
        node = self._decision.node(token)
        asked = "allowBacktrack" if node.type == "script" else "is_backtrackable"
        if not calls.has_hook(self._decision, node, asked):
            return True
        answer = ask_hook(self._decision, node, token, "is_backtrackable")
        return self._decision.truth(f"node:{node.type}:is_backtrackable", answer, node)


class _WayBack:
    """One backtrack. It undoes the surveyed tokens, and records which arc token comes back for which root."""

    def __init__(self, decision: ProcessDecision, destination: NodeToken) -> None:
        self.decision, self.state, self.destination = decision, decision.state, destination
        self.survey = _Survey(decision, destination)
        self.sets: set[int] = set()
        """Sets with members that are no longer active."""
        self.told: list[int] = []
        """Tokens whose nodes must be told that they were backtracked."""
        self._back: dict[int, int] = {}
        """The arc tokens that come back, by their roots."""
        self._marked: set[int] = set()

    def back(self) -> NodeToken:
        """Undo all descendants of the token; return the token that is then on its node."""
        arcs = {arc.id: arc for left in self.survey.left.values() for arc in left.values()}
        for number in sorted(arcs):
            if arcs[number].child is None and arcs[number].reverses is None:
                self._mark(arcs[number])
        result = self.destination
        for number in sorted(self.survey.left, reverse=True):
            token = self.state.nodes[number]
            if calls.has_hook(self.decision, self.decision.node(token), "backtrack"):
                self.told.append(number)
            if token is self.destination:
                result = self._reverse(token, "Forward")
            else:
                self._undo(token)
        return result

    def _undo(self, token: NodeToken) -> None:
        behind = self._ended(token)
        for arc in inputs(self.state, token):
            self._go_back(arc, behind)
        if behind is not token:
            self.decision.happens(changes.NodeTokenBacktracked(behind.id))
            self.decision.happens(changes.NodeTokenCompleted(behind.id, self.decision.event.at))

    def _ended(self, token: NodeToken) -> NodeToken:
        """End an active token, or reverse a completed one; return the token behind which others go back."""
        decision = self.decision
        if token.completed is None:
            decision.stop_waiting(token)
            decision.happens(changes.NodeTokenCompleted(token.id, decision.event.at))
            decision.happens(changes.NodeTokenBacktracked(token.id))
        elif not self.survey.left[token.id]:
            decision.happens(changes.NodeTokenBacktracked(token.id))
        else:
            reverse = self._reverse(token, "Backtracked")
            decision.happens(changes.NodeTokenSkipped(reverse.id))
            return reverse
        self.sets.update(token.sets)
        return token

    def _go_back(self, token: ArcToken, behind: NodeToken) -> int:
        """Send a new token back along the arc of a token, or let it turn round there; return it."""
        decision = self.decision
        self._mark(token)
        turned = root(self.state, token)
        visited = turned.parent in self.survey.left
        made, sets = decision.state.next_token, tuple(token.sets.items())
        kind: ExecutionType = "Backtracked" if visited else "UTurn"
        decision.happens(
            changes.ArcTokenCreated(made, token.arc, behind.id, token.to, sets, kind, token.id, aside=visited)
        )
        if visited:
            self._back[turned.id] = made
            decision.happens(changes.ArcTokenProcessed(made))
        return made

    def _reverse(self, token: NodeToken, kind: ExecutionType) -> NodeToken:
        """Make the reverse of a token on its node, into which the tokens that left it come back."""
        decision, state = self.decision, self.state
        decision.happens(changes.NodeTokenBacktracked(token.id))
        origins = tuple(root(state, arc).parent for arc in inputs(state, token))
        left = self.survey.left[token.id].items()
        parents = tuple(self._come_back(child, arc) for child, arc in left)
        made, sets = decision.state.next_token, tuple(token.sets.items())
        decision.happens(
            changes.NodeTokenCreated(
                made, token.node, decision.event.at, parents, sets, kind, token.id, sources=origins
            )
        )
        for parent in parents:
            self._mark(state.arcs[parent])
            decision.happens(changes.ArcTokenCompleted(parent, made))
        return state.nodes[made]

    def _come_back(self, child: int, arc: ArcToken) -> int:
        """The token that comes back for an arc token that left a node, which has become `arc`."""
        if arc.child is None:
            return arc.id
        if child in self._back:
            return self._back[child]
        return self._go_back(arc, self.state.nodes[self.survey.reached[arc.id]])  # it merged: see above

    def _mark(self, token: ArcToken) -> None:
        """Record, once, that an arc token was backtracked."""
        if token.id not in self._marked:
            self._marked.add(token.id)
            self.decision.happens(changes.ArcTokenBacktracked(token.id))
