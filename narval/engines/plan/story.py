"""How far a plan has come: as an XML element (N2, tables 2.12–2.14), and what it waits for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from lxml import etree

from narval.definitions.recipe import Recipe, Step, Transition
from narval.engines.commands import Watch
from narval.engines.engine import Wait
from narval.engines.plan.state import NOT_ENDED, PlanState


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
        state=state.state,
    )
    if definition.decay is not None:
        root.set("decay", f"{definition.decay:g}")
    if state.caller is not None:
        root.set("parent_plan", str(state.caller.run))
        root.set("parent_step", state.caller.step)
    for step in definition.steps.values():
        _render_step(root, step, state)
    for transition in definition.transitions.values():
        _render_transition(root, transition, state)
    elements = etree.SubElement(root, "elements")
    for eid in context:
        etree.SubElement(elements, "element", eid=str(eid))
    return etree.tostring(root, encoding="utf-8")


def waits(definition: Recipe, state: PlanState, watches: dict[str, Watch]) -> Iterator[Wait]:
    """What the plan waits for now: calls, reserved elements, conditions, in-steps."""
    by_step: dict[str, list[str]] = {}
    for call, step in state.calls.items():
        by_step.setdefault(step, []).append(call)
    for step, calls in by_step.items():
        target = definition.steps[step]
        yield Wait(step, "call", f"{target.kind} {target.target}", calls=tuple(calls))
    for step in state.held_back:
        watch = watches.get(state.step(step).watch)
        yield Wait(step, "input", "an element that another call has reserved", **_conditions(watch))
    for identifier in state.asleep:
        watch = watches.get(state.transition(identifier).watch)
        yield Wait(identifier, "condition", "an element for each condition", **_conditions(watch))
    if state.state == "running":
        yield from _joins(definition, state)


def _conditions(watch: Watch | None) -> dict[str, Any]:
    return {} if watch is None else {"conditions": watch.conditions, "scopes": watch.scopes}


def _joins(definition: Recipe, state: PlanState) -> Iterator[Wait]:
    """Transitions of which one in-step has ended and another has not."""
    for transition in definition.transitions.values():
        if state.transition(transition.id).state != "wait-step":
            continue
        states = {link.step.id: state.step(link.step.id).state for link in transition.ins}
        ended = [step for step, word in states.items() if word in ("done", "error")]
        lacking = [f"{step} ({word})" for step, word in states.items() if word in NOT_ENDED]
        if ended and lacking:
            yield Wait(transition.id, "join", f"steps {', '.join(lacking)}")


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
            {"id": each.id, "state": state.transition(each.id).state}
            for each in definition.transitions.values()
        ],
    }


def reason(definition: Recipe, state: PlanState, identifier: str) -> str | None:
    """Why a step or transition is in the state it is in; None when there is none of that id."""
    step = definition.steps.get(identifier)
    if step is not None:
        return _reason_of_step(definition, state, step)
    transition = definition.transitions.get(identifier)
    return _reason_of_transition(state, transition) if transition is not None else None


def _reason_of_step(definition: Recipe, state: PlanState, step: Step) -> str:
    run = state.step(step.id)
    led = ", ".join(f"{each.id} ({state.transition(each.id).state})" for each in step.ins)
    over = f"; the plan is {state.state}" if state.state != "running" else ""
    reserved = "it waits for an element that another call has reserved"
    texts = {
        "todo": f"no transition has led to it yet: {led or 'none does'}{over}",
        "ready": reserved if step.id in state.held_back else f"it was not run{over}",
        "running": f"{len(run.calls)} of its calls of {step.kind} {step.target} have not come back",
        "done": "it did its work",
        "history": "it did its work and the plan has gone on" if not run.errors else "its error was handled",
        "impossible": f"the plan went another way: {led}",
        "error": f"{step.kind} {step.target} ended in error: element {_listed(run.errors)}",
        "failed": f"narval could not run it: element {run.fault}",
    }
    return f"step {step.id} is {run.state}: {texts.get(run.state, '')}"


def _reason_of_transition(state: PlanState, transition: Transition) -> str:
    word = state.transition(transition.id).state
    ins = ", ".join(
        f"{link.step.id} is {state.step(link.step.id).state}{' (wanted: error)' if link.on_error else ''}"
        for link in transition.ins
    )
    took = state.transition(transition.id).took
    texts = {
        "wait-step": f"its in-steps have not all ended: {ins}",
        "wait-condition": "its in-steps are done, and some condition has no element",
        "fired": f"it was taken with elements {_listed(took)}" if took else "it was taken",
        "impossible": f"it cannot fire any more: {ins}",
        "fail": f"its conditions did not hold when its in-steps had ended: {ins}",
    }
    return f"transition {transition.id} is {word}: {texts.get(word, '')}"


def dead_ends(definition: Recipe, state: PlanState) -> Iterator[str]:
    """Why a stuck plan did not go on: each transition that has not fired though an in-step has ended."""
    for transition in definition.transitions.values():
        ended = any(state.step(link.step.id).state in ("done", "error") for link in transition.ins)
        if ended and state.transition(transition.id).state != "fired":
            yield _reason_of_transition(state, transition)


def _listed(eids: Iterable[int]) -> str:
    return ", ".join(map(str, eids))
