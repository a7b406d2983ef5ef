"""Waking: which restarting recipes are surely woken by the products of a run of another recipe, or of their
own.

Only certainties count, for a wrong warning is worse than none: parts that each run must pass, outputs that
each call must give, and conditions that every such element fits.
"""

from __future__ import annotations

from narval.core.definitions.action.definition import Action
from narval.core.definitions.library import Library
from narval.core.definitions.prototype import Output, Prototype
from narval.core.definitions.reading.walks import reached
from narval.core.elements.element import Element, Tree
from narval.core.errors import DefinitionError
from narval.core.patterns.pattern import Condition
from narval.kinds.recipe.language.definition import Recipe, Step


def waking(library: Library) -> dict[str, tuple[str, ...]]:
    """The recipes that each recipe surely wakes: each of its runs makes everything that one of their runs
    uses up and waits for.
    """
    needs, makes = dict[str, list[Condition]](), dict[str, list[Output]]()
    for name, recipe in library.of("recipe").items():
        if not isinstance(recipe, Recipe) or recipe.restart == "no":
            continue
        prototypes = _prototypes(recipe, library)
        waits = _needs(recipe, prototypes) if prototypes is not None else []
        if prototypes is not None and waits:
            steps = [step for step in prototypes if _must_pass(recipe, step)]
            needs[name], makes[name] = waits, [out for step in steps for out in prototypes[step].outputs]
    return {
        maker: tuple(
            name
            for name, waits in needs.items()
            if all(any(_surely_fits(output, need) for output in outputs) for need in waits)
        )
        for maker, outputs in makes.items()
    }


def feeding(recipe: Recipe, library: Library) -> Step | None:
    """The step whose arguments are everything that the first transition of a restarting recipe waits for and
    uses up, so that each run starts the next one.
    """
    ways = recipe.transitions.values()
    if recipe.restart == "no" or any(way.times or way.appointments for way in ways):
        return None
    for first in recipe.start.outs:
        waits = first.conditions
        is_sure = not any(each.absent or each.lasting or each.condition.variables for each in waits)
        if first.context is None and is_sure and any(each.use for each in waits):
            for step in (recipe.start, *first.outs):
                if all(_is_given(step, each.condition, library) for each in waits):
                    return step
    return None


def _is_given(step: Step, need: Condition, library: Library) -> bool:
    """True if each call of a step puts an argument into memory that fits, and does not outdate it."""
    prototype: Prototype | None = getattr(library.get(step.kind, step.target), "prototype", None)
    waits = step.foreach or step.until or step.agent or step.sending or step.approve
    if waits or prototype is None or any(slot.outdates for slot in prototype.inputs):
        return False
    for at, xml in enumerate(step.arguments):
        argument = Element(0, xml)
        if at not in step.values and need.bind().explain(Tree(argument)) is None:
            return True
        if all(pattern.text.strip() in (argument.name, "*") for pattern in need.patterns):
            return True
    return False


def comes_back(step: Step, library: Library) -> Action | None:
    """The action that a step calls once, if it returns by itself."""
    target = library.get(step.kind, step.target)
    waits = step.until or step.every or step.foreach or step.agent or step.sending or step.approve
    return None if waits or not isinstance(target, Action) or target.where == "source" else target


def _prototypes(recipe: Recipe, library: Library) -> dict[str, Prototype] | None:
    """The prototype of each step; None if one of them may not return, or waits."""
    prototypes = {}
    for step in recipe.steps.values():
        if (target := comes_back(step, library)) is None:
            return None
        try:
            prototypes[step.id] = step.prototype(target.prototype)
        except DefinitionError:  # reported by check_step
            return None
    return prototypes


def _needs(recipe: Recipe, prototypes: dict[str, Prototype]) -> list[Condition]:
    """The conditions that a run may wait for; [] if it may wait for a date, or uses nothing up."""
    needs, uses = list[Condition](), False
    for transition in recipe.transitions.values():
        if transition.times or transition.appointments:
            return []
        for each in transition.conditions:
            if each.absent or each.lasting or each.condition.variables:
                return []
            needs.append(each.condition)
            uses = uses or each.use
    for prototype in prototypes.values():
        for slot in prototype.inputs:
            if slot.outdates or (slot.use and slot.condition.variables):
                return []
            if slot.use:
                needs.append(slot.condition)
                uses = True
    return needs if uses else []


def _must_pass(recipe: Recipe, step: str) -> bool:
    """True if each run that reaches the end step has done this step."""
    if step in (recipe.start.id, recipe.end.id):
        return True
    ways = [way for way in recipe.transitions.values() if step not in way.sources]
    return recipe.end.id not in reached([recipe.start.id], [(way.sources, way.targets) for way in ways])


def _surely_fits(output: Output, need: Condition) -> bool:
    """True if each call gives an element of an output, and every such element fits."""
    if output.optional or output.unique or output.replaces or output.condition.variables:
        return False
    names, texts = output.condition.names, {pattern.text.strip() for pattern in output.condition.patterns}
    return names is not None and all(
        pattern.text.strip() in {*texts, "*"} or names == {pattern.text.strip()} for pattern in need.patterns
    )
