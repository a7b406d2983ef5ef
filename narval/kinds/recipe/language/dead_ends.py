"""Dead ends: steps from which nothing leads to the end step, so that a plan gets stuck there."""

from __future__ import annotations

from collections.abc import Iterator

from narval.core.definitions.reading.walks import reached
from narval.kinds.recipe.language.definition import Recipe, Step

FAILS = "basic.error"
"""The action that only fails, so that nothing needs to follow it."""


def lead_nowhere(recipe: Recipe) -> Iterator[Step]:
    """The steps, except the end step, that no transition leaves once they are done."""
    for step in recipe.steps.values():
        links = (link for transition in step.outs for link in transition.ins if link.step is step)
        if step is not recipe.end and step.target != FAILS and all(link.on_error for link in links):
            yield step


def dead_ends(recipe: Recipe) -> Iterator[Step]:
    """The dead ends that a plan can reach while none of its branches leads to the end step."""
    transitions = recipe.transitions.values()
    backwards = (((target,), way.sources) for way in transitions for target in way.targets)
    ending = reached([recipe.end.id], backwards)
    alone = reached(
        [recipe.start.id],
        (
            (way.sources, [at for at in way.targets if ending.isdisjoint({*way.targets} - {at})])
            for way in transitions
        ),
    )
    return (step for step in lead_nowhere(recipe) if step.id in alone)


def remedy_of(recipe: Recipe, step: Step) -> str:
    """The remedy for a step that leads nowhere, for the author of its recipe."""
    return (
        f"step {step.id!r} leads nowhere, and a plan has one end, {recipe.end.id!r}: lead both to one step, "
        'such as <step id="end" type="action" target="basic.nothing"/>, and make that the end_step'
    )
