"""Trying again: how often a call is made, how long it waits in between, and how long a run may take (N29).

A call that came back with a problem is made again as long as its step has retries left. Between two tries it
is neither under way nor back: it keeps its id, its elements and what it has reserved. Both the moment of the
next try and the time limit of a run that answers are wake-ups under the id of the call, for a call never
waits for both at once; so they are recorded, and hold across restarts.
"""

from __future__ import annotations

from msgspec.structs import replace

from narval.definitions.recipe.definition import Step
from narval.engines import commands
from narval.engines.backoff import SOURCE_REST, wait
from narval.engines.events import Failure
from narval.engines.recipe.calls.repeats import is_satisfied
from narval.engines.recipe.changes import (
    CallExpired,
    CallReturned,
    NextTryMade,
    SelectionGrown,
    TriesReset,
    TryFailed,
)
from narval.engines.recipe.decision import RecipeDecision
from narval.engines.recipe.parts import CallRun
from narval.engines.recipe.steps import ask, call_more, finish, limit_of


def try_again(decision: RecipeDecision, step: Step, identifier: str, problem: Failure) -> bool:
    """Record another try of a call that failed, if it has any left; False if not."""
    run = decision.state.step(step.id)
    call = run.calls[identifier]
    if call.tries > step.retries or problem.final or run.fault is not None:
        return False
    if call.source and decision.state.status != "running":
        return False  # it would go on for ever, and the plan is about to end
    return _waits(decision, call, identifier, problem, wait(step.backoff, call.tries, decision.event.id))


def source_rests(decision: RecipeDecision, step: Step, identifier: str, problem: Failure) -> bool:
    """Tell that a source has failed, and begin it again after a while (N28, N36); False if it has ended.

    So it is in a plan of a recipe that restarts, while others of its `foreach` are at work: the plan goes on,
    and its restart would help this one too late. When none is at work those that rest end with this one, and
    the plan with them. The same failure is told once, until the source has given something.
    """
    run = decision.state.step(step.id)
    call = run.calls[identifier]
    follows = step.id in decision.state.following and run.fault is None
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
    if not _waits(decision, call, identifier, problem, max(SOURCE_REST, step.backoff or 0.0)):
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


def _waits(
    decision: RecipeDecision, call: CallRun, identifier: str, problem: Failure, seconds: float
) -> bool:
    asked = decision.view.pending_call(identifier)
    if asked is None:
        return False
    until = decision.event.at + seconds
    # lines for people stand in the journal with the event; a state may hold thousands of such calls
    decision.change(TryFailed(identifier, until, replace(problem, detail=""), asked))
    decision.command(commands.SetTimer(identifier, until, keeps=call.inputs))
    return True


def timer_fired(decision: RecipeDecision, identifier: str) -> bool:
    """Make the next try of a call, or give up the run that answers it; False if the timer is of no call."""
    if identifier not in decision.state.calls:
        return False
    step = decision.definition.steps[decision.state.calls[identifier]]
    call = decision.state.step(step.id).calls[identifier]
    if call.next_try is not None and step.until is not None and is_satisfied(decision, step):
        decision.free(call.reserved, well=False)
        decision.change(CallReturned(identifier))
        decision.to_run.append(step)
    elif call.next_try is not None:
        asked = replace(call.next_try, attempt=call.tries + 1)
        # A number that grew for ever would make each state of the plan another, and exploration never end.
        decision.change(NextTryMade(identifier, counted=call.tries <= step.retries + 1))
        ask(decision, step, asked)
    else:
        decision.change(CallExpired(identifier))
        decision.ask(commands.CancelCall(identifier))
    return True


def expired(step: Step) -> Failure:
    """The reason why a run that outlived its time limit was given up, in the words of the executors."""
    return Failure("timeout", f"{step.target} did not come back within {limit_of(step):g} s")


def reset_tries(decision: RecipeDecision, step: Step, identifier: str) -> None:
    """Count a source's tries anew: it has produced something."""
    if decision.state.step(step.id).calls[identifier].tries > 1:
        decision.change(TriesReset(identifier))


def back(decision: RecipeDecision, step: Step, identifier: str, call: CallRun) -> None:
    """Drop the time limit of a call that is back, if the engine keeps it."""
    if limit_of(step) is not None and not call.expired:
        decision.command(commands.CancelTimer(identifier))


def cancel_calls(decision: RecipeDecision) -> None:
    """Give up the calls under way, and the tries still to be made."""
    for identifier, place in decision.state.calls.items():
        step = decision.definition.steps[place]
        call = decision.state.step(place).calls[identifier]
        if call.next_try is not None:
            decision.command(commands.CancelTimer(identifier))
        else:
            back(decision, step, identifier, call)
            if not call.expired:
                decision.ask(commands.CancelCall(identifier))


def follow_selection(decision: RecipeDecision, step: Step, eid: int) -> None:
    """Make a call for what a `foreach` over sources selects besides; end those of what was replaced (N36)."""
    run, selected = decision.state.step(step.id), step.foreach
    assert selected is not None, step
    bound = selected.bind(decision.bindings(selected.variables))
    if any(True for _ in decision.view.among((eid,), bound, None)):
        if eid not in run.selected:
            decision.change(SelectionGrown(step.id, eid))
            call_more(decision, step)
        return
    for identifier, call in tuple(run.calls.items()):
        if eid not in call.inputs:
            continue
        if call.next_try is not None:
            decision.command(commands.CancelTimer(identifier))
            decision.change(CallReturned(identifier))
            call_more(decision, step)
        else:
            decision.ask(commands.CancelCall(identifier))


def end_sources(decision: RecipeDecision) -> None:
    """End sources that wait for their next try: the plan winds up (N36)."""
    for identifier in decision.sources_to_end:
        step = decision.definition.steps[decision.state.calls[identifier]]
        decision.command(commands.CancelTimer(identifier))
        decision.change(CallReturned(identifier))
        if not decision.state.step(step.id).calls:
            finish(decision, step)
    decision.sources_to_end.clear()
