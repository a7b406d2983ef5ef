"""What came back from the calls of a step: outputs are checked and kept, errors too (N20, N26, N36)."""

from __future__ import annotations

from narval.definitions.prototype import Prototype
from narval.definitions.recipe.definition import Step
from narval.engines import commands
from narval.engines.events import Failure, OutputElement, Produced, Returned
from narval.engines.outputs import NOTHING, Verdict, judge
from narval.engines.recipe import retries
from narval.engines.recipe.changes import CallBack, StepDone
from narval.engines.recipe.decision import RecipeDecision
from narval.engines.recipe.state import CallRun, StepRun
from narval.engines.recipe.steps import WITH_PROTOTYPE, call_more, finish, prototype_of
from narval.memory.elements.element import Element
from narval.memory.elements.error_element import read_error


def produced(decision: RecipeDecision, event: Produced) -> None:
    """A source has elements: they enter memory for everyone, and the step goes on (N36).

    They do not join the plan's context: a source may run for years, and its products are
    forgotten one by one.
    """
    place = decision.state.calls.get(event.call)
    if place is None:
        return
    step, run = decision.definition.steps[place], decision.state.steps[place]
    call = run.calls[event.call]
    retries.well(decision, step, event.call)
    verdict = _judged(decision, step, event.elements, complete=False)
    if verdict.fault:
        decision.ask(commands.CancelCall(event.call))
        _end_call(decision, step, run, call, _bad_output(decision, step, event.call, call, verdict))
        return
    for each in (*verdict.accepted, *verdict.errors):
        decision.keep(each, step.id, event.call, call.inputs, held=False)


def returned(decision: RecipeDecision, event: Returned) -> None:
    """A call came back: check its outputs, and end the step with the last of its calls; or try it again."""
    place = decision.state.calls.get(event.call)
    if place is None:
        return
    step, run = decision.definition.steps[place], decision.state.steps[place]
    call = run.calls[event.call]
    if step.timeout is not None:
        retries.back(decision, step, event.call, call)
    if event.problem is not None or event.abandoned:
        back = _unwell(decision, step, call, event)
    elif step.kind in WITH_PROTOTYPE:
        back = _with_outputs(decision, step, call, event)
    else:
        back = CallBack(event.call, event.eids)
        if event.eids:
            decision.add_to_context(event.eids)
    if back is not None:
        _end_call(decision, step, run, call, back)


def _end_call(decision: RecipeDecision, step: Step, run: StepRun, call: CallRun, back: CallBack) -> None:
    """What the call reserved is replaced, or free again (N18); the step goes on, or ends."""
    well = back.fault is None and not back.errors
    if call.reserved:
        decision.free(call.reserved, well=well)
    if well and run.each is None:
        decision.change(StepDone(step.id, back.call, back.produced))
        decision.to_judge.append(step)
        return
    decision.change(back)
    if run.waiting and run.fault is None:
        call_more(decision, step)
    if not run.calls:
        finish(decision, step)


def _unwell(decision: RecipeDecision, step: Step, call: CallRun, event: Returned) -> CallBack | None:
    """A call that did not do its work, or a source that was let go; None when it is tried again."""
    problem = _problem_of(step, call, event)
    if problem is None:
        return CallBack(event.call)
    if retries.try_again(decision, step, event.call, problem):
        return None
    return _in_error(decision, step, call, event, problem)


def _problem_of(step: Step, call: CallRun, event: Returned) -> Failure | None:
    """Why the call did not do its work; None when it did, or is a source that was let go."""
    if call.expired and event.abandoned:
        return retries.expired(step)
    if event.abandoned:
        return None if call.source else Failure("abandoned", "the call was given up", final=True)
    return event.problem


def _in_error(
    decision: RecipeDecision, step: Step, call: CallRun, event: Returned, problem: Failure
) -> CallBack:
    """The call failed: a run left its errors in memory, of anything else the problem becomes one (N26)."""
    if event.eids and not event.abandoned:
        decision.add_to_context(event.eids)
        return CallBack(event.call, errors=event.eids)
    error = decision.add_error(
        problem.kind,
        problem.message,
        step,
        detail=problem.detail,
        call=event.call,
        inputs=call.inputs,
        tries=call.tries,
    )
    return CallBack(event.call, errors=(error,))


def _with_outputs(decision: RecipeDecision, step: Step, call: CallRun, event: Returned) -> CallBack | None:
    """The outputs are kept, or a fault of theirs; None when an action that gave errors is tried again."""
    # What a source gave has entered memory as it came: when it ends, no output is missing.
    verdict = _judged(decision, step, event.elements, complete=not call.source)
    if verdict is NOTHING:
        return CallBack(event.call)
    if verdict.fault:
        return _bad_output(decision, step, event.call, call, verdict)
    if verdict.errors and retries.try_again(decision, step, event.call, _failure_of(verdict.errors[0][0])):
        return None
    kept = [decision.keep(each, step.id, event.call, call.inputs) for each in verdict.accepted]
    errors = [decision.add(error, step.id, event.call, call.inputs) for error, _ in verdict.errors]
    return CallBack(event.call, tuple([eid for eid in kept if eid is not None]), tuple(errors))


def _failure_of(error: Element) -> Failure:
    """The failure that an error element reports; that of a try that does not count is not kept."""
    kind, message, _ = read_error(error)
    return Failure(kind, message)


def _judged(
    decision: RecipeDecision, step: Step, raws: tuple[OutputElement, ...], *, complete: bool
) -> Verdict:
    prototype = prototype_of(step, decision.view.definition(step.kind, step.target))
    if not isinstance(prototype, Prototype):
        why = prototype.message if prototype is not None else "its target has no prototype"
        return Verdict(fault=f"its outputs cannot be checked: {why}")
    return judge(
        prototype, raws, decision.view, decision.bindings(prototype.output_variables), complete=complete
    )


def _bad_output(
    decision: RecipeDecision, step: Step, identifier: str, call: CallRun, verdict: Verdict
) -> CallBack:
    error = decision.add_error(
        "bad-output", verdict.fault, step, call=identifier, inputs=call.inputs, output=verdict.output
    )
    return CallBack(identifier, fault=error)
