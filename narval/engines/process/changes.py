"""The facts that change a process. Applying one decides nothing: `state.py` says what each does.

Those named after something that happens to a process or a token are its events (section 3), in the order in
which they happen: `EVENTS` names them and their bits. The others are what goes with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from narval.engines.events import Caller, Plain

ExecutionType = Literal["Forward", "ForwardBacktracked", "Backtracked", "UTurn", "UTurnBacktracked"]
Members = tuple[tuple[int, int], ...]
"""Token sets, and the place a token has in each."""

# --- events of the process ------------------------------------------------------------------------------


class ProcessCreated(msgspec.Struct, frozen=True, tag=True, omit_defaults=True, gc=False):
    """The process is there, with the attributes it is given."""

    at: float
    elements: tuple[int, ...] = ()
    caller: Caller | None = None
    attempt: int = 0
    environment: dict[str, str] = {}


class ProcessStarted(msgspec.Struct, frozen=True, tag=True, gc=False):
    """Tokens begin to move."""


class ProcessPendingComplete(msgspec.Struct, frozen=True, tag=True, gc=False):
    """Nothing is active any more; a listener may still hold the end up."""


class ProcessCompleted(msgspec.Struct, frozen=True, tag=True, gc=False):
    """The process is over."""

    at: float


class ProcessPendingCancel(msgspec.Struct, frozen=True, tag=True, gc=False):
    """The process is to end where it stands; a listener may still hold that up."""


class ProcessCanceled(msgspec.Struct, frozen=True, tag=True, gc=False):
    """The process was ended; its tokens stay as they are."""

    at: float


# --- events of node tokens ------------------------------------------------------------------------------


class NodeTokenCreated(msgspec.Struct, frozen=True, tag=True, omit_defaults=True, gc=False):
    """A token was made on a node: of these arc tokens, in these places of token sets.

    `reverses` is the token of which it is the reverse; one `like` another has what that one's parents have.
    """

    token: int
    node: str
    at: float
    parents: tuple[int, ...] = ()
    sets: Members = ()
    execution_type: ExecutionType = "Forward"
    reverses: int | None = None
    like: int | None = None


class NodeTokenAccepted(msgspec.Struct, frozen=True, tag=True, gc=False):
    """The guard lets the node execute."""

    token: int


class NodeTokenExecuted(msgspec.Struct, frozen=True, tag=True, gc=False):
    """The node has been executed: it may have completed the token, or wait."""

    token: int


class NodeTokenDiscarded(msgspec.Struct, frozen=True, tag=True, gc=False):
    """The guard ends the token here."""

    token: int


class NodeTokenSkipped(msgspec.Struct, frozen=True, tag=True, gc=False):
    """The guard, or going back, leaves the node out."""

    token: int


class NodeTokenCompleted(msgspec.Struct, frozen=True, tag=True, omit_defaults=True, gc=False):
    """The token has left its node, on the arcs of these names; the arc tokens made follow."""

    token: int
    at: float
    exits: tuple[str, ...] = ()


class NodeTokenBacktracked(msgspec.Struct, frozen=True, tag=True, gc=False):
    """The token was gone back from."""

    token: int


class NodeTokenDelayed(msgspec.Struct, frozen=True, tag=True, gc=False):
    """The guard is asked again at this moment."""

    token: int
    until: float
    wake: str


# --- events of arc tokens -------------------------------------------------------------------------------


class ArcTokenCreated(msgspec.Struct, frozen=True, tag=True, omit_defaults=True, gc=False):
    """A token was made on an arc, from a node to another; unless `aside` it waits in the queue.

    `reverses` is the arc token it goes back from.
    """

    token: int
    arc: int
    parent: int
    to: str
    sets: Members = ()
    execution_type: ExecutionType = "Forward"
    reverses: int | None = None
    aside: bool = False


class ArcTokenProcessed(msgspec.Struct, frozen=True, tag=True, omit_defaults=True, gc=False):
    """The token has come to the end of its arc; `waits`: others may join it there."""

    token: int
    waits: bool = False


class ArcTokenCompleted(msgspec.Struct, frozen=True, tag=True, gc=False):
    """The token has become part of a node token."""

    token: int
    child: int


class ArcTokenBacktracked(msgspec.Struct, frozen=True, tag=True, gc=False):
    """The way the token went was gone back."""

    token: int


class ArcTokenMerged(msgspec.Struct, frozen=True, tag=True, gc=False):
    """The token joined a node token that was there already."""

    token: int


class ArcTokenIncompleteJoin(msgspec.Struct, frozen=True, tag=True, gc=False):
    """The join of the node is not complete with this token."""

    token: int


# --- what goes with events ------------------------------------------------------------------------------


class NodeTokenHeld(msgspec.Struct, frozen=True, tag=True, gc=False):
    """The guard gave no answer: the token stays where it is, to be completed, or asked about again."""

    token: int


class TokenSetCreated(msgspec.Struct, frozen=True, tag=True, omit_defaults=True, gc=False):
    """A set of `count` members; `members` are attributes of single ones."""

    set: int
    name: str
    count: int
    level: int
    environment: dict[str, str] = {}
    members: dict[int, dict[str, str]] = {}


class EnvironmentSet(msgspec.Struct, frozen=True, tag=True, omit_defaults=True, gc=False):
    """Attributes were written, or removed where they are None: of a token, a set, a member, the process."""

    values: dict[str, str | None]
    token: int | None = None
    set: int | None = None
    index: int | None = None


class NodeCallMade(msgspec.Struct, frozen=True, tag=True, omit_defaults=True, gc=False):
    """A call went out for a token: it executes the node, or, as a `hook`, undoes what the node did."""

    token: int
    call: str
    hook: bool = False
    reserved: tuple[int, ...] = ()


class NodeCallBack(msgspec.Struct, frozen=True, tag=True, omit_defaults=True, gc=False):
    """The end of a call, with these elements, or of the wait for it."""

    call: str
    produced: tuple[int, ...] = ()


class UndoingQueued(msgspec.Struct, frozen=True, tag=True, gc=False):
    """The nodes of these tokens undo in turn what they did; then `result` runs."""

    tokens: tuple[int, ...]
    result: int


class UndoingEnded(msgspec.Struct, frozen=True, tag=True, gc=False):
    """All that had to be undone is: the token that was gone back to runs."""

    result: int


class WatchSet(msgspec.Struct, frozen=True, tag=True, gc=False):
    """A token waits for elements; with no `watch` it waits no more."""

    token: int
    watch: str


class DelayOver(msgspec.Struct, frozen=True, tag=True, gc=False):
    """The moment that a delayed token waited for is not needed any more."""

    token: int


class QuestionAsked(msgspec.Struct, frozen=True, tag=True, omit_defaults=True, gc=False):
    """The user's code was asked something about a token, and answered."""

    function: str
    token: int | None = None
    answer: Plain = None


class Paused(msgspec.Struct, frozen=True, tag=True, omit_defaults=True, gc=False):
    """More is in the queue than one advance may move: it goes on when it is woken; "" when it does."""

    wake: str = ""
    laps: int = 0


class ListenerSet(msgspec.Struct, frozen=True, tag=True, gc=False):
    """A listener of this process hears of the events of this mask, 0 being none."""

    listener: str
    mask: int


class ProcessFailed(msgspec.Struct, frozen=True, tag=True, gc=False):
    """narval cannot go on with the process; the error element says why."""

    at: float
    error: int


ProcessChange = (
    ProcessCreated
    | ProcessStarted
    | ProcessPendingComplete
    | ProcessCompleted
    | ProcessPendingCancel
    | ProcessCanceled
    | NodeTokenCreated
    | NodeTokenAccepted
    | NodeTokenExecuted
    | NodeTokenDiscarded
    | NodeTokenSkipped
    | NodeTokenCompleted
    | NodeTokenBacktracked
    | NodeTokenDelayed
    | ArcTokenCreated
    | ArcTokenProcessed
    | ArcTokenCompleted
    | ArcTokenBacktracked
    | ArcTokenMerged
    | ArcTokenIncompleteJoin
    | NodeTokenHeld
    | TokenSetCreated
    | EnvironmentSet
    | NodeCallMade
    | NodeCallBack
    | UndoingQueued
    | UndoingEnded
    | WatchSet
    | DelayOver
    | QuestionAsked
    | Paused
    | ListenerSet
    | ProcessFailed
)

EVENTS: Mapping[type, tuple[str, int]] = {
    ProcessCreated: ("PROCESS_CREATED", 0),
    ProcessStarted: ("PROCESS_STARTED", 1),
    ProcessPendingComplete: ("PROCESS_PENDING_COMPLETE", 2),
    ProcessCompleted: ("PROCESS_COMPLETED", 3),
    ProcessPendingCancel: ("PROCESS_PENDING_CANCEL", 4),
    ProcessCanceled: ("PROCESS_CANCELED", 5),
    NodeTokenCreated: ("NODE_TOKEN_CREATED", 6),
    NodeTokenAccepted: ("NODE_TOKEN_ACCEPTED", 7),
    NodeTokenExecuted: ("NODE_TOKEN_EXECUTED", 8),
    NodeTokenDiscarded: ("NODE_TOKEN_DISCARDED", 9),
    NodeTokenSkipped: ("NODE_TOKEN_SKIPPED", 10),
    NodeTokenCompleted: ("NODE_TOKEN_COMPLETED", 11),
    NodeTokenBacktracked: ("NODE_TOKEN_BACKTRACKED", 12),
    ArcTokenCreated: ("ARC_TOKEN_CREATED", 13),
    ArcTokenProcessed: ("ARC_TOKEN_PROCESSED", 14),
    ArcTokenCompleted: ("ARC_TOKEN_COMPLETED", 15),
    ArcTokenBacktracked: ("ARC_TOKEN_BACKTRACKED", 16),
    ArcTokenMerged: ("ARC_TOKEN_MERGED", 17),
    NodeTokenDelayed: ("NODE_TOKEN_DELAYED", 18),
    ArcTokenIncompleteJoin: ("ARC_TOKEN_INCOMPLETE_JOIN", 19),
}
"""The event that a change is, and its bit in the mask of a listener (section 3)."""

BITS: Mapping[str, int] = dict(EVENTS.values())
ALL_EVENTS = (1 << len(EVENTS)) - 1


def mask_of(events: tuple[str, ...]) -> int:
    """The mask of these events; of none named, that of all. Raises KeyError for what is no event."""
    return sum(1 << BITS[name] for name in dict.fromkeys(events)) if events else ALL_EVENTS
