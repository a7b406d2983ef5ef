"""Work: who is asked what, and what may be answered (P7–P14)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

import msgspec

from narval.core.definitions.appointment import Appointment, Length
from narval.core.definitions.library import RunDefinition
from narval.core.definitions.people.directory import Directory
from narval.core.definitions.prototype import EMPTY, Prototype
from narval.core.definitions.reading.values import TextTemplate
from narval.kinds.work.language.fields import FormField

DONE = "done"
"""The only outcome of work that names none."""

DECISION = "decision"
"""The default name of the answer's element, if no output declares another."""

REQUESTER = "requester"
"""The exclusion of the people who asked."""

OF_STEP = "step:"
"""The prefix of an exclusion of the people who answered the item of a step."""

ACTS = (
    "claim",
    "release",
    "save",
    "move",
    "delegate",
    "answer",
    "refuse",
    "reassign",
    "take-back",
    "review",
    "notified",
    "turned-away",
    "renew",
)
"""The names of all acts on items; no outcome may have one of them."""

LEASE = Appointment("1d", Length(days=1))
"""The time that a claim lasts by default."""


class WorkOutcome(msgspec.Struct, frozen=True):
    """One of the possible answers: `needs` is the number of people who must give it."""

    name: str
    needs: int = 1


class Audience(msgspec.Struct, frozen=True):
    """The people who may act: with both given, the named people who hold a role; with neither, anybody."""

    people: TextTemplate | None = None
    roles: tuple[str, ...] = ()


class Reminder(msgspec.Struct, frozen=True):
    """A reminder: `after` the offering, then at intervals of `every`; `times` in all, None without end."""

    after: Appointment
    every: Appointment | None = None
    times: int | None = 1


class Escalation(msgspec.Struct, frozen=True):
    """Other people who may act after the time `after`; with `instead`, in place of the people before."""

    after: Appointment
    audience: Audience
    instead: bool = False
    line: int = 1


class Deadline(msgspec.Struct, frozen=True):
    """The end: `after` the offering, or at the date that `at` gives.

    With an `outcome` the item is then done, with the values of `fields`; without, it expires.
    """

    after: Appointment | None = None
    at: TextTemplate | None = None
    outcome: str = ""
    fields: Mapping[str, tuple[str, ...]] = {}
    line: int = 1


class Rules(msgspec.Struct, frozen=True):
    """The rules about who may act: `excluded` has `requester` and `step:ID`.

    `requester` gives the names of other people who asked. `delegate` says to whom work may be delegated, and
    `open_votes` that everybody may see the votes of others.
    """

    excluded: tuple[str, ...] = ()
    requester: TextTemplate | None = None
    delegate: Literal["eligible", "anyone", "no"] = "eligible"
    open_votes: bool = False

    @property
    def steps(self) -> tuple[str, ...]:
        """The steps whose answerers may not answer this work."""
        return tuple(rule.removeprefix(OF_STEP) for rule in self.excluded if rule.startswith(OF_STEP))

    @property
    def excludes_requester(self) -> bool:
        """True if the people who asked may not answer."""
        return REQUESTER in self.excluded


class WorkDefinition(RunDefinition, frozen=True, eq=False, kw_only=True):
    """The definition of a work item. Outcomes and fields are in the order of the file.

    A claim lasts for `lease` after each act of the claimant, for ever if that is None. If an outcome needs
    several people nothing is claimed, and `otherwise` is the outcome if none can be reached any longer. With
    `inputs_by_digest` inputs are not shown in full.
    """

    kind: ClassVar[str] = "work"
    is_tried_again: ClassVar[bool] = False
    outcome_attribute: ClassVar[str] = "outcome"

    title: TextTemplate
    description: TextTemplate | None = None
    prototype: Prototype = EMPTY
    audience: Audience = Audience()
    rules: Rules = Rules()
    outcomes: tuple[WorkOutcome, ...] = (WorkOutcome(DONE),)
    fields: Mapping[str, FormField] = {}
    reminder: Reminder | None = None
    escalations: tuple[Escalation, ...] = ()
    deadline: Deadline | None = None
    lease: Appointment | None = LEASE
    otherwise: str = ""
    ways: tuple[str, ...] = ("terminal", "web")
    inputs_by_digest: bool = False
    priority: TextTemplate | None = None

    @property
    def is_voted(self) -> bool:
        """True if an outcome needs several people, so that each answers for themselves."""
        return any(outcome.needs > 1 for outcome in self.outcomes)

    @property
    def answer_name(self) -> str:
        """The name of the element that is the answer."""
        names = [output.condition.names for output in self.prototype.outputs]
        return min(names[0]) if names and names[0] else DECISION

    @property
    def may_expire(self) -> bool:
        """True if its deadline has no outcome."""
        return self.deadline is not None and not self.deadline.outcome

    @property
    def errors(self) -> tuple[str, ...]:
        """The errors in which an item can end once it is offered."""
        expired = ("expired",) if self.may_expire else ()
        no_quorum = ("no-quorum",) if self.is_voted and not self.otherwise else ()
        return ("refused", *expired, "withdrawn", *no_quorum)

    def ways_of(self, people: Directory) -> tuple[str, ...]:
        """The ways in which people are asked and answer: those it names, and those of all work in a home."""
        return tuple(dict.fromkeys((*self.ways, *people.ways))) if people.ways else self.ways

    def outcome(self, name: str) -> WorkOutcome | None:
        """The outcome of this name; None if there is none."""
        return next((outcome for outcome in self.outcomes if outcome.name == name), None)
