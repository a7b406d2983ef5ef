"""A plan as others see it: a graph, whose nodes are steps and transitions; an XML element (N2, tables
2.12-2.14); tables of its parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

from lxml import etree

from narval.core.definitions.prototype import TransitionCondition
from narval.core.definitions.reading.durations import duration
from narval.core.engines.graph import EdgeKind, Graph, GraphEdge, GraphNode, Tone
from narval.core.engines.run_state import add_caller, finished
from narval.kinds.recipe.engine.state import PlanState, StepRun
from narval.kinds.recipe.language.definition import Recipe, Step, Transition

STEP_TONES: dict[str, Tone] = {
    "ready": "waiting", "running": "active", "end": "active", "done": "done", "history": "done",
    "error": "failed", "failed": "failed", "impossible": "cancelled",
}  # fmt: skip
"""The tone of each state of a step; any other is idle."""

TRANSITION_TONES: dict[str, Tone] = {
    "wait-time": "waiting", "wait-condition": "waiting", "fireable": "active", "fired": "done",
    "fail": "cancelled", "impossible": "cancelled",
}  # fmt: skip
"""The tone of each state of a transition; any other is idle."""


def graph(definition: Recipe, state: PlanState) -> Graph:
    """The steps with their targets; the transitions with their dates and conditions, each with its links."""
    bars = (_transition(definition, transition, state) for transition in definition.transitions.values())
    return Graph(definition.full_name, (*_steps(definition, state), *chain.from_iterable(bars)))


def _steps(definition: Recipe, state: PlanState) -> Iterator[GraphNode]:
    marks = {definition.start.id: "▸ ", definition.end.id: "◂ "}
    for step in definition.steps.values():
        run = state.step(step.id)
        target = f"{step.target} of {step.agent}" if step.agent else step.target
        label = (f"{marks.get(step.id, '')}{step.id}", target, *_repetition(step))
        about: dict[str, Any] = {"kind": "step", "target": step.target, "badge": _badge(run)}
        yield GraphNode(step.id, label, run.state, tone=_tone(run), **about)


def _tone(run: StepRun) -> Tone:
    """The tone of a step; a running one that only waits for its next call is waiting."""
    if run.state == "running" and all(call.until is not None for call in run.calls.values()):
        return "waiting"
    return STEP_TONES.get(run.state, "idle")


def _badge(run: StepRun) -> str:
    """The number of calls under way, or for a single call the number of its try."""
    if len(run.calls) > 1:
        return f"{len(run.calls)} calls"
    tries = max((call.tries for call in run.calls.values()), default=1)
    return f"try {tries}" if tries > 1 else ""


def _repetition(step: Step) -> tuple[str, ...]:
    """The line of a step that is called again: how often, and until when."""
    if step.until is None or step.every is None:
        return ()
    return (f"every {step.every.text} until {step.until.text}",)


def _transition(
    definition: Recipe, transition: Transition, state: PlanState
) -> Iterator[GraphNode | GraphEdge]:
    own, status = definition.part_id(transition), state.transition(transition.id).state
    dates = (
        *(time.text for time in transition.times),
        *(appointment.text for appointment in transition.appointments),
    )
    label = (transition.id, *dates, *map(_condition, transition.conditions))
    yield GraphNode(own, label, status, "bar", kind="transition", tone=TRANSITION_TONES.get(status, "idle"))
    way: EdgeKind = "taken" if status == "fired" else "plain"
    for link in transition.ins:
        yield GraphEdge(link.step.id, own, "error" if link.on_error and way == "plain" else way)
    for step in transition.outs:
        yield GraphEdge(own, step.id, way)


def _condition(condition: TransitionCondition) -> str:
    """The text of a condition: what it takes, its name, and how long it must hold."""
    text = " and ".join(pattern.text for pattern in condition.condition.patterns)
    if condition.listed:
        text = f"all {text}"
    if condition.absent:
        text = f"no {text}"
    if condition.name:
        text += f" as {condition.name}"
    return text if condition.lasting is None else f"{text} for {duration(condition.lasting)}"


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
