"""The facts that change a process, each with its effect. Applying one decides nothing.

Those named after something that happens to a process or a token are its events (section 3), in the order in
which they happen; `EVENT_OF_CHANGE` gives their names and bits. The others accompany them.
"""

from __future__ import annotations

from collections.abc import Mapping

from narval.core.engines.commands import Call
from narval.core.engines.events import Plain
from narval.core.engines.run_state import RunBegan, RunChange, take_over
from narval.kinds.process.engine.state import ArcToken, ExecutionType, NodeToken, ProcessState, TokenSet
from narval.kinds.process.language import code

Members = tuple[tuple[int, int], ...]
"""Token sets, and the place of a token in each."""


class ProcessChange(RunChange, frozen=True):
    """A fact that changes a process."""


class TokenChange(ProcessChange, frozen=True):
    """A fact about one token."""

    token: int


# --- events of the process ------------------------------------------------------------------------------


class ProcessCreated(ProcessChange, RunBegan, frozen=True):
    """The process exists, with its first attributes."""

    environment: dict[str, str] = {}

    def apply(self, state: ProcessState) -> None:
        state.begin(self)
        state.environment = self.environment


class ProcessStarted(ProcessChange, frozen=True):
    """Tokens begin to move."""

    def apply(self, state: ProcessState) -> None:
        state.move("executing")


class ProcessPendingComplete(ProcessChange, frozen=True):
    """Nothing is active; a listener may still delay the end."""

    def apply(self, state: ProcessState) -> None:
        state.move("pending-completion")


class ProcessCompleted(ProcessChange, frozen=True):
    """The process has ended."""

    at: float

    def apply(self, state: ProcessState) -> None:
        state.move("completed", self.at)


class ProcessPendingCancel(ProcessChange, frozen=True):
    """The process will end where it is; a listener may still delay that."""

    def apply(self, state: ProcessState) -> None:
        state.move("pending-cancel")


class ProcessCanceled(ProcessChange, frozen=True):
    """The process was ended; its tokens stay as they are."""

    at: float

    def apply(self, state: ProcessState) -> None:
        state.move("cancelled", self.at)


# --- events of node tokens ------------------------------------------------------------------------------


class NodeTokenCreated(TokenChange, frozen=True):
    """A token was made on a node from its `parents`, which are arc tokens, as a member of token `sets`.
    `reverses` is the token that it reverses. It inherits from `sources`, which are node tokens, or from those
    that its parents come from; in earlier versions from the parents of the token that it is `like`.
    """

    node: str
    at: float
    parents: tuple[int, ...] = ()
    sets: Members = ()
    execution_type: ExecutionType = "Forward"
    reverses: int | None = None
    like: int | None = None
    sources: tuple[int, ...] | None = None

    def apply(self, state: ProcessState) -> None:
        token = NodeToken(
            self.token,
            self.node,
            self.at,
            list(self.parents),
            execution_type=self.execution_type,
            sets=dict(self.sets),
            reverses=self.reverses,
        )
        if self.sources is None:
            arcs = self.parents if self.like is None else state.nodes[self.like].parents
            token.environment = state.inherited(arcs)
        else:
            for source in self.sources:
                token.environment = {**token.environment, **state.nodes[source].environment}
        state.nodes[token.id] = token
        if token.id >= state.next_token:
            state.next_token = token.id + 1
        state.newest[token.node] = token.id
        for number in token.sets:
            state.sets[number].nodes[token.id] = None


class NodeTokenAccepted(TokenChange, frozen=True):
    """The guard lets the node execute."""

    def apply(self, state: ProcessState) -> None:
        token = state.nodes[self.token]
        state.activate(token, "AcceptToken")
        token.held_back = True


class NodeTokenExecuted(TokenChange, frozen=True):
    """The node has been executed: it may have completed the token, or wait."""

    def apply(self, state: ProcessState) -> None:
        state.nodes[self.token].held_back = False


class NodeTokenDiscarded(TokenChange, frozen=True):
    """The guard ends the token here."""

    def apply(self, state: ProcessState) -> None:
        state.nodes[self.token].guard = "DiscardToken"


class NodeTokenSkipped(TokenChange, frozen=True):
    """The guard, or backtracking, skips the node."""

    def apply(self, state: ProcessState) -> None:
        state.activate(state.nodes[self.token], "SkipNode")


class NodeTokenCompleted(TokenChange, frozen=True):
    """The token has left its node on the arcs named `exits`; the changes that make the arc tokens follow."""

    at: float
    exits: tuple[str, ...] = ()

    def apply(self, state: ProcessState) -> None:
        token = state.nodes[self.token]
        token.completed = self.at
        state.deactivate(token)
        for number in token.sets:
            state.sets[number].nodes.pop(token.id, None)


class NodeTokenBacktracked(TokenChange, frozen=True):
    """The token was backtracked."""

    def apply(self, state: ProcessState) -> None:
        token = state.nodes[self.token]
        if token.execution_type == "Forward":
            token.execution_type = "ForwardBacktracked"
        state.deactivate(token)


class NodeTokenDelayed(TokenChange, frozen=True):
    """The guard is asked again at the moment `until`."""

    until: float
    wake: str

    def apply(self, state: ProcessState) -> None:
        token = state.nodes[self.token]
        state.activate(token, "DelayUntil")
        token.delays += 1
        token.until, token.wake = self.until, self.wake
        state.delayed[self.wake] = token.id


# --- events of arc tokens -------------------------------------------------------------------------------


class ArcTokenCreated(TokenChange, frozen=True):
    """A token was made on an arc from one node to another; unless `aside`, it waits in the queue. `reverses`
    is the arc token that it reverses.
    """

    arc: int
    parent: int
    to: str
    sets: Members = ()
    execution_type: ExecutionType = "Forward"
    reverses: int | None = None
    aside: bool = False

    def apply(self, state: ProcessState) -> None:
        token = ArcToken(
            self.token,
            self.arc,
            self.parent,
            self.to,
            pending=not self.aside,
            execution_type=self.execution_type,
            sets=dict(self.sets),
            reverses=self.reverses,
        )
        state.arcs[token.id] = token
        if token.id >= state.next_token:
            state.next_token = token.id + 1
        state.nodes[self.parent].children.append(token.id)
        if not self.aside:
            state.queue.join(token.id)
        for number in token.sets:
            token_set = state.sets[number]
            token_set.arcs[token.id] = None
            token_set.heading[token.to] = token_set.heading.get(token.to, 0) + 1


class ArcTokenProcessed(TokenChange, frozen=True):
    """The token has reached the end of its arc. If it `waits`, others may join it there."""

    waits: bool = False

    def apply(self, state: ProcessState) -> None:
        token = state.arcs[self.token]
        if token.pending:
            state.leave_queue(token)
        state.active_arcs[token.id] = None
        if self.waits:
            state.stand_in_line(token)


class ArcTokenCompleted(TokenChange, frozen=True):
    """The token has become part of a node token."""

    child: int

    def apply(self, state: ProcessState) -> None:
        token = state.arcs[self.token]
        state.deactivate_arc(token)
        token.complete, token.child = True, self.child
        if token.sets:
            state.leave_sets(token)


class ArcTokenBacktracked(TokenChange, frozen=True):
    """The token was backtracked along its arc."""

    def apply(self, state: ProcessState) -> None:
        token = state.arcs[self.token]
        state.deactivate_arc(token)
        if token.execution_type == "Forward":
            token.execution_type = "ForwardBacktracked"
        elif token.execution_type == "UTurn":
            token.execution_type = "UTurnBacktracked" if token.complete else "Backtracked"


class ArcTokenMerged(TokenChange, frozen=True):
    """The token joined an existing node token."""

    def apply(self, state: ProcessState) -> None:
        child = state.arcs[self.token].child
        if child is not None:
            state.nodes[child].parents.append(self.token)


class ArcTokenIncompleteJoin(TokenChange, frozen=True):
    """The join of the node is not complete with this token."""

    def apply(self, state: ProcessState) -> None:
        """Alter nothing: other changes have the effects."""


# --- what accompanies events ----------------------------------------------------------------------------


class NodeTokenHeld(TokenChange, frozen=True):
    """The guard gave no answer. The token stays until it is completed or its guard is asked again."""

    def apply(self, state: ProcessState) -> None:
        state.activate(state.nodes[self.token], "")


class NodeTokenCancelled(TokenChange, frozen=True):
    """The token was cancelled `by` another, whose node completed."""

    by: int

    def apply(self, state: ProcessState) -> None:
        state.nodes[self.token].cancelled = self.by


class ArcTokenCancelled(TokenChange, frozen=True):
    """The token was cancelled `by` another before it reached a node."""

    by: int

    def apply(self, state: ProcessState) -> None:
        token = state.arcs[self.token]
        state.deactivate_arc(token)
        token.complete, token.cancelled = True, self.by
        state.leave_sets(token)


class WayBackTaken(TokenChange, frozen=True):
    """The token leaves by an arc that leads back to token `to`, one of its ancestors."""

    arc: int
    to: int

    def apply(self, state: ProcessState) -> None:
        """Alter nothing: other changes have the effects."""


class TokenSetCreated(ProcessChange, frozen=True):
    """A token set of `count` members; `members` holds the attributes of single members."""

    set: int
    name: str
    count: int
    level: int
    environment: dict[str, str] = {}
    members: dict[int, dict[str, str]] = {}

    def apply(self, state: ProcessState) -> None:
        state.sets[self.set] = TokenSet(
            self.set, self.name, self.count, self.level, self.environment, dict(self.members)
        )
        state.next_token = max(state.next_token, self.set + 1)


class EnvironmentSet(ProcessChange, frozen=True):
    """Attributes of a token, a set, a member or the process were written, or removed if None."""

    values: dict[str, str | None]
    token: int | None = None
    set: int | None = None
    index: int | None = None

    def apply(self, state: ProcessState) -> None:
        if self.token is not None:
            token = state.nodes[self.token]
            token.environment = _written(token.environment, self.values)
        elif self.set is None:
            state.environment = _written(state.environment, self.values)
        elif self.index is None:
            token_set = state.sets[self.set]
            token_set.environment = _written(token_set.environment, self.values)
        else:
            members = state.sets[self.set].members
            members[self.index] = _written(members.get(self.index, {}), self.values)


def _written(environment: dict[str, str], values: dict[str, str | None]) -> dict[str, str]:
    """A copy with new values; the original may be shared."""
    copy = dict(environment)
    for name, value in values.items():
        if value is None:
            copy.pop(name, None)
        else:
            copy[name] = value
    return copy


class NodeCallMade(TokenChange, frozen=True):
    """A call went out for a token: it executes the node, or, as a `hook`, undoes what the node did."""

    call: str
    hook: bool = False
    reserved: tuple[int, ...] = ()
    code: bool = False
    """True if it runs code of the process, which runs one call at a time."""

    def apply(self, state: ProcessState) -> None:
        state.calls[self.call] = self.token
        if self.hook:
            state.hooks[self.call] = None
            del state.undoing[0]
        else:
            token = state.nodes[self.token]
            token.call, token.next_try, token.held_back = self.call, None, False
            if token.queued:
                token.queued = False
                state.code_line.leave(token.id, state.waits_for_code)
            if state.failed:
                state.failed.pop(token.id, None)
        if self.hook or self.code:
            state.code = self.call
        if self.reserved:
            state.reserved[self.call] = self.reserved


class CodeQueued(TokenChange, frozen=True):
    """Code must run for a token, after the code of earlier tokens."""

    def apply(self, state: ProcessState) -> None:
        token = state.nodes[self.token]
        token.queued, token.held_back = True, False
        state.code_line.join(self.token)


class NodeTokenFailed(TokenChange, frozen=True):
    """The node of a token failed. The token stays, and the `error` element gives the reason."""

    error: int

    def apply(self, state: ProcessState) -> None:
        token = state.nodes[self.token]
        token.tries, token.held_back = 0, False
        if token.queued:
            token.queued = False
            state.code_line.leave(token.id, state.waits_for_code)
        state.failed[token.id] = self.error


class NodeTokenRetried(TokenChange, frozen=True):
    """The node of a token failed, and runs again at the moment `until` (N29). Its call is kept as `next_try`,
    with its id, its elements and the `reserved` ones, and is made then. A call that was given up is not kept:
    a new one is made.
    """

    until: float
    wake: str
    next_try: Call | None = None
    reserved: tuple[int, ...] = ()

    def apply(self, state: ProcessState) -> None:
        token = state.nodes[self.token]
        token.tries += 1
        if self.next_try is not None:
            token.next_try, token.call = self.next_try, self.next_try.call
            state.calls[token.call] = token.id
            if self.reserved:
                state.reserved[token.call] = self.reserved
        token.until, token.wake = self.until, self.wake
        state.delayed[self.wake] = token.id


class NodeCallBack(ProcessChange, frozen=True):
    """A call ended and `produced` elements, or nothing waits for it any longer."""

    call: str
    produced: tuple[int, ...] = ()

    def apply(self, state: ProcessState) -> None:
        token = state.nodes[state.calls.pop(self.call)]
        if state.code == self.call:
            state.code = ""
        state.reserved.pop(self.call, None)
        if state.hooks.pop(self.call, True) is not None:
            token.call, token.next_try = "", None
        token.produced += self.produced


class UndoingQueued(ProcessChange, frozen=True):
    """The nodes of `tokens` must undo their effects, one by one; then `result` runs."""

    tokens: tuple[int, ...]
    result: int

    def apply(self, state: ProcessState) -> None:
        state.undoing.extend((*self.tokens, -self.result))


class UndoingEnded(ProcessChange, frozen=True):
    """Everything is undone; the token that the process went back to runs."""

    result: int

    def apply(self, state: ProcessState) -> None:
        state.undoing.remove(-self.result)


class WatchSet(TokenChange, frozen=True):
    """A token waits for elements; without a `watch` it no longer waits."""

    watch: str

    def apply(self, state: ProcessState) -> None:
        token = state.nodes[self.token]
        state.watches.pop(token.watch, None)
        token.watch = self.watch
        if self.watch:
            state.watches[self.watch] = token.id


class DelayOver(TokenChange, frozen=True):
    """The delay of a token is over."""

    def apply(self, state: ProcessState) -> None:
        token = state.nodes[self.token]
        state.delayed.pop(token.wake, None)
        token.wake = ""


class QuestionAsked(ProcessChange, frozen=True):
    """The user's code was asked something about a token, and answered."""

    function: str
    token: int | None = None
    answer: Plain = None

    def apply(self, state: ProcessState) -> None:
        """Alter nothing: other changes have the effects."""


class Paused(ProcessChange, frozen=True):
    """The queue holds more tokens than one advance may move. It continues with the timer `wake`; "" when it
    has.
    """

    wake: str = ""
    laps: int = 0

    def apply(self, state: ProcessState) -> None:
        state.paused, state.laps = self.wake, self.laps


class ListenerSet(ProcessChange, frozen=True):
    """A listener of this process receives the events of `mask`; 0 means none."""

    listener: str
    mask: int

    def apply(self, state: ProcessState) -> None:
        if self.mask:
            state.listeners[self.listener] = self.mask
        else:
            state.listeners.pop(self.listener, None)


class ProcessFailed(ProcessChange, frozen=True):
    """narval cannot continue the process; the `error` element gives the reason."""

    at: float
    error: int

    def apply(self, state: ProcessState) -> None:
        state.move("failed", self.at, self.error)


class ProcessMigrated(ProcessChange, frozen=True):
    """The process continues with another version of its definition, in this state."""

    version: str
    state: ProcessState

    def apply(self, state: ProcessState) -> None:
        take_over(state, self.state)


EVENT_OF_CHANGE: Mapping[str, tuple[str, int]] = {
    name.title().replace("_", ""): (name, bit) for name, bit in code.EVENTS.items()
}
"""The name of an event, and its bit in the mask of a listener, by the class of its change."""
