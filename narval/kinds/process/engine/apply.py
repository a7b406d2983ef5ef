"""The application of facts to the state of a process; those about tokens stand with the tokens."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from narval.core.engines.run_state import apply_table
from narval.kinds.process.engine.changes import (
    ArcTokenIncompleteJoin,
    EnvironmentSet,
    ListenerSet,
    NodeCallBack,
    NodeCallMade,
    NodeTokenExecuted,
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
    WayBackTaken,
)
from narval.kinds.process.engine.state import ProcessState
from narval.kinds.process.engine.tokens.arc_facts import ARC_FACTS
from narval.kinds.process.engine.tokens.node_facts import NODE_FACTS
from narval.kinds.process.engine.tokens.token import TokenSet


def apply(state: ProcessState, change: ProcessChange) -> None:
    """Alter the state as the change says; a move that no table lists raises InternalError."""
    APPLY[type(change)](state, change)


def _created(state: ProcessState, change: ProcessCreated) -> None:
    state.begin(change)
    state.environment = change.environment


def _moved(status: str, state: ProcessState, change: ProcessChange) -> None:
    state.move(status, getattr(change, "at", None), getattr(change, "error", None))


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
        token = state.nodes[change.token]
        token.call = change.call
        if token.queued:
            token.queued = False
            state.code_line.leave(token.id, state.waits_for_code)
        if state.failed:
            state.failed.pop(token.id, None)
    if change.hook or change.code:
        state.code = change.call
    if change.reserved:
        state.reserved[change.call] = change.reserved


def _call_back(state: ProcessState, change: NodeCallBack) -> None:
    token = state.nodes[state.calls.pop(change.call)]
    if state.code == change.call:
        state.code = ""
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


def _noted(state: ProcessState, change: ProcessChange) -> None:
    """Nothing: what follows from it stands in other changes."""


def _paused(state: ProcessState, change: Paused) -> None:
    state.paused, state.laps = change.wake, change.laps


def _listener_set(state: ProcessState, change: ListenerSet) -> None:
    if change.mask:
        state.listeners[change.listener] = change.mask
    else:
        state.listeners.pop(change.listener, None)


APPLY: dict[type, Callable[[ProcessState, Any], None]] = {
    **apply_table(globals()),
    ProcessStarted: partial(_moved, "executing"),
    ProcessPendingComplete: partial(_moved, "pending-completion"),
    ProcessCompleted: partial(_moved, "completed"),
    ProcessPendingCancel: partial(_moved, "pending-cancel"),
    ProcessCanceled: partial(_moved, "cancelled"),
    ProcessFailed: partial(_moved, "failed"),
    **dict.fromkeys((QuestionAsked, NodeTokenExecuted, ArcTokenIncompleteJoin, WayBackTaken), _noted),
    **NODE_FACTS,
    **ARC_FACTS,
}
