"""The facts that change a process. Applying one decides nothing: `state.py` says what each does.

Those named after something that happens to a process or a token are its events (section 3), in the order in
which they happen: `EVENTS` names them and their bits. The others are what goes with them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

from narval.engines.events import Plain
from narval.engines.run_state import RunBegan, RunChange

ExecutionType = Literal["Forward", "ForwardBacktracked", "Backtracked", "UTurn", "UTurnBacktracked"]
Members = tuple[tuple[int, int], ...]
"""Token sets, and the place a token has in each."""


class ProcessChange(RunChange, frozen=True):
    """A fact that changes a process."""


class ProcessEvent(ProcessChange, frozen=True):
    """An event of section 3. The order of these classes is that of the bits in the masks of listeners."""


# --- events of the process ------------------------------------------------------------------------------


class ProcessCreated(ProcessEvent, RunBegan, frozen=True):
    """The process is there, with the attributes it is given."""

    environment: dict[str, str] = {}


class ProcessStarted(ProcessEvent, frozen=True):
    """Tokens begin to move."""


class ProcessPendingComplete(ProcessEvent, frozen=True):
    """Nothing is active any more; a listener may still hold the end up."""


class ProcessCompleted(ProcessEvent, frozen=True):
    """The process is over."""

    at: float


class ProcessPendingCancel(ProcessEvent, frozen=True):
    """The process is to end where it stands; a listener may still hold that up."""


class ProcessCanceled(ProcessEvent, frozen=True):
    """The process was ended; its tokens stay as they are."""

    at: float


# --- events of node tokens ------------------------------------------------------------------------------


class NodeTokenCreated(ProcessEvent, frozen=True):
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


class NodeTokenAccepted(ProcessEvent, frozen=True):
    """The guard lets the node execute."""

    token: int


class NodeTokenExecuted(ProcessEvent, frozen=True):
    """The node has been executed: it may have completed the token, or wait."""

    token: int


class NodeTokenDiscarded(ProcessEvent, frozen=True):
    """The guard ends the token here."""

    token: int


class NodeTokenSkipped(ProcessEvent, frozen=True):
    """The guard, or going back, leaves the node out."""

    token: int


class NodeTokenCompleted(ProcessEvent, frozen=True):
    """The token has left its node, on the arcs of these names; the arc tokens made follow."""

    token: int
    at: float
    exits: tuple[str, ...] = ()


class NodeTokenBacktracked(ProcessEvent, frozen=True):
    """The token was gone back from."""

    token: int


# --- events of arc tokens -------------------------------------------------------------------------------


class ArcTokenCreated(ProcessEvent, frozen=True):
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


class ArcTokenProcessed(ProcessEvent, frozen=True):
    """The token has come to the end of its arc; `waits`: others may join it there."""

    token: int
    waits: bool = False


class ArcTokenCompleted(ProcessEvent, frozen=True):
    """The token has become part of a node token."""

    token: int
    child: int


class ArcTokenBacktracked(ProcessEvent, frozen=True):
    """The way the token went was gone back."""

    token: int


class ArcTokenMerged(ProcessEvent, frozen=True):
    """The token joined a node token that was there already."""

    token: int


class NodeTokenDelayed(ProcessEvent, frozen=True):
    """The guard is asked again at this moment."""

    token: int
    until: float
    wake: str


class ArcTokenIncompleteJoin(ProcessEvent, frozen=True):
    """The join of the node is not complete with this token."""

    token: int


# --- what goes with events ------------------------------------------------------------------------------


class NodeTokenHeld(ProcessChange, frozen=True):
    """The guard gave no answer: the token stays where it is, to be completed, or asked about again."""

    token: int


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


class NodeCallMade(ProcessChange, frozen=True):
    """A call went out for a token: it executes the node, or, as a `hook`, undoes what the node did."""

    token: int
    call: str
    hook: bool = False
    reserved: tuple[int, ...] = ()


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


class WatchSet(ProcessChange, frozen=True):
    """A token waits for elements; with no `watch` it waits no more."""

    token: int
    watch: str


class DelayOver(ProcessChange, frozen=True):
    """The moment that a delayed token waited for is not needed any more."""

    token: int


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


EVENTS: Mapping[type, tuple[str, int]] = {
    event: (re.sub(r"(?<!^)(?=[A-Z])", "_", event.__name__).upper(), bit)
    for bit, event in enumerate(ProcessEvent.types())
}
"""The event that a change is, and its bit in the mask of a listener (section 3)."""

BITS: Mapping[str, int] = dict(EVENTS.values())
ALL_EVENTS = (1 << len(EVENTS)) - 1


def mask_of(events: tuple[str, ...]) -> int:
    """The mask of these events; of none named, that of all. Raises KeyError for what is no event."""
    return sum(1 << BITS[name] for name in dict.fromkeys(events)) if events else ALL_EVENTS
