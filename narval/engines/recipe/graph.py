"""A plan as a graph: steps and transitions are its nodes, links its edges."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from narval.definitions.reading.durations import duration
from narval.definitions.recipe.definition import Recipe, Step, Transition
from narval.definitions.requirements import TransitionCondition
from narval.definitions.schedule import FIELDS, Ranges, Time
from narval.engines.graph import Graph, GraphEdge, GraphNode
from narval.engines.recipe.state import PlanState


def graph(definition: Recipe, state: PlanState) -> Graph:
    """The steps with their targets; the transitions with their dates and conditions, each with its links."""
    bars = (_transition(transition, state) for transition in definition.transitions.values())
    return Graph(definition.full_name, (*_steps(definition, state), *chain.from_iterable(bars)))


def _steps(definition: Recipe, state: PlanState) -> Iterator[GraphNode]:
    marks = {definition.start.id: "▸ ", definition.end.id: "◂ "}
    for step in definition.steps.values():
        status = state.step(step.id).state
        label = (f"{marks.get(step.id, '')}{step.id}", _target(step), *_repetition(step), status)
        yield GraphNode(_of_step(step.id), label, status)


def _target(step: Step) -> str:
    return f"{step.target} of {step.agent}" if step.agent else step.target


def _repetition(step: Step) -> tuple[str, ...]:
    """The line of a step that is called again (N40): how often, and until when."""
    if step.until is None or step.every is None:
        return ()
    return (f"every {step.every.text} until {step.until.text}",)


def _transition(transition: Transition, state: PlanState) -> Iterator[GraphNode | GraphEdge]:
    own = f"t:{transition.id}"
    dates = (*map(_date, transition.times), *(appointment.text for appointment in transition.appointments))
    label = (transition.id, *dates, *map(_condition, transition.conditions))
    yield GraphNode(own, label, state.transition(transition.id).state, "bar")
    for link in transition.ins:
        yield GraphEdge(_of_step(link.step.id), own, "on error" if link.on_error else "plain")
    for step in transition.outs:
        yield GraphEdge(own, _of_step(step.id))


def _of_step(step: str) -> str:
    return f"s:{step}"


def _condition(condition: TransitionCondition) -> str:
    """A condition as it is written, what it takes, its name, and how long it must last."""
    text = " and ".join(pattern.text for pattern in condition.condition.patterns)
    if condition.listed:
        text = f"all {text}"
    if condition.absent:
        text = f"no {text}"
    if condition.name:
        text += f" as {condition.name}"
    return text if condition.lasting is None else f"{text} for {duration(condition.lasting)}"


def _date(time: Time) -> str:
    """A date as it is written."""
    fields = ((name, getattr(time, name)) for name in FIELDS)
    return " ".join(f"{name}={_list(ranges, *FIELDS[name])}" for name, ranges in fields if ranges) or "time"


def _list(ranges: Ranges, least: int, most: int) -> str:
    """The values of a field that has these bounds, as they are written."""
    parts = []
    for first, last, *steps in ranges:
        span = "*" if steps and (first, last) == (least, most) else f"{first}-{last}"
        parts.append("/".join((span if first != last else str(first), *map(str, steps))))
    return ",".join(parts)
