"""Facts of a run of a dataflow as they alter its state."""

from __future__ import annotations

from narval.core.engines.run_state import apply_table
from narval.kinds.dataflow.engine.changes import (
    DataflowBegan,
    DataflowChange,
    DataflowEnded,
    InputCompleted,
    SessionBegan,
    SessionEnded,
    SessionKept,
)
from narval.kinds.dataflow.engine.state import DataflowState, FlowSession


def _began(state: DataflowState, change: DataflowBegan) -> None:
    state.move("running")
    state.begin(change)
    state.ttl, state.open, state.retry_of = change.ttl, change.open, change.retry_of


def _session_began(state: DataflowState, change: SessionBegan) -> None:
    state.calls[change.call] = len(state.sessions)
    state.sessions.append(FlowSession(change.call, change.eid, change.place, started=change.at))


def _session_kept(state: DataflowState, change: SessionKept) -> None:
    kept = FlowSession("", change.eid, change.place, "done", results=change.results, kept=True)
    state.sessions.append(kept)


def _session_ended(state: DataflowState, change: SessionEnded) -> None:
    session = state.sessions[state.calls.pop(change.call)]
    session.state, session.ended = change.state, change.at
    session.results, session.operators, session.error = change.results, change.operators, change.error
    session.unread = change.unread


def _input_completed(state: DataflowState, change: InputCompleted) -> None:
    state.open = False


def _ended(state: DataflowState, change: DataflowEnded) -> None:
    state.move(change.status, change.at, change.error)
    state.open = False
    for place in state.calls.values():
        session = state.sessions[place]
        session.state, session.ended = "cancelled", change.at
    state.calls.clear()


APPLY = apply_table(globals())


def apply(state: DataflowState, change: DataflowChange) -> None:
    """Alter the state as the change says."""
    APPLY[type(change)](state, change)
