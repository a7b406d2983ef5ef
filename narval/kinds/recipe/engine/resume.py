"""A plan that continues from a step that an earlier plan of the recipe had reached (`narval retry`).

`plan_resume` reads the progress of the earlier plan and says what the new one takes over; `resumed` starts
the new one from that. Steps that were done are kept with their products, and so are the transitions that left
them. The chosen step and everything after it are done again by the present definition. If the asker says that
the chosen step was done, it is kept too, and only what is after it is done again.
"""

from __future__ import annotations

from collections.abc import Iterable

from narval.core.elements.element import Tree
from narval.core.engines import commands
from narval.core.engines.engine import Find, Lookup
from narval.core.engines.events import CarriedOver, Resume, Reusable
from narval.core.errors import RequestError
from narval.kinds.recipe.engine.changes import PlanResumed, StepReady
from narval.kinds.recipe.engine.decision import RecipeDecision, spread_impossible
from narval.kinds.recipe.engine.state import PlanState
from narval.kinds.recipe.language.definition import Recipe, Step, Transition

BROKEN = ("failed", "error")


def plan_resume(
    recipe: Recipe,
    before: PlanState,
    chosen: str | None,
    reusable: Iterable[Reusable],
    element: Lookup,
    find: Find,
    gave: tuple[int, ...] | None = None,
) -> Resume:
    """The parts of an earlier plan that a new plan of `recipe` takes over. Raises RequestError if it cannot
    continue from the chosen step.

    `chosen` is the step to begin again from; by default, the one that failed. `reusable` has the elements
    that calls of the earlier plan were given: they may be taken again, although they are marked as used.
    `gave` says that the chosen step was done, and which elements it gave.
    """
    if chosen is None:
        chosen = _broken_step(recipe, before)
    if chosen not in recipe.steps:
        steps = ", ".join(recipe.steps)
        raise RequestError(f"{recipe.full_name} has no step {chosen!r} now; it has {steps}")
    past = _Past(recipe, before, without=_what_came_of(before, recipe.steps[chosen]))
    if chosen not in past.frontier:
        why = _unreached(recipe, before, past, chosen)
        raise RequestError(f"run {before.eid} cannot be retried from step {chosen}: {why}")
    for step in past.kept:
        gone = next((eid for eid in before.step(step).produced if element(eid) is None), None)
        if gone is not None:
            what = f"what step {step} of run {before.eid} produced, element {gone},"
            raise RequestError(f"{what} has been forgotten: retry from there")
    for transition in past.fired.values():
        for at, condition in enumerate(transition.conditions):
            taken = before.transition(transition.id).taken_by(at) if condition.name else ()
            gone = next((eid for eid in taken if element(eid) is None), None)
            if gone is not None:
                what = f"what transition {transition.id} of run {before.eid} took as {condition.name}"
                raise RequestError(f"{what}, element {gone}, has been forgotten: retry from before it")
    done: tuple[CarriedOver, ...] = ()
    if gave is not None:
        _raise_unless_done(recipe.steps[chosen], before, gave, element, find)
        done = (CarriedOver(chosen, "done", gave),)
    # another plan follows the earlier one, or will, because the recipe restarts
    begun_beside = recipe.restart == "parallel" and before.has_fired
    return Resume(
        of=before.eid,
        part=chosen,
        elements=_there(before.first, element),
        kept=(*past.steps(), *done, *past.transitions()),
        again=tuple(use for use in _again(before, past, reusable, element) if not done or use.id != chosen),
        followed=before.followed or begun_beside or before.status != "cancelled",
    )


def _raise_unless_done(
    step: Step, before: PlanState, gave: tuple[int, ...], element: Lookup, find: Find
) -> None:
    """Raise RequestError unless the step could have given these elements: each exists and fits one of its
    outputs, and each mandatory output has one.
    """
    elements = [present for eid in gave if (present := element(eid)) is not None]
    if len(elements) < len(gave):
        missing = next(eid for eid in gave if element(eid) is None)
        raise RequestError(f"there is no element {missing}, which step {step.id} is said to have given")
    target = find(step.kind, step.target) if not step.agent else None
    prototype = getattr(target, "prototype", None)
    if prototype is None:
        return
    outputs = [
        (output, None if output.condition.variables else output.condition.bind())
        for output in step.prototype(prototype).outputs
    ]
    for one in elements:
        if not any(bound is None or bound.test(Tree(one)) for _, bound in outputs):
            texts = ", ".join(f"{output.id} ({output.condition.text})" for output, _ in outputs) or "nothing"
            raise RequestError(f"step {step.id} cannot have given element {one.eid}; it gives {texts}")
    for output, bound in outputs:
        if output.optional or any(bound is None or bound.test(Tree(one)) for one in elements):
            continue
        what = f"step {step.id} gives {output.id} ({output.condition.text}), with which the plan goes on"
        say = f"add that (narval add), then narval retry {before.eid} --done --gave EID"
        raise RequestError(f"{what}: {say}")


def resumed(decision: RecipeDecision, resume: Resume) -> None:
    """Begin a plan with the parts that it takes over, and follow their transitions."""
    recipe = decision.definition
    if resume.context:
        decision.command(commands.AddToContext(resume.context))
    decision.change(
        PlanResumed(
            resume.of,
            resume.part,
            steps=tuple(part for part in resume.kept if part.id in recipe.steps),
            transitions=tuple(part for part in resume.kept if part.id in recipe.transitions),
            again=resume.again,
            followed=resume.followed,
        )
    )
    carried = [step for step in recipe.steps.values() if decision.state.step(step.id).state != "todo"]
    if recipe.start not in carried:
        _ready(decision, recipe.start, "")
    for transition in recipe.transitions.values():
        if decision.state.transition(transition.id).state == "fired":
            for step in transition.outs:
                _ready(decision, step, transition.id)
    for step in carried:
        if decision.state.step(step.id).state == "history":
            spread_impossible(decision, step.outs)
        else:
            decision.to_follow.append(step)


def _ready(decision: RecipeDecision, step: Step, via: str) -> None:
    if decision.state.step(step.id).state == "todo":
        decision.change(StepReady(step.id, via))
        decision.to_run.append(step)


# --- the progress of an earlier plan --------------------------------------------------------------------


class _Past:
    """The steps that an earlier plan had done, the transitions that fired between them, and the steps that
    these led to.
    """

    def __init__(self, recipe: Recipe, before: PlanState, without: frozenset[str] = frozenset()) -> None:
        self.before = before
        self.kept: dict[str, Step] = {}
        self.fired: dict[str, Transition] = {}
        self.frontier: dict[str, Step] = {}
        self.left: set[str] = set()
        """Kept steps that a transition has left, and that are history."""
        pending = [recipe.start]
        while pending:
            step = pending.pop(0)
            if step.id in self.kept:
                continue
            if step.id in without or not _is_done(before, step):
                self.frontier[step.id] = step
                continue
            self.kept[step.id] = step
            for transition in step.outs:
                if self._has_fired(transition):
                    self.fired[transition.id] = transition
                    self.left.update(link.step.id for link in transition.ins)
                    pending += transition.outs

    def _has_fired(self, transition: Transition) -> bool:
        ins = [link.step.id for link in transition.ins]
        fired = self.before.transition(transition.id).state == "fired"
        return fired and all(step in self.kept for step in ins) and self.left.isdisjoint(ins)

    def steps(self) -> Iterable[CarriedOver]:
        """The kept steps, with what they produced."""
        for step in self.kept:
            run = self.before.step(step)
            state = "history" if step in self.left else "done"
            yield CarriedOver(step, state, tuple(run.produced), tuple(run.errors))

    def transitions(self) -> Iterable[CarriedOver]:
        """The transitions between them, with what they took."""
        for transition in self.fired:
            run = self.before.transition(transition)
            yield CarriedOver(transition, "fired", run.took, counts=run.counts)


def _is_done(before: PlanState, step: Step) -> bool:
    """True if a step did its work, or a transition that still exists handled its error."""
    run = before.step(step.id)
    if run.state not in ("done", "history"):
        return False
    return not run.errors or any(
        before.transition(transition.id).state == "fired" and any(link.on_error for link in transition.ins)
        for transition in step.outs
    )


def _what_came_of(before: PlanState, step: Step) -> frozenset[str]:
    """The step, and all steps that fired transitions led to from it."""
    ids: set[str] = set()
    pending = [step]
    while pending:
        reached = pending.pop()
        if reached.id not in ids:
            ids.add(reached.id)
            fired = (after for after in reached.outs if before.transition(after.id).state == "fired")
            pending += [out for transition in fired for out in transition.outs]
    return frozenset(ids)


def _broken_step(recipe: Recipe, before: PlanState) -> str:
    """The default step to begin again from: one that failed, or the next one due."""
    frontier = list(_Past(recipe, before).frontier)
    broken = [step for step in (*frontier, *before.steps) if before.step(step).state in BROKEN]
    if broken or frontier:
        return (broken or frontier)[0]
    ran = ", ".join(step for step in recipe.steps if before.step(step).state in ("done", "history"))
    raise RequestError(f"no step of run {before.eid} failed; name the step to retry from ({ran})")


def _unreached(recipe: Recipe, before: PlanState, past: _Past, step: str) -> str:
    run = before.step(step)
    if run.state in ("todo", "impossible"):
        return f"it was {run.state} there, no transition had led to it"
    if not run.via:
        return f"{recipe.full_name} begins with step {recipe.start.id} now"
    via = recipe.transitions.get(run.via)
    if via is None or recipe.steps[step] not in via.outs:
        return f"transition {run.via}, which led to it, no longer does so"
    lacking = ", ".join(
        f"{link.step.id} ({before.step(link.step.id).state})"
        for link in via.ins
        if link.step.id not in past.kept
    )
    return f"the steps before it are not done, or no longer there: {lacking or via.id}"


def _again(
    before: PlanState, past: _Past, reusable: Iterable[Reusable], element: Lookup
) -> Iterable[Reusable]:
    """The elements given to parts that are done again, except arguments, which come from the definition."""
    earlier = (
        Reusable(part, slot, eids) for part, slots in before.again.items() for slot, eids in slots.items()
    )
    for used in (*earlier, *reusable):
        eids = tuple(eid for eid in _there(used.eids, element) if not _is_argument(element, eid, used.id))
        if used.id not in past.kept and used.id not in past.fired and eids:
            yield Reusable(used.id, used.slot, eids)
    for transition, run in before.transitions.items():
        if transition not in past.fired:
            for at in range(len(run.counts or run.took)):
                if taken := _there(run.taken_by(at), element):
                    yield Reusable(transition, f"#{at + 1}", taken)


def _is_argument(element: Lookup, eid: int, step: str) -> bool:
    argument = element(eid)
    origin = argument.origin if argument is not None else None
    return origin is not None and origin.step == step and not origin.call


def _there(eids: Iterable[int], element: Lookup) -> tuple[int, ...]:
    return tuple(eid for eid in eids if element(eid) is not None)
