"""The dates of transitions (N25) and their appointments (N41, N45).

The clock of a transition starts once its in-steps have ended, and one date is set: the next that fits. The
runtime reports its moment, and does so early if the clock was set back or the zone of the home changed: then
the date is computed again.
"""

from __future__ import annotations

from narval.core.engines import commands, dates
from narval.core.engines.dates import ComputedDates
from narval.kinds.recipe.engine.changes import (
    DateCome,
    DateGivenUp,
    DateSet,
    TransitionFailed,
    VersionFollowed,
)
from narval.kinds.recipe.engine.decision import SHARED, RecipeDecision, spread_impossible
from narval.kinds.recipe.language.definition import Transition


def compute(decision: RecipeDecision, transition: Transition) -> ComputedDates | None:
    """The moments of a transition's appointments, by the present elements; None if it has no appointments."""
    if not transition.appointments:
        return None
    run = decision.state.transition(transition.id)
    names = frozenset[str]().union(*(appointment.variables for appointment in transition.appointments))
    bound, before = decision.bindings(names), dict(run.of)
    sources = {
        name: tuple([element.eid for element in bound[name]]) or before.get(name, ()) for name in names
    }
    return dates.compute(transition.appointments, run.since or decision.event.at, sources, decision.view)


def is_early(decision: RecipeDecision, transition: Transition) -> bool:
    """True while the date of a transition has not come; an appointment may have passed before it is set."""
    if decision.state.transition(transition.id).come:
        return False
    reckoning = None if transition.id in decision.state.awaiting_date else compute(decision, transition)
    if reckoning is None or not reckoning.is_past(decision.event.at):
        return True
    come(decision, transition, reckoning)
    return False


def set_date(decision: RecipeDecision, transition: Transition, reckoning: ComputedDates | None) -> None:
    """Let a transition wait for its next date; without one, fail it or give up its appointments.

    An element without an expected date fails the plan.
    """
    if reckoning is not None and reckoning.fault:
        decision.change(DateGivenUp(transition.id))
        spread_impossible(decision, [transition])
        fault = f"the date of transition {transition.id} cannot be computed: {reckoning.fault}"
        decision.fail(decision.add_error("no-date", fault))
    elif not _wait_for_next(decision, transition, reckoning):
        if reckoning is None:
            decision.change(TransitionFailed(transition.id))
        else:
            decision.change(DateGivenUp(transition.id, reckoning.gone))
            spread_impossible(decision, [transition])


def _wait_for_next(decision: RecipeDecision, transition: Transition, reckoning: ComputedDates | None) -> bool:
    """Wait for the next date that fits; False if no further one will come."""
    date = None
    if transition.times:
        date = dates.next_date(transition.times, decision.view.zone, decision.event.at)
    if reckoning is not None:
        date = reckoning.earliest(decision.event.at, date)
    if date is None:
        return False
    wake = decision.identifier()
    if reckoning is None:
        decision.change(DateSet(transition.id, date, wake))
    else:
        _watch_elements(decision, transition, reckoning, date, wake)
    decision.command(commands.SetTimer(wake, date, calendar=True))
    return True


def _watch_elements(
    decision: RecipeDecision, transition: Transition, reckoning: ComputedDates, date: float, wake: str
) -> None:
    """Set a computed date, and watch the elements from which it was computed."""
    _follow_versions(decision, reckoning)
    elements = tuple(dict.fromkeys(eid for _, eids in reckoning.of for eid in eids))
    watch = decision.identifier() if elements else ""
    decision.change(DateSet(transition.id, date, wake, reckoning.since, reckoning.of, watch))
    if elements:
        decision.command(commands.Watch(watch, (), (), elements=elements))


def has_come(decision: RecipeDecision, transition: Transition, reckoning: ComputedDates | None) -> bool:
    """True if the set date has come, or was missed but must still be made up for."""
    now, view = decision.event.at, decision.view
    date = decision.state.transition(transition.id).date
    if transition.times and dates.has_come(transition.times, date, now, view):
        return True
    return reckoning is not None and reckoning.has_come(now, view)


def come(decision: RecipeDecision, transition: Transition, reckoning: ComputedDates | None) -> None:
    """Record that the date of a transition has come; replacements of its elements are near from then on."""
    if reckoning is not None:
        _follow_versions(decision, reckoning)
    decision.change(DateCome(transition.id))


def _follow_versions(decision: RecipeDecision, reckoning: ComputedDates) -> None:
    """Continue with the replacements of elements: a condition that used an element has then used its
    replacement.
    """
    for pair in reckoning.new:
        decision.change(VersionFollowed(*pair))
    decision.add_to_context(tuple([eid for _, eid in reckoning.new]))
    recipe, new = decision.definition, {eid for _, eid in reckoning.new}
    for name, eids in reckoning.of if new else ():
        followed = tuple([eid for eid in eids if eid in new])
        for identifier, at in recipe.names.get(name, ()):
            giver = recipe.transitions[identifier]
            if followed and giver.conditions[at].use and decision.state.transition(identifier).taken_by(at):
                slot = SHARED if giver.inner_names else f"#{at + 1}"
                decision.command(commands.MarkUsed((recipe.full_name, identifier, slot), followed))
