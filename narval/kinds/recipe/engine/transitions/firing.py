"""Evaluating transitions: which may fire, and which wait (N22–N26; §2.4).

`classify` says which never will. Potential transitions are decided by their dates and conditions. Transitions
that share an in-step are *rivals*: at most one of them fires.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from narval.core.engines import commands
from narval.core.engines.decision import Wanted, used
from narval.kinds.recipe.engine import explain
from narval.kinds.recipe.engine.changes import (
    DurationEnded,
    TransitionFailed,
    TransitionFired,
    TransitionWaiting,
)
from narval.kinds.recipe.engine.decision import OPEN, POTENTIAL, RecipeDecision, classify, spread_impossible
from narval.kinds.recipe.engine.steps import repeats
from narval.kinds.recipe.engine.transitions import combinations, conditions
from narval.kinds.recipe.engine.transitions.conditions import (
    compute_dates,
    date_comes,
    date_has_come,
    is_early,
    set_date,
)
from narval.kinds.recipe.language.definition import Step, Transition, in_order, lead_nowhere, remedy_of


def follow(decision: RecipeDecision, step: Step) -> None:
    """Fire the best transition of a step that has ended, or let its transitions wait."""
    state = decision.state
    if state.status != "running":
        return
    done, sole = state.steps[step.id].state == "done", step.sole
    if done and step is decision.definition.end:
        decision.end_reached()
        return
    rested = not (state.waiting or state.in_error or state.resting)
    if done and sole is not None and sole.id not in state.transitions and rested:
        _go(decision, sole)  # it waits for nothing else and has no rival, like most transitions
        return
    waiting = _waiting_for(decision, step.id)
    potential = [transition for transition in step.outs if _is_potential(decision, transition)]
    rivals = {rival.id: rival for transition in potential for rival in transition.rivals}
    _choose(decision, in_order(rivals.values()))
    spread_impossible(decision, step.outs)
    for transition in waiting:
        _wait_anew(decision, transition)
    repeats.bind_anew(decision, step.id)
    _fail_if_unhandled(decision)


def matched(decision: RecipeDecision, watch: str, eid: int = 0) -> None:
    """Try a waiting transition and its rivals: an element that it may take has arrived, or one was replaced.

    `eid` is that element; 0 if more may have changed.
    """
    for identifier in decision.state.waiting:
        if decision.state.transition(identifier).watch == watch:
            _try_watched(decision, identifier, eid)
            return
    for identifier in decision.state.awaiting_date:
        run = decision.state.transition(identifier)
        if run.watch == watch:
            decision.command(commands.CancelTimer(run.wake))
            _set_date_anew(decision, identifier)
            return


def timer_fired(decision: RecipeDecision, wake: str) -> None:
    """Try a transition whose date or duration is due, and its rivals; or set the right date."""
    for identifier in decision.state.awaiting_duration:
        if decision.state.transition(identifier).wake == wake:
            decision.change(DurationEnded(identifier))
            _try_watched(decision, identifier)
            return
    for identifier in decision.state.awaiting_date:
        if decision.state.transition(identifier).wake == wake:
            _set_date_anew(decision, identifier, fired=True)
            return


def _set_date_anew(decision: RecipeDecision, identifier: str, *, fired: bool = False) -> None:
    """Try a transition whose date has come, and its rivals; or compute its date again.

    The date has come if its timer `fired` for it, or if it has passed because an element was replaced.
    """
    transition, run = decision.definition.transitions[identifier], decision.state.transition(identifier)
    if fired and transition.dated and date_has_come(decision, transition, None):
        date_comes(decision, transition, None)
        _go(decision, transition)  # it waited for nothing else and has no rival, like most with dates
        _fail_if_unhandled(decision)
        return
    reckoning = compute_dates(decision, transition)
    if run.watch:
        decision.command(commands.Unwatch(run.watch))
    past = reckoning is not None and reckoning.is_past(decision.event.at)
    if date_has_come(decision, transition, reckoning) if fired else past:
        date_comes(decision, transition, reckoning)
        _let_rivals_come(decision, transition, run.date)
        _choose(decision, transition.rivals)
    else:
        set_date(decision, transition, reckoning)
    if reckoning is not None and reckoning.new:
        names = [name for name, _ in reckoning.of]
        for waiting in _waiting_for(decision, *names):
            _wait_anew(decision, waiting)
        repeats.bind_anew(decision, *names)
    if decision.state.transition(identifier).state == "fail":
        spread_impossible(decision, [transition])
    _fail_if_unhandled(decision)


def _let_rivals_come(decision: RecipeDecision, transition: Transition, date: float) -> None:
    """Record the same date as come for rivals that wait for it too, so that priority decides, not the order
    of timers.
    """
    for rival in transition.rivals:
        run = decision.state.transition(rival.id)
        if run.wake and not run.watch and run.date == date and rival.id in decision.state.awaiting_date:
            reckoning = compute_dates(decision, rival)
            if date_has_come(decision, rival, reckoning):
                decision.command(commands.CancelTimer(run.wake))
                date_comes(decision, rival, reckoning)


def _try_watched(decision: RecipeDecision, identifier: str, eid: int = 0) -> None:
    """Try a waiting transition and its rivals, by the conditions that are watched."""
    transition = decision.definition.transitions[identifier]
    _choose(decision, transition.rivals, conditions.watched_conditions, (transition, eid))
    _fail_if_unhandled(decision)


def fail_if_stuck(decision: RecipeDecision) -> None:
    """End a plan in which nothing can fire any more: it fails, unless a date was given up."""
    state = decision.state
    transitions = state.waiting or state.awaiting_date
    waits = state.calls or transitions or state.blocked or state.following or state.resting
    if state.status != "running" or waits:
        return
    if any(transition.given_up for transition in state.transitions.values()):
        decision.end_reached()
    else:
        end = decision.definition.end.id
        why = f"no transition can fire any more, and the end step {end} is {state.step(end).state}"
        ends = "\n".join(explain.dead_ends(decision.definition, state))
        nowhere = (each for each in lead_nowhere(decision.definition) if state.step(each.id).state == "done")
        remedies = [remedy_of(decision.definition, step) for step in nowhere]
        decision.fail(decision.add_error("stuck", "; ".join((why, *remedies)), detail=ends))


def handles_errors(transition: Transition) -> bool:
    """True if one of its links handles a step in error."""
    return any(link.on_error for link in transition.ins)


# --- firing ---------------------------------------------------------------------------------------------


def _choose(
    decision: RecipeDecision,
    transitions: Iterable[Transition],
    look_up: Callable[[RecipeDecision, Transition], Wanted] = conditions.wanted,
    came: tuple[Transition | None, int] = (None, 0),
) -> None:
    """Fire the first transition that can, and each other that is not its rival; the rest wait, or fail if
    they handle errors.

    `look_up` returns the conditions of a transition; by default they are resolved again. `came` is a waiting
    transition, and the one element that came to it.
    """
    early: list[Transition] = []
    lacking: list[tuple[Transition, Wanted]] = []
    names: tuple[str, ...] = ()
    for transition in transitions:
        if not _is_potential(decision, transition):
            continue
        if (transition.times or transition.appointments) and is_early(decision, transition):
            early.append(transition)
            continue
        lookup = look_up(decision, transition)
        eids = _elements_for(decision, transition, lookup, came[1] if transition is came[0] else 0)
        if eids is None:
            lacking.append((transition, lookup))
        else:
            _fire(decision, transition, lookup, *eids)
            names += transition.names
    for transition in early:
        unset = transition.id not in decision.state.awaiting_date and _is_potential(decision, transition)
        if unset and decision.state.status == "running":
            set_date(decision, transition, compute_dates(decision, transition))
    for transition, lookup in lacking:
        if decision.state.status != "running" or not _is_potential(decision, transition):
            continue
        if handles_errors(transition):
            decision.change(TransitionFailed(transition.id))
            continue
        if not transition.plain:
            lookup = combinations.relaxed(decision, transition)
        if transition.id not in decision.state.waiting or not _is_watched(decision, transition, lookup):
            _wait(decision, transition, lookup)
        conditions.set_duration(decision, transition, lookup)
    if names:
        for transition in _waiting_for(decision, *names):
            _wait_anew(decision, transition)
        repeats.bind_anew(decision, *names)


def _elements_for(
    decision: RecipeDecision, transition: Transition, lookup: Wanted, new: int = 0
) -> combinations.Found | None:
    """The elements that the conditions of a transition take; None if one has none."""
    if not transition.plain:
        return combinations.elements_for(decision, transition, new)
    took = conditions.elements_for(decision, transition, lookup)
    return None if took is None else (took, ())


def _is_watched(decision: RecipeDecision, transition: Transition, conditions: Wanted) -> bool:
    """True if the watch of a waiting transition is for these conditions."""
    if transition.plain:
        return True
    watch = decision.view.active_watch(decision.state.transition(transition.id).watch)
    watched = [*conditions, *combinations.also_watched(transition)]
    return watch is not None and watch.conditions == tuple(bound for bound, _ in watched)


def _is_potential(decision: RecipeDecision, transition: Transition) -> bool:
    state = decision.state.transition(transition.id).state
    return state in OPEN and classify(decision, transition) == POTENTIAL


def _fire(
    decision: RecipeDecision,
    transition: Transition,
    conditions: Wanted,
    took: tuple[int, ...],
    counts: tuple[int, ...],
) -> None:
    fed = False
    if took:
        decision.use_matches(conditions, took, counts)
        if decision.definition.restart != "no":
            waited = transition.id in decision.state.waiting
            marked = (eid for _, eids in used(conditions, took, counts) for eid in eids)
            fed = decision.any_from_elsewhere(took if waited else marked)
    decision.stop_waiting_of(transition.id)
    _go(decision, transition, took, counts, fed=fed)
    for link in transition.ins:
        if len(link.step.outs) > 1:
            spread_impossible(decision, link.step.outs)


def _go(
    decision: RecipeDecision,
    transition: Transition,
    took: tuple[int, ...] = (),
    counts: tuple[int, ...] = (),
    fed: bool = False,
) -> None:
    """Fire a transition: go from its in-steps to the out-steps that no other transition has led to."""
    first = decision.definition.restart == "parallel" and decision.state.is_first
    steps = decision.state.steps
    starts, reached = transition.outs, transition.targets
    for target in reached:
        if target in steps:
            starts = tuple([step for step in starts if step.id not in steps])
            reached = tuple([step.id for step in starts])
            break
    decision.change(TransitionFired(transition.id, took, transition.sources, reached, counts, fed))
    if first:
        decision.begin_next()
    decision.to_run += starts


def _wait(decision: RecipeDecision, transition: Transition, lookup: Wanted) -> None:
    """Watch for the elements that are missing."""
    decision.stop_waiting_of(transition.id)
    watch = decision.identifier()
    decision.change(TransitionWaiting(transition.id, watch))
    if not transition.plain:
        lookup = [*lookup, *combinations.also_watched(transition)]
    decision.watch(watch, lookup, or_outdated=conditions.is_told_of_gone(transition))


def _waiting_for(decision: RecipeDecision, *names: str) -> list[Transition]:
    """The waiting transitions that use one of these variables, which have elements now."""
    waiting = decision.state.waiting
    if not waiting:
        return []
    return [
        transition
        for transition in map(decision.definition.transitions.__getitem__, waiting)
        if not (transition.variables - transition.inner_names).isdisjoint(names)
    ]


def _wait_anew(decision: RecipeDecision, transition: Transition) -> None:
    """Try a waiting transition, or set its watch again, because one of its variables now has elements."""
    if transition.id in decision.state.waiting:
        _choose(decision, transition.rivals)
    if transition.id in decision.state.waiting:
        look_up = conditions.wanted if transition.plain else combinations.relaxed
        lookup = look_up(decision, transition)
        _wait(decision, transition, lookup)
        conditions.set_duration(decision, transition, lookup)


def _fail_if_unhandled(decision: RecipeDecision) -> None:
    """Fail a plan with a step in error that no transition can handle any longer."""
    for identifier in decision.state.in_error:
        step = decision.definition.steps[identifier]
        if not any(_may_handle(decision, transition, step) for transition in step.outs):
            decision.fail(decision.state.step(identifier).errors[0])
            return


def _may_handle(decision: RecipeDecision, transition: Transition, step: Step) -> bool:
    """True if a transition may still handle an error of that step."""
    if decision.state.transition(transition.id).state not in ("wait-step", "wait-time"):
        return False
    return any(link.on_error and link.step is step for link in transition.ins)
