"""How far a plan has come: as an XML element (N2, tables 2.12–2.14), what it waits for, and why (N11)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import Any

from lxml import etree

from narval.definitions.recipe.definition import Recipe, Step, Transition
from narval.engines.commands import Watch
from narval.engines.engine import Find, Lookup, Wait
from narval.engines.recipe.decision import bindings, conditions_of
from narval.engines.recipe.state import NOT_ENDED, PlanState, StepRun, TransitionRun
from narval.errors import DefinitionError
from narval.memory.elements.element import SIGNAL
from narval.memory.elements.error_element import read_error

_SIGNAL_ALONE = frozenset({SIGNAL})
FOLLOWED = 4
"""So many transitions back `explain` looks for the choice that left a step out."""

_THEN = "an element for each condition"
"""What a transition waits for when its date has come."""


def render(definition: Recipe, state: PlanState, context: Iterable[int]) -> bytes:
    """The `plan` element: the recipe's steps and transitions with their states, the context by reference."""
    root = etree.Element(
        "plan",
        recipename=definition.full_name,
        group=definition.group,
        name=definition.name,
        start_step=definition.start.id,
        end_step=definition.end.id,
        restart="yes" if definition.restart else "no",
        state=state.status,
    )
    if definition.decay is not None:
        root.set("decay", f"{definition.decay:g}")
    if state.caller is not None:
        root.set("parent_plan", str(state.caller.run))
        root.set("parent_step", state.caller.step)
    if state.resumed is not None:
        root.set("retry_of", str(state.resumed[0]))
        root.set("retry_from", state.resumed[1])
    for step in definition.steps.values():
        _render_step(root, step, state)
    for transition in definition.transitions.values():
        _render_transition(root, transition, state)
    elements = etree.SubElement(root, "elements")
    for eid in context:
        etree.SubElement(elements, "element", eid=str(eid))
    return etree.tostring(root, encoding="utf-8")


def waiting_for(definition: Recipe, state: PlanState, watches: dict[str, Watch]) -> Iterator[Wait]:
    """What the plan waits for now: calls, reserved elements, dates, conditions, in-steps."""
    for identifier in dict.fromkeys(state.calls.values()):
        yield from _calls(definition.steps[identifier], state.step(identifier))
    for step in state.held_back:
        watch = watches.get(state.step(step).watch)
        yield Wait(step, "input", "an element that another call has reserved", **_conditions(watch))
    for identifier in state.dated:
        then = _THEN if definition.transitions[identifier].conditions else ""
        yield Wait(identifier, "time", then, until=state.transition(identifier).date)
    for identifier in state.waiting:
        watch, lasting = watches.get(state.transition(identifier).watch), _lasting(definition, identifier)
        if identifier in state.lasting:
            run = state.transition(identifier)
            text = f"{_too_young(run)} to have fitted for long enough"
            yield Wait(identifier, "condition", text, **_conditions(watch), until=run.until, lasting=lasting)
        else:
            yield Wait(identifier, *_kind_of_wait(watch), **_conditions(watch), lasting=lasting)
    if state.status == "running":
        yield from _joins(definition, state)


def _calls(step: Step, run: StepRun) -> Iterator[Wait]:
    """What a running step waits for: calls under way, and calls that will be tried again (N29)."""
    under_way = [identifier for identifier, call in run.calls.items() if call.until is None]
    if under_way:
        attempt = max(run.calls[identifier].tries for identifier in under_way)
        tried = f", try {attempt} of {step.retries + 1}" if attempt > 1 else ""
        yield Wait(step.id, "call", f"{step.kind} {step.target}{tried}", calls=tuple(under_way))
    resting = [(call.until, call) for call in run.calls.values() if call.until is not None]
    if resting:
        until, call = min(resting, key=itemgetter(0))
        text = f"{step.kind} {step.target}, try {call.tries + 1} of {step.retries + 1}"
        if call.problem is not None:
            text += f" after {call.problem.kind}: {call.problem.message}"
        if len(resting) > 1:
            text += f" (the first of {len(resting)} calls to be tried again)"
        yield Wait(step.id, "try", text, until=until)


def _kind_of_wait(watch: Watch | None) -> tuple[str, str]:
    """What a sleeping transition waits for: to be told something, or for elements; and in words."""
    if watch is not None and all(bound.names == _SIGNAL_ALONE for bound in watch.conditions):
        return "signal", " and ".join(bound.text for bound in watch.conditions)
    return "condition", "an element for each condition"


def _lasting(definition: Recipe, transition: str) -> tuple[float | None, ...]:
    """For how many seconds each condition of a transition must hold; empty if none must."""
    found = tuple(condition.lasting for condition in definition.transitions[transition].conditions)
    return found if any(found) else ()


def _too_young(run: TransitionRun) -> str:
    eids = dict.fromkeys(satisfied.eid for satisfied in run.satisfied)
    return f"element{'s' if len(eids) > 1 else ''} {_listed(eids)}"


def _conditions(watch: Watch | None) -> dict[str, Any]:
    return {} if watch is None else {"conditions": watch.conditions, "scopes": watch.scopes}


def _joins(definition: Recipe, state: PlanState) -> Iterator[Wait]:
    """Transitions of which one in-step has ended and another has not."""
    for transition in definition.transitions.values():
        if state.transition(transition.id).state != "wait-step":
            continue
        states = {link.step.id: state.step(link.step.id).state for link in transition.ins}
        ended = [step for step, word in states.items() if word in ("done", "error")]
        if ended and any(word in NOT_ENDED for word in states.values()):
            yield Wait(transition.id, "join", _lacking(definition, state, transition))


def _lacking(definition: Recipe, state: PlanState, transition: Transition) -> str:
    """The in-steps that have still to end, each with the reason why it has not."""
    told = []
    for link in transition.ins:
        word = state.step(link.step.id).state
        if word in NOT_ENDED:
            why = _reason_of_step(definition, state, link.step).partition(": ")[2]
            told.append(f"{link.step.id} ({word}: {why})" if why else f"{link.step.id} ({word})")
    return f"steps {', '.join(told)}"


def _render_step(root: etree._Element, step: Step, state: PlanState) -> None:
    run = state.step(step.id)
    node = etree.SubElement(root, "step", id=step.id, type=step.kind, target=step.target, state=run.state)
    for eid in (*run.produced, *run.errors):
        etree.SubElement(node, "element", eid=str(eid))


def _render_transition(root: etree._Element, transition: Transition, state: PlanState) -> None:
    node = etree.SubElement(root, "transition", id=transition.id, state=state.transition(transition.id).state)
    if transition.priority:
        node.set("priority", str(transition.priority))
    for link in transition.ins:
        reference = etree.SubElement(node, "in", idref=link.step.id)
        if link.on_error:
            reference.set("on-error", "yes")
    for step in transition.outs:
        etree.SubElement(node, "out", idref=step.id)


def parts(definition: Recipe, state: PlanState) -> dict[str, list[dict[str, Any]]]:
    """Steps and transitions with their states, as surfaces show them."""
    return {
        "steps": [
            {
                "id": step.id,
                "state": state.step(step.id).state,
                "target": step.target,
                "calls": list(state.step(step.id).calls),
            }
            for step in definition.steps.values()
        ],
        "transitions": [
            {"id": transition.id, "state": state.transition(transition.id).state, **_until(state, transition)}
            for transition in definition.transitions.values()
        ],
    }


def _until(state: PlanState, transition: Transition) -> dict[str, float]:
    """The moment that a transition waits for, if it does."""
    run = state.transition(transition.id)
    if transition.id in state.lasting:
        return {"until": run.until}
    return {"until": run.date} if transition.id in state.dated else {}


def explain(definition: Recipe, state: PlanState, identifier: str | None) -> str | None:
    """Why a step or transition, or with no id the plan, is in the state it is in; None: nothing to tell."""
    if identifier is None:
        return _reason_of_plan(definition, state)
    step = definition.steps.get(identifier)
    if step is not None:
        return _reason_of_step(definition, state, step)
    transition = definition.transitions.get(identifier)
    return _reason_of_transition(definition, state, transition) if transition is not None else None


def _reason_of_plan(definition: Recipe, state: PlanState) -> str | None:
    if state.status in ("done", "end"):
        going_on = ", ".join(dict.fromkeys(state.calls.values()))
        return f"step {definition.end.id} was reached" + (f"; still running: {going_on}" if going_on else "")
    unhandled = [_unhandled(state, definition.steps[step]) for step in state.in_error]
    return "; ".join(unhandled) if unhandled and state.status in ("failed-end", "failed") else None


def _unhandled(state: PlanState, step: Step) -> str:
    """Why an error was not taken up: the error links of its step, if it has any (N26)."""
    takers = [each for each in step.outs if any(link.on_error and link.step is step for link in each.ins)]
    if not takers:
        return f"no error link leaves step {step.id}"
    words = ", ".join(f"{each.id} ({state.transition(each.id).state})" for each in takers)
    return f"no error link of step {step.id} took the error: {words}"


def _reason_of_step(definition: Recipe, state: PlanState, step: Step) -> str:
    run = state.step(step.id)
    led = ", ".join(f"{each.id} ({state.transition(each.id).state})" for each in step.ins)
    over = f"; the plan is {state.status}" if state.status != "running" else ""
    again = sum(call.until is not None for call in run.calls.values())
    resting = f", {again} of them will be tried again" if again else ""
    reserved = "it waits for an element that another call has reserved"
    texts = {
        "todo": f"no transition has led to it yet: {led or 'none does'}{over}",
        "ready": reserved if step.id in state.held_back else f"it was not run{over}",
        "running": f"{len(run.calls)} of its calls of {step.kind} {step.target} have not come back{resting}",
        "done": "it did its work",
        "history": "it did its work and the plan has gone on" if not run.errors else "its error was handled",
        "impossible": _lost(definition, state, step) if run.state == "impossible" else "",
        "error": f"{step.kind} {step.target} ended in error: element {_listed(run.errors)}",
        "failed": f"narval could not run it: element {run.fault}",
    }
    return f"step {step.id} is {run.state}: {texts.get(run.state, '')}"


def _lost(definition: Recipe, state: PlanState, step: Step, depth: int = 0) -> str:
    """Why no transition can lead to a step any more, back to the choice made: of those before, one each."""
    if depth >= FOLLOWED:
        return "the plan went another way"
    told = []
    for each in step.ins[:1] if depth else step.ins:
        word = state.transition(each.id).state
        if word in ("impossible", "fail"):
            why = _dead(definition, state, each, depth) if word == "impossible" else _failed(state, each)
            told.append(f"transition {each.id} leads to it, and {why}")
    return "; ".join(told) or "the plan went another way"


def _dead(definition: Recipe, state: PlanState, transition: Transition, depth: int = 0) -> str:
    """Why a transition cannot fire any more: what became of the in-step that it lacks."""
    for link in transition.ins:
        step, word = link.step, state.step(link.step.id).state
        if word == "history":
            return _instead(state, transition, step)
        if word == "impossible":
            return f"step {step.id} is impossible: {_lost(definition, state, step, depth + 1)}"
        wanted = "error" if link.on_error else "done"
        if word not in NOT_ENDED and word != wanted:
            return f"it cannot fire any more: {step.id} is {word} (wanted: {wanted})"
    return "it cannot fire any more"


def _instead(state: PlanState, transition: Transition, step: Step) -> str:
    """Which rival was taken instead, and ended the in-step that both have (N22)."""
    for rival in step.outs:
        if rival is not transition and state.transition(rival.id).state == "fired":
            took = state.transition(rival.id).took
            given = f" with elements {_listed(took)}" if took else ""
            order = f" (priority {rival.priority}, that of {transition.id} is {transition.priority})"
            ranked = order if rival.priority != transition.priority else ""
            return f"transition {rival.id}{ranked} was taken instead{given}, and ended step {step.id}"
    return f"step {step.id} is history"


def _reason_of_transition(definition: Recipe, state: PlanState, transition: Transition) -> str:
    word = state.transition(transition.id).state
    ins = ", ".join(
        f"{link.step.id} is {state.step(link.step.id).state}{' (wanted: error)' if link.on_error else ''}"
        for link in transition.ins
    )
    took = state.transition(transition.id).took
    lacking = "some condition has no element"
    if transition.id in state.lasting:
        young = state.transition(transition.id)
        lacking = f"{_too_young(young)} must still fit for a while"
    texts = {
        "wait-step": f"its in-steps have not all ended: {ins}",
        "wait-time": "its in-steps have ended, and its date has not come",
        "wait-condition": f"its in-steps are done, and {lacking}",
        "fired": f"it was taken with elements {_listed(took)}" if took else "it was taken",
        "impossible": _dead(definition, state, transition) if word == "impossible" else "",
        "fail": _failed(state, transition, f" when its in-steps had ended: {ins}"),
    }
    return f"transition {transition.id} is {word}: {texts.get(word, '')}"


def _failed(state: PlanState, transition: Transition, then: str = "") -> str:
    """Why a transition failed: no date of it was left (N25), or it was for errors and did not hold (N26)."""
    if transition.times and not state.transition(transition.id).come:
        return "none of its dates ever comes again"
    return f"its conditions did not hold{then}"


def dead_ends(definition: Recipe, state: PlanState) -> Iterator[str]:
    """Why a stuck plan did not go on: each transition that has not fired though an in-step has ended."""
    for transition in _unfired(definition, state):
        yield _reason_of_transition(definition, state, transition)


def _unfired(definition: Recipe, state: PlanState) -> Iterator[Transition]:
    """The transitions that have not fired though an in-step has ended and is not history."""
    for transition in definition.transitions.values():
        ended = any(state.step(link.step.id).state in ("done", "error") for link in transition.ins)
        if ended and state.transition(transition.id).state != "fired":
            yield transition


# --- conditions as they are judged now ----------------------------------------------------------------------


def diagnose(
    definition: Recipe, state: PlanState, identifier: str | None, element: Lookup, find: Find
) -> Iterator[Wait]:
    """The conditions of the transitions that decide about a part, whether they wait for them or not (N11).

    Of a fired transition there are none: `explain` names what it took, and that may be used up by now. Of a
    step that failed for want of an input, its inputs.
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
    """The mandatory inputs of a step that failed because one was left empty (N17)."""
    run = state.step(step.id)
    fault = element(run.fault) if run.state == "failed" and run.fault is not None else None
    target = find(step.kind, step.target) if fault is not None else None
    prototype = getattr(target, "prototype", None)
    if fault is None or read_error(fault)[0] != "input-missing" or prototype is None:
        return None
    try:
        inputs = [each for each in step.prototype(prototype).inputs if not each.optional]
    except DefinitionError:
        return None
    bounds = (
        each.condition.bind(bindings(definition, state, each.condition.variables, element)) for each in inputs
    )
    scopes = ((definition.full_name, step.id, each.id) if each.use else None for each in inputs)
    text = "nothing any more (it failed); its inputs as they are judged now:"
    return Wait(step.id, "input", text, tuple(bounds), tuple(scopes))


def _deciding(definition: Recipe, state: PlanState, identifier: str | None) -> list[Transition]:
    """The transitions that decide: of a step those that lead to it, or did not at the choice made."""
    if identifier is None:
        return list(_unfired(definition, state)) if state.status in ("failed-end", "failed") else []
    step = definition.steps.get(identifier)
    if step is None:
        transition = definition.transitions.get(identifier)
        return [transition] if transition is not None else []
    word = state.step(identifier).state
    if word == "impossible":
        return list(_choices(state, step, {}).values())
    return list(step.ins) if word == "todo" else []


def _choices(state: PlanState, step: Step, found: dict[str, Transition]) -> dict[str, Transition]:
    """The transitions that lead to a lost step, and to the lost steps before it, back to the choices."""
    pending = [step]
    while pending and len(found) < FOLLOWED:
        for each in pending.pop().ins:
            if each.id not in found:
                found[each.id] = each
                pending += [link.step for link in each.ins if state.step(link.step.id).state == "impossible"]
    return found


def _judged(definition: Recipe, state: PlanState, transition: Transition, element: Lookup) -> Wait | None:
    """What one transition waits for, or would if it still could."""
    run, until = state.transition(transition.id), None
    word = run.state
    wanted = conditions_of(definition, state, transition, element)
    what, text = "condition", "an element for each condition"
    if state.status != "running" or word in ("impossible", "fail"):
        over = f"it is {word}" if state.status == "running" else f"it is {word}, and the plan {state.status}"
        text = f"nothing any more ({over}); its conditions as they are judged now:"
    elif word == "wait-step":
        what, text = "join", _lacking(definition, state, transition)
    elif transition.id in state.dated:
        what, text, until = "time", _THEN if wanted else "", run.date
    elif transition.id in state.lasting:
        text, until = f"{_too_young(run)} to have fitted for long enough", run.until
    if word == "fired" or (what == "condition" and not wanted):
        return None
    bounds, scopes = tuple(bound for bound, _ in wanted), tuple(scope for _, scope in wanted)
    lasting = _lasting(definition, transition.id)
    return Wait(transition.id, what, text, bounds, scopes, until=until, lasting=lasting)


def _listed(eids: Iterable[int]) -> str:
    return ", ".join(map(str, eids))
