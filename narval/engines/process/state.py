"""The state of a process, and how facts change it (section 1).

A process     created → executing → pending-completion → completed
              executing → pending-cancel → canceled      any that is not over → failed: narval cannot go on
A node token  created → accepted, skipped or delayed (active) → complete      created → discarded
An arc token   pending (in the queue) → processed (active) → complete (it has a child)

Tokens of both kinds and token sets are numbered together, in the order they come to be. What is asked of all
tokens at every event is kept: the active ones, those that wait at the end of an arc, by the members of sets
too, the newest of a node. So a step costs the same however many tokens there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

import msgspec

from narval.engines.process.changes import (
    ArcTokenBacktracked,
    ArcTokenCompleted,
    ArcTokenCreated,
    ArcTokenIncompleteJoin,
    ArcTokenMerged,
    ArcTokenProcessed,
    DelayOver,
    EnvironmentSet,
    ListenerSet,
    NodeCallBack,
    NodeCallMade,
    NodeTokenAccepted,
    NodeTokenBacktracked,
    NodeTokenCompleted,
    NodeTokenCreated,
    NodeTokenDelayed,
    NodeTokenDiscarded,
    NodeTokenExecuted,
    NodeTokenHeld,
    NodeTokenSkipped,
    Paused,
    ProcessCanceled,
    ProcessChange,
    ProcessCompleted,
    ProcessCreated,
    ProcessFailed,
    ProcessPendingCancel,
    ProcessPendingComplete,
    ProcessStarted,
    QuestionAsked,
    TokenSetCreated,
    UndoingEnded,
    UndoingQueued,
    WatchSet,
)
from narval.engines.process.tokens import ArcToken, Line, NodeToken, TokenSet
from narval.engines.run_state import Moves, RunState

PROCESS_MOVES: dict[str, frozenset[str]] = {
    "created": frozenset({"executing", "pending-cancel", "failed"}),
    "executing": frozenset({"pending-completion", "pending-cancel", "failed"}),
    "pending-completion": frozenset({"completed", "pending-cancel", "failed"}),
    "pending-cancel": frozenset({"canceled", "failed"}),
}
PHASES = {"completed": "done", "canceled": "cancelled", "failed": "failed"}
"""The phase of a process that is over; any other state is active."""


class ProcessState(RunState, omit_defaults=True, gc=False):
    """One run of a process."""

    KIND: ClassVar[str] = "process"
    MOVES: ClassVar[Moves] = PROCESS_MOVES
    PHASES: ClassVar[Mapping[str, str]] = PHASES

    environment: dict[str, str] = {}
    next_token: int = 1
    nodes: dict[int, NodeToken] = {}
    arcs: dict[int, ArcToken] = {}
    sets: dict[int, TokenSet] = {}
    active_nodes: dict[int, None] = {}
    active_arcs: dict[int, None] = {}
    queue: Line = msgspec.field(default_factory=Line)
    """Pending arc tokens, first come first."""
    standing: dict[str, dict[int, None]] = {}
    """Active node tokens by node."""
    newest: dict[str, int] = {}
    """The newest node token of each node."""
    waiting: dict[str, Line] = {}
    """Arc tokens that wait at the end of an arc: see `place` and `place_of`."""
    calls: dict[str, int] = {}
    """Calls under way, and their node tokens."""
    hooks: dict[str, None] = {}
    """Those of them that tell a node that it was gone back from."""
    undoing: list[int] = []
    """Tokens whose nodes are still to be told so, and, negated, those that run when that is done."""
    reserved: dict[str, tuple[int, ...]] = {}
    """What a call has reserved."""
    delayed: dict[str, int] = {}
    """Node tokens by the moment they wait for."""
    watches: dict[str, int] = {}
    """Node tokens by what they watch for."""
    listeners: dict[str, int] = {}
    """Listeners of this process, and the masks of their events."""
    paused: str = ""
    laps: int = 0
    """So many advances in a row went on with the queue, and nothing else."""

    def progress(self) -> Iterator[tuple[str, str]]:
        """The nodes on which tokens stand, and the tokens."""
        return ((node, " ".join(map(str, tokens))) for node, tokens in self.standing.items())

    def waits_in_line(self, token: int) -> bool:
        """Whether an arc token waits at its node."""
        return token in self.active_arcs

    def first_in(self, place: str) -> int | None:
        """The arc token that has waited longest in a place."""
        line = self.waiting.get(place)
        return line.first if line is not None else None

    def standing_in(self, place: str) -> Iterator[int]:
        """The arc tokens that wait in a place, longest first."""
        line = self.waiting.get(place)
        return line.all(self.waits_in_line) if line is not None else iter(())

    def deepest(self, sets: dict[int, int]) -> tuple[int, int] | None:
        """The set of the highest level among some, and the place in it."""
        if not sets:
            return None
        found = max(sets, key=lambda each: self.sets[each].level)
        return found, sets[found]


def place(arc: int) -> str:
    """Where all arc tokens of an arc wait."""
    return str(arc)


def place_of(arc: int, member: tuple[int, int] | None) -> str:
    """Where those wait that are this member of a set, or that are in no set."""
    return f"{arc}/{member[0]}/{member[1]}" if member is not None else f"{arc}/"


# --- apply ----------------------------------------------------------------------------------------------


def apply(state: ProcessState, change: ProcessChange) -> None:
    """Alter the state as the change says; a move that no table lists raises."""
    APPLY[type(change)](state, change)


def _created(state: ProcessState, change: ProcessCreated) -> None:
    state.begin(change.at, change.elements, change.caller, change.attempt)
    state.environment = change.environment


def _started(state: ProcessState, change: ProcessStarted) -> None:
    state.move("executing")


def _pending_complete(state: ProcessState, change: ProcessPendingComplete) -> None:
    state.move("pending-completion")


def _completed(state: ProcessState, change: ProcessCompleted) -> None:
    state.move("completed", change.at)


def _pending_cancel(state: ProcessState, change: ProcessPendingCancel) -> None:
    state.move("pending-cancel")


def _canceled(state: ProcessState, change: ProcessCanceled) -> None:
    state.move("canceled", change.at)


def _failed(state: ProcessState, change: ProcessFailed) -> None:
    state.move("failed", change.at, change.error)


# --- node tokens ----------------------------------------------------------------------------------------


def _node_created(state: ProcessState, change: NodeTokenCreated) -> None:
    token = NodeToken(
        change.token,
        change.node,
        change.at,
        list(change.parents),
        execution_type=change.execution_type,
        sets=dict(change.sets),
        reverses=change.reverses,
    )
    source = change.parents if change.like is None else state.nodes[change.like].parents
    token.environment = _inherited(state, source)
    state.nodes[token.id] = token
    state.next_token = max(state.next_token, token.id + 1)
    state.newest[token.node] = token.id
    for each in token.sets:
        state.sets[each].nodes[token.id] = None


def _inherited(state: ProcessState, arcs: list[int] | tuple[int, ...]) -> dict[str, str]:
    """The attributes of the tokens that these arc tokens come from, later ones winning (section 8)."""
    if len(arcs) == 1:
        return state.nodes[state.arcs[arcs[0]].parent].environment
    merged: dict[str, str] = {}
    for each in arcs:
        merged.update(state.nodes[state.arcs[each].parent].environment)
    return merged


def _activate(state: ProcessState, token: NodeToken, guard: str) -> None:
    token.guard = guard
    state.active_nodes[token.id] = None
    state.standing.setdefault(token.node, {})[token.id] = None


def _deactivate(state: ProcessState, token: NodeToken) -> None:
    if state.active_nodes.pop(token.id, True) is None:
        standing = state.standing[token.node]
        del standing[token.id]
        if not standing:
            del state.standing[token.node]


def _accepted(state: ProcessState, change: NodeTokenAccepted) -> None:
    _activate(state, state.nodes[change.token], "AcceptToken")


def _executed(state: ProcessState, change: NodeTokenExecuted) -> None:
    """What executing did stands in other changes."""


def _discarded(state: ProcessState, change: NodeTokenDiscarded) -> None:
    state.nodes[change.token].guard = "DiscardToken"


def _skipped(state: ProcessState, change: NodeTokenSkipped) -> None:
    _activate(state, state.nodes[change.token], "SkipNode")


def _delayed(state: ProcessState, change: NodeTokenDelayed) -> None:
    token = state.nodes[change.token]
    _activate(state, token, "DelayUntil")
    token.delays += 1
    token.until, token.wake = change.until, change.wake
    state.delayed[change.wake] = token.id


def _delay_over(state: ProcessState, change: DelayOver) -> None:
    token = state.nodes[change.token]
    state.delayed.pop(token.wake, None)
    token.wake = ""


def _node_completed(state: ProcessState, change: NodeTokenCompleted) -> None:
    token = state.nodes[change.token]
    token.completed = change.at
    _deactivate(state, token)
    for each in token.sets:
        state.sets[each].nodes.pop(token.id, None)


def _node_backtracked(state: ProcessState, change: NodeTokenBacktracked) -> None:
    token = state.nodes[change.token]
    if token.execution_type == "Forward":
        token.execution_type = "ForwardBacktracked"
    _deactivate(state, token)


# --- arc tokens -----------------------------------------------------------------------------------------


def _arc_created(state: ProcessState, change: ArcTokenCreated) -> None:
    token = ArcToken(
        change.token,
        change.arc,
        change.parent,
        change.to,
        pending=not change.aside,
        execution_type=change.execution_type,
        sets=dict(change.sets),
        reverses=change.reverses,
    )
    state.arcs[token.id] = token
    state.next_token = max(state.next_token, token.id + 1)
    state.nodes[change.parent].children.append(token.id)
    if not change.aside:
        state.queue.join(token.id)
    for each in token.sets:
        found = state.sets[each]
        found.arcs[token.id] = None
        found.heading[token.to] = found.heading.get(token.to, 0) + 1


def _processed(state: ProcessState, change: ArcTokenProcessed) -> None:
    token = state.arcs[change.token]
    _leave_queue(state, token)
    state.active_arcs[token.id] = None
    if change.waits:
        token.waits = True
        for each in _places(token):
            line = state.waiting.get(each)
            if line is None:
                line = state.waiting[each] = Line()
            line.join(token.id)


def _leave_queue(state: ProcessState, token: ArcToken) -> None:
    if token.pending:
        token.pending = False
        state.queue.leave(lambda each: state.arcs[each].pending)


def _places(token: ArcToken) -> list[str]:
    """All the lines that a token stands in."""
    if not token.sets:
        return [place(token.arc), place_of(token.arc, None)]
    return [place(token.arc), *(place_of(token.arc, member) for member in token.sets.items())]


def _arc_deactivate(state: ProcessState, token: ArcToken) -> None:
    _leave_queue(state, token)
    if state.active_arcs.pop(token.id, True) is None and token.waits:
        token.waits = False
        for each in _places(token):
            line = state.waiting[each]
            line.leave(state.waits_in_line)
            if line.first is None:
                del state.waiting[each]


def _arc_completed(state: ProcessState, change: ArcTokenCompleted) -> None:
    token = state.arcs[change.token]
    _arc_deactivate(state, token)
    token.complete, token.child = True, change.child
    for each in token.sets:
        found = state.sets[each]
        if found.arcs.pop(token.id, True) is None:
            found.heading[token.to] -= 1
            if not found.heading[token.to]:
                del found.heading[token.to]


def _arc_backtracked(state: ProcessState, change: ArcTokenBacktracked) -> None:
    token = state.arcs[change.token]
    _arc_deactivate(state, token)
    if token.execution_type == "Forward":
        token.execution_type = "ForwardBacktracked"
    elif token.execution_type == "UTurn":
        token.execution_type = "UTurnBacktracked" if token.complete else "Backtracked"


def _arc_merged(state: ProcessState, change: ArcTokenMerged) -> None:
    child = state.arcs[change.token].child
    if child is not None:
        state.nodes[child].parents.append(change.token)


def _incomplete_join(state: ProcessState, change: ArcTokenIncompleteJoin) -> None:
    """It stands in line since it was processed."""


# --- what goes with them --------------------------------------------------------------------------------


def _held(state: ProcessState, change: NodeTokenHeld) -> None:
    _activate(state, state.nodes[change.token], "")


def _set_created(state: ProcessState, change: TokenSetCreated) -> None:
    state.sets[change.set] = TokenSet(
        change.set, change.name, change.count, change.level, change.environment, dict(change.members)
    )
    state.next_token = max(state.next_token, change.set + 1)


def _environment_set(state: ProcessState, change: EnvironmentSet) -> None:
    if change.token is not None:
        token = state.nodes[change.token]
        token.environment = _written(token.environment, change.values)
    elif change.set is None:
        state.environment = _written(state.environment, change.values)
    elif change.index is None:
        found = state.sets[change.set]
        found.environment = _written(found.environment, change.values)
    else:
        members = state.sets[change.set].members
        members[change.index] = _written(members.get(change.index, {}), change.values)


def _written(environment: dict[str, str], values: dict[str, str | None]) -> dict[str, str]:
    """A copy with these written: others may share the attributes as they were."""
    copy = dict(environment)
    for name, value in values.items():
        if value is None:
            copy.pop(name, None)
        else:
            copy[name] = value
    return copy


def _call_made(state: ProcessState, change: NodeCallMade) -> None:
    state.calls[change.call] = change.token
    if change.hook:
        state.hooks[change.call] = None
        del state.undoing[0]
    else:
        state.nodes[change.token].call = change.call
    if change.reserved:
        state.reserved[change.call] = change.reserved


def _call_back(state: ProcessState, change: NodeCallBack) -> None:
    token = state.nodes[state.calls.pop(change.call)]
    state.reserved.pop(change.call, None)
    if state.hooks.pop(change.call, True) is not None:
        token.call = ""
    token.produced += change.produced


def _undoing_queued(state: ProcessState, change: UndoingQueued) -> None:
    state.undoing.extend((*change.tokens, -change.result))


def _undoing_ended(state: ProcessState, change: UndoingEnded) -> None:
    state.undoing.remove(-change.result)


def _watch_set(state: ProcessState, change: WatchSet) -> None:
    token = state.nodes[change.token]
    state.watches.pop(token.watch, None)
    token.watch = change.watch
    if change.watch:
        state.watches[change.watch] = token.id


def _asked(state: ProcessState, change: QuestionAsked) -> None:
    """What follows from the answer stands in other changes."""


def _paused(state: ProcessState, change: Paused) -> None:
    state.paused, state.laps = change.wake, change.laps


def _listener_set(state: ProcessState, change: ListenerSet) -> None:
    if change.mask:
        state.listeners[change.listener] = change.mask
    else:
        state.listeners.pop(change.listener, None)


APPLY: dict[type, Callable[[ProcessState, Any], None]] = {
    ProcessCreated: _created,
    ProcessStarted: _started,
    ProcessPendingComplete: _pending_complete,
    ProcessCompleted: _completed,
    ProcessPendingCancel: _pending_cancel,
    ProcessCanceled: _canceled,
    ProcessFailed: _failed,
    NodeTokenCreated: _node_created,
    NodeTokenAccepted: _accepted,
    NodeTokenExecuted: _executed,
    NodeTokenDiscarded: _discarded,
    NodeTokenSkipped: _skipped,
    NodeTokenCompleted: _node_completed,
    NodeTokenBacktracked: _node_backtracked,
    NodeTokenDelayed: _delayed,
    ArcTokenCreated: _arc_created,
    ArcTokenProcessed: _processed,
    ArcTokenCompleted: _arc_completed,
    ArcTokenBacktracked: _arc_backtracked,
    ArcTokenMerged: _arc_merged,
    ArcTokenIncompleteJoin: _incomplete_join,
    NodeTokenHeld: _held,
    TokenSetCreated: _set_created,
    EnvironmentSet: _environment_set,
    NodeCallMade: _call_made,
    NodeCallBack: _call_back,
    UndoingQueued: _undoing_queued,
    UndoingEnded: _undoing_ended,
    WatchSet: _watch_set,
    DelayOver: _delay_over,
    QuestionAsked: _asked,
    Paused: _paused,
    ListenerSet: _listener_set,
}
