"""The returns of calls: outputs and errors are checked and kept (N20, N26, N36)."""

from __future__ import annotations

import msgspec

from narval.core.definitions.action.definition import Action
from narval.core.elements.element import Element
from narval.core.elements.own_elements import read_error
from narval.core.engines import commands
from narval.core.engines.events import Failure, OutputElement, Produced, Returned
from narval.core.engines.outputs import NOTHING, Verdict, judge
from narval.kinds.recipe.engine.changes import CallReturned, StepDone
from narval.kinds.recipe.engine.decision import RecipeDecision
from narval.kinds.recipe.engine.state import CallRun, StepRun
from narval.kinds.recipe.engine.steps import repeats, retries
from narval.kinds.recipe.engine.steps.callee import Callee, callee_of
from narval.kinds.recipe.engine.steps.running import ANSWERED_BY_CODE, call_more, finish
from narval.kinds.recipe.language.definition import Step

BAD_OUTPUT = "bad-output"
_MOST_SHOWN = 100
"""The most characters shown of an action's output."""


class Left(msgspec.Struct, frozen=True, gc=False):
    """The elements that a call produced, the errors that it left, or the fault of its outputs."""

    produced: tuple[int, ...] = ()
    errors: tuple[int, ...] = ()
    fault: int | None = None


_LEFT_NOTHING = Left()


def produced(decision: RecipeDecision, event: Produced) -> None:
    """Add the elements of a source to memory; its step continues.

    They do not join the plan's context: a source may run for years, and its products are
    forgotten one by one.
    """
    place = decision.state.calls.get(event.call)
    if place is None:
        return
    step, run = decision.definition.steps[place], decision.state.steps[place]
    call = run.calls[event.call]
    if call.spoilt is not None:
        return
    verdict = _judged(decision, callee_of(decision, step), event.elements, complete=False)
    if not verdict.fault:
        retries.reset_tries(decision, step, event.call)
    elif retries.give_up_spoilt(decision, step, event.call, _misfit(verdict)):
        return
    else:
        decision.ask(commands.CancelCall(event.call))
        _end_call(decision, step, run, event.call, _bad_output(decision, step, event, call, verdict))
        return
    for output in (*verdict.accepted, *verdict.errors):
        decision.keep(output, step.id, event.call, call.inputs, held=False)


def returned(decision: RecipeDecision, event: Returned) -> None:
    """Check a call's outputs and end its step with the last call, or schedule another try."""
    state = decision.state
    place = state.calls.get(event.call)
    if place is None:
        return
    step, run = decision.definition.steps[place], state.steps[place]
    call = run.calls[event.call]
    if step.timeout is not None or step.agent:
        retries.back(decision, step, event.call, call)
    if event.problem is not None or event.abandoned or call.spoilt is not None:
        left = _failed_call(decision, step, call, event)
    elif step.kind in ANSWERED_BY_CODE:
        callee = callee_of(decision, step)
        nothing = callee.gives_nothing and not event.elements
        left = _LEFT_NOTHING if nothing else _with_outputs(decision, step, callee, call, event)
    elif step.outputs and (verdict := _of_run(decision, step, event.eids)).fault:
        left = _bad_output(decision, step, event, call, verdict)
    else:
        left = Left(event.eids)
        decision.add_to_context(event.eids)
    if left is None:
        return
    given_up = event.abandoned and call.spoilt is None and step.id in state.following
    if not given_up:
        _end_call(decision, step, run, event.call, left)
    elif retries.is_replaced(decision, step, call.inputs):
        decision.change(_call_returned(run, event.call, left))
        decision.to_run.append(step)
    else:
        _end_call(decision, step, run, event.call, left, is_last=step.foreach is None)


def _call_returned(run: StepRun, call: str, left: Left) -> CallReturned:
    """The return of a call. A step has one fault: a further one counts among its errors."""
    if left.fault is None or run.fault is None:
        return CallReturned(call, left.produced, left.errors, left.fault)
    return CallReturned(call, left.produced, (*left.errors, left.fault))


def _end_call(
    decision: RecipeDecision,
    step: Step,
    run: StepRun,
    identifier: str,
    left: Left,
    is_last: bool = True,
) -> None:
    """Replace or free the call's reservations, then continue the step or end it.

    A step does not end with the call of a source whose element was replaced: then `is_last` is False. A step
    with `until` may be called again.
    """
    call = run.calls[identifier]
    well = left.fault is None and not left.errors
    if call.reserved:
        decision.free(call.reserved, well=well)
    if well and run.foreach is None and step.until is None and not call.source:
        decision.change(StepDone(step.id, identifier, left.produced))
        decision.to_follow.append(step)
        return
    decision.change(_call_returned(run, identifier, left))
    if run.waiting and (run.fault is None or step.id in decision.state.following):
        call_more(decision, step)
    if well and step.until is not None:
        repeats.call_again(decision, step)
    elif is_last and not run.calls:
        finish(decision, step)


def _failed_call(decision: RecipeDecision, step: Step, call: CallRun, event: Returned) -> Left | None:
    """The errors of a failed call; none for a source that was given up; None if the call is tried again."""
    problem = _problem_of(step, call, event)
    if problem is None:
        return _LEFT_NOTHING
    if retries.try_again(decision, step, event.call, problem):
        return None
    if call.source and retries.rest_source(decision, step, event.call, problem):
        return None
    if call.spoilt is not None:
        return _bad_output(decision, step, event, call, Verdict(fault=problem.message))
    return _in_error(decision, step, call, event, problem)


def _problem_of(step: Step, call: CallRun, event: Returned) -> Failure | None:
    """The failure of a call; None for a source that was given up."""
    if call.expired and event.abandoned:
        return retries.expired(step)
    if call.spoilt is not None:
        return call.spoilt
    if event.abandoned:
        return None if call.source else Failure("abandoned", "the call was given up", final=True)
    return event.problem


def _in_error(decision: RecipeDecision, step: Step, call: CallRun, event: Returned, problem: Failure) -> Left:
    """The errors of a call: those that a run left in memory, or an element made from the failure."""
    if event.eids and not event.abandoned:
        decision.add_to_context(event.eids)
        return Left(errors=event.eids)
    kind, message, detail, tries = problem.kind, problem.message, problem.detail, call.tries
    if kind == BAD_OUTPUT and not detail:  # raised where the result is taken, not in the action
        detail = _place_of(decision, step)
    error = decision.add_error(
        kind, message, step, detail=detail, call=event.call, inputs=call.inputs, tries=tries
    )
    return Left(errors=(error,))


def _with_outputs(
    decision: RecipeDecision, step: Step, callee: Callee, call: CallRun, event: Returned
) -> Left | None:
    """The outputs that are kept, or their fault; None if an action that returned errors is tried again."""
    # The elements of a source entered memory as they came: when it ends, no output is missing.
    verdict = _judged(decision, callee, event.elements, complete=not call.source)
    if verdict.fault:
        if call.source and retries.rest_source(decision, step, event.call, _misfit(verdict)):
            return None
        return _bad_output(decision, step, event, call, verdict)
    if verdict.errors and retries.try_again(decision, step, event.call, _failure_in(verdict.errors[0][0])):
        return None
    reserved = call.reserved if step.foreach is None else _reserved(decision, step, call)
    eids = [
        decision.keep(output, step.id, event.call, call.inputs, reserved=reserved)
        for output in verdict.accepted
    ]
    errors = [decision.add(error, step.id, event.call, call.inputs) for error, *_ in verdict.errors]
    return Left(tuple([eid for eid in eids if eid is not None]), tuple(errors))


def _reserved(decision: RecipeDecision, step: Step, call: CallRun) -> tuple[int, ...]:
    """The inputs that a call's outputs replace: its own reservations, and those shared by the calls of its
    `foreach`.
    """
    run = decision.state.step(step.id)
    shared = run.foreach.reserved if run.foreach is not None else ()
    return (*call.reserved, *(eid for eid in call.inputs if eid in shared)) if shared else call.reserved


def _of_run(decision: RecipeDecision, step: Step, eids: tuple[int, ...]) -> Verdict:
    """Check the result of a run against the outputs, as narrowed by the step."""
    prototype, view = callee_of(decision, step).prototype, decision.view
    if prototype is None:
        return NOTHING
    bindings = decision.bindings(prototype.output_variables)
    bounds = [(output, output.condition.bind(bindings)) for output in prototype.outputs]
    for element in filter(None, map(view.element, eids)):
        if not any(view.fits(element, bound) for _, bound in bounds):
            outputs = ", ".join(f"{output.id} ({bound.text})" for output, bound in bounds)
            return Verdict(fault=f"element {element.name} fits no output; wanted: {outputs}")
    return NOTHING


def _misfit(verdict: Verdict) -> Failure:
    """The failure of a call whose outputs do not fit, for which another try is useless."""
    return Failure(BAD_OUTPUT, verdict.fault, final=True)


def _failure_in(error: Element) -> Failure:
    """The failure that an error element returned by an action describes."""
    kind, message, _ = read_error(error)
    return Failure(kind, message)


def _judged(
    decision: RecipeDecision, callee: Callee, raws: tuple[OutputElement, ...], *, complete: bool
) -> Verdict:
    prototype = callee.prototype
    if prototype is None:
        why = "its target has no prototype" if callee.failure is None else callee.failure.message
        return Verdict(fault=f"its outputs cannot be checked: {why}")
    return judge(prototype, raws, decision.view, decision.bindings, complete=complete)


def _bad_output(
    decision: RecipeDecision, step: Step, event: Returned | Produced, call: CallRun, verdict: Verdict
) -> Left:
    gave = " ".join(raw.xml[:_MOST_SHOWN].decode("utf-8", "replace") for raw in event.elements[:9])
    gave = f"{gave[:_MOST_SHOWN]}…" if len(gave) >= _MOST_SHOWN else gave or "nothing"
    error = decision.add_error(
        BAD_OUTPUT,
        verdict.fault,
        step,
        detail=_place_of(decision, step, f": it gave {gave}"),
        call=event.call,
        inputs=call.inputs,
        output=verdict.output,
    )
    return Left(fault=error)


def _place_of(decision: RecipeDecision, step: Step, then: str = "") -> str:
    """The file and line of a step's action, followed by `then`; "" for any other target."""
    action = decision.view.definition(step.kind, step.target) if not step.agent else None
    return f"{action.path}:{action.line} {action.full_name}{then}" if isinstance(action, Action) else ""
