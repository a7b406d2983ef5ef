"""The state of a work item: plain data that only its changes alter; and whom such an item asks.

At each act, the directory says who holds which role (P18).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, NamedTuple

import msgspec
from msgspec.structs import replace

from narval.core.agreeing import Act
from narval.core.definitions.people.directory import BY_A_RULE, FOR_A_CLIENT, GRANTING, MAIL
from narval.core.definitions.wall import in_zone
from narval.core.engines.decision import Inputs
from narval.core.engines.engine import Lookup
from narval.core.engines.run_state import Moves, RunState
from narval.kinds.work.engine import table
from narval.kinds.work.language.definition import Audience, WorkDefinition

Values = dict[str, tuple[str, ...]]
"""The values of a form, by field."""


class ItemClaim(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The claim of a person: since when, until when if it has a lease, and for whom if not for themselves."""

    by: str
    since: float
    until: float | None = None
    role: str = ""
    instead_of: str = ""


class Vote(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The answer of one of several people; `instead_of` is the absent person for whom it was given."""

    by: str
    outcome: str
    at: float
    way: str = ""
    fields: Values = {}
    instead_of: str = ""


class Handed(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One delegation: by whom, to whom, and the people that the item was offered to by name before, if
    any.
    """

    by: str
    to: str
    named: tuple[str, ...] = ()
    level: int = 0
    until: float | None = None


class Moved(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The last time that an item was taken from its claimant, `of`, or offered `to` other people; `by` is ""
    if a rule did so.
    """

    at: float
    by: str = ""
    of: str = ""
    to: tuple[str, ...] = ()
    why: str = ""

    def sentence(self, zone: str) -> str:
        """The sentence about it, with its moment in a zone."""
        to = " and ".join(self.to)
        if to:
            done = f"{self.by} offered it to {to}" if self.by else f"it came back to {to}"
        elif self.by:
            done = f"{self.by} gave it back"
        else:
            done = f"the claim of {self.of} ended"
        return f"{done} at {in_zone(self.at, zone)}{f': {self.why}' if self.why else ''}"


class Notice(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A notice to a person: its reason, until when it is valid (None: it asks nothing), its tries, and its
    way.

    `due` is the moment of the next try. Its `standing` is live, spent, or void; `fruitless` counts the mails
    that had its token and were not answers.
    """

    to: str
    why: str
    until: float | None = None
    tries: int = 1
    due: float | None = None
    standing: str = "live"
    fruitless: int = 0
    way: str = MAIL

    def counts(self, now: float) -> bool:
        """True while it can be answered."""
        return self.standing == "live" and self.until is not None and now < self.until


class WorkState(RunState, omit_defaults=True):
    """A work item."""

    KIND: ClassVar[str] = "work item"
    MOVES: ClassVar[Moves] = table.MOVES
    PHASES: ClassVar[Mapping[str, str]] = table.PHASES

    inputs: Inputs = ()
    """The elements that it is about."""
    title: str = ""
    """Its title."""
    shown: str = ""
    """The SHA-256 of the text that is shown."""
    people: tuple[tuple[str, ...], ...] = ()
    """The people named for the work, and for each escalation."""
    requesters: tuple[str, ...] = ()
    """The people who asked for it, who may be kept from answering."""
    deadline: float | None = None
    """The moment of its deadline."""
    priority: float = 0.0
    """Its priority."""
    defaults: Values = {}
    """The values that its form has at first."""
    options: Values = {}
    """The values that its fields may have."""
    wake: str = ""
    """The timer of `wake_at`."""
    wake_at: float | None = None
    """The next moment that it waits for."""
    put_off: float | None = None
    """The moment to which its deadline was postponed, once, because no daemon was running when it came."""
    claim: ItemClaim | None = None
    """The claim of the person who has it."""
    named: tuple[str, ...] = ()
    """The people that it was reassigned or delegated to."""
    named_level: int = 0
    """The number of escalations taken by then."""
    handed: tuple[Handed, ...] = ()
    """The delegations in force."""
    refused: dict[str, str] = {}
    """The people who refused, each with the reason."""
    votes: dict[str, Vote] = {}
    """The answers of several people, by person."""
    drafts: dict[str, Values] = {}
    """The values that people have saved, by person."""
    level: int = 0
    """The number of escalations taken."""
    reminded: int = 0
    """The number of reminders that have been due."""
    remind_due: float = 0.0
    """The moment of the last reminder."""
    notified: tuple[str, ...] = ()
    """The people who were written to."""
    spent: tuple[str, ...] = ()
    """The hashes of the tokens that were used."""
    turned_away: int = 0
    """The number of refused acts."""
    outcome: str = ""
    """The outcome that was chosen."""
    answer: int = 0
    """The element of the answer."""
    ended_by: str = ""
    """The people who ended it."""
    ended_why: str = ""
    """The reason why it was withdrawn."""
    notices: dict[str, Notice] = {}
    """The notices to people, by the calls that carry them."""
    moved: Moved | None = None
    """The last time that it was taken from a person, or offered to others."""

    @property
    def ends_at(self) -> float | None:
        """The moment at which the item ends by its deadline."""
        return self.deadline if self.put_off is None else self.put_off

    @property
    def claimant(self) -> str | None:
        """The person who has the item; None if nobody has."""
        return None if self.claim is None else self.claim.by

    @property
    def answerers(self) -> Iterator[str]:
        """The people whose answers count; none for a withdrawn item."""
        if self.status != "withdrawn":
            yield from self.votes
        if self.status == "done":
            yield from self.ended_by.split()

    def progress(self) -> Iterator[tuple[str, str]]:
        """The claim, the votes and the refusals so far."""
        if self.claim is not None:
            yield self.claim.by, "claimed"
        yield from ((vote.by, vote.outcome) for vote in self.votes.values())
        yield from ((person, "refused") for person in self.refused)

    def voters(self, outcome: str) -> list[str]:
        """The people who have answered with an outcome, where several people answer."""
        return [vote.by for vote in self.votes.values() if vote.outcome == outcome]

    def free(self, moved: Moved | None = None) -> None:
        """End the claim, so that the item is offered again; `moved` says why."""
        if moved is not None:
            self.moved = moved if moved.of or self.claim is None else replace(moved, of=self.claim.by)
        if self.claim is not None:
            self.claim = None
            self.move("offered")

    def end(self, status: str, at: float, by: str = "", error: int | None = None) -> None:
        """End the item in a status."""
        self.claim, self.ended_by = None, by
        self.drafts = {}
        self.move(status, at, error)

    def alter_notice(self, call: str, **values: Any) -> None:
        """Alter a notice, if there is one."""
        notice = self.notices.get(call)
        if notice is not None:
            self.notices[call] = replace(notice, **values)


class Asking(NamedTuple):
    """People and roles: with both, those people who also hold one of the roles; with neither, anybody."""

    people: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()

    def __str__(self) -> str:
        named, of = " or ".join(self.people), " or ".join(self.roles)
        if named and of:
            return f"{named}, with the role {of}"
        return named or (f"a person with the role {of}" if of else "anybody")


def offers(
    work: WorkDefinition, state: WorkState, level: int | None = None, before: Handed | None = None
) -> list[Asking]:
    """The people that the item is offered to: by the work itself or by name, and by the escalations taken.

    `level` is the number of escalations that count; by default those taken by now. With `before`, the people
    before that delegation.
    """
    named, since = (state.named, state.named_level) if before is None else (before.named, before.level)
    people = state.people
    askings = [Asking(named)] if named else [Asking(people[0], work.audience.roles)] if people else []
    for at, escalation in enumerate(work.escalations[: state.level if level is None else level]):
        if named and at < since:
            continue
        if escalation.instead:
            askings = []
        askings.append(Asking(people[at + 1], escalation.audience.roles))
    return askings


def agreement(work: WorkDefinition, state: WorkState) -> Act:
    """The act that answering this item counts as; the table of agreeing says who may do it.

    A home that gives `trust.ask` an audience of its own decides itself who agrees.
    """
    name, caller = work.full_name, state.caller
    if name == GRANTING and caller is None:
        return "grant"
    if name == BY_A_RULE and work.audience == Audience() and not work.escalations:
        return "let-out"
    is_held = caller is not None and caller.held is not None
    return "agree" if is_held or name in (BY_A_RULE, FOR_A_CLIENT, GRANTING) else "people"


class TaskWays(NamedTuple):
    """The state of the asking task, the states that a person may move it to, and those that it may end in
    now.
    """

    at: str
    moves: tuple[str, ...]
    ends: tuple[str, ...]


def task_ways(state: WorkState, element: Lookup) -> TaskWays | None:
    """The ways of the asking task, by its element in memory; None if no task asks."""
    task = element(state.caller.run) if state.caller is not None else None
    if task is None or "ends" not in (says := task.attributes):
        return None
    return TaskWays(says.get("at", ""), tuple(says["ways"].split()), tuple(says["ends"].split()))


def asked(work: WorkDefinition, state: WorkState) -> str:
    """The text that says who is asked."""
    return " or ".join(dict.fromkeys(map(str, offers(work, state))))
