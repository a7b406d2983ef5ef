"""The moments of an item (P22, P25, P32–P34): lease, reminder, escalation, deadline, in this order.

One timer is set, for the next of them. Moments that passed while no daemon was running are handled once. A
deadline missed this way comes five minutes after the start, so that answers waiting in mailboxes and folders
count.
"""

from __future__ import annotations

from math import floor

from narval.core.engines import commands
from narval.kinds.work.engine import ending, notices
from narval.kinds.work.engine.changes import LeaseEnded, Reminded, WakeSet
from narval.kinds.work.engine.claims import escalate, hand_back
from narval.kinds.work.engine.decision import WorkDecision
from narval.kinds.work.engine.moments import (
    after,
    deadline_at,
    escalation_at,
    lease_end,
    next_moment,
    reminder_at,
)


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
    """Do everything that is due by now, in the order of P76."""
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
        if not every.length.days and not every.weekdays:
            missed = floor((now - due) / every.length.seconds)
            times, due = times + missed, due + missed * every.length.seconds
        else:
            while (later := after(decision, every, due)) <= now:
                times, due = times + 1, later
    if reminder.times is not None:
        times = min(times, reminder.times)
    decision.change(Reminded(now, due, times, decision.to_be_written_to()))
