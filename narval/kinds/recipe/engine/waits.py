"""The waits of a plan, and the conditions that decided about its parts."""

from __future__ import annotations

from collections.abc import Iterator
from operator import itemgetter
from typing import Any

from narval.core.elements.element import SIGNAL
from narval.core.elements.own_elements import read_error
from narval.core.engines.commands import Watch
from narval.core.engines.engine import Find, Lookup, Wait
from narval.core.errors import DefinitionError
from narval.core.patterns.pattern import Bound
from narval.kinds.recipe.engine.decision import bindings, conditions_of
from narval.kinds.recipe.engine.explain import FOLLOWED, listed, reason_of_step, unfired, young_elements
from narval.kinds.recipe.engine.state import NOT_ENDED, CallRun, PlanState, StepRun
from narval.kinds.recipe.language.definition import Recipe, Step, Transition

_SIGNAL_ALONE = frozenset({SIGNAL})

_THEN = "an element for each condition"


def waiting_for(definition: Recipe, state: PlanState, watches: dict[str, Watch]) -> Iterator[Wait]:
    """The waits of a plan now: calls, reserved elements, dates, conditions, in-steps."""
    for identifier in dict.fromkeys(state.calls.values()):
        yield from _calls(definition.steps[identifier], state.step(identifier))
    for step in state.blocked:
        watch = watches.get(state.step(step).watch)
        yield Wait(step, "input", "an element that another call has reserved", **_conditions(watch))
    for step in state.following:
        if not state.step(step).calls:
            yield Wait(
                step,
                "input",
                "an element for its foreach"
                if definition.steps[step].foreach
                else "an element for its input",
                **_conditions(watches.get(state.step(step).watch)),
            )
    for identifier in state.resting:
        yield _next_call(definition.steps[identifier], state.step(identifier), watches)
    for identifier in state.awaiting_date:
        then = _then(definition.transitions[identifier])
        yield Wait(
            identifier,
            "time",
            then,
            until=state.transition(identifier).date,
            reckoned=_date_text(definition.transitions[identifier], state),
        )
    for identifier in state.waiting:
        transition = definition.transitions[identifier]
        asked = _conditions(watches.get(state.transition(identifier).watch)) | _words(transition)
        if identifier in state.awaiting_duration:
            run = state.transition(identifier)
            text = f"{young_elements(run)} to have fitted for long enough"
            yield Wait(identifier, "condition", text, **asked, until=run.until)
        else:
            what, text = _kind_of_wait(transition, asked.get("conditions", ()))
            yield Wait(identifier, what, text, **asked)
    if state.status == "running":
        yield from _joins(definition, state)


def _calls(step: Step, run: StepRun) -> Iterator[Wait]:
    """The waits of a running step: calls under way, and calls that will be tried again."""
    under_way = [identifier for identifier, call in run.calls.items() if call.until is None]
    if under_way:
        attempt = max(run.calls[identifier].tries for identifier in under_way)
        tried = f", attempt {_number(step, attempt)}" if attempt > 1 else ""
        yield Wait(step.id, "call", f"{step.called}{tried}", calls=tuple(under_way))
    resting = [(call.until, call) for call in run.calls.values() if call.until is not None]
    if resting:
        until, call = min(resting, key=itemgetter(0))
        text = f"{step.called}, attempt {_number(step, call.tries + 1)}"
        if call.problem is not None:
            text += f" after {call.problem.kind}: {call.problem.message}"
        if len(resting) > 1:
            text += f" (the first of {len(resting)} calls that will be tried again)"
        eids = tuple(dict.fromkeys(eid for _, one in resting for eid in _given_to(one)))
        after = call.problem.kind if call.problem is not None else ""
        yield Wait(step.id, "try", text, until=until, given=eids, after=after)


def _given_to(call: CallRun) -> tuple[int, ...]:
    """The elements that a call is given, also as the first context of a run that answers it."""
    return (*call.inputs, *(call.next_try.elements if call.next_try is not None else ()))


def _date_text(transition: Transition, state: PlanState) -> str:
    """The text of a transition's appointments and dates, with the elements that they are computed from."""
    of = (f"${name} is element {listed(eids)}" for name, eids in state.transition(transition.id).of if eids)
    ways = [appointment.text for appointment in transition.appointments]
    ways += [time.text for time in transition.times]
    written = " or ".join(ways) + (", whichever is first" if len(ways) > 1 else "")
    return "; ".join([written, *of])


def _next_call(step: Step, run: StepRun, watches: dict[str, Watch]) -> Wait:
    """The wait of a step between two of its calls."""
    conditions = _conditions(watches.get(run.watch))
    return Wait(step.id, "again", step.called, **conditions, until=run.until)


def _number(step: Step, attempt: int) -> str:
    """The number of a try, and the most tries; a source that begins again has no limit."""
    return f"{attempt} of {step.retries + 1}" if attempt <= step.retries + 1 else str(attempt)


def _kind_of_wait(transition: Transition, bounds: tuple[Bound, ...]) -> tuple[str, str]:
    """The kind of a transition's wait, a signal or elements, and what it waits for in words."""
    takes = not any(condition.absent for condition in transition.conditions)
    if bounds and takes and all(bound.names == _SIGNAL_ALONE for bound in bounds):
        return "signal", " and ".join(bound.text for bound in bounds)
    return "condition", _then(transition)


def _then(transition: Transition) -> str:
    """Words for a transition that waits only for its conditions; "" if it has none."""
    absent = [condition.absent for condition in transition.conditions]
    if all(absent):
        return "nothing to fit any more" if absent else ""
    names = " and ".join(f"${name}" for name in transition.names if name in transition.inner_names)
    chosen = f", by one choice of {names} (here each is judged by itself)" if names else ""
    return _THEN + (", and nothing where nothing is to be" if any(absent) else "") + chosen


def _words(transition: Transition) -> dict[str, Any]:
    """The seconds for which each condition must hold, and which conditions are absences; each is left out if
    empty.
    """
    lasting = tuple(condition.lasting for condition in transition.conditions)
    absent = tuple(condition.absent for condition in transition.conditions)
    return {"lasting": lasting if any(lasting) else (), "absent": absent if any(absent) else ()}


def _conditions(watch: Watch | None) -> dict[str, Any]:
    return {} if watch is None else {"conditions": watch.conditions, "scopes": watch.scopes}


def _joins(definition: Recipe, state: PlanState) -> Iterator[Wait]:
    """The waits of transitions with an in-step that has ended and another that has not."""
    for transition in definition.transitions.values():
        if state.transition(transition.id).state != "wait-step":
            continue
        states = {link.step.id: state.step(link.step.id).state for link in transition.ins}
        ended = [step for step, word in states.items() if word in ("done", "error")]
        if ended and any(word in NOT_ENDED for word in states.values()):
            yield Wait(transition.id, "join", _lacking(definition, state, transition))


def _lacking(definition: Recipe, state: PlanState, transition: Transition) -> str:
    """The in-steps that have not ended, each with the reason."""
    reasons = []
    for link in transition.ins:
        word = state.step(link.step.id).state
        if word in NOT_ENDED:
            why = reason_of_step(definition, state, link.step).partition(": ")[2]
            reasons.append(f"{link.step.id} ({word}: {why})" if why else f"{link.step.id} ({word})")
    return f"steps {', '.join(reasons)}"


def diagnose(
    definition: Recipe, state: PlanState, identifier: str | None, element: Lookup, find: Find
) -> Iterator[Wait]:
    """The conditions of the transitions that decide about a part, whether it waits for them or not.

    A fired transition has none: `explain` names what it took, which may be used up by now. A step that failed
    because an input was empty has its inputs instead.
    """
    for step in definition.steps.values():
        if identifier in (None, step.id):
            wait = _inputs_judged(definition, state, step, element, find)
            if wait is not None:
                yield wait
    for transition in _deciding(definition, state, identifier):
        wait = _judged(definition, state, transition, element)
        if wait is not None:
            yield wait


def _inputs_judged(
    definition: Recipe, state: PlanState, step: Step, element: Lookup, find: Find
) -> Wait | None:
    """The mandatory inputs of a step that failed because one was left empty."""
    run = state.step(step.id)
    fault = element(run.fault) if run.state == "failed" and run.fault is not None else None
    target = find(step.kind, step.target) if fault is not None else None
    prototype = step.own_inputs if step.agent else getattr(target, "prototype", None)
    if fault is None or read_error(fault)[0] != "input-missing" or prototype is None:
        return None
    try:
        narrowed = prototype if step.agent else step.prototype(prototype)
        inputs = [slot for slot in narrowed.inputs if not slot.optional]
    except DefinitionError:
        return None
    bounds = (
        slot.condition.bind(bindings(definition, state, slot.condition.variables, element)) for slot in inputs
    )
    scopes = ((definition.full_name, step.id, slot.id) if slot.use else None for slot in inputs)
    text = "nothing more (it failed); its inputs now:"
    return Wait(step.id, "input", text, tuple(bounds), tuple(scopes))


def _deciding(definition: Recipe, state: PlanState, identifier: str | None) -> list[Transition]:
    """The transitions that decide about a part: for a step, those that lead or could have led to it."""
    if identifier is None:
        return list(unfired(definition, state)) if state.status in ("failed-end", "failed") else []
    step = definition.steps.get(identifier)
    if step is None:
        transition = definition.transition_of(identifier)
        return [transition] if transition is not None else []
    word = state.step(identifier).state
    if word == "impossible":
        return list(_choices(state, step, {}).values())
    return list(step.ins) if word == "todo" else []


def _choices(state: PlanState, step: Step, transitions: dict[str, Transition]) -> dict[str, Transition]:
    """The transitions to a step that cannot be reached, and to those before it, back to the choices made."""
    pending = [step]
    while pending and len(transitions) < FOLLOWED:
        for transition in pending.pop().ins:
            if transition.id not in transitions:
                transitions[transition.id] = transition
                pending += [
                    link.step for link in transition.ins if state.step(link.step.id).state == "impossible"
                ]
    return transitions


def _judged(definition: Recipe, state: PlanState, transition: Transition, element: Lookup) -> Wait | None:
    """The wait of one transition, or the wait it would have if it still could fire."""
    run, until, reckoned = state.transition(transition.id), None, ""
    word = run.state
    conditions = conditions_of(definition, state, transition, element)
    what, text = "condition", _then(transition)
    if state.status != "running" or word in ("impossible", "fail"):
        over = f"it is {word}" if state.status == "running" else f"it is {word}, and the plan {state.status}"
        text = f"nothing more ({over}); its conditions now:"
    elif word == "wait-step":
        what, text = "join", _lacking(definition, state, transition)
    elif transition.id in state.awaiting_date:
        what, text, until = "time", text, run.date
        reckoned = _date_text(transition, state)
    elif transition.id in state.awaiting_duration:
        text, until = f"{young_elements(run)} to have fitted for long enough", run.until
    if word == "fired" or (what == "condition" and not conditions):
        return None
    bounds, scopes = tuple(bound for bound, _ in conditions), tuple(scope for _, scope in conditions)
    words = _words(transition)
    return Wait(transition.id, what, text, bounds, scopes, until=until, reckoned=reckoned, **words)
