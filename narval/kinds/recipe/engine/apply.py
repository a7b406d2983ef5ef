"""Facts of a plan as they alter its state (N21): those just decided, and those recorded before, alike."""

from __future__ import annotations

from narval.core.engines.run_state import apply_table, illegal_move
from narval.kinds.recipe.engine.changes import (
    CallExpired,
    CallMade,
    CallReturned,
    CallsDropped,
    CallSpoilt,
    DateCome,
    DateGivenUp,
    DateSet,
    DurationEnded,
    DurationStarted,
    MadeImpossible,
    NextTryMade,
    PlanChange,
    PlanMoved,
    PlanRedefined,
    PlanResumed,
    PlanStarted,
    RestEnded,
    SelectionFollowed,
    SelectionGrown,
    StepBlocked,
    StepDone,
    StepErred,
    StepFailed,
    StepReady,
    StepResting,
    StepRunning,
    TransitionFailed,
    TransitionFired,
    TransitionWaiting,
    TriesReset,
    TryFailed,
    VersionFollowed,
)
from narval.kinds.recipe.engine.parts import STEP_MOVES, TRANSITION_MOVES, CallRun, StepRun, TransitionRun
from narval.kinds.recipe.engine.state import PlanState


def _move_step(state: PlanState, step: str, to: str) -> StepRun:
    run = state.steps.get(step)
    if run is None:
        run = state.steps[step] = StepRun()
    if to not in STEP_MOVES[run.state]:
        raise illegal_move(state, f"step {step}", run.state, to)
    run.state = to
    return run


def _move_transition(state: PlanState, transition: str, to: str) -> TransitionRun:
    run = state.transitions.get(transition)
    if run is None:
        run = state.transitions[transition] = TransitionRun()
    if to not in TRANSITION_MOVES[run.state]:
        raise illegal_move(state, f"transition {transition}", run.state, to)
    run.state = to
    if state.waiting:
        state.waiting.pop(transition, None)
    if state.awaiting_date:
        state.awaiting_date.pop(transition, None)
    if run.satisfied:
        run.satisfied = ()
        _end_duration(state, transition)
    return run


def _plan_started(state: PlanState, change: PlanStarted) -> None:
    state.move("running")
    state.begin(change)


def _plan_resumed(state: PlanState, change: PlanResumed) -> None:
    state.resumed, state.followed = (change.of, change.step), change.followed
    for part in change.steps:  # taken over as they are: what led there has happened in the other plan
        state.steps[part.id] = StepRun(part.state, produced=part.eids, errors=part.errors)
    for part in change.transitions:
        state.transitions[part.id] = TransitionRun(part.state, part.eids, counts=part.counts)
    for reusable in change.again:
        slots = state.again.setdefault(reusable.id, {})
        slots[reusable.slot] = tuple(dict.fromkeys((*slots.get(reusable.slot, ()), *reusable.eids)))


def _plan_redefined(state: PlanState, change: PlanRedefined) -> None:
    state.steps.clear()
    state.transitions.clear()
    for waiting in state.waits:
        waiting.clear()


def _step_ready(state: PlanState, change: StepReady) -> None:
    _move_step(state, change.step, "ready").via = change.via


def _step_blocked(state: PlanState, change: StepBlocked) -> None:
    state.steps[change.step].watch = change.watch
    state.blocked[change.step] = None
    state.waited = True


def _step_running(state: PlanState, change: StepRunning) -> None:
    if state.blocked:
        state.blocked.pop(change.step, None)
    run = _move_step(state, change.step, "running")
    run.watch = ""
    if change.fed:
        state.waited = True
    if change.call:
        run.calls[change.call] = CallRun(change.inputs, change.reserved, change.source)
        state.calls[change.call] = change.step
        if change.at:
            run.called = change.at
            _take_once(state, change.step, change.inputs)
    else:
        run.foreach, run.selected = change.foreach, change.selected


def _call_made(state: PlanState, change: CallMade) -> None:
    run = state.steps[change.step]
    run.calls[change.call] = CallRun(change.inputs, change.reserved, change.source)
    state.calls[change.call] = change.step
    if change.given is not None:
        run.reached = run.selected.index(change.given, run.reached) + 1
    else:
        run.called = change.at
        if change.step in state.blocked:
            del state.blocked[change.step]
            run.watch = ""
        _take_once(state, change.step, change.inputs)


def _take_once(state: PlanState, step: str, taken: tuple[int, ...]) -> None:
    """Let a step that is called again take no more than once what it may take though it is marked."""
    for slot, eids in state.again.get(step, {}).items():
        state.again[step][slot] = tuple(eid for eid in eids if eid not in taken)


def _step_resting(state: PlanState, change: StepResting) -> None:
    run = state.steps[change.step]
    run.until, run.watch, run.wake = change.until, change.watch, change.wake
    state.resting[change.step] = None
    state.waited = True


def _rest_ended(state: PlanState, change: RestEnded) -> None:
    del state.resting[change.step]
    run = state.steps[change.step]
    run.until, run.watch, run.wake = 0.0, "", ""


def _selection_followed(state: PlanState, change: SelectionFollowed) -> None:
    state.steps[change.step].watch = change.watch
    state.following[change.step] = None


def _selection_grown(state: PlanState, change: SelectionGrown) -> None:
    state.steps[change.step].selected += (change.element,)


def _calls_dropped(state: PlanState, change: CallsDropped) -> None:
    run = state.steps[change.step]
    run.reached = max(run.reached, run.selected.index(change.elements[-1]) + 1)


def _try_failed(state: PlanState, change: TryFailed) -> None:
    call = _call(state, change.call)
    call.until, call.next_try, call.problem = change.until, change.next_try, change.problem
    call.spoilt = None


def _next_try_made(state: PlanState, change: NextTryMade) -> None:
    call = _call(state, change.call)
    call.tries += change.counted
    call.until = call.next_try = None
    call.expired = False


def _call_expired(state: PlanState, change: CallExpired) -> None:
    _call(state, change.call).expired = True


def _call_spoilt(state: PlanState, change: CallSpoilt) -> None:
    _call(state, change.call).spoilt = change.problem


def _tries_reset(state: PlanState, change: TriesReset) -> None:
    call = _call(state, change.call)
    call.tries, call.problem = 1, None


def _call(state: PlanState, call: str) -> CallRun:
    return state.steps[state.calls[call]].calls[call]


def _call_returned(state: PlanState, change: CallReturned) -> None:
    run = state.steps[state.calls.pop(change.call)]
    del run.calls[change.call]
    run.produced += change.produced
    run.errors += change.errors
    if run.fault is None:
        run.fault = change.fault


def _end_step(state: PlanState, step: str, to: str) -> StepRun:
    """Move a step from running through `end` to its outcome, in one change."""
    run = state.steps[step]
    if run.state != "running":
        raise illegal_move(state, f"step {step}", run.state, to)
    run.state = to
    if state.blocked:
        state.blocked.pop(step, None)
    _follow_no_more(state, step)
    return run


def _follow_no_more(state: PlanState, step: str) -> None:
    if step in state.following:
        del state.following[step]
        state.steps[step].watch = ""


def _step_done(state: PlanState, change: StepDone) -> None:
    run = _end_step(state, change.step, "done")
    if change.call:
        del state.calls[change.call]
        run.calls = {}  # it has room for several calls: a new one has none yet
        run.produced += change.produced


def _step_erred(state: PlanState, change: StepErred) -> None:
    _end_step(state, change.step, "error")
    state.in_error[change.step] = None


def _step_failed(state: PlanState, change: StepFailed) -> None:
    state.blocked.pop(change.step, None)
    if state.steps[change.step].state == "running":
        _follow_no_more(state, change.step)
        _move_step(state, change.step, "end")
    _move_step(state, change.step, "failed").fault = change.error


def _date_set(state: PlanState, change: DateSet) -> None:
    run = _move_transition(state, change.transition, "wait-time")
    run.date, run.wake, run.since = change.date, change.wake, change.since
    run.of, run.watch = change.of, change.watch
    state.awaiting_date[change.transition] = None
    state.waited = True


def _date_come(state: PlanState, change: DateCome) -> None:
    if change.transition not in state.transitions:
        state.transitions[change.transition] = TransitionRun()
    run = state.transitions[change.transition]
    run.come, run.wake, run.watch = True, "", ""
    state.awaiting_date.pop(change.transition, None)


def _date_given_up(state: PlanState, change: DateGivenUp) -> None:
    run = state.transitions.setdefault(change.transition, TransitionRun())
    run.given_up, run.gone, run.wake, run.watch = True, change.gone, "", ""
    state.awaiting_date.pop(change.transition, None)


def _version_followed(state: PlanState, change: VersionFollowed) -> None:
    state.instead[change.old] = change.new


def _transition_waiting(state: PlanState, change: TransitionWaiting) -> None:
    _move_transition(state, change.transition, "wait-condition").watch = change.watch
    state.waiting[change.transition] = None


def _duration_started(state: PlanState, change: DurationStarted) -> None:
    run = state.transitions[change.transition]
    run.satisfied, run.until, run.wake = change.satisfied, change.until, change.wake
    state.awaiting_duration[change.transition] = None


def _duration_ended(state: PlanState, change: DurationEnded) -> None:
    _end_duration(state, change.transition)


def _end_duration(state: PlanState, transition: str) -> None:
    if transition in state.awaiting_duration:
        del state.awaiting_duration[transition]
        run = state.transitions[transition]
        run.until, run.wake = 0.0, ""


def _transition_fired(state: PlanState, change: TransitionFired) -> None:
    if change.transition in state.transitions:
        run = _move_transition(state, change.transition, "fireable")
        run.state, run.took, run.watch = "fired", change.took, ""
    else:
        run = state.transitions[change.transition] = TransitionRun("fired", change.took)
    run.counts = change.counts
    if change.fed:
        state.waited = True
    for step in change.ends:
        _move_step(state, step, "history")
        if state.in_error:
            state.in_error.pop(step, None)
    for step in change.starts:
        if step in state.steps:
            _move_step(state, step, "ready").via = change.transition
        else:
            state.steps[step] = StepRun("ready", change.transition)


def _made_impossible(state: PlanState, change: MadeImpossible) -> None:
    for transition in change.transitions:
        run = _move_transition(state, transition, "impossible")
        run.watch = run.wake = ""
    for step in change.steps:
        _move_step(state, step, "impossible")


def _transition_failed(state: PlanState, change: TransitionFailed) -> None:
    _move_transition(state, change.transition, "fail")


def _plan_moved(state: PlanState, change: PlanMoved) -> None:
    state.move(change.to, change.at, change.error)
    state.waiting.clear()
    state.awaiting_date.clear()
    for transition in tuple(state.awaiting_duration):
        _end_duration(state, transition)
    state.blocked.clear()
    for step in tuple(state.resting):
        _rest_ended(state, RestEnded(step))
    for step in tuple(state.following):
        _follow_no_more(state, step)


APPLY = apply_table(globals())


def apply(state: PlanState, change: PlanChange) -> None:
    """Alter the state as the change says. Raises InternalError for a move that no table lists."""
    APPLY[type(change)](state, change)
