"""The application of facts about node tokens to the state of a process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from narval.core.engines.run_state import apply_table
from narval.kinds.process.engine.changes import (
    CodeQueued,
    DelayOver,
    NodeTokenAccepted,
    NodeTokenBacktracked,
    NodeTokenCancelled,
    NodeTokenCompleted,
    NodeTokenCreated,
    NodeTokenDelayed,
    NodeTokenDiscarded,
    NodeTokenFailed,
    NodeTokenHeld,
    NodeTokenRetried,
    NodeTokenSkipped,
)
from narval.kinds.process.engine.state import ProcessState
from narval.kinds.process.engine.tokens.token import NodeToken


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
    if token.id >= state.next_token:
        state.next_token = token.id + 1
    state.newest[token.node] = token.id
    for number in token.sets:
        state.sets[number].nodes[token.id] = None


def _inherited(state: ProcessState, arcs: list[int] | tuple[int, ...]) -> dict[str, str]:
    """The attributes of the tokens that these arc tokens come from, later ones winning (section 8)."""
    if len(arcs) == 1:
        return state.nodes[state.arcs[arcs[0]].parent].environment
    merged: dict[str, str] = {}
    for number in arcs:
        merged.update(state.nodes[state.arcs[number].parent].environment)
    return merged


def _activate(state: ProcessState, token: NodeToken, guard: str) -> None:
    token.guard = guard
    state.active_nodes[token.id] = None
    state.standing.setdefault(token.node, {})[token.id] = None


def _deactivate(state: ProcessState, token: NodeToken) -> None:
    if token.queued:
        token.queued = False
        state.code_line.leave(token.id, state.waits_for_code)
    if state.failed:
        state.failed.pop(token.id, None)
    if state.active_nodes.pop(token.id, True) is None:
        standing = state.standing[token.node]
        del standing[token.id]
        if not standing:
            del state.standing[token.node]


def _accepted(state: ProcessState, change: NodeTokenAccepted) -> None:
    _activate(state, state.nodes[change.token], "AcceptToken")


def _skipped(state: ProcessState, change: NodeTokenSkipped) -> None:
    _activate(state, state.nodes[change.token], "SkipNode")


def _held(state: ProcessState, change: NodeTokenHeld) -> None:
    _activate(state, state.nodes[change.token], "")


def _discarded(state: ProcessState, change: NodeTokenDiscarded) -> None:
    state.nodes[change.token].guard = "DiscardToken"


def _delayed(state: ProcessState, change: NodeTokenDelayed) -> None:
    token = state.nodes[change.token]
    _activate(state, token, "DelayUntil")
    token.delays += 1
    token.until, token.wake = change.until, change.wake
    state.delayed[change.wake] = token.id


def _retried(state: ProcessState, change: NodeTokenRetried) -> None:
    token = state.nodes[change.token]
    token.tries += 1
    token.until, token.wake = change.until, change.wake
    state.delayed[change.wake] = token.id


def _failed(state: ProcessState, change: NodeTokenFailed) -> None:
    token = state.nodes[change.token]
    token.tries = 0
    if token.queued:
        token.queued = False
        state.code_line.leave(token.id, state.waits_for_code)
    state.failed[token.id] = change.error


def _code_queued(state: ProcessState, change: CodeQueued) -> None:
    state.nodes[change.token].queued = True
    state.code_line.join(change.token)


def _delay_over(state: ProcessState, change: DelayOver) -> None:
    token = state.nodes[change.token]
    state.delayed.pop(token.wake, None)
    token.wake = ""


def _node_completed(state: ProcessState, change: NodeTokenCompleted) -> None:
    token = state.nodes[change.token]
    token.completed = change.at
    _deactivate(state, token)
    for number in token.sets:
        state.sets[number].nodes.pop(token.id, None)


def _node_cancelled(state: ProcessState, change: NodeTokenCancelled) -> None:
    state.nodes[change.token].cancelled = change.by


def _node_backtracked(state: ProcessState, change: NodeTokenBacktracked) -> None:
    token = state.nodes[change.token]
    if token.execution_type == "Forward":
        token.execution_type = "ForwardBacktracked"
    _deactivate(state, token)


NODE_FACTS: dict[type, Callable[[ProcessState, Any], None]] = apply_table(globals())
