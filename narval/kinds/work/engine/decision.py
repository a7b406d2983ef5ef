"""One advance of a work item: who may act, and refusals."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import date
from functools import cached_property
from typing import Any

from narval.core.agreeing import refusal
from narval.core.definitions.people.directory import Directory, Right, day_of, known_as
from narval.core.engines import commands
from narval.core.engines.decision import Decision
from narval.core.engines.events import Failure, Signalled
from narval.kinds.work.engine.changes import ClaimReleased, TurnedAway, WorkChange
from narval.kinds.work.engine.state import WorkState, agreement, asked, offers
from narval.kinds.work.language.definition import WorkDefinition

MOST_TURNED_AWAY = 20
"""The most refused acts on an item that are recorded; further ones are only counted."""

NO_ACT = "turned-away"
"""The signal by which a surface reports that a message was not an act."""


class NotSoError(Exception):
    """An act that the rules refuse: the kind of the problem, and a sentence that says what to do."""

    def __init__(self, kind: str, message: str, detail: str = "") -> None:
        super().__init__(message)
        self.failure = Failure(kind, message, detail)


class WorkDecision(Decision[WorkDefinition, WorkState, WorkChange], kw_only=True, eq=False, dict=True):
    """One advance of one item, with the rules about who may act."""

    # --- who may act (P17, P18, P19, P29) -------------------------------------------------------------

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
            why = f"{claim.by} may not answer any more: {self.why_not(claim.by).failure.message}"
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
        return NotSoError(
            "not-eligible", f"this asks {asked(self.definition, self.state)}; one of them can answer"
        )

    def given(self) -> tuple[int, ...]:
        """The elements that the item shows."""
        return tuple(eid for _, eids in self.state.inputs for eid in eids)

    # --- acts that are refused ------------------------------------------------------------------------

    def turn_away(self, event: Signalled, failure: Failure) -> None:
        """Refuse an act, and record who tried."""
        way, session = (event.act.way, event.act.session) if event.act is not None else ("", "")
        first = self.state.turned_away < MOST_TURNED_AWAY
        who: dict[str, Any] = {"by": event.by, "actor": event.actor, "way": way, "session": session}
        act = "answer" if event.name == NO_ACT else event.name
        why = {"act": act, "kind": failure.kind, "why": failure.message}
        self.change(TurnedAway(event.at, **who, **why) if first else TurnedAway(event.at))
        self.ask(commands.Answer(event.signal, problem=failure))


def _own_first(right: Right) -> int:
    return 1 if right.instead_of else 0
