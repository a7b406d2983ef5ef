"""The facts that change a work item (P36), each with its effect. Applying one decides nothing.

Each act has its moment, the person (`by`), the actor who acted in that person's name (`actor`), the way, and
the number of the session, mail or file.
"""

from __future__ import annotations

from narval.core.definitions.people.directory import MAIL
from narval.core.engines.decision import Inputs
from narval.core.engines.run_state import RunBegan, RunChange
from narval.kinds.work.engine.state import Handed, ItemClaim, Moved, Notice, Values, Vote, WorkState


class WorkChange(RunChange, frozen=True):
    """A fact that changes a work item."""


class Asked(WorkChange, RunBegan, frozen=True):
    """The item was asked for; `elements` are the first context."""

    def apply(self, state: WorkState) -> None:
        state.begin(self)


class Offered(WorkChange, frozen=True):
    """The item is offered. Its text is kept only here, in the journal."""

    at: float
    """The moment."""
    inputs: Inputs = ()
    """The elements that it is about."""
    title: str = ""
    """Its title."""
    text: str = ""
    """The text that is shown."""
    shown: str = ""
    """The SHA-256 of that text."""
    could: tuple[str, ...] = ()
    """The people who could take it then."""
    people: tuple[tuple[str, ...], ...] = ()
    """The people named for the work, and for each escalation."""
    requesters: tuple[str, ...] = ()
    """The people who asked for it, who may be kept from answering."""
    directory: str = ""
    """The digest of the directory of people."""
    deadline: float | None = None
    """The moment of its deadline."""
    priority: float = 0.0
    """Its priority."""
    defaults: Values = {}
    """The values that its form has at first."""
    options: Values = {}
    """The values that its fields may have."""

    def apply(self, state: WorkState) -> None:
        state.move("offered")
        state.inputs, state.title, state.shown = self.inputs, self.title, self.shown
        state.people, state.requesters = self.people, self.requesters
        state.deadline, state.priority = self.deadline, self.priority
        state.defaults, state.options = self.defaults, self.options


class WakeSet(WorkChange, frozen=True):
    """The next moment that the item waits for, under the name `wake`; None if there is none."""

    wake: str = ""
    at: float | None = None
    put_off: float | None = None
    """The moment to which a missed deadline is postponed; None for no change."""

    def apply(self, state: WorkState) -> None:
        state.wake, state.wake_at = self.wake, self.at
        if self.put_off is not None:
            state.put_off = self.put_off


class PersonAct(WorkChange, frozen=True):
    """An act of a person: when, by whom, how, by which right."""

    at: float
    by: str = ""
    actor: str = ""
    way: str = ""
    session: str = ""
    role: str = ""
    instead_of: str = ""


class Claimed(PersonAct, frozen=True):
    """A person claimed the item, until a moment if there is a lease; `back`: because a delegation ended."""

    until: float | None = None
    back: bool = False

    def apply(self, state: WorkState) -> None:
        if state.claim is None:
            state.move("claimed")
        state.claim = ItemClaim(self.by, self.at, self.until, self.role, self.instead_of)


class Renewed(PersonAct, frozen=True):
    """The claimant did something, which renews the lease."""

    until: float | None = None

    def apply(self, state: WorkState) -> None:
        if state.claim is not None:
            since = state.claim.since
            state.claim = ItemClaim(self.by, since, self.until, self.role, self.instead_of)


class ClaimReleased(PersonAct, frozen=True):
    """A claim was given back; `of` is the claimant, `why` the reason."""

    of: str = ""
    why: str = ""

    def apply(self, state: WorkState) -> None:
        state.free(Moved(self.at, self.by, self.of, why=self.why))


class LeaseEnded(WorkChange, frozen=True):
    """A claim ended, or a delegation that was not taken up; `of` is the person who had it."""

    at: float
    of: str = ""

    def apply(self, state: WorkState) -> None:
        state.free(Moved(self.at, of=self.of))


class Saved(PersonAct, frozen=True):
    """A draft was kept."""

    fields: Values = {}

    def apply(self, state: WorkState) -> None:
        state.drafts[self.by] = self.fields


class TaskMoved(PersonAct, frozen=True):
    """The task that asks was moved to another of its states."""

    to: str = ""

    def apply(self, state: WorkState) -> None:
        """Change nothing: the state is the task's own."""


class Delegated(PersonAct, frozen=True):
    """The claimant handed the item to another, who must take it up before `until`."""

    to: str = ""
    word: str = ""
    until: float | None = None

    def apply(self, state: WorkState) -> None:
        state.free(Moved(self.at, self.by, to=(self.to,), why=self.word))
        handed = Handed(self.by, self.to, state.named, state.named_level, self.until)
        state.handed = (*state.handed, handed)
        state.named, state.named_level = (self.to,), state.level


class DelegationEnded(WorkChange, frozen=True):
    """A delegated item returned to the person who delegated it."""

    at: float
    of: str = ""
    to: str = ""

    def apply(self, state: WorkState) -> None:
        state.free(Moved(self.at, of=self.to, to=(self.of,)))
        last = state.handed[-1]
        state.handed = state.handed[:-1]
        state.named, state.named_level = last.named, last.level


class Voted(PersonAct, frozen=True):
    """One of several people answered."""

    outcome: str = ""
    fields: Values = {}

    def apply(self, state: WorkState) -> None:
        state.votes[self.by] = Vote(self.by, self.outcome, self.at, self.way, self.fields, self.instead_of)
        state.drafts.pop(self.by, None)


class VoteChanged(PersonAct, frozen=True):
    """One of several people changed an answer, or took it back (`outcome` is "")."""

    outcome: str = ""
    fields: Values = {}

    def apply(self, state: WorkState) -> None:
        if not self.outcome:
            state.votes.pop(self.by, None)
            return
        state.votes[self.by] = Vote(self.by, self.outcome, self.at, self.way, self.fields, self.instead_of)
        state.drafts.pop(self.by, None)


class ItemAnswered(PersonAct, frozen=True):
    """The item is answered, by a person, by enough of them, or by the deadline's default (`by` is "").

    `answer` is the eid of the element.
    """

    outcome: str = ""
    fields: Values = {}
    answer: int = 0
    default: bool = False

    def apply(self, state: WorkState) -> None:
        state.outcome, state.answer = self.outcome, self.answer
        state.end("done", self.at, self.by)


class Refused(PersonAct, frozen=True):
    """A person refused the item for good."""

    why: str = ""

    def apply(self, state: WorkState) -> None:
        state.free()
        state.refused[self.by] = self.why
        state.drafts.pop(self.by, None)


class Reassigned(PersonAct, frozen=True):
    """An administrator reassigned the item to other people."""

    to: tuple[str, ...] = ()
    why: str = ""

    def apply(self, state: WorkState) -> None:
        state.free(Moved(self.at, self.by, to=self.to, why=self.why))
        state.named, state.named_level, state.handed = self.to, state.level, ()


class Reminded(WorkChange, frozen=True):
    """A reminder for all who may act; `due` is its moment, `times` the number of reminders due by now."""

    at: float
    due: float
    times: int
    to: tuple[str, ...] = ()

    def apply(self, state: WorkState) -> None:
        state.reminded, state.remind_due = self.times, self.due


class Escalated(WorkChange, frozen=True):
    """The next escalation is taken: others may act too, or instead."""

    at: float
    level: int
    to: tuple[str, ...] = ()

    def apply(self, state: WorkState) -> None:
        state.level = self.level


class Expired(WorkChange, frozen=True):
    """The deadline passed, and has no outcome."""

    at: float
    error: int | None = None

    def apply(self, state: WorkState) -> None:
        state.end("expired", self.at, error=self.error)


class Withdrawn(WorkChange, frozen=True):
    """The item was cancelled; `told` are the people to tell."""

    at: float
    why: str = ""
    by: str = ""
    actor: str = ""
    told: tuple[str, ...] = ()
    error: int | None = None

    def apply(self, state: WorkState) -> None:
        state.ended_why = self.why
        state.end("withdrawn", self.at, self.by, self.error)


class GivenUp(WorkChange, frozen=True):
    """The item ended in `status`, because nobody is left to answer it, or it cannot be offered."""

    at: float
    status: str = "failed"
    error: int | None = None

    def apply(self, state: WorkState) -> None:
        state.end(self.status, self.at, error=self.error)


class NoticeAsked(WorkChange, frozen=True):
    """A notice was requested: `call` sends it to a person, in a way, for a reason. It is valid `until` a
    moment; None for a notice that asks nothing.
    """

    at: float
    call: str
    to: str
    why: str
    until: float | None = None
    way: str = MAIL

    def apply(self, state: WorkState) -> None:
        state.notices[self.call] = Notice(self.to, self.why, self.until, way=self.way)


class NoticePutOff(WorkChange, frozen=True):
    """A notice was not sent, and is tried again at `due`; None as soon as that try is under way."""

    at: float
    call: str
    due: float | None = None
    to: str = ""
    why: str = ""

    def apply(self, state: WorkState) -> None:
        tries = state.notices[self.call].tries + (self.due is None)
        state.alter_notice(self.call, due=self.due, tries=tries)


class NoticeGivenUp(WorkChange, frozen=True):
    """A notice was not sent, and is not tried again; `why` is the reason."""

    at: float
    call: str
    to: str = ""
    why: str = ""

    def apply(self, state: WorkState) -> None:
        state.alter_notice(self.call, standing="void")


class Notified(WorkChange, frozen=True):
    """A person was written to: the way, the message, and the call."""

    at: float
    to: str = ""
    way: str = ""
    message: str = ""
    why: str = ""
    call: str = ""

    def apply(self, state: WorkState) -> None:
        if self.to not in state.notified:
            state.notified = (*state.notified, self.to)


class TokensVoided(WorkChange, frozen=True):
    """The tokens of these notices are no longer valid."""

    at: float
    calls: tuple[str, ...]

    def apply(self, state: WorkState) -> None:
        for call in self.calls:
            state.alter_notice(call, standing="void", due=None)


class TokenSpent(WorkChange, frozen=True):
    """A token was used: its hash, and the notice that had it."""

    at: float
    token: str
    by: str = ""
    call: str = ""

    def apply(self, state: WorkState) -> None:
        state.spent = (*state.spent, self.token)
        state.alter_notice(self.call, standing="spent")


class Fruitless(WorkChange, frozen=True):
    """A mail with the token of a notice was not an answer."""

    at: float
    call: str

    def apply(self, state: WorkState) -> None:
        state.alter_notice(self.call, fruitless=state.notices[self.call].fruitless + 1)


class TurnedAway(PersonAct, frozen=True):
    """An act that was refused, and why; after the first twenty, refused acts are only counted."""

    act: str = ""
    kind: str = ""
    why: str = ""

    def apply(self, state: WorkState) -> None:
        state.turned_away += 1
