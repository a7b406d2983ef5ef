"""The parts of a recipe: its steps and its transitions."""

from __future__ import annotations

from collections.abc import Iterator

from narval.core.engines.structure import Exit, Part, Structure
from narval.core.patterns.pattern import Condition
from narval.kinds.recipe.language.definition import Recipe, Step, Transition

STEPS, TRANSITIONS = "steps", "transitions"
"""The lists in which the engine shows the parts."""

RAN = frozenset({"running", "end", "done", "error", "history"})
"""The states of a step that has run."""


def structure(recipe: Recipe) -> Structure:
    """The parts of a recipe."""
    parts = [_step(step) for step in recipe.steps.values()]
    parts += [_transition(transition) for transition in recipe.transitions.values()]
    return Structure(
        parts={part.key: part for part in parts},
        end=(STEPS, recipe.end.id),
        calling=STEPS,
        run="plan",
        in_error="error",
        handled="history",
        restarts=recipe.restart != "no",
        outlived=any(time.years for transition in recipe.transitions.values() for time in transition.times),
    )


def exits(recipe: Recipe) -> Iterator[Exit]:
    """The transitions that lead on from each step, and those that take its errors."""
    for step in recipe.steps.values():
        ways: dict[bool, list[tuple[Condition, ...]]] = {False: [], True: []}
        for transition in step.outs:
            on_error = any(link.on_error for link in transition.ins if link.step is step)
            ways[on_error].append(
                tuple(condition.condition for condition in transition.conditions if not condition.absent)
            )
        if step.outs:
            target = step.kind, step.target
            yield Exit(step.id, step.line, target, tuple(ways[False]), tuple(ways[True]))


def _step(step: Step) -> Part:
    name = f"step {step.id!r}"
    after = tuple((TRANSITIONS, transition.id) for transition in step.ins)
    return Part((STEPS, step.id), step.line, name, f"{name} can never run", RAN, after=after)


def _transition(transition: Transition) -> Part:
    joins = len(transition.ins) > 1
    name = f"{'join' if joins else 'transition'} {transition.id!r}"
    cannot = f"{name} can never {'complete' if joins else 'fire'}"
    after = tuple((STEPS, link.step.id) for link in transition.ins)
    key = TRANSITIONS, transition.id
    return Part(key, transition.line, name, cannot, frozenset({"fired"}), after=after, needs_all=True)
