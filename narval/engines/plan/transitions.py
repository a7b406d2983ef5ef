"""Evaluating transitions: which may fire, which waits, which never will (N22, N23, N24, N26; §2.4).

A transition is *impossible* when an in-step can no longer end as its link wants, *undetermined* while one has
yet to end, and *potential* otherwise: then its conditions decide.
"""

from __future__ import annotations

from collections.abc import Iterable

from narval.definitions.recipe import Step, Transition
from narval.engines import commands
from narval.engines.assignment import Slot, assign
from narval.engines.plan.deciding import Deciding
from narval.engines.plan.state import (
    MadeImpossible,
    TransitionAsleep,
    TransitionFailed,
    TransitionFired,
)
from narval.memory.change import MarkScope
from narval.memory.match import Bound

IMPOSSIBLE, UNDETERMINED, POTENTIAL = "impossible", "undetermined", "potential"
_NOT_ENDED = frozenset({"todo", "ready", "running", "end"})
_OPEN = frozenset({"wait-step", "wait-condition"})


def judge(plan: Deciding, step: Step) -> None:
    """A step has ended: fire the best of its transitions, or let them wait (N22)."""
    if plan.state.state != "running":
        return
    if step is plan.recipe.end and plan.state.step(step.id).state == "done":
        plan.end_reached()
        return
    _choose(plan, step.outs)
    _spread(plan, step.outs)


def matched(plan: Deciding, watch: str) -> None:
    """An element came that a sleeping transition may take: try it, and those it competes with."""
    for transition in plan.state.asleep:
        if plan.state.transition(transition).watch == watch:
            rivals = {id(each): each for link in plan.recipe.transitions[transition].ins for each in link.step.outs}
            asleep = [each for each in rivals.values() if each.id in plan.state.asleep]
            _choose(plan, sorted(asleep, key=lambda each: (-each.priority, each.order)))
            return


def check(plan: Deciding) -> None:
    """Nothing is left to decide: is an error unhandled (N26), or can nothing ever fire again (N27)?"""
    state = plan.state
    if state.state != "running":
        return
    for identifier in state.in_error:
        step = plan.recipe.steps[identifier]
        if not any(_handles(plan, each, step) for each in step.outs):
            errors = state.step(identifier).errors
            plan.fail("step-error", f"step {identifier} ended in error and nothing handles it", errors[0])
            return
    if not state.calls and not state.asleep and not state.held_back:
        plan.fail(
            "stuck", f"no transition can fire any more and the end step {plan.recipe.end.id} was not reached"
        )


def classify(plan: Deciding, transition: Transition) -> str:
    """Whether a transition is impossible, undetermined or potential (§2.4)."""
    undetermined = False
    for link in transition.ins:
        state = plan.state.step(link.step.id).state
        if state in _NOT_ENDED:
            undetermined = True
        elif state != ("error" if link.on_error else "done"):
            return IMPOSSIBLE
    return UNDETERMINED if undetermined else POTENTIAL


def handles_errors(transition: Transition) -> bool:
    """Whether one of its links takes up a step in error."""
    return any(link.on_error for link in transition.ins)


# --- firing ---------------------------------------------------------------------------------------------


def _choose(plan: Deciding, transitions: Iterable[Transition]) -> None:
    """Fire the first that can fire; those that could but for their conditions go to sleep, or fail (N26)."""
    tried: list[Transition] = []
    for transition in transitions:
        if plan.state.transition(transition.id).state not in _OPEN or classify(plan, transition) != POTENTIAL:
            continue
        took = _conditions_met(plan, transition)
        if took is not None:
            _fire(plan, transition, took)
            return
        tried.append(transition)
    for transition in tried:
        if handles_errors(transition):
            plan.record.change(TransitionFailed(transition.id))
        elif transition.id not in plan.state.asleep:
            _sleep(plan, transition)


def _fire(plan: Deciding, transition: Transition, took: tuple[int, ...]) -> None:
    for (_, scope), eid in zip(_bounds(plan, transition), took, strict=True):
        if scope is not None:
            plan.record.command(commands.Mark(scope, (eid,)))
    if took:
        plan.record.command(commands.Hold(took))
    watch = plan.state.transition(transition.id).watch
    if watch:
        plan.record.command(commands.Unwatch(watch))
    starts = [step for step in transition.outs if plan.state.step(step.id).state == "todo"]
    plan.record.change(
        TransitionFired(
            transition.id,
            took,
            tuple(link.step.id for link in transition.ins),
            tuple(step.id for step in starts),
        )
    )
    plan.to_run.extend(starts)
    for link in transition.ins:
        _spread(plan, link.step.outs)


def _sleep(plan: Deciding, transition: Transition) -> None:
    """Watch for the elements that are missing: waiting costs nothing (N24)."""
    watch = plan.record.identifier()
    pairs = _bounds(plan, transition)
    plan.record.change(TransitionAsleep(transition.id, watch))
    plan.record.command(
        commands.Watch(watch, tuple(bound for bound, _ in pairs), tuple(scope for _, scope in pairs))
    )


def _spread(plan: Deciding, transitions: Iterable[Transition]) -> None:
    """What cannot fire is impossible, and so is what only it leads to (N22)."""
    pending = list(transitions)
    gone: list[str] = []
    steps: list[str] = []
    dead = set[str]()
    while pending:
        transition = pending.pop()
        if transition.id in dead or plan.state.transition(transition.id).state not in _OPEN:
            continue
        if classify(plan, transition) != IMPOSSIBLE and not any(link.step.id in dead for link in transition.ins):
            continue
        dead.add(transition.id)
        gone.append(transition.id)
        watch = plan.state.transition(transition.id).watch
        if watch:
            plan.record.command(commands.Unwatch(watch))
        for step in transition.outs:
            if step.id not in dead and _unreachable(plan, step, dead):
                dead.add(step.id)
                steps.append(step.id)
                pending.extend(step.outs)
    if gone:
        plan.record.change(MadeImpossible(tuple(gone), tuple(steps)))


def _unreachable(plan: Deciding, step: Step, dead: set[str]) -> bool:
    if plan.state.step(step.id).state != "todo" or step is plan.recipe.start:
        return False
    return all(
        each.id in dead or plan.state.transition(each.id).state in ("impossible", "fail") for each in step.ins
    )


def _handles(plan: Deciding, transition: Transition, step: Step) -> bool:
    """Whether a transition may still take up an error of that step."""
    if plan.state.transition(transition.id).state != "wait-step":
        return False
    return any(link.on_error and link.step is step for link in transition.ins)


# --- conditions -----------------------------------------------------------------------------------------


def _bounds(plan: Deciding, transition: Transition) -> list[tuple[Bound, MarkScope | None]]:
    """The conditions with their variables resolved, and where what they use is marked (N18)."""
    return [
        (
            each.condition.bind(plan.bindings(each.condition.variables)),
            (plan.recipe.full_name, transition.id, f"#{at}") if each.use else None,
        )
        for at, each in enumerate(transition.conditions, 1)
    ]


def _conditions_met(plan: Deciding, transition: Transition) -> tuple[int, ...] | None:
    """One element for each condition, each its own, nearest first (N23); None when one has none."""
    if not transition.conditions:
        return ()
    around = plan.surroundings(transition, transition.context, (plan.products_of_in_steps(transition),))
    slots = [
        Slot(str(at), around.ranks(bound, scope), optional=False, list=False)
        for at, (bound, scope) in enumerate(_bounds(plan, transition))
    ]
    assigned = assign(slots)
    if assigned.missing:
        return None
    return tuple(assigned.given[slot.id][0] for slot in slots)
