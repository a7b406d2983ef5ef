"""Facts of a run of an automaton as they alter its state (A2-A6)."""

from __future__ import annotations

from narval.core.engines.run_state import apply_table, illegal_move
from narval.kinds.automaton.engine.changes import (
    AutomatonChange,
    CallFailed,
    CallGone,
    CallLate,
    FinalReached,
    RunLate,
    RunMoved,
    RunStarted,
    SignalHeard,
    SignalTaken,
    StateAwaited,
    StateCalled,
    StateEnded,
    StateHeld,
    StateInterrupted,
    StateReady,
    StatesKilled,
    StateSkipped,
)
from narval.kinds.automaton.engine.state import STATE_MOVES, AutomatonState, StateRun


def _move(state: AutomatonState, name: str, to: str, at: float) -> StateRun:
    run = state.states.get(name)
    if run is None:
        run = state.states[name] = StateRun()
    if to not in STATE_MOVES[run.state]:
        raise illegal_move(state, f"state {name}", run.state, to)
    run.become(to, at)
    return run


def _run_started(state: AutomatonState, change: RunStarted) -> None:
    state.move("running")
    state.begin(change)
    state.wake, state.until = change.wake, change.until


def _run_late(state: AutomatonState, change: RunLate) -> None:
    state.wake = ""


def _state_ready(state: AutomatonState, change: StateReady) -> None:
    run = _move(state, change.state, "ready", change.at)
    if change.by:
        if run.by and run.by in state.states:
            state.states[run.by].started.pop(change.state, None)
        state.states[change.by].started[change.state] = None
        run.by = change.by
    run.visits += 1
    run.failures = run.fallback = run.tries = 0
    run.started, run.missing, run.produced = {}, None, ()
    run.skipped, run.late, run.interrupted, run.dying = False, False, "", change.dying
    run.quick = run.quick + 1 if change.soon else 0


def _state_held(state: AutomatonState, change: StateHeld) -> None:
    run = _move(state, change.state, "held", change.at)
    run.hold, run.wake, run.until = change.hold, change.wake, change.until
    if change.hold == "back-off":
        run.fallback = change.fallback
    state.held[change.state] = None
    if change.hold == "room":
        state.queue[change.state] = None


def _let_go(state: AutomatonState, run: StateRun, name: str) -> None:
    run.hold, run.wake, run.until = "", "", None
    state.held.pop(name, None)
    state.queue.pop(name, None)


def _state_called(state: AutomatonState, change: StateCalled) -> None:
    run = _move(state, change.state, "running", change.at)
    _let_go(state, run, change.state)
    run.call, run.fallback, run.since = change.call, change.fallback, change.at
    run.wake, run.late = change.wake, False
    state.calls[change.call] = change.state


def _state_skipped(state: AutomatonState, change: StateSkipped) -> None:
    run = _move(state, change.state, "done", change.at)
    _let_go(state, run, change.state)
    run.label, run.output, run.skipped = "0", "", True


def _call_late(state: AutomatonState, change: CallLate) -> None:
    run = state.states[state.calls[change.call]]
    run.late, run.wake = True, ""


def _state_interrupted(state: AutomatonState, change: StateInterrupted) -> None:
    run = state.states[change.state]
    run.interrupted, run.wake = change.label, ""


def _call_failed(state: AutomatonState, change: CallFailed) -> None:
    run = state.states[state.calls.pop(change.call)]
    run.call, run.wake, run.label, run.output = "", "", change.label, change.output
    run.tries = run.tries + 1 if change.again else 0
    run.failures += not change.again


def _state_ended(state: AutomatonState, change: StateEnded) -> None:
    run = _move(state, change.state, "done" if change.label == "0" else "erred", change.at)
    _let_go(state, run, change.state)
    state.calls.pop(run.call, None)
    run.call, run.wake, run.label, run.output = "", "", change.label, change.output
    run.skipped, run.produced = change.skipped, change.produced


def _state_awaited(state: AutomatonState, change: StateAwaited) -> None:
    run = state.states.get(change.state)
    if run is None:
        run = state.states[change.state] = StateRun()
    if run.missing is None:
        run.missing = dict.fromkeys(state.awaits.get(change.state, ()))
    run.missing.pop(change.of, None)


def _states_killed(state: AutomatonState, change: StatesKilled) -> None:
    for call in change.calls:
        state.dying[call] = state.calls.pop(call)
    killed = dict.fromkeys(change.states)
    for name in killed:
        run = state.states[name]
        _let_go(state, run, name)
        run.become("idle", change.at)
        run.call, run.started, run.missing = "", {}, None
    for name, run in state.states.items():
        if run.missing is not None:  # a join that has not started needs their 0 again
            run.missing.update((other, None) for other in state.awaits[name] if other in killed)


def _call_gone(state: AutomatonState, change: CallGone) -> None:
    state.dying.pop(change.call, None)


def _signal_heard(state: AutomatonState, change: SignalHeard) -> None:
    state.signals = (*state.signals, change.name)


def _signal_taken(state: AutomatonState, change: SignalTaken) -> None:
    if change.kept:
        at = state.signals.index(change.name)
        state.signals = state.signals[:at] + state.signals[at + 1 :]


def _final_reached(state: AutomatonState, change: FinalReached) -> None:
    if change.state not in state.finals:
        state.finals = (*state.finals, change.state)


def _run_moved(state: AutomatonState, change: RunMoved) -> None:
    state.move(change.to, change.at, change.error)
    state.outcome = change.outcome
    state.wake, state.until = "", None
    for name in tuple(state.held):
        run = state.states[name]
        _let_go(state, run, name)
        run.become("idle", change.at)


APPLY = apply_table(globals())


def apply(state: AutomatonState, change: AutomatonChange) -> None:
    """Alter the state as the change says; a move that no table lists raises with the run's story."""
    APPLY[type(change)](state, change)
