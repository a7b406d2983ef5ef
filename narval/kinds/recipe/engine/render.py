"""A plan as an XML element (N2, tables 2.12-2.14), and as tables of its parts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lxml import etree

from narval.core.engines.run_state import add_caller, finished
from narval.kinds.recipe.engine.state import PlanState
from narval.kinds.recipe.language.definition import Recipe, Step, Transition


def render(definition: Recipe, state: PlanState, context: Iterable[int]) -> bytes:
    """The plan as an element: steps and transitions with their states, the context by reference."""
    root = etree.Element(
        "plan",
        recipename=definition.full_name,
        group=definition.group,
        name=definition.name,
        start_step=definition.start.id,
        end_step=definition.end.id,
        restart=definition.restart,
        state=state.status,
    )
    if definition.decay is not None:
        root.set("decay", f"{definition.decay:g}")
    add_caller(root, state, "parent_plan")
    if state.resumed is not None:
        root.set("retry_of", str(state.resumed[0]))
        root.set("retry_from", state.resumed[1])
    for step in definition.steps.values():
        _render_step(root, step, state)
    for transition in definition.transitions.values():
        _render_transition(root, transition, state)
    return finished(root, context)


def _render_step(root: etree._Element, step: Step, state: PlanState) -> None:
    run = state.step(step.id)
    node = etree.SubElement(root, "step", id=step.id, type=step.kind, target=step.target, state=run.state)
    if step.agent:
        node.set("agent", step.agent)
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
    """The steps and transitions with their states, as surfaces show them."""
    runs = ((step, state.step(step.id)) for step in definition.steps.values())
    return {
        "steps": [
            {"id": step.id, "state": run.state, "target": step.target, "calls": list(run.calls)}
            | ({"agent": step.agent} if step.agent else {})
            | ({"until": run.until} if step.id in state.resting else {})
            for step, run in runs
        ],
        "transitions": [
            {"id": transition.id, "state": state.transition(transition.id).state, **_until(state, transition)}
            for transition in definition.transitions.values()
        ],
    }


def _until(state: PlanState, transition: Transition) -> dict[str, float]:
    """The moment that a transition waits for, if it does."""
    run = state.transition(transition.id)
    if transition.id in state.awaiting_duration:
        return {"until": run.until}
    return {"until": run.date} if transition.id in state.awaiting_date else {}
