"""A plan as a graph: steps and transitions are its nodes, links its edges."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

from narval.core.definitions.reading.durations import duration
from narval.core.definitions.requirements import TransitionCondition
from narval.core.engines.graph import EdgeKind, Graph, GraphEdge, GraphNode, Tone
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
        label = (f"{marks.get(step.id, '')}{step.id}", _target(step), *_repetition(step))
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


def _target(step: Step) -> str:
    return f"{step.target} of {step.agent}" if step.agent else step.target


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
