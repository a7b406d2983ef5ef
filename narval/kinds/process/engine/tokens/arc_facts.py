"""The application of facts about arc tokens to the state of a process."""

from __future__ import annotations

from narval.core.engines.run_state import apply_table
from narval.kinds.process.engine.changes import (
    ArcTokenBacktracked,
    ArcTokenCancelled,
    ArcTokenCompleted,
    ArcTokenCreated,
    ArcTokenMerged,
    ArcTokenProcessed,
)
from narval.kinds.process.engine.state import ProcessState, place, place_of
from narval.kinds.process.engine.tokens.token import ArcToken, Line


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
    if token.id >= state.next_token:
        state.next_token = token.id + 1
    state.nodes[change.parent].children.append(token.id)
    if not change.aside:
        state.queue.join(token.id)
    for number in token.sets:
        found = state.sets[number]
        found.arcs[token.id] = None
        found.heading[token.to] = found.heading.get(token.to, 0) + 1


def _processed(state: ProcessState, change: ArcTokenProcessed) -> None:
    token = state.arcs[change.token]
    if token.pending:
        _leave_queue(state, token)
    state.active_arcs[token.id] = None
    if change.waits:
        token.waits = True
        for spot in _places(token):
            if spot not in state.waiting:
                state.waiting[spot] = Line()
            state.waiting[spot].join(token.id)


def _leave_queue(state: ProcessState, token: ArcToken) -> None:
    token.pending = False
    state.queue.leave(token.id, lambda number: state.arcs[number].pending)


def _places(token: ArcToken) -> list[str]:
    """All the lines that a token stands in."""
    return [place(token.arc), *(place_of(token.arc, member) for member in token.sets.items() or [None])]


def _arc_deactivate(state: ProcessState, token: ArcToken) -> None:
    if token.pending:
        _leave_queue(state, token)
    if state.active_arcs.pop(token.id, True) is None and token.waits:
        token.waits = False
        for spot in _places(token):
            line = state.waiting[spot]
            line.leave(token.id, state.waits_in_line)
            if line.first is None:
                del state.waiting[spot]


def _arc_completed(state: ProcessState, change: ArcTokenCompleted) -> None:
    token = state.arcs[change.token]
    _arc_deactivate(state, token)
    token.complete, token.child = True, change.child
    if token.sets:
        _leave_sets(state, token)


def _arc_cancelled(state: ProcessState, change: ArcTokenCancelled) -> None:
    token = state.arcs[change.token]
    _arc_deactivate(state, token)
    token.complete, token.cancelled = True, change.by
    _leave_sets(state, token)


def _leave_sets(state: ProcessState, token: ArcToken) -> None:
    for number in token.sets:
        found = state.sets[number]
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


ARC_FACTS = apply_table(globals())
