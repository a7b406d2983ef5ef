"""One advance of a work item: who may act on it, and who has it until when (P20–P22, P25, P33).

The moments that an item waits for are computed by the calendar of the home.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import date
from functools import cached_property
from typing import Any

from narval.core.agreeing import refusal
from narval.core.definitions.appointment import Appointment
from narval.core.definitions.people.directory import Directory, Right, day_of, known_as
from narval.core.engines import commands
from narval.core.engines.decision import Decision
from narval.core.engines.events import Failure, Signalled
from narval.kinds.work.engine.changes import (
    Claimed,
    ClaimReleased,
    DelegationEnded,
    Escalated,
    Renewed,
    TurnedAway,
    WorkChange,
)
from narval.kinds.work.engine.state import WorkState, agreement, asked, offers
from narval.kinds.work.language.definition import WorkDefinition

MOST_TURNED_AWAY = 20
"""The most refused acts on an item that are recorded; further ones are only counted."""

MOST_NAMED = 3
"""The most people that are named as those who can answer."""

NO_ACT = "turned-away"
"""The signal by which a surface reports that a message was not an act."""


class NotSoError(Exception):
    """An act that the rules refuse: the kind of the problem, and a sentence that says what to do."""

    def __init__(self, kind: str, message: str, detail: str = "") -> None:
        super().__init__(message)
        self.failure = Failure(kind, message, detail)


class WorkDecision(Decision[WorkDefinition, WorkState, WorkChange], kw_only=True, eq=False, dict=True):
    """One advance of one item, with the rules about who may act."""

    # --- who may act ----------------------------------------------------------------------------------

    @property
    def people(self) -> Directory:
        """The directory as it is now."""
        return self.view.people

    @cached_property
    def excluded(self) -> dict[str, str]:
        """The people who may not answer, each with the rule that excludes them."""
        return self.exclusions(self.state.requesters)

    def exclusions(self, requesters: Iterable[str]) -> dict[str, str]:
        """The people who may not answer if `requesters` have asked, each with the rule."""
        rules, reasons = self.definition.rules, dict[str, str]()
        if rules.excludes_requester:
            reasons.update(dict.fromkeys(requesters, "the asker may not answer"))
        for step in rules.steps:
            why = f"who answered at {step} may not answer here"
            reasons.update(dict.fromkeys(self.view.answered_at(self.state.eid, step), why))
        return reasons

    def right_of(self, person: str, out: Collection[str]) -> Right | None:
        """The right by which a person may act while those in `out` may not; None if there is none."""
        if self.people.person(person) is None:
            return None
        day = self.day
        rights = (
            self.people.right(person, *audience, out, day) for audience in offers(self.definition, self.state)
        )
        return min((right for right in rights if right is not None), key=_own_first, default=None)

    @cached_property
    def day(self) -> date:
        """The day of the event, in the zone of the home."""
        return day_of(self.event.at, self.view.zone)

    def out(self, person: str = "") -> Collection[str]:
        """The people who may not act: they are excluded, or refused, or have answered themselves or through
        others.

        A person may change their own answer.
        """
        votes = [vote for vote in self.state.votes.values() if vote.by != person]
        answered = [name for vote in votes for name in (vote.by, vote.instead_of) if name]
        return {*self.excluded, *self.state.refused, *answered}

    def right(self, person: str) -> Right | None:
        """The right by which a person may answer; None if there is none."""
        return self.right_of(person, self.out(person))

    def eligible(self, level: int | None = None) -> dict[str, Right]:
        """Everybody who may answer now and has not, each with the right that counts."""
        out, day, rights = self.out(), self.day, dict[str, Right]()
        for audience in offers(self.definition, self.state, level):
            for name, right in self.people.eligible(*audience, out, day).items():
                rights[name] = min(rights.get(name, right), right, key=_own_first)
        return rights

    def to_be_told(self) -> tuple[str, ...]:
        """The people who may act: the claimant, else all who may answer."""
        claim = self.state.claim
        return (claim.by,) if claim is not None else tuple(self.eligible())

    def to_be_written_to(self) -> tuple[str, ...]:
        """The people of `to_be_told` who are written to: those who may answer in their own name."""
        return tuple(name for name in self.to_be_told() if not self.refusal_of(name))

    def refusal_of(self, person: str) -> str:
        """The reason why a person may not answer such an item in their own name; "" if they may."""
        return refusal(agreement(self.definition, self.state), known_as(self.people, person), person)

    def check_claim(self) -> None:
        """End the claim of a person who may no longer have it."""
        claim = self.state.claim
        if claim is not None and self.right(claim.by) is None:
            why = f"{claim.by} may no longer answer: {self.why_not(claim.by).failure.message}"
            self.change(ClaimReleased(self.event.at, of=claim.by, why=why))

    def why_not(self, person: str) -> NotSoError:
        """The reason why a person may not answer."""
        if person in self.excluded:
            return NotSoError("excluded", f"{self.excluded[person]}; ask another person to")
        if person in self.state.refused:
            return NotSoError("not-eligible", "you have refused this; ask an administrator to reassign it")
        if self.people.person(person) is None:
            return NotSoError(
                "not-eligible", f"{person or 'who asks'} is not in etc/people.toml; add a [people] table"
            )
        for vote in self.state.votes.values():
            if vote.instead_of == person:
                return NotSoError("not-eligible", f"{vote.by} has answered for you")
        moved = self.state.moved
        is_news = moved is not None and (moved.to or moved.of == person)
        since = f", for {moved.sentence(self.view.zone)}" if moved is not None and is_news else ""
        able = [*self.eligible()]
        who = " or ".join(able) if 0 < len(able) <= MOST_NAMED else "one of them" if able else "no person"
        message = f"this asks {asked(self.definition, self.state)}{since}; {who} can answer"
        return NotSoError("not-eligible", message)

    def given(self) -> tuple[int, ...]:
        """The elements that the item shows."""
        return tuple(eid for _, eids in self.state.inputs for eid in eids)

    # --- acts that are refused ------------------------------------------------------------------------

    def turn_away(self, event: Signalled, failure: Failure) -> None:
        """Refuse an act, and record who tried."""
        first = self.state.turned_away < MOST_TURNED_AWAY
        act = "answer" if event.name == NO_ACT else event.name
        why: dict[str, Any] = {"act": act, "kind": failure.kind, "why": failure.message}
        self.change(TurnedAway(**by_whom(event), **why) if first else TurnedAway(event.at))
        self.ask(commands.Answer(event.signal, problem=failure))


def _own_first(right: Right) -> int:
    return 1 if right.instead_of else 0


# --- claims ---------------------------------------------------------------------------------------------


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


def take(decision: WorkDecision, event: Signalled) -> Right:
    """Claim an item, or renew the lease of its claim."""
    right = may_answer(decision, event.by)
    until = lease_from(decision)
    change = Claimed if decision.state.claim is None else Renewed
    decision.change(change(**by_whom(event, right), until=until))
    return right


def hand_back(decision: WorkDecision) -> None:
    """Return an item to the person who delegated it, and claim it again if that person may still answer."""
    last, at = decision.state.handed[-1], decision.event.at
    decision.change(DelegationEnded(at, last.by, last.to))
    right = decision.right(last.by)
    if right is not None:
        who = {"role": right.role, "instead_of": right.instead_of}
        decision.change(Claimed(at, right.person, **who, until=lease_from(decision), back=True))


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


# --- moments --------------------------------------------------------------------------------------------

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
