"""The waits of transitions: dates and appointments, conditions, and conditions that must last.

The clock of a transition starts once its in-steps have ended, and one date is set (N25, N41, N45): the next
that fits. The runtime reports its moment, and does so early if the clock was set back or the zone of the home
changed: then the date is computed again. When it has come, only the conditions count (N23).

A condition with `for` holds once an element has fitted it for that long (N38). The time counts from when the
element was added or, if its predecessors fitted too, from when the first of these was added. When all
conditions of a transition have elements and only time is missing, one timer is set for the moment when the
last of them will have held long enough. It is an absolute moment: time without a daemon counts, and setting
the clock does not move it. When it comes, the transition is tried again.
"""

from __future__ import annotations

from math import inf
from operator import itemgetter
from typing import NamedTuple

from narval.core.elements.changes import MarkScope
from narval.core.engines import commands, dates
from narval.core.engines.assignment import Slot, assign
from narval.core.engines.candidates import CandidateSearch
from narval.core.engines.dates import ComputedDates
from narval.core.engines.decision import Wanted
from narval.core.patterns.pattern import Bound
from narval.kinds.recipe.engine.changes import (
    DateCome,
    DateGivenUp,
    DateSet,
    DurationEnded,
    DurationStarted,
    TransitionFailed,
    VersionFollowed,
)
from narval.kinds.recipe.engine.decision import PLAN, SHARED, RecipeDecision, conditions_of, spread_impossible
from narval.kinds.recipe.engine.state import Satisfied
from narval.kinds.recipe.language.definition import Transition

# --- dates ------------------------------------------------------------------------------------------------


def compute_dates(decision: RecipeDecision, transition: Transition) -> ComputedDates | None:
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
    reckoning = None if transition.id in decision.state.awaiting_date else compute_dates(decision, transition)
    if reckoning is None or not reckoning.is_past(decision.event.at):
        return True
    date_comes(decision, transition, reckoning)
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
    """Wait for the next date that fits, and watch the elements from which it was computed; False if no
    further one will come.
    """
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
        _follow_versions(decision, reckoning)
        elements = tuple(dict.fromkeys(eid for _, eids in reckoning.of for eid in eids))
        watch = decision.identifier() if elements else ""
        decision.change(DateSet(transition.id, date, wake, reckoning.since, reckoning.of, watch))
        if elements:
            decision.command(commands.Watch(watch, (), (), elements=elements))
    decision.command(commands.SetTimer(wake, date, calendar=True))
    return True


def date_has_come(decision: RecipeDecision, transition: Transition, reckoning: ComputedDates | None) -> bool:
    """True if the set date has come, or was missed but must still be made up for."""
    now, view = decision.event.at, decision.view
    date = decision.state.transition(transition.id).date
    if transition.times and dates.has_come(transition.times, date, now, view):
        return True
    return reckoning is not None and reckoning.has_come(now, view)


def date_comes(decision: RecipeDecision, transition: Transition, reckoning: ComputedDates | None) -> None:
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


# --- conditions -------------------------------------------------------------------------------------------


def wanted(decision: RecipeDecision, transition: Transition) -> Wanted:
    """The conditions of a transition with their variables resolved, and the scopes in which they mark what
    they use.
    """
    return conditions_of(decision.definition, decision.state, transition, decision.view.element)


def watched_conditions(decision: RecipeDecision, transition: Transition) -> Wanted:
    """The conditions of a transition, from its watch if it has one; valid while no step has ended since.

    Conditions that use `$plan` are always resolved again: its element may change at any time.
    """
    if transition.plain and transition.id in decision.state.waiting and PLAN not in transition.variables:
        watch = decision.view.active_watch(decision.state.transition(transition.id).watch)
        if watch is not None:
            return list(zip(watch.conditions, watch.scopes, strict=True))
    return wanted(decision, transition)


def elements_for(
    decision: RecipeDecision, transition: Transition, conditions: Wanted
) -> tuple[int, ...] | None:
    """A distinct element for each condition, nearest first; None if one has none."""
    if not conditions:
        return ()
    slots = slots_of(decision, transition, conditions)
    if transition.lasting:
        slots = lasted(decision, transition, conditions, slots)
    return decision.one_for_each_slot(slots)


def slots_of(decision: RecipeDecision, transition: Transition, conditions: Wanted) -> list[Slot]:
    """The conditions of a transition, each with the elements that fit it, nearest first."""
    state, places = decision.state, range(1, len(conditions) + 1)
    again = [state.taken_before(transition.id, f"#{at}") for at in places] if state.again else []
    slots = decision.slots(around(decision, transition), conditions, again)
    if transition.plain:
        return slots
    return [
        Slot(slot.id, lambda: iter(()), optional=True) if condition.absent else slot  # absence takes nothing
        for slot, condition in zip(slots, transition.conditions, strict=True)
    ]


def is_told_of_gone(transition: Transition) -> bool:
    """True if a transition must be told of outdated elements, not only of new ones."""
    return transition.lasting or any(condition.absent for condition in transition.conditions)


def around(decision: RecipeDecision, transition: Transition) -> CandidateSearch:
    """The search for the elements of a transition, by rank, nearest first."""
    return decision.surroundings(transition.context, (decision.products_of_in_steps(transition),))


def slot_of(
    decision: RecipeDecision,
    transition: Transition,
    search: CandidateSearch,
    at: int,
    bound: Bound,
    scope: MarkScope | None,
    *,
    lasted: bool = True,
) -> Slot:
    """One condition of a transition, by its position, with the elements that it may take now; or, if not
    `lasted`, those that it may take once they have fitted long enough.
    """
    again = decision.state.taken_before(transition.id, f"#{at + 1}")
    slot = Slot(str(at), search.ranks(bound, scope, again))
    if not lasted or transition.conditions[at].lasting is None:
        return slot
    return _reduced(decision, slot, _lasting(decision, transition, at, (bound, scope), slot))


# --- conditions that must last ----------------------------------------------------------------------------


class _Candidate(NamedTuple):
    """An element, the moment since which it fits a condition, and the moment when it will have fitted long
    enough.
    """

    until: float
    eid: int
    since: float


def lasted(
    decision: RecipeDecision, transition: Transition, conditions: Wanted, slots: list[Slot]
) -> list[Slot]:
    """The slots of the conditions, those with `for` reduced to elements that have fitted long enough.

    The first element to have fitted long enough comes first.
    """
    candidates = _candidates(decision, transition, conditions, slots)
    return [
        _reduced(decision, slot, candidates[at]) if at in candidates else slot
        for at, slot in enumerate(slots)
    ]


def _reduced(decision: RecipeDecision, slot: Slot, candidates: list[_Candidate]) -> Slot:
    """A slot that may take only the candidates that have fitted long enough."""
    eids = [candidate.eid for candidate in candidates if candidate.until <= decision.event.at]
    return Slot(slot.id, lambda: iter((eids,)))


def set_duration(decision: RecipeDecision, transition: Transition, conditions: Wanted) -> None:
    """Set a timer for the moment when the conditions of a waiting transition may have held long enough.

    No timer is set while a condition has no element at all: the watch reports new elements.
    """
    if not transition.lasting:
        return
    slots = slots_of(decision, transition, conditions)
    run = decision.state.transition(transition.id)
    candidates_of = _candidates(decision, transition, conditions, slots)
    until = None if assign(slots).missing else _next_moment(candidates_of, decision.event.at)
    satisfied = tuple(
        Satisfied(at + 1, candidates[0].eid, candidates[0].since)
        for at, candidates in candidates_of.items()
        if candidates
    )
    if transition.id in decision.state.awaiting_duration:
        if (until, satisfied) == (run.until, run.satisfied):
            return
        decision.command(commands.CancelTimer(run.wake))
        decision.change(DurationEnded(transition.id))
    if until is not None:
        wake = decision.identifier()
        decision.change(DurationStarted(transition.id, satisfied, until, wake))
        decision.command(commands.SetTimer(wake, until, calendar=True))


def _next_moment(candidates_of: dict[int, list[_Candidate]], now: float) -> float | None:
    """The moment when each condition will have an element that has fitted long enough; None if there is none.

    If each has one already, two conditions need the same element: then the next moment when any candidate
    will have fitted long enough.
    """
    moment = max(candidates[0].until for candidates in candidates_of.values())
    if moment > now:
        return moment
    later = [
        candidate.until
        for candidates in candidates_of.values()
        for candidate in candidates
        if candidate.until > now
    ]
    return min(later, default=None)


def _candidates(
    decision: RecipeDecision, transition: Transition, conditions: Wanted, slots: list[Slot]
) -> dict[int, list[_Candidate]]:
    """The elements that fit each condition with `for`, by its position; those that have fitted longest
    first.
    """
    return {
        at: _lasting(decision, transition, at, conditions[at], slots[at])
        for at, condition in enumerate(transition.conditions)
        if condition.lasting is not None
    }


def _lasting(
    decision: RecipeDecision,
    transition: Transition,
    at: int,
    conditions: tuple[Bound, MarkScope | None],
    slot: Slot,
) -> list[_Candidate]:
    """The elements that fit a condition with `for`; those that have fitted longest first."""
    since_of = {
        satisfied.eid: satisfied.since
        for satisfied in decision.state.transition(transition.id).satisfied
        if satisfied.condition == at + 1
    }
    lasting = transition.conditions[at].lasting or 0.0
    candidates = []
    for eid in dict.fromkeys(eid for rank in slot.ranks() for eid in rank):
        since = decision.view.fits_since(eid, *conditions, since_of.get(eid, inf))
        candidates.append(_Candidate(since + lasting, eid, since))
    return sorted(candidates, key=itemgetter(0))
