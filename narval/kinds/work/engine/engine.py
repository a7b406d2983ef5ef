"""The engine of work: items that people are offered, and answer (P1–P43).

`table` says what each act does in each state, and `acts` does them, and counts the answers of several people.
`decision` says who has an item, `notices` writes to people, and `ending` ends items.

One timer is set, for the next moment of an item (P22, P25, P32–P34). Moments that passed while no daemon was
running are handled once. A deadline missed this way comes five minutes after the start, so that answers
waiting in mailboxes and folders count.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import floor

from narval.core.engines import commands
from narval.core.engines.decision import Inputs
from narval.core.engines.events import Cancelled, Event, Failure, Returned, Signalled, Started, TimerFired
from narval.kinds.work.engine import acts, ending, notices, offering
from narval.kinds.work.engine.changes import GivenUp, LeaseEnded, Notified, Reminded, WakeSet, WorkChange
from narval.kinds.work.engine.decision import (
    NO_ACT,
    NotSoError,
    WorkDecision,
    after,
    deadline_at,
    escalate,
    escalation_at,
    hand_back,
    lease_end,
    next_moment,
    reminder_at,
)
from narval.kinds.work.engine.explain import conceal as conceal
from narval.kinds.work.engine.explain import explain as explain
from narval.kinds.work.engine.explain import part_word as part_word
from narval.kinds.work.engine.explain import parts as parts
from narval.kinds.work.engine.explain import render as render
from narval.kinds.work.engine.explain import story as story
from narval.kinds.work.engine.explain import waiting_for as waiting_for
from narval.kinds.work.engine.graph import graph as graph
from narval.kinds.work.engine.state import WorkState
from narval.kinds.work.engine.table import ACTS_ON_ITEMS
from narval.kinds.work.language.definition import WorkDefinition

kind = "work"
definition_kind = "work"
changes = WorkChange.union()
state_type = WorkState
decision_type = WorkDecision
instead_of_retry = "retry the run that asked, from the step that did: it asks again"


def heeds_people(state: WorkState) -> str:
    """The signal that tells a claimed item of a changed directory; "" for any other item."""
    return "review" if state.claim is not None and not state.over else ""


def begun_anew(_: WorkDefinition, state: WorkState, newest: WorkDefinition) -> tuple[tuple[int, ...], Inputs]:
    """The elements that an item shows, and its inputs, unless the newest version has other inputs."""
    slots, there = newest.prototype.inputs, {name for name, _ in state.inputs}
    is_same = {slot.id for slot in slots if not slot.optional} <= there <= {slot.id for slot in slots}
    return tuple(eid for _, eids in state.inputs for eid in eids), state.inputs if is_same else ()


def advance(decision: WorkDecision, event: Event) -> None:
    """Decide the changes and commands that follow from one event."""
    state = decision.state
    was_over = state.over
    match event:
        case Signalled():
            _signalled(decision, event)
        case Started() if state.status == "ready":
            _started(decision, event)
        case TimerFired() if not state.over:
            _woken(decision, event.wake)
        case Cancelled() if not state.over:
            ending.withdraw(decision, event)
        case Returned() if not state.over:
            notices.returned(decision, event)
    if not state.over:
        if not isinstance(event, Returned):
            notices.settle(decision)
        _set_timer(decision)
    elif not was_over and state.notices:
        notices.tell_end(decision, ending.over(state, decision.view.zone))


def fail(decision: WorkDecision, error: int) -> None:
    """End an item whose advance raised."""
    decision.change(GivenUp(decision.event.at, "failed", error))
    ending.report(decision, ())


def _started(decision: WorkDecision, event: Started) -> None:
    try:
        offering.offer(decision, event)
    except NotSoError as error:
        ending.give_up(decision, error.failure.kind, error.failure.message)
        return
    _do_what_is_due(decision)


def _signalled(decision: WorkDecision, event: Signalled) -> None:
    """Do what a person asks, within the rules; a refused act changes nothing."""
    state = decision.state
    if event.act is None:
        why = "people answer work by `narval work`, which knows who they are"
        decision.refuse(event, "not-listening", why)
    elif event.name in _NOTES:
        if state.status != "ready":
            _NOTES[event.name](decision, event)
    elif event.name not in ACTS_ON_ITEMS:
        decision.refuse(event, "no-act", f"expected {', '.join(ACTS_ON_ITEMS)}, got {event.name!r:.80}")
    elif state.status == "ready":
        decision.refuse(event, "no-item", "it is not offered yet; ask again")
    else:
        over = Failure("over", ending.over(state, decision.view.zone)) if state.over else None
        failure = over or notices.refusal(decision, event)
        if failure is None:
            try:
                acts.act(decision, event)
            except NotSoError as error:
                failure = error.failure
        if failure is None:
            notices.spend(decision, event)
        else:
            decision.turn_away(event, failure)
            notices.refused(decision, event, failure)


# --- signals of narval itself ----------------------------------------------------------------------------


def _notified(decision: WorkDecision, event: Signalled) -> None:
    way = event.act.way if event.act is not None else ""
    to, message, why = (event.text(name) for name in ("to", "message", "why"))
    decision.change(Notified(event.at, to, way, message, why))
    decision.answer(event, state=decision.state.status)


def _turned_away(decision: WorkDecision, event: Signalled) -> None:
    """Record what a surface refused before it became an act, such as a mail that is not authentic."""
    failure = Failure(event.text("kind"), event.text("message"))
    decision.turn_away(event, failure)
    if not decision.state.over:
        notices.no_act(decision, event, failure)


def _review(decision: WorkDecision, event: Signalled) -> None:
    """Check again that the claimant may still have the item, because the directory has changed."""
    if not decision.state.over:
        decision.check_claim()
    decision.answer(event, state=decision.state.status)


_NOTES: Mapping[str, Callable[[WorkDecision, Signalled], None]] = {
    "notified": _notified,
    NO_ACT: _turned_away,
    "review": _review,
}


# --- moments: lease, reminder, escalation, deadline, in this order ----------------------------------------


def _set_timer(decision: WorkDecision) -> None:
    """Set the timer for the next moment of an open item."""
    state = decision.state
    due = None if state.over else next_moment(decision)
    if due == state.wake_at:
        return
    if state.wake:
        decision.command(commands.CancelTimer(state.wake))
    wake = decision.identifier() if due is not None else ""
    deadline = deadline_at(decision)
    decision.change(WakeSet(wake, due, deadline if deadline != state.ends_at else None))
    if due is not None:
        decision.command(commands.SetTimer(wake, due, calendar=True))


def _woken(decision: WorkDecision, wake: str) -> None:
    """Do what is due; a timer that fires early, because the clock was set back, is set again."""
    if wake != decision.state.wake:
        return
    decision.change(WakeSet())
    _do_what_is_due(decision)


def _do_what_is_due(decision: WorkDecision) -> None:
    """Do everything that is due by now: ends of leases, one reminder, escalations, the deadline."""
    now = decision.event.at
    while (lease := lease_end(decision)) is not None and lease <= now:
        _end_lease(decision)
    reminder = reminder_at(decision)
    if reminder is not None and reminder <= now:
        _remind(decision, reminder)
    while (escalation := escalation_at(decision)) is not None and escalation <= now:
        escalate(decision)
    notices.try_again(decision)
    deadline = deadline_at(decision)
    if deadline is not None and deadline <= now and not decision.state.over:
        ending.end_by_deadline(decision)


def _end_lease(decision: WorkDecision) -> None:
    state, at = decision.state, decision.event.at
    if state.claim is not None:
        decision.change(LeaseEnded(at, state.claim.by))
    elif state.handed:
        hand_back(decision)


def _remind(decision: WorkDecision, due: float) -> None:
    """Send one reminder for all that are due."""
    state, reminder, now = decision.state, decision.definition.reminder, decision.event.at
    assert reminder is not None, state
    times = state.reminded + 1
    if (every := reminder.every) is not None:
        if not (every.length.days or every.weekdays or every.hours):
            missed = floor((now - due) / every.length.seconds)
            times, due = times + missed, due + missed * every.length.seconds
        else:
            while (later := after(decision, every, due)) <= now:
                times, due = times + 1, later
    if reminder.times is not None:
        times = min(times, reminder.times)
    decision.change(Reminded(now, due, times, decision.to_be_written_to()))
