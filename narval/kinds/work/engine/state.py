"""The state of a work item: plain data that its changes alone alter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import msgspec
from msgspec.structs import replace

from narval.core.engines.decision import Inputs
from narval.core.engines.run_state import Moves, RunState
from narval.kinds.work.engine import table

Values = dict[str, tuple[str, ...]]
"""The values of a form, by field."""


class ItemClaim(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The claim of a person, since when, until when if it has a lease, and for whom if not for themselves."""

    by: str
    since: float
    until: float | None = None
    role: str = ""
    instead_of: str = ""


class Vote(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The answer of one of several; `instead_of` is who is away and for whom it was given."""

    by: str
    outcome: str
    at: float
    way: str = ""
    fields: Values = {}
    instead_of: str = ""


class Handed(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One delegation: by whom, to whom, and those to whom the item was offered before, if they were named."""

    by: str
    to: str
    named: tuple[str, ...] = ()
    level: int = 0
    until: float | None = None


class Notice(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A notice to a person: why, until when its token counts (None: it has none), how often it was tried.

    `due` is the moment of the next try. Its `standing` is live, spent, or void; `fruitless` counts the mails
    that had its token and were no answer.
    """

    to: str
    why: str
    until: float | None = None
    tries: int = 1
    due: float | None = None
    standing: str = "live"
    fruitless: int = 0

    def counts(self, now: float) -> bool:
        """True while somebody can answer by its token."""
        return self.standing == "live" and self.until is not None and now < self.until


class WorkState(RunState, omit_defaults=True):
    """A work item.

    `shown` is the SHA-256 of what is shown. `people` are those named for the work and for each escalation;
    `level` is the number of escalations taken. `named` are those to whom it was reassigned or delegated when
    `named_level` escalations had been taken. `handed` are the delegations that still hold. `notices` go to
    people, by the calls that carry them.
    """

    KIND: ClassVar[str] = "work item"
    MOVES: ClassVar[Moves] = table.MOVES
    PHASES: ClassVar[Mapping[str, str]] = table.PHASES

    inputs: Inputs = ()
    title: str = ""
    shown: str = ""
    people: tuple[tuple[str, ...], ...] = ()
    requesters: tuple[str, ...] = ()
    deadline: float | None = None
    priority: float = 0.0
    defaults: Values = {}
    options: Values = {}
    wake: str = ""
    wake_at: float | None = None
    claim: ItemClaim | None = None
    named: tuple[str, ...] = ()
    named_level: int = 0
    handed: tuple[Handed, ...] = ()
    refused: dict[str, str] = {}
    votes: dict[str, Vote] = {}
    drafts: dict[str, Values] = {}
    level: int = 0
    reminded: int = 0
    remind_due: float = 0.0
    notified: tuple[str, ...] = ()
    spent: tuple[str, ...] = ()
    turned_away: int = 0
    outcome: str = ""
    answer: int = 0
    ended_by: str = ""
    ended_why: str = ""
    notices: dict[str, Notice] = {}

    @property
    def answerers(self) -> Iterator[str]:
        """The people whose answers it has; of one that was withdrawn none count."""
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

    def free(self) -> None:
        """Let nobody have the item: it is offered again."""
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
