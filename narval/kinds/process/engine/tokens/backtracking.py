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
"""

from __future__ import annotations

from heapq import heappop, heappush

from narval.core.errors import InternalError
from narval.kinds.process.engine import calls, changes
from narval.kinds.process.engine.decision import NodeFault, OperationRefused, ProcessDecision
from narval.kinds.process.engine.state import ArcToken, ExecutionType, NodeToken, ProcessState
from narval.kinds.process.engine.tokens import flow
from narval.kinds.process.engine.tokens.rubric import ask_hook
from narval.kinds.process.engine.tokens.views import walk
from narval.kinds.process.language.definition import Arc

_ORDINARY = frozenset({"Forward", "ForwardBacktracked"})


def backtrack(
    decision: ProcessDecision, destination: NodeToken, by: changes.WayBackTaken | None = None
) -> NodeToken:
    """Go back to a token; return the token that is then on its node, and has run.

    `by` is recorded before anything is undone. Raises OperationRefused and NodeFault.
    """
    _check(decision.state, destination)
    if not destination.children:
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
    for visited in walk(decision.state, token.id, "breadth", "back"):
        if not isinstance(visited, NodeToken) or visited is token or visited.backtracked:
            continue
        if visited.node == arc.end.id:
            return visited
    return None


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


def root(state: ProcessState, token: ArcToken) -> ArcToken:
    """The forward token at the end of a token's chain of reversals; itself if it is forward."""
    while token.reverses is not None:
        token = state.arcs[token.reverses]
    return token


def origin(state: ProcessState, token: NodeToken) -> NodeToken:
    """The forward token at the end of a node token's chain of reversals."""
    while token.reverses is not None:
        token = state.nodes[token.reverses]
    return token


def _from_dead_end(decision: ProcessDecision, token: NodeToken) -> NodeToken:
    """Go back to a token that has no children: its arc tokens turn round and reach its node again."""
    state = decision.state
    decision.happens(changes.NodeTokenBacktracked(token.id))
    turning = []
    for number in token.parents:
        parent = state.arcs[number]
        decision.happens(changes.ArcTokenBacktracked(number))
        made = decision.state.next_token
        sets = tuple(parent.sets.items())
        decision.happens(
            changes.ArcTokenCreated(made, parent.arc, token.id, parent.to, sets, "UTurn", number, aside=True)
        )
        turning.append(made)
    result = decision.state.next_token
    sets = tuple(token.sets.items())
    decision.happens(
        changes.NodeTokenCreated(
            result, token.node, decision.event.at, tuple(turning), sets, "Forward", like=token.id
        )
    )
    for made in turning:
        decision.happens(changes.ArcTokenProcessed(made))
        decision.happens(changes.ArcTokenCompleted(made, result))
    return state.nodes[result]


class _Survey:
    """The descendants of a token, surveyed before anything is undone."""

    def __init__(self, decision: ProcessDecision, destination: NodeToken) -> None:
        self._decision, self._state = decision, decision.state
        self.visited: set[int] = set()
        """The node tokens that descend from it, and itself."""
        self.ends: list[int] = []
        """The node tokens among them that no token left, and those that a token already comes back to."""
        self.leaves: list[ArcToken] = []
        """Arc tokens that have not reached their node."""
        self.turned: dict[int, int] = {}
        """The arc tokens that have turned round, by their roots."""
        for token in walk(self._state, destination.id, follow=self._follows):
            if isinstance(token, NodeToken):
                self._visit(token)
            elif token.child is None:
                self._visit_arc(token)

    def _follows(self, token: ArcToken) -> bool:
        """True if an arc token must be followed; one that went back only if it leads to a descendant."""
        if token.execution_type in _ORDINARY:
            return True
        return root(self._state, token).parent in self.visited

    def _visit(self, token: NodeToken) -> None:
        if not self._is_backtrackable(token):
            raise OperationRefused(
                "not-backtrackable", f"token {token.id} on {token.node}: what it has done cannot be undone"
            )
        self.visited.add(token.id)
        if not token.children:
            self.ends.append(token.id)

    def _visit_arc(self, token: ArcToken) -> None:
        if token.execution_type == "UTurn":
            turned = root(self._state, token)
            self.turned[turned.id] = token.id
            self.ends.append(turned.parent)
        else:
            self.leaves.append(token)

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
        self._back = self.survey.turned
        """The arc tokens that come back, by their roots."""
        self._pending: list[int] = []
        """A heap of the node tokens still to undo, with negated numbers so that the newest comes first."""
        self._marked: set[int] = set()

    def back(self) -> NodeToken:
        """Undo all descendants of the token; return the token that is then on its node."""
        for end in self.survey.ends:
            heappush(self._pending, -end)
        for leaf in self.survey.leaves:
            self._back[leaf.id] = leaf.id
            self._mark(leaf)
            heappush(self._pending, -leaf.parent)
        result: NodeToken | None = None
        while self._pending:
            token = self.state.nodes[-heappop(self._pending)]
            if token.backtracked:
                continue  # already undone: several tokens led to it
            if calls.has_hook(self.decision, self.decision.node(token), "backtrack"):
                self.told.append(token.id)
            if token is self.destination:
                result = self._reverse(token, "Forward")
            else:
                self._undo(token)
        if result is None:
            raise InternalError(f"process {self.state.eid}: no way back led to token {self.destination.id}")
        return result

    def _undo(self, token: NodeToken) -> None:
        behind = self._ended(token)
        for parent in origin(self.state, token).parents:
            self._go_back(self.state.arcs[parent], behind)
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
        elif not token.children:
            decision.happens(changes.NodeTokenBacktracked(token.id))
        else:
            reverse = self._reverse(token, "Backtracked")
            decision.happens(changes.NodeTokenSkipped(reverse.id))
            return reverse
        self.sets.update(token.sets)
        return token

    def _go_back(self, token: ArcToken, behind: NodeToken) -> None:
        """Send a new token back along the arc of a token, or let it turn round there."""
        decision = self.decision
        self._mark(token)
        turned = root(self.state, token)
        visited = turned.parent in self.survey.visited
        made, sets = decision.state.next_token, tuple(token.sets.items())
        kind: ExecutionType = "Backtracked" if visited else "UTurn"
        decision.happens(
            changes.ArcTokenCreated(made, token.arc, behind.id, token.to, sets, kind, token.id, aside=visited)
        )
        if visited:
            self._back[turned.id] = made
            heappush(self._pending, -turned.parent)
            decision.happens(changes.ArcTokenProcessed(made))

    def _reverse(self, token: NodeToken, kind: ExecutionType) -> NodeToken:
        """Make the reverse of a token on its node, into which the tokens that left it come back."""
        decision, state = self.decision, self.state
        decision.happens(changes.NodeTokenBacktracked(token.id))
        missing = [child for child in token.children if child not in self._back]
        if missing:
            raise InternalError(f"process {state.eid}: nothing comes back for arc tokens {missing}")
        parents = tuple(self._back[child] for child in token.children)
        made, sets = decision.state.next_token, tuple(token.sets.items())
        decision.happens(
            changes.NodeTokenCreated(
                made, token.node, decision.event.at, parents, sets, kind, token.id, like=token.id
            )
        )
        for parent in parents:
            self._mark(state.arcs[parent])
            decision.happens(changes.ArcTokenCompleted(parent, made))
        return state.nodes[made]

    def _mark(self, token: ArcToken) -> None:
        """Record, once, that an arc token was backtracked."""
        if token.id not in self._marked:
            self._marked.add(token.id)
            self.decision.happens(changes.ArcTokenBacktracked(token.id))
