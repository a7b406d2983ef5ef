"""Claims: who has an item, and until which moment (P20–P22, P25, P33).

The moments that an item waits for are computed by the calendar of the home.
"""

from __future__ import annotations

from typing import Any

from narval.core.definitions.appointment import Appointment
from narval.core.definitions.people.directory import Right
from narval.core.engines.events import Signalled
from narval.kinds.work.engine.changes import Claimed, ClaimReleased, DelegationEnded, Escalated, Renewed
from narval.kinds.work.engine.decision import WorkDecision


def may_answer(decision: WorkDecision, person: str) -> Right:
    """The right by which a person may answer. Raises NotSoError."""
    right = decision.right(person)
    if right is None:
        raise decision.why_not(person)
    return right


def by_whom(event: Signalled, right: Right | None = None) -> dict[str, Any]:
    """The values common to all acts of people."""
    way, session = (event.act.way, event.act.session) if event.act is not None else ("", "")
    record = {"at": event.at, "by": event.by, "actor": event.actor, "way": way, "session": session}
    return record | ({"role": right.role, "instead_of": right.instead_of} if right is not None else {})


def lease_from(decision: WorkDecision) -> float | None:
    """The end of a claim that begins now; None for one without a lease."""
    lease = decision.definition.lease
    return None if lease is None else after(decision, lease, decision.event.at)


def give(decision: WorkDecision, right: Right, *, back: bool = False) -> None:
    """Give a person the claim of an item, or return it (`back`)."""
    until = lease_from(decision)
    at, role, instead_of = decision.event.at, right.role, right.instead_of
    decision.change(Claimed(at, right.person, role=role, instead_of=instead_of, until=until, back=back))


def take(decision: WorkDecision, event: Signalled) -> Right:
    """Claim an item, or renew the lease of its claim."""
    right = may_answer(decision, event.by)
    until = lease_from(decision)
    change = Claimed if decision.state.claim is None else Renewed
    decision.change(change(**by_whom(event, right), until=until))
    return right


def hand_back(decision: WorkDecision) -> None:
    """Return an item to the person who delegated it, and claim it again if that person may still answer."""
    last = decision.state.handed[-1]
    decision.change(DelegationEnded(decision.event.at, last.by, last.to))
    right = decision.right(last.by)
    if right is not None:
        give(decision, right, back=True)


def escalate(decision: WorkDecision) -> None:
    """Take the next escalation: others may act too, or instead of the people before, whose claim then
    ends.
    """
    state, at = decision.state, decision.event.at
    escalation = decision.definition.escalations[state.level]
    if escalation.instead and state.claim is not None:
        decision.change(ClaimReleased(at, of=state.claim.by, why="it was escalated"))
    level = state.level + 1
    decision.change(Escalated(at, level, tuple(decision.eligible(level))))


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
