"""Going back to where a token was active, over everything that came of it (section 11).

What came of the token is looked through first, and nothing is altered if some of it must not be undone. Then
it is undone, the newest first: an active token ends; of one that is complete a *reverse* comes to be, a token
on the same node, into which the tokens that left it come back; behind it new tokens go back along the arcs it
came by. Where such an arc comes from somewhere that is not gone back to, the token on it makes a *u-turn*: it
travels forward again, and waits at the join it came from.

An arc token that goes back says which one it `reverses`. The forward token at the end of that chain is its
*root*: what is to come back to the node token that the root left. (The source finds it by pairing arcs, which
goes wrong where several tokens took one arc; section 17.)
"""

from __future__ import annotations

from heapq import heappop, heappush

from narval.engines.process import calls, flow
from narval.engines.process.changes import (
    ArcTokenBacktracked,
    ArcTokenCompleted,
    ArcTokenCreated,
    ArcTokenProcessed,
    ExecutionType,
    NodeTokenBacktracked,
    NodeTokenCompleted,
    NodeTokenCreated,
    NodeTokenSkipped,
    UndoingEnded,
    UndoingQueued,
)
from narval.engines.process.decision import NodeFault, OperationRefused, ProcessDecision
from narval.engines.process.state import ProcessState
from narval.engines.process.tokens import ArcToken, NodeToken
from narval.engines.process.traversal import by_creation
from narval.errors import InternalError

_ORDINARY = frozenset({"Forward", "ForwardBacktracked"})


def backtrack(decision: ProcessDecision, destination: NodeToken) -> NodeToken:
    """Go back to a token; the token that is on its node now, and has run. Raises Refused, NodeFault."""
    _check(decision.state, destination)
    if not destination.children:
        result = _from_dead_end(decision, destination)
        flow.run_node(decision, decision.node(result), result)
        return result
    going = _Going(decision, destination)
    result = going.back()
    if going.told:
        decision.change(UndoingQueued(tuple(going.told), result.id))
        undo(decision)
    else:
        flow.run_node(decision, decision.node(result), result)
    for each in sorted(going.sets):
        flow.retry_set(decision, each)
    return result


def undo(decision: ProcessDecision) -> None:
    """Tell the next node that it was gone back from; once all have been told, the token gone back to runs.

    What a node does again does not begin before it has undone what it did. Raises NodeFault.
    """
    state = decision.state
    while state.undoing and not state.hooks:
        token = state.nodes[abs(state.undoing[0])]
        if state.undoing[0] > 0:
            calls.call_code(decision, decision.node(token), token, "backtrack")
            continue
        decision.change(UndoingEnded(token.id))
        if token.completed is None:
            flow.run_node(decision, decision.node(token), token)


def _check(state: ProcessState, token: NodeToken) -> None:
    if state.status != "executing":
        kind = "cancelled" if state.status in ("pending-cancel", "canceled") else "not-executing"
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
    """The forward token that a token going back reverses, in the end; of a forward one, itself."""
    while token.reverses is not None:
        token = state.arcs[token.reverses]
    return token


def origin(state: ProcessState, token: NodeToken) -> NodeToken:
    """The token that came to its node by going forward, of which this one is the reverse, in the end."""
    while token.reverses is not None:
        token = state.nodes[token.reverses]
    return token


def _from_dead_end(decision: ProcessDecision, token: NodeToken) -> NodeToken:
    """Nothing came of the token: those it came of turn round, and come to it again."""
    state = decision.state
    decision.happens(NodeTokenBacktracked(token.id))
    turning = []
    for each in token.parents:
        parent = state.arcs[each]
        decision.happens(ArcTokenBacktracked(each))
        made = decision.next_token()
        sets = tuple(parent.sets.items())
        decision.happens(
            ArcTokenCreated(made, parent.arc, token.id, parent.to, sets, "UTurn", each, aside=True)
        )
        turning.append(made)
    result = decision.next_token()
    sets = tuple(token.sets.items())
    decision.happens(
        NodeTokenCreated(
            result, token.node, decision.event.at, tuple(turning), sets, "Forward", like=token.id
        )
    )
    for each in turning:
        decision.happens(ArcTokenProcessed(each))
        decision.happens(ArcTokenCompleted(each, result))
    return state.nodes[result]


class _Going:
    """One way back: what came of the token, and what each arc token gets back."""

    def __init__(self, decision: ProcessDecision, destination: NodeToken) -> None:
        self.decision, self.state, self.destination = decision, decision.state, destination
        self.sets: set[int] = set()
        self.told: list[int] = []
        """Tokens whose nodes are to be told that they were gone back from."""
        self._back: dict[int, int] = {}
        """Roots, and the arc tokens that come back for them."""
        self._queue: list[int] = []
        self._queued: set[int] = set()
        self._leaves: list[ArcToken] = []
        self._visited: set[int] = set()
        self._marked: set[int] = set()

    def back(self) -> NodeToken:
        """Look through all that came of the token, then undo it; the token on its node now."""
        for token in by_creation(self.state, self.destination.id, self._follows):
            if isinstance(token, NodeToken):
                self._visit(token)
            else:
                self._visit_arc(token)
        for leaf in self._leaves:
            self._back[leaf.id] = leaf.id
            self._mark(leaf)
            self._enqueue(leaf.parent)
        result: NodeToken | None = None
        while self._queue:
            token = self.state.nodes[-heappop(self._queue)]
            if token.backtracked:
                continue
            self._call_hook(token)
            if token is self.destination:
                result = self._reverse(token, "Forward")
            else:
                self._undo(token)
        if result is None:
            raise InternalError(f"process {self.state.eid}: no way back led to token {self.destination.id}")
        return result

    # --- looking --------------------------------------------------------------------------------------

    def _follows(self, token: ArcToken) -> bool:
        """A token that went back is followed where it went back to something that came of the token."""
        if token.execution_type in _ORDINARY:
            return True
        return root(self.state, token).parent in self._visited

    def _visit(self, token: NodeToken) -> None:
        if not self._is_backtrackable(token):
            raise OperationRefused(
                "not-backtrackable", f"token {token.id} on {token.node}: what it has done cannot be undone"
            )
        self._visited.add(token.id)
        if not token.children:
            self._enqueue(token.id)

    def _visit_arc(self, token: ArcToken) -> None:
        if token.child is not None:
            return
        if token.execution_type == "UTurn":
            turned = root(self.state, token)
            self._back[turned.id] = token.id
            self._enqueue(turned.parent)
        else:
            self._leaves.append(token)

    def _is_backtrackable(self, token: NodeToken) -> bool:
        node = self.decision.node(token)
        asked = "allowBacktrack" if node.type == "script" else "is_backtrackable"
        if not calls.has_hook(self.decision, node, asked):
            return True
        function = f"node:{node.type}:is_backtrackable"
        answer = self.decision.ask_code(function, {"token": token.id}, token.id, node)
        if not isinstance(answer, bool):
            raise NodeFault("bad-answer", f"{function}: expected true or false, got: {answer!r:.80}", node)
        return answer

    def _enqueue(self, token: int) -> None:
        if token not in self._queued:
            self._queued.add(token)
            heappush(self._queue, -token)

    # --- undoing --------------------------------------------------------------------------------------

    def _call_hook(self, token: NodeToken) -> None:
        node = self.decision.node(token)
        if calls.has_hook(self.decision, node, "backtrack"):
            self.told.append(token.id)

    def _undo(self, token: NodeToken) -> None:
        behind = self._ended(token)
        for each in origin(self.state, token).parents:
            self._go_back(self.state.arcs[each], behind)
        if behind is not token:
            self.decision.happens(NodeTokenCompleted(behind.id, self.decision.event.at))

    def _ended(self, token: NodeToken) -> NodeToken:
        """The token is no more active, or gone back from; the token behind which others go back."""
        decision = self.decision
        if token.completed is None:
            decision.stop_waiting(token)
            decision.happens(NodeTokenCompleted(token.id, decision.event.at))
            decision.happens(NodeTokenBacktracked(token.id))
        elif not token.children:
            decision.happens(NodeTokenBacktracked(token.id))
        else:
            reverse = self._reverse(token, "Backtracked")
            decision.happens(NodeTokenSkipped(reverse.id))
            return reverse
        self.sets.update(token.sets)
        return token

    def _go_back(self, token: ArcToken, behind: NodeToken) -> None:
        """Another token goes back along the arc of one, or makes a u-turn on it."""
        decision = self.decision
        self._mark(token)
        turned = root(self.state, token)
        visited = turned.parent in self._visited
        made, sets = decision.next_token(), tuple(token.sets.items())
        kind: ExecutionType = "Backtracked" if visited else "UTurn"
        decision.happens(
            ArcTokenCreated(made, token.arc, behind.id, token.to, sets, kind, token.id, aside=visited)
        )
        if visited:
            self._back[turned.id] = made
            self._enqueue(turned.parent)
            decision.happens(ArcTokenProcessed(made))

    def _reverse(self, token: NodeToken, kind: ExecutionType) -> NodeToken:
        """A token on the same node, into which those come back that left it."""
        decision, state = self.decision, self.state
        decision.happens(NodeTokenBacktracked(token.id))
        missing = [each for each in token.children if each not in self._back]
        if missing:
            raise InternalError(f"process {state.eid}: nothing comes back for arc tokens {missing}")
        parents = tuple(self._back[each] for each in token.children)
        made, sets = decision.next_token(), tuple(token.sets.items())
        decision.happens(
            NodeTokenCreated(
                made, token.node, decision.event.at, parents, sets, kind, token.id, like=token.id
            )
        )
        for each in parents:
            self._mark(state.arcs[each])
            decision.happens(ArcTokenCompleted(each, made))
        return state.nodes[made]

    def _mark(self, token: ArcToken) -> None:
        """The token was gone back over, or goes back: told once."""
        if token.id not in self._marked:
            self._marked.add(token.id)
            self.decision.happens(ArcTokenBacktracked(token.id))
