"""Evaluating transitions: which may fire, which waits, which never will (N22–N26; §2.4).

A transition is *impossible* when an in-step can no longer end as its link wants, *undetermined* while one has
yet to end, and *potential* otherwise: then its date and its conditions decide. Transitions that share an
in-step are *rivals*: one of them fires at most.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from narval.definitions.recipe.definition import Step, Transition, in_order
from narval.engines import commands
from narval.engines.assignment import Slot, assign
from narval.engines.recipe import explain, triggers
from narval.engines.recipe.changes import (
    DateCome,
    DurationEnded,
    MadeImpossible,
    TransitionFailed,
    TransitionFired,
    TransitionWaiting,
)
from narval.engines.recipe.decision import PLAN, RecipeDecision, Wanted, conditions_of
from narval.engines.recipe.state import NOT_ENDED

IMPOSSIBLE, UNDETERMINED, POTENTIAL = "impossible", "undetermined", "potential"
_OPEN = frozenset({"wait-step", "wait-time", "wait-condition"})


def judge(plan: RecipeDecision, step: Step) -> None:
    """A step has ended: fire the best of its transitions, or let them wait (N22)."""
    state = plan.state
    if state.state != "running":
        return
    done = state.steps[step.id].state == "done"
    if done and step is plan.recipe.end:
        plan.end_reached()
        return
    sole = step.sole
    if (
        done
        and sole is not None
        and sole.id not in state.transitions
        and not (state.waiting or state.in_error)
    ):
        _go(plan, sole)  # it waits for nothing else and has no rival, as most transitions of most recipes
        return
    waiting = _waiting_for(plan, step)
    _choose(plan, _rivals(each for each in step.outs if _is_potential(plan, each)))
    spread(plan, step.outs)
    for transition in waiting:
        _wait_anew(plan, transition)
    _fail_if_unhandled(plan)


def matched(plan: RecipeDecision, watch: str) -> None:
    """An element came that a sleeping transition may take: try it, and its rivals."""
    for identifier in plan.state.waiting:
        if plan.state.transition(identifier).watch == watch:
            _choose(plan, plan.recipe.transitions[identifier].rivals, look_up=_as_watched)
            _fail_if_unhandled(plan)
            return


def woken(plan: RecipeDecision, wake: str) -> None:
    """The moment of a date is there: try its transition and the rivals, or wait for the right date.

    The same for the moment when elements may have fitted long enough (N38).
    """
    for identifier in plan.state.lasting:
        if plan.state.transition(identifier).wake == wake:
            plan.change(DurationEnded(identifier))
            _choose(plan, plan.recipe.transitions[identifier].rivals, look_up=_as_watched)
            _fail_if_unhandled(plan)
            return
    for identifier in plan.state.dated:
        if plan.state.transition(identifier).wake == wake:
            transition = plan.recipe.transitions[identifier]
            if triggers.has_come(plan, transition):
                plan.change(DateCome(identifier))
                _choose(plan, transition.rivals)
            elif not triggers.set_date(plan, transition):
                plan.change(TransitionFailed(identifier))
            if plan.state.transition(identifier).state == "fail":
                spread(plan, [transition])
            _fail_if_unhandled(plan)
            return


def fail_if_stuck(plan: RecipeDecision) -> None:
    """Nothing is left to decide: a plan of which nothing can ever fire again fails (N27)."""
    state = plan.state
    waits = state.calls or state.waiting or state.dated or state.held_back
    if state.state == "running" and not waits:
        end = plan.recipe.end.id
        why = f"no transition can fire any more, and the end step {end} is {state.step(end).state}"
        plan.fail(plan.add_error("stuck", why, detail="\n".join(explain.dead_ends(plan.recipe, state))))


def classify(plan: RecipeDecision, transition: Transition) -> str:
    """Whether a transition is impossible, undetermined or potential (§2.4)."""
    undetermined = False
    for link in transition.ins:
        state = plan.state.step(link.step.id).state
        if state in NOT_ENDED:
            undetermined = True
        elif state != ("error" if link.on_error else "done"):
            return IMPOSSIBLE
    return UNDETERMINED if undetermined else POTENTIAL


def handles_errors(transition: Transition) -> bool:
    """Whether one of its links takes up a step in error."""
    return any(link.on_error for link in transition.ins)


# --- firing ---------------------------------------------------------------------------------------------


def _rivals(transitions: Iterable[Transition]) -> tuple[Transition, ...]:
    """These transitions and those that share an in-step with one: by priority, then as in the file (N22)."""
    return in_order({each.id: each for one in transitions for each in one.rivals}.values())


def _choose(
    plan: RecipeDecision,
    transitions: Iterable[Transition],
    look_up: Callable[[RecipeDecision, Transition], Wanted] | None = None,
) -> None:
    """Fire the first that can, and what is no rival of it; the others sleep, or fail if for errors (N26).

    `look_up` says what a transition wants, if that is known.
    """
    look_up = look_up or wanted
    early: list[Transition] = []
    lacking: list[tuple[Transition, Wanted]] = []
    for transition in transitions:
        if not _is_potential(plan, transition):
            continue
        if triggers.is_awaited(plan, transition):
            early.append(transition)
            continue
        conditions = look_up(plan, transition)
        took = _found(plan, transition, conditions)
        if took is None:
            lacking.append((transition, conditions))
        else:
            _fire(plan, transition, conditions, took)
    for transition in early:
        if not _is_potential(plan, transition) or transition.id in plan.state.dated:
            continue
        if not triggers.set_date(plan, transition):
            plan.change(TransitionFailed(transition.id))
    for transition, conditions in lacking:
        if not _is_potential(plan, transition):
            continue
        if handles_errors(transition):
            plan.change(TransitionFailed(transition.id))
            continue
        if transition.id not in plan.state.waiting:
            _sleep(plan, transition, conditions)
        if triggers.has_durations(transition):
            triggers.set_duration(plan, transition, conditions, _slots(plan, transition, conditions))


def _is_potential(plan: RecipeDecision, transition: Transition) -> bool:
    return plan.state.transition(transition.id).state in _OPEN and classify(plan, transition) == POTENTIAL


def _fire(plan: RecipeDecision, transition: Transition, wanted: Wanted, took: tuple[int, ...]) -> None:
    for (_, scope), eid in zip(wanted, took, strict=True):
        if scope is not None:
            plan.command(commands.MarkUsed(scope, (eid,)))
    if took:
        plan.command(commands.AddToContext(took))
    _stop_waiting(plan, transition)
    _go(plan, transition, took)
    for link in transition.ins:
        if len(link.step.outs) > 1:
            spread(plan, link.step.outs)


def _go(plan: RecipeDecision, transition: Transition, took: tuple[int, ...] = ()) -> None:
    """From the in-steps to the out-steps that nothing else has led to."""
    known = plan.state.steps
    starts, reached = transition.outs, transition.targets
    if not known.keys().isdisjoint(reached):
        starts = tuple([each for each in starts if each.id not in known])
        reached = tuple([each.id for each in starts])
    plan.change(TransitionFired(transition.id, took, transition.sources, reached))
    plan.to_run.extend(starts)


def _sleep(plan: RecipeDecision, transition: Transition, wanted: Wanted) -> None:
    """Watch for the elements that are missing: waiting costs nothing (N24)."""
    _stop_waiting(plan, transition)
    watch = plan.identifier()
    plan.change(TransitionWaiting(transition.id, watch))
    plan.command(
        commands.Watch(
            watch,
            tuple(bound for bound, _ in wanted),
            tuple(scope for _, scope in wanted),
            or_outdated=triggers.has_durations(transition),
        )
    )


def _waiting_for(plan: RecipeDecision, step: Step) -> list[Transition]:
    """The sleeping transitions that say `$step`, which stands for something once that has ended (N10)."""
    asleep = (plan.recipe.transitions[identifier] for identifier in plan.state.waiting)
    return [each for each in asleep if step.id in _variables(each)]


def _wait_anew(plan: RecipeDecision, transition: Transition) -> None:
    """A variable has got its elements: what waits may go on at once, or waits for what it stands for now."""
    if transition.id in plan.state.waiting:
        _choose(plan, transition.rivals)
    if transition.id in plan.state.waiting:
        conditions = wanted(plan, transition)
        _sleep(plan, transition, conditions)
        if triggers.has_durations(transition):
            triggers.set_duration(plan, transition, conditions, _slots(plan, transition, conditions))


def _stop_waiting(plan: RecipeDecision, transition: Transition) -> None:
    if transition.id in plan.state.waiting:
        plan.command(commands.Unwatch(plan.state.transition(transition.id).watch))
        if transition.id in plan.state.lasting:
            plan.command(commands.CancelTimer(plan.state.transition(transition.id).wake))
    elif transition.id in plan.state.dated:
        plan.command(commands.CancelTimer(plan.state.transition(transition.id).wake))


# --- what cannot be any more ----------------------------------------------------------------------------


def spread(plan: RecipeDecision, transitions: Iterable[Transition]) -> None:
    """What cannot fire is impossible, and so are the steps that nothing else leads to, and so on (N22)."""
    pending = list(transitions)
    dead: dict[str, None] = {}
    lost: dict[str, None] = {}
    while pending:
        transition = pending.pop()
        state = plan.state.transition(transition.id).state
        if state in _OPEN:
            if transition.id in dead or not _is_dead(plan, transition, lost):
                continue
            dead[transition.id] = None
            _stop_waiting(plan, transition)
        elif state != "fail":
            continue
        for step in transition.outs:
            if step.id not in lost and _is_lost(plan, step, dead):
                lost[step.id] = None
                pending.extend(step.outs)
    if dead or lost:
        plan.change(MadeImpossible(tuple(dead), tuple(lost)))


def _is_dead(plan: RecipeDecision, transition: Transition, lost: dict[str, None]) -> bool:
    return classify(plan, transition) == IMPOSSIBLE or any(link.step.id in lost for link in transition.ins)


def _is_lost(plan: RecipeDecision, step: Step, dead: dict[str, None]) -> bool:
    if plan.state.step(step.id).state != "todo":
        return False
    return all(
        each.id in dead or plan.state.transition(each.id).state in ("impossible", "fail") for each in step.ins
    )


def _fail_if_unhandled(plan: RecipeDecision) -> None:
    """A plan fails when a step is in error and no transition can take that up any more (N26)."""
    for identifier in plan.state.in_error:
        step = plan.recipe.steps[identifier]
        if not any(_may_handle(plan, each, step) for each in step.outs):
            plan.fail(plan.state.step(identifier).errors[0])
            return


def _may_handle(plan: RecipeDecision, transition: Transition, step: Step) -> bool:
    """Whether a transition may still take up an error of that step."""
    if plan.state.transition(transition.id).state not in ("wait-step", "wait-time"):
        return False
    return any(link.on_error and link.step is step for link in transition.ins)


# --- conditions -----------------------------------------------------------------------------------------


def wanted(plan: RecipeDecision, transition: Transition) -> Wanted:
    """The conditions of a transition with their variables resolved, and where what they use is marked."""
    return conditions_of(plan.recipe, plan.state, transition, plan.view.element)


def _as_watched(plan: RecipeDecision, transition: Transition) -> Wanted:
    """What a transition wants, where no step has ended: what it sleeps for, which is resolved already.

    What `$plan` stands for is another element at any time.
    """
    if transition.id in plan.state.waiting and PLAN not in _variables(transition):
        watch = plan.view.active_watch(plan.state.transition(transition.id).watch)
        if watch is not None:
            return list(zip(watch.conditions, watch.scopes, strict=True))
    return wanted(plan, transition)


def _variables(transition: Transition) -> frozenset[str]:
    return frozenset[str]().union(*(each.condition.variables for each in transition.conditions))


def _found(plan: RecipeDecision, transition: Transition, wanted: Wanted) -> tuple[int, ...] | None:
    """One element for each condition, each its own, nearest first (N23); None when one has none."""
    if not wanted:
        return ()
    slots = _slots(plan, transition, wanted)
    if triggers.has_durations(transition):
        slots = triggers.lasted(plan, transition, wanted, slots)
    assigned = assign(slots)
    return None if assigned.missing else tuple(assigned.given[slot.id][0] for slot in slots)


def _slots(plan: RecipeDecision, transition: Transition, wanted: Wanted) -> list[Slot]:
    """The conditions of a transition, each with the elements that fit it, nearest first (N15)."""
    around = plan.surroundings(transition.context, (plan.products_of_in_steps(transition),))
    return [
        Slot(str(at), around.ranks(bound, scope, plan.state.taken_before(transition.id, f"#{at + 1}")))
        for at, (bound, scope) in enumerate(wanted)
    ]
