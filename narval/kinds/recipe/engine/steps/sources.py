"""Sources: calls that run on. Those of one `foreach` begin and end independently."""

from __future__ import annotations

from narval.core.engines import commands
from narval.core.engines.calls.backoff import SOURCE_REST
from narval.core.engines.events import Failure
from narval.core.patterns.pattern import condition
from narval.kinds.recipe.engine.changes import CallReturned, CallSpoilt, SelectionGrown
from narval.kinds.recipe.engine.decision import RecipeDecision
from narval.kinds.recipe.engine.steps.retries import rest
from narval.kinds.recipe.engine.steps.running import call_more, finish
from narval.kinds.recipe.language.definition import Step

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


def rests(decision: RecipeDecision, step: Step, identifier: str, problem: Failure) -> bool:
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
    if not rest(decision, call, identifier, problem, max(SOURCE_REST, step.backoff or 0.0)):
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
