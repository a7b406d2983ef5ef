"""The end of a process: completed, cancelled, or failed because narval cannot continue (section 2)."""

from __future__ import annotations

from narval.kinds.process.engine.changes import (
    ProcessCanceled,
    ProcessCompleted,
    ProcessFailed,
    ProcessPendingCancel,
    ProcessPendingComplete,
)
from narval.kinds.process.engine.decision import ProcessDecision

DELAY_COMPLETE = "DELAY_PROCESS_FINALIZE_COMPLETE"
DELAY_CANCEL = "DELAY_PROCESS_FINALIZE_CANCEL"


def complete_if_done(decision: ProcessDecision) -> None:
    """Complete a process in which nothing is active, unless a listener delays that."""
    state = decision.state
    if state.status != "executing" or state.is_active or state.queue.first is not None:
        return
    if DELAY_COMPLETE not in decision.happens(ProcessPendingComplete()):
        finalize_complete(decision)


def finalize_complete(decision: ProcessDecision) -> None:
    """End the process; its caller gets the result."""
    decision.go_on()
    decision.happens(ProcessCompleted(decision.event.at))
    _finish(decision)


def cancel(decision: ProcessDecision) -> None:
    """Give up all calls, and end the process where it is, unless a listener delays that."""
    stop(decision)
    if DELAY_CANCEL not in decision.happens(ProcessPendingCancel()):
        finalize_cancel(decision)


def finalize_cancel(decision: ProcessDecision) -> None:
    """End the process; its caller gets the result."""
    decision.happens(ProcessCanceled(decision.event.at))
    _finish(decision)


def fail(decision: ProcessDecision, error: int, *, abandon: bool = True) -> None:
    """End a process that narval cannot continue, where it is."""
    stop(decision, abandon=abandon)
    decision.change(ProcessFailed(decision.event.at, error))
    _finish(decision)


def stop(decision: ProcessDecision, *, abandon: bool = True) -> None:
    """Stop waiting for anything: give up calls, and free what they reserved."""
    state = decision.state
    for token in (*state.delayed.values(), *state.watches.values()):
        decision.stop_waiting(state.nodes[token])
    for call in tuple(state.calls):
        decision.give_up(call, abandon=abandon)
    decision.go_on()


def _finish(decision: ProcessDecision) -> None:
    state = decision.state
    if state.PHASES[state.status] == "done":
        tokens = (token for token in state.nodes.values() if token.produced and not token.backtracked)
        eids = tuple(eid for token in tokens for eid in token.produced)
    else:
        eids = (state.error,) if state.error is not None else ()
    decision.report_end(eids)
