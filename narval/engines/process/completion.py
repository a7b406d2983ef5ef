"""How a process ends: completed, canceled, or failed where narval cannot go on (section 2)."""

from __future__ import annotations

from narval.engines import commands
from narval.engines.process.changes import (
    ProcessCanceled,
    ProcessCompleted,
    ProcessFailed,
    ProcessPendingCancel,
    ProcessPendingComplete,
)
from narval.engines.process.decision import ProcessDecision
from narval.engines.process.state import PHASES

DELAY_COMPLETE = "DELAY_PROCESS_FINALIZE_COMPLETE"
DELAY_CANCEL = "DELAY_PROCESS_FINALIZE_CANCEL"


def complete_if_done(run: ProcessDecision) -> None:
    """A process where nothing is active any more is complete, unless a listener holds that up."""
    state = run.state
    if state.state != "executing" or state.active_nodes or state.active_arcs or state.calls:
        return
    if state.queue.first is not None or state.undoing:
        return
    if DELAY_COMPLETE not in run.happens(ProcessPendingComplete()):
        finalize_complete(run)


def finalize_complete(run: ProcessDecision) -> None:
    """The process is over; who called it is told."""
    run.go_on()
    run.happens(ProcessCompleted(run.event.at))
    _finish(run)


def cancel(run: ProcessDecision) -> None:
    """What runs for the process is given up, and it ends where it stands, unless a listener holds that up."""
    stop(run)
    if DELAY_CANCEL not in run.happens(ProcessPendingCancel()):
        finalize_cancel(run)


def finalize_cancel(run: ProcessDecision) -> None:
    """The process is over; who called it is told."""
    run.happens(ProcessCanceled(run.event.at))
    _finish(run)


def fail(run: ProcessDecision, error: int, *, abandon: bool = True) -> None:
    """narval cannot go on with the process: it ends where it stands."""
    stop(run, abandon=abandon)
    run.record.change(ProcessFailed(run.event.at, error))
    _finish(run)


def stop(run: ProcessDecision, *, abandon: bool = True) -> None:
    """Nothing is waited for any more: calls are given up, what they reserved is free."""
    state = run.state
    for token in (*state.delayed.values(), *state.watches.values()):
        run.stop_waiting(state.nodes[token])
    for call in tuple(state.calls):
        run.give_up(call, abandon=abandon)
    run.go_on()


def _finish(run: ProcessDecision) -> None:
    state = run.state
    phase = PHASES[state.state]
    if phase == "done":
        kept = (token for token in state.nodes.values() if not token.backtracked)
        eids = tuple(eid for token in kept for eid in token.produced)
    else:
        eids = (state.error,) if state.error is not None else ()
    run.record.command(commands.Finish(state.state, phase, eids, state.error))
    if run.process.decay is not None:
        run.record.command(commands.ScheduleForget(run.event.at + run.process.decay))
