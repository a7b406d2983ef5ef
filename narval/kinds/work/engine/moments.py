"""The moments that an item waits for, computed by the calendar of the home."""

from __future__ import annotations

from narval.core.definitions.appointment import Appointment
from narval.kinds.work.engine.decision import WorkDecision

GRACE = 300.0
"""Seconds from the start of the daemon to a missed deadline."""

LAST_MOMENT = 253_402_214_400.0
"""31 December 9999: later moments never come."""


def next_moment(decision: WorkDecision) -> float | None:
    """The next moment of an item; None if it waits only for people."""
    moments = (
        lease_end(decision),
        reminder_at(decision),
        escalation_at(decision),
        deadline_at(decision),
        *(notice.due for notice in decision.state.notices.values()),
    )
    return min((moment for moment in moments if moment is not None), default=None)


def lease_end(decision: WorkDecision) -> float | None:
    """The end of the claim, or of the time to take up a delegation."""
    state = decision.state
    if state.claim is not None:
        return state.claim.until
    return state.handed[-1].until if state.handed else None


def reminder_at(decision: WorkDecision) -> float | None:
    """The moment of the next reminder."""
    state, reminder = decision.state, decision.definition.reminder
    if reminder is None or (reminder.times is not None and state.reminded >= reminder.times):
        return None
    if not state.reminded:
        return after(decision, reminder.after, state.started)
    return None if reminder.every is None else after(decision, reminder.every, state.remind_due)


def escalation_at(decision: WorkDecision) -> float | None:
    """The moment of the next escalation."""
    state, escalations = decision.state, decision.definition.escalations
    if state.over or state.level >= len(escalations):
        return None
    return after(decision, escalations[state.level].after, state.started)


def deadline_at(decision: WorkDecision) -> float | None:
    """The moment at which the item ends: its deadline or, if that was missed, soon after the daemon's start.

    Later starts do not postpone it again, unless they come after that moment.
    """
    ends_at, view = decision.state.ends_at, decision.view
    if ends_at is None or ends_at <= decision.state.started or not view.was_missed(ends_at):
        return ends_at
    return view.up_since + GRACE


def after(decision: WorkDecision, length: Appointment, since: float) -> float:
    """The moment that is `length` after another, by the calendar of the home."""
    moment = length.moment(since, decision.view.zone)
    return LAST_MOMENT if moment is None else moment
