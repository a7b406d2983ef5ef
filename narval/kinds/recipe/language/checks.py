"""Warnings about recipes: valid, but perhaps not intended.

Only certainties count where one recipe is said to wake another without end, for a wrong warning is worse than
none: parts that each run must pass, outputs that each call must give, and conditions that every such element
fits.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import suppress

from narval.core.definitions.action.definition import Action
from narval.core.definitions.action.tool_arguments import misfit_of
from narval.core.definitions.known_attributes import attributes_read, unread_attributes
from narval.core.definitions.library import Library, RunDefinition
from narval.core.definitions.prototype import Output, Prototype
from narval.core.definitions.reading.walks import reached
from narval.core.definitions.suggestions import closest
from narval.core.elements.element import Element, Tree
from narval.core.errors import DefinitionError, Fault
from narval.core.patterns.pattern import Condition
from narval.kinds.recipe.language.definition import Recipe, Step, Transition, dead_ends, remedy_of


def warnings(recipes: Iterable[Recipe], library: Library) -> list[Fault]:
    """Warnings about recipes that can only call themselves, directly or through others, or that restart for
    ever; about steps that lead nowhere; about outcomes that nothing handles, or answers that may belong to
    others; and about arguments that nothing takes, or with attributes that nothing reads.
    """
    recipes = list(recipes)
    endless = _endless(library)
    checks = (
        _dead_ends,
        _unread,
        _misfitting,
        _ungiven,
        _untaken,
        _anybodys,
        _begins_again,
        _begins_in_vain,
        _fed,
    )
    doubtful = [warning for check in checks for recipe in recipes for warning in check(recipe, library)]
    woken = _waking(library)
    for recipe in recipes:
        if (ring := _circle(recipe.full_name, woken)) is not None:
            doubtful.append(Fault(recipe.path, recipe.line, 1, _wakes_itself(recipe, ring), warning=True))
    return doubtful + [
        Fault(
            recipe.path,
            recipe.line,
            1,
            f"recipe {recipe.full_name!r} can only call itself ({' → '.join(circle)}): each way to its end "
            "comes to such a step, and its runs fail once they are too deep; add a way that does not",
            warning=True,
        )
        for recipe in recipes
        if (circle := _circle(recipe.full_name, endless)) is not None
    ]


def _dead_ends(recipe: Recipe, library: Library) -> Iterator[Fault]:
    """A warning for each step after which a plan is stuck."""
    for step in dead_ends(recipe):
        yield Fault(recipe.path, step.line, 1, remedy_of(recipe, step), warning=True)


def _unread(recipe: Recipe, library: Library) -> Iterator[Fault]:
    """A warning for each attribute of an argument that the action does not read, though it reads others."""
    for step in recipe.steps.values():
        target = library.get(step.kind, step.target)
        read = attributes_read(target) if step.arguments and target is not None else {}
        for xml, place in zip(step.arguments, step.places, strict=True):
            argument = Element(0, xml)
            if argument.name in read:
                for _, message in unread_attributes(read, argument.name, argument.attributes):
                    yield Fault(recipe.path, *place, f"step {step.id!r}: {message}", warning=True)


def _misfitting(recipe: Recipe, library: Library) -> Iterator[Fault]:
    """A warning for each argument that does not fit the schema of its tool, which would refuse it."""
    for step in recipe.steps.values():
        target = library.get(step.kind, step.target)
        tool = target.tool if isinstance(target, Action) else None
        if tool is None:
            continue
        for xml, place in zip(step.arguments, step.places, strict=True):
            if Element(0, xml).name == tool.action and (why := misfit_of(tool, xml)):
                yield Fault(recipe.path, *place, f"step {step.id!r}: {step.target}: {why}", warning=True)


def _ungiven(recipe: Recipe, library: Library) -> Iterator[Fault]:
    """A warning for each argument that no input of the target takes."""
    for step in recipe.steps.values():
        prototype = getattr(library.get(step.kind, step.target), "prototype", None)
        if not isinstance(prototype, Prototype) or not step.arguments or step.agent:
            continue
        with suppress(DefinitionError):  # reported as a fault
            prototype = step.prototype(prototype)
        if any(slot.condition.names is None for slot in prototype.inputs):
            continue
        for at, place in enumerate(step.places):
            if why := _why_not_given(step, at, prototype):
                yield Fault(recipe.path, *place, f"step {step.id!r}: {why}", warning=True)


def _why_not_given(step: Step, at: int, prototype: Prototype) -> str:
    """The reason why no input takes an argument, as far as it is known before the argument is filled in."""
    argument = Element(0, step.arguments[at])
    asking = [slot for slot in prototype.inputs if argument.name in (slot.condition.names or ())]
    if not asking:
        names = sorted(name for slot in prototype.inputs for name in slot.condition.names or ())
        return f"no input of {step.target} takes {argument.name}{closest(argument.name, names)}"
    before = [Element(0, xml).name for xml in step.arguments[:at]].count(argument.name)
    if before >= len(asking) and not any(slot.list for slot in asking):
        return f"{step.target} takes {before or 1} {argument.name}, and this is another; remove one"
    if at in step.values or any(slot.condition.variables for slot in asking):
        return ""
    mismatches = [slot.condition.bind().explain(Tree(argument)) for slot in asking]
    if any(mismatch is None for mismatch in mismatches):
        return ""
    (first, *_) = (mismatch for mismatch in mismatches if mismatch is not None)
    differs = f"expected {first.predicate}, found {first.value}"
    return f"{argument.name} is not what input {asking[0].id} takes: {differs}"


def _untaken(recipe: Recipe, library: Library) -> Iterator[Fault]:
    """A warning for each step whose target may expire without an error link for that."""
    for step in recipe.steps.values():
        target = library.get(step.kind, step.target)
        links = (source for transition in step.outs for source in transition.ins if source.step is step)
        may_expire = isinstance(target, RunDefinition) and target.may_expire
        if may_expire and not any(source.on_error for source in links):
            message = f"step {step.id!r}: {step.target} may expire, and no error link takes that up"
            yield Fault(recipe.path, step.line, 1, f"{message}; add one, or an outcome", warning=True)


def _anybodys(recipe: Recipe, library: Library) -> Iterator[Fault]:
    """A warning for each condition after work that takes any answer in memory as the step's."""
    for step in recipe.steps.values():
        name = getattr(library.get(step.kind, step.target), "answer_name", "")
        for transition in step.outs if name and not step.agent else ():
            for condition in (each.condition for each in transition.conditions if not each.absent):
                if condition.names == frozenset({name}) and not condition.variables:
                    message = f"transition {transition.id!r}: {condition.text} takes any {name} in memory"
                    better = f"write ${step.id} in place of {name}, which is the answer to step {step.id!r}"
                    yield Fault(recipe.path, transition.line, 1, f"{message}; {better}", warning=True)


def _begins_again(recipe: Recipe, library: Library) -> Iterator[Fault]:
    """A warning if a recipe restarts for ever, because nothing in it waits for a date or uses anything up."""
    if recipe.restart == "no" or any(map(_waits, recipe.transitions.values())):
        return
    if all(_comes_back_alike(step, library) for step in recipe.steps.values()):
        looked_for = any(transition.conditions for transition in recipe.transitions.values())
        while_what = "as long as what its conditions look for is there" if looked_for else "for ever"
        why = "nothing in it uses up an element or waits for a date"
        mend = 'write use="yes" at a condition, add a date, or leave restart out'
        message = f"recipe {recipe.full_name!r} restarts once a second, {while_what}: {why}; {mend}"
        yield Fault(recipe.path, recipe.line, 1, message, warning=True)


def _begins_in_vain(recipe: Recipe, library: Library) -> Iterator[Fault]:
    """A warning if each next plan begins with an element that the first one has used up."""
    for transition in recipe.start.outs if recipe.restart != "no" else ():
        names = [each.condition.names for each in transition.conditions if not each.condition.variables]
        for step in transition.outs if not _waits(transition) else ():
            target = _comes_back(step, library) if not step.arguments else None
            for slot in target.prototype.inputs if target is not None else ():
                if slot.use and not slot.optional and slot.condition.names in names:
                    (name, *_) = sorted(slot.condition.names or ("an element",))
                    fails = (
                        f"step {step.id!r} uses {name} up, so the next plan fails there, with the same {name}"
                    )
                    mend = f'write use="yes" at the condition of transition {transition.id!r} too'
                    yield Fault(recipe.path, transition.line, 1, f"{fails}; {mend}", warning=True)


def _fed(recipe: Recipe, library: Library) -> Iterator[Fault]:
    """A warning for a step whose arguments give the very element that the first transition of its recipe
    waits for.
    """
    if (step := _feeding(recipe, library)) is not None:
        gives = f"step {step.id!r} gives by its arguments what recipe {recipe.full_name!r} waits for"
        mend = "give it the element that came, or one of another name, or leave restart out"
        yield Fault(recipe.path, step.line, 1, f"{gives}, so it restarts for ever; {mend}", warning=True)


def _waits(transition: Transition) -> bool:
    """True if a transition waits for a date, or for an element that it uses up, or that must last or go."""
    conditions = transition.conditions
    return bool(transition.times) or any(each.use or each.absent or each.lasting for each in conditions)


def _comes_back_alike(step: Step, library: Library) -> bool:
    """True if a step calls an action once, and the action returns by itself and uses up nothing."""
    target = _comes_back(step, library)
    if target is None:
        return False
    try:
        inputs = step.prototype(target.prototype).inputs
    except DefinitionError:  # reported by check_step
        return False
    return not any(slot.use or slot.outdates for slot in inputs)


def _wakes_itself(recipe: Recipe, ring: list[str]) -> str:
    """The words for a ring of recipes, each woken by an element that the one before makes."""
    way, alone = " → ".join(ring), len(ring) == 2
    made = "what each of its runs makes" if alone else "what a run of the one before makes"
    mend = "it does not make" if alone else "the others do not make"
    return (
        f"recipe {recipe.full_name!r} wakes itself without end ({way}): {made} is all that the next one "
        f"waits for, so narval will begin them later and later; have it wait for something that {mend}, or "
        "leave restart out"
    )


def _endless(library: Library) -> dict[str, tuple[str, ...]]:
    """The recipes that can end only by calling one of these recipes, with those that each calls."""
    left = {name: recipe for name, recipe in library.of("recipe").items() if isinstance(recipe, Recipe)}
    while ended := [name for name, recipe in left.items() if _ends(recipe, left)]:
        for name in ended:
            del left[name]
    return {
        name: tuple(step.target for step in recipe.steps.values() if _calls_one_of(step, left))
        for name, recipe in left.items()
    }


def _ends(recipe: Recipe, endless: Mapping[str, Recipe]) -> bool:
    """True if there is a way to its end without a step that calls one of these."""
    blocked = {step.id for step in recipe.steps.values() if _calls_one_of(step, endless)}
    ways = (
        (transition.sources, transition.targets)
        for transition in recipe.transitions.values()
        if all(source.on_error or source.step.id not in blocked for source in transition.ins)
    )
    return recipe.end.id not in blocked and recipe.end.id in reached([recipe.start.id], ways)


def _calls_one_of(step: Step, recipes: Container[str]) -> bool:
    """True if a step calls one of these recipes of its own agent; another agent's may differ."""
    return step.kind == "recipe" and not step.agent and step.target in recipes


def _circle(name: str, calls: Mapping[str, tuple[str, ...]]) -> list[str] | None:
    """A shortest way by which a recipe calls itself, or None."""
    ways: list[list[str]] = [[name]]
    seen: set[str] = set()
    for way in ways:
        for target in calls.get(way[-1], ()):
            if target == name:
                return [*way, name]
            if target not in seen:
                seen.add(target)
                ways.append([*way, target])
    return None


# --- which recipes wake one another -----------------------------------------------------------------------


def _waking(library: Library) -> dict[str, tuple[str, ...]]:
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


def _feeding(recipe: Recipe, library: Library) -> Step | None:
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


def _comes_back(step: Step, library: Library) -> Action | None:
    """The action that a step calls once, if it returns by itself."""
    target = library.get(step.kind, step.target)
    waits = step.until or step.every or step.foreach or step.agent or step.sending or step.approve
    return None if waits or not isinstance(target, Action) or target.where == "source" else target


def _prototypes(recipe: Recipe, library: Library) -> dict[str, Prototype] | None:
    """The prototype of each step; None if one of them may not return, or waits."""
    prototypes = {}
    for step in recipe.steps.values():
        if (target := _comes_back(step, library)) is None:
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
