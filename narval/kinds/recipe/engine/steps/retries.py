"""Calls after their first try: retries, time limits of runs (N29), and sources, whose calls run on.

A call that returned with a problem is made again while its step has retries left. Between two tries it is
neither under way nor returned: it keeps its id, its elements and its reservations. The next try and the time
limit of the answering run are both timers under the id of the call, which never waits for both at once.
Timers are recorded, and so hold across restarts. Sources of one `foreach` begin and end independently.
"""

from __future__ import annotations

from msgspec.structs import replace

from narval.core.engines import commands
from narval.core.engines.dates import SOURCE_REST, retry_wait
from narval.core.engines.events import Failure
from narval.core.patterns.pattern import condition
from narval.kinds.recipe.engine.changes import (
    CallExpired,
    CallReturned,
    CallSpoilt,
    NextTryMade,
    SelectionGrown,
    TriesReset,
    TryFailed,
)
from narval.kinds.recipe.engine.decision import RecipeDecision
from narval.kinds.recipe.engine.state import CallRun
from narval.kinds.recipe.engine.steps.repeats import is_satisfied
from narval.kinds.recipe.engine.steps.running import ask, call_more, finish, limit_of
from narval.kinds.recipe.language.definition import Step


def try_again(decision: RecipeDecision, step: Step, identifier: str, problem: Failure) -> bool:
    """Record another try of a call that failed; False if it has none left."""
    run = decision.state.step(step.id)
    call = run.calls[identifier]
    spoilt = run.fault is not None and step.id not in decision.state.following
    if call.tries > step.retries or problem.final or spoilt:
        return False
    if call.source and decision.state.status != "running":
        return False  # it would run for ever, and the plan is about to end
    target = decision.view.definition(step.kind, step.target)
    if not getattr(target, "is_tried_again", True):
        return False
    return try_later(
        decision, call, identifier, problem, retry_wait(step.backoff, call.tries, decision.event.id)
    )


def try_later(
    decision: RecipeDecision, call: CallRun, identifier: str, problem: Failure, seconds: float
) -> bool:
    """Schedule another try of a call after a number of seconds; False if the call is no longer known."""
    asked = decision.view.pending_call(identifier)
    if asked is None:
        return False
    until = decision.event.at + seconds
    # `detail` is in the journal with the event; a state may have thousands of such calls
    decision.change(TryFailed(identifier, until, replace(problem, detail=""), asked))
    decision.command(commands.SetTimer(identifier, until, keeps=call.inputs))
    return True


def timer_fired(decision: RecipeDecision, identifier: str) -> bool:
    """Make the next try of a call, or give up the run that answers it; False if no call has this timer."""
    if identifier not in decision.state.calls:
        return False
    step = decision.definition.steps[decision.state.calls[identifier]]
    call = decision.state.step(step.id).calls[identifier]
    if call.next_try is not None and step.until is not None and is_satisfied(decision, step):
        decision.free(call.reserved, well=False)
        decision.change(CallReturned(identifier))
        decision.to_run.append(step)
    elif call.next_try is not None:
        asked = replace(call.next_try, attempt=call.tries + 1, always="", begun=False)
        # An unbounded counter would make each state of the plan unique, and exploration endless.
        decision.change(NextTryMade(identifier, counted=call.tries <= step.retries + 1))
        ask(decision, step, asked)
    else:
        decision.change(CallExpired(identifier))
        decision.ask(commands.CancelCall(identifier))
    return True


def expired(step: Step) -> Failure:
    """The failure of a run that exceeded its time limit, in the words of the executors."""
    late = f"did not come back within {limit_of(step):g} s"
    return Failure("timeout", f"{step.called if step.agent else step.target} {late}")


def reset_tries(decision: RecipeDecision, step: Step, identifier: str) -> None:
    """Count a source's tries from zero again, because it has produced something."""
    if decision.state.step(step.id).calls[identifier].tries > 1:
        decision.change(TriesReset(identifier))


def back(decision: RecipeDecision, step: Step, identifier: str, call: CallRun) -> None:
    """Drop the time limit of a call that has returned, if the engine enforces it."""
    if limit_of(step) is not None and not call.expired:
        decision.command(commands.CancelTimer(identifier))


def cancel_calls(decision: RecipeDecision) -> None:
    """Give up the calls under way, and pending tries."""
    for identifier, place in decision.state.calls.items():
        step = decision.definition.steps[place]
        call = decision.state.step(place).calls[identifier]
        if call.next_try is not None:
            decision.command(commands.CancelTimer(identifier))
        else:
            back(decision, step, identifier, call)
            if not (call.expired or call.spoilt):
                decision.ask(commands.CancelCall(identifier))


# --- sources ----------------------------------------------------------------------------------------------

_ANYTHING = condition("*").bind()


def give_up_spoilt(decision: RecipeDecision, step: Step, identifier: str, problem: Failure) -> bool:
    """Give up one of several sources, which gave an element that fits no output; False if it is the
    only one.
    """
    if step.foreach is None or step.id not in decision.state.following:
        return False
    decision.ask(commands.CancelCall(identifier))
    decision.change(CallSpoilt(identifier, problem))
    return True


def rest_source(decision: RecipeDecision, step: Step, identifier: str, problem: Failure) -> bool:
    """Report the failure of a source, and schedule its next start; False if it has ended.

    In a recipe that restarts, a failed source starts again while others of its `foreach` are running: the
    plan continues, and its restart would come too late for this one. If none is running, the resting ones end
    with this one, and the plan with them. The same failure is reported once, until the source has given
    something.
    """
    run = decision.state.step(step.id)
    call = run.calls[identifier]
    follows = step.id in decision.state.following
    if not follows or decision.definition.restart == "no" or decision.state.status != "running":
        return False
    resting = [
        other
        for other, its in run.calls.items()
        if other != identifier and its.next_try is not None and its.tries > step.retries
    ]
    if len(resting) == len(run.calls) - 1:
        for other in resting:
            decision.command(commands.CancelTimer(other))
            decision.change(CallReturned(other))
        return False
    last = call.problem if call.tries > step.retries + 1 else None
    if not try_later(decision, call, identifier, problem, max(SOURCE_REST, step.backoff or 0.0)):
        return False
    if last is None or (last.kind, last.message) != (problem.kind, problem.message):
        decision.add_error(
            problem.kind,
            problem.message,
            step,
            detail=problem.detail,
            call=identifier,
            inputs=call.inputs,
            tries=call.tries,
            held=False,
        )
    return True


def follow_selection(decision: RecipeDecision, step: Step, eid: int) -> None:
    """Make a call for a newly selected element of a `foreach` over sources; end the calls of a replaced
    one.
    """
    run, selected = decision.state.step(step.id), step.foreach
    if selected is None:
        _follow_inputs(decision, step, eid)
        return
    bound = selected.bind(decision.bindings(selected.variables))
    if any(True for _ in decision.view.among((eid,), bound, None)):
        if eid not in run.selected:
            decision.change(SelectionGrown(step.id, eid))
            call_more(decision, step)
        return
    for identifier, call in tuple(run.calls.items()):
        if eid not in call.inputs:
            continue
        if call.next_try is not None or call.spoilt is not None:
            if call.next_try is not None:
                decision.command(commands.CancelTimer(identifier))
            decision.change(CallReturned(identifier))
            call_more(decision, step)
        else:
            decision.ask(commands.CancelCall(identifier))


def _follow_inputs(decision: RecipeDecision, step: Step, eid: int) -> None:
    """Start a source again when an element that it was given is replaced, or one that it lacks arrives."""
    calls = decision.state.step(step.id).calls
    if not calls:
        decision.to_run.append(step)
        return
    ((identifier, call),) = calls.items()
    if eid not in call.inputs or _counts(decision, eid) or decision.state.status != "running":
        return
    if call.next_try is None:
        decision.ask(commands.CancelCall(identifier))
    else:
        decision.command(commands.CancelTimer(identifier))
        decision.change(CallReturned(identifier))
        decision.to_run.append(step)


def is_replaced(decision: RecipeDecision, step: Step, inputs: tuple[int, ...]) -> bool:
    """True if the single source of a step was given up because one of its `inputs` no longer counts."""
    return step.foreach is None and not all(_counts(decision, eid) for eid in inputs)


def _counts(decision: RecipeDecision, eid: int) -> bool:
    """True if an element is neither outdated nor forgotten."""
    return any(True for _ in decision.view.among((eid,), _ANYTHING, None))


def end_sources(decision: RecipeDecision) -> None:
    """End sources that wait for their next try, because the plan winds up."""
    for identifier in decision.sources_to_end:
        step = decision.definition.steps[decision.state.calls[identifier]]
        decision.command(commands.CancelTimer(identifier))
        decision.change(CallReturned(identifier))
        if not decision.state.step(step.id).calls:
            finish(decision, step)
    decision.sources_to_end = ()
