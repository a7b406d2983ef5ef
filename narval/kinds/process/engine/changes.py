"""The facts that change a process. Applying one decides nothing: `state.py` says what each does.

Those named after something that happens to a process or a token are its events (section 3), in the order in
which they happen: `EVENT_OF_CHANGE` names them and their bits. The others are what goes with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from narval.core.engines.events import Plain
from narval.core.engines.run_state import RunBegan, RunChange
from narval.kinds.process.language import code

ExecutionType = Literal["Forward", "ForwardBacktracked", "Backtracked", "UTurn", "UTurnBacktracked"]
Members = tuple[tuple[int, int], ...]
"""Token sets, and the place a token has in each."""


class ProcessChange(RunChange, frozen=True):
    """A fact that changes a process."""


class TokenChange(ProcessChange, frozen=True):
    """A fact about one token."""

    token: int


# --- events of the process ------------------------------------------------------------------------------


class ProcessCreated(ProcessChange, RunBegan, frozen=True):
    """The process is there, with the attributes it is given."""

    environment: dict[str, str] = {}


class ProcessStarted(ProcessChange, frozen=True):
    """Tokens begin to move."""


class ProcessPendingComplete(ProcessChange, frozen=True):
    """Nothing is active any more; a listener may still hold the end up."""


class ProcessCompleted(ProcessChange, frozen=True):
    """The process is over."""

    at: float


class ProcessPendingCancel(ProcessChange, frozen=True):
    """The process is to end where it stands; a listener may still hold that up."""


class ProcessCanceled(ProcessChange, frozen=True):
    """The process was ended; its tokens stay as they are."""

    at: float


# --- events of node tokens ------------------------------------------------------------------------------


class NodeTokenCreated(TokenChange, frozen=True):
    """A token was made on a node: of these arc tokens, in these places of token sets.

    `reverses` is the token of which it is the reverse; one `like` another has what that one's parents have.
    """

    node: str
    at: float
    parents: tuple[int, ...] = ()
    sets: Members = ()
    execution_type: ExecutionType = "Forward"
    reverses: int | None = None
    like: int | None = None


class NodeTokenAccepted(TokenChange, frozen=True):
    """The guard lets the node execute."""


class NodeTokenExecuted(TokenChange, frozen=True):
    """The node has been executed: it may have completed the token, or wait."""


class NodeTokenDiscarded(TokenChange, frozen=True):
    """The guard ends the token here."""


class NodeTokenSkipped(TokenChange, frozen=True):
    """The guard, or going back, leaves the node out."""


class NodeTokenCompleted(TokenChange, frozen=True):
    """The token has left its node, on the arcs of these names; the arc tokens made follow."""

    at: float
    exits: tuple[str, ...] = ()


class NodeTokenBacktracked(TokenChange, frozen=True):
    """The token was gone back from."""


class NodeTokenDelayed(TokenChange, frozen=True):
    """The guard is asked again at this moment."""

    until: float
    wake: str


# --- events of arc tokens -------------------------------------------------------------------------------


class ArcTokenCreated(TokenChange, frozen=True):
    """A token was made on an arc, from a node to another; unless `aside` it waits in the queue.

    `reverses` is the arc token it goes back from.
    """

    arc: int
    parent: int
    to: str
    sets: Members = ()
    execution_type: ExecutionType = "Forward"
    reverses: int | None = None
    aside: bool = False


class ArcTokenProcessed(TokenChange, frozen=True):
    """The token has come to the end of its arc; `waits`: others may join it there."""

    waits: bool = False


class ArcTokenCompleted(TokenChange, frozen=True):
    """The token has become part of a node token."""

    child: int


class ArcTokenBacktracked(TokenChange, frozen=True):
    """The way the token went was gone back."""


class ArcTokenMerged(TokenChange, frozen=True):
    """The token joined a node token that was there already."""


class ArcTokenIncompleteJoin(TokenChange, frozen=True):
    """The join of the node is not complete with this token."""


# --- what goes with events ------------------------------------------------------------------------------


class NodeTokenHeld(TokenChange, frozen=True):
    """The guard gave no answer: the token stays where it is, to be completed, or asked about again."""


class NodeTokenCancelled(TokenChange, frozen=True):
    """The token was cancelled `by` another, whose node is done."""

    by: int


class ArcTokenCancelled(TokenChange, frozen=True):
    """The token was cancelled `by` another before it came to a node."""

    by: int


class WayBackTaken(TokenChange, frozen=True):
    """The token leaves by an arc that goes back, to this token of those that it came of."""

    arc: int
    to: int


class TokenSetCreated(ProcessChange, frozen=True):
    """A set of `count` members; `members` are attributes of single ones."""

    set: int
    name: str
    count: int
    level: int
    environment: dict[str, str] = {}
    members: dict[int, dict[str, str]] = {}


class EnvironmentSet(ProcessChange, frozen=True):
    """Attributes were written, or removed where they are None: of a token, a set, a member, the process."""

    values: dict[str, str | None]
    token: int | None = None
    set: int | None = None
    index: int | None = None


class NodeCallMade(TokenChange, frozen=True):
    """A call went out for a token: it executes the node, or, as a `hook`, undoes what the node did."""

    call: str
    hook: bool = False
    reserved: tuple[int, ...] = ()
    code: bool = False
    """True if it runs code of the process, which runs one call after another."""


class CodeQueued(TokenChange, frozen=True):
    """Code is to run for a token, once that of others has."""


class NodeTokenFailed(TokenChange, frozen=True):
    """The node of a token did not do its work: the token stays, and this element says why."""

    error: int


class NodeTokenRetried(TokenChange, frozen=True):
    """The node of a token did not do its work, and is run again at this moment (N29)."""

    until: float
    wake: str


class NodeCallBack(ProcessChange, frozen=True):
    """The end of a call, with these elements, or of the wait for it."""

    call: str
    produced: tuple[int, ...] = ()


class UndoingQueued(ProcessChange, frozen=True):
    """The nodes of these tokens undo in turn what they did; then `result` runs."""

    tokens: tuple[int, ...]
    result: int


class UndoingEnded(ProcessChange, frozen=True):
    """All that had to be undone is: the token that was gone back to runs."""

    result: int


class WatchSet(TokenChange, frozen=True):
    """A token waits for elements; with no `watch` it waits no more."""

    watch: str


class DelayOver(TokenChange, frozen=True):
    """The moment that a delayed token waited for is not needed any more."""


class QuestionAsked(ProcessChange, frozen=True):
    """The user's code was asked something about a token, and answered."""

    function: str
    token: int | None = None
    answer: Plain = None


class Paused(ProcessChange, frozen=True):
    """More is in the queue than one advance may move: it goes on when it is woken; "" when it does."""

    wake: str = ""
    laps: int = 0


class ListenerSet(ProcessChange, frozen=True):
    """A listener of this process hears of the events of this mask, 0 being none."""

    listener: str
    mask: int


class ProcessFailed(ProcessChange, frozen=True):
    """narval cannot go on with the process; the error element says why."""

    at: float
    error: int


EVENT_OF_CHANGE: Mapping[str, tuple[str, int]] = {
    name.title().replace("_", ""): (name, bit) for name, bit in code.EVENTS.items()
}
"""By the class of a change that is an event, the event's name, and its bit in the mask of a listener."""
