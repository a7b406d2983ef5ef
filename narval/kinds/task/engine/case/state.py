"""The state of a case: plain data that only `apply` alters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

import msgspec

from narval.core.engines.run_state import Moves, RunState
from narval.kinds.task.engine.case.changes import Divisions, Routes

MOVES: Mapping[str, frozenset[str]] = {
    "ready": frozenset({"active", "failed", "cancelled"}),
    "active": frozenset({"held", "aborting", "committed", "aborted", "failed"}),
    "held": frozenset({"active", "aborting", "committed", "aborted", "failed"}),
    "aborting": frozenset({"blocked", "active", "aborted", "cancelled", "failed"}),
    "blocked": frozenset({"aborting", "failed"}),
}
"""For each status of a case, those that may follow. It is `held` while an object of it cannot go on by
itself, `blocked` while its chain of compensators cannot.
"""

PHASES: Mapping[str, str] = {
    "committed": "done",
    "aborted": "cancelled",
    "cancelled": "cancelled",
    "failed": "failed",
}
"""The phase of a case that is over."""

UNDER_WAY = frozenset({"new", "task", "event", "held", "withdrawing", "aborting", "leaving"})
"""The states of an object that is somewhere: not put anywhere yet, with a task, with an event, held, being
withdrawn, at ABORT while the rest is undone, and after that while its script may yet route it.
"""


TO_COMPENSATE = frozenset({"forwarded", "compensating", "failed"})
"""The states of a step that may have to be compensated yet."""


class Member(msgspec.Struct, omit_defaults=True):
    """An object of the family: `now` is its eid as it is, `state` where it is, at which `type`.

    One of several `parts` or copies has a `parent`, an `ordinal` among them from 1, and their `count`. While
    its state is "parts" it goes on as these, of which `open` are not over. `composing` of them wait for the
    others, and `missing` is the first of them that will not come. `visits` are by type (KA28), `steps` the
    numbers of the steps of the trail that it made. `routes` are where it goes once all is undone, or the
    parts of its `divisions`.
    """

    now: int
    parent: int = 0
    ordinal: int = 0
    count: int = 0
    state: str = "new"
    type: str = ""
    event: str = ""
    since: float = 0.0
    instance: int = 0
    composes: bool = False
    why: str = ""
    error: int = 0
    visits: dict[str, int] = {}
    steps: list[int] = []
    parts: tuple[int, ...] = ()
    open: int = 0
    composing: int = 0
    missing: int = 0
    signal: str = ""
    routes: Routes | None = None
    divisions: Divisions = ()

    @property
    def is_over(self) -> bool:
        """True if its way is over."""
        return self.state != "parts" and self.state not in UNDER_WAY


class TrailStep(msgspec.Struct, omit_defaults=True):
    """A task that an object passed: with which instance, what it left, and what became of that.

    Its state is forwarded, committed, compensating, compensated, failed, or none: it has no compensator.
    """

    object: int
    type: str
    instance: int
    result: str
    at: float
    now: int
    outputs: tuple[int, ...] = ()
    compensator: str = ""
    state: str = "forwarded"
    call: str = ""
    why: str = ""
    error: int = 0


class CaseState(RunState, omit_defaults=True):
    """A case: its objects by identity, and the trail they left.

    `objects` are the identities by eid as it is now. `open` objects are under way, `withdrawing` of them are
    being withdrawn, `held` cannot go on by themselves; `committed` have come to COMMIT since something was
    aborted, or ever. `chain` are the numbers of the steps that may have to be compensated, `link` is the one
    that is. `waiters` are the signals to be answered once all is undone, each with the object at ABORT.
    """

    KIND: ClassVar[str] = "case"
    MOVES: ClassVar[Moves] = MOVES
    PHASES: ClassVar[Mapping[str, str]] = PHASES

    members: dict[int, Member] = {}
    objects: dict[int, int] = {}
    trail: list[TrailStep] = []
    chain: list[int] = []
    link: int | None = None
    open: int = 0
    withdrawing: int = 0
    held: int = 0
    committed: int = 0
    waiters: dict[str, int] = {}
    cancelled: bool = False
    cancelled_by: str = ""
    why: str = ""

    def progress(self) -> Iterator[tuple[str, str]]:
        """The objects, and where they are."""
        return ((f"object {identity}", where(member)) for identity, member in self.members.items())

    @property
    def is_undoing(self) -> bool:
        """True while the family is withdrawn and compensated, or would be."""
        return self.status in ("aborting", "blocked")


def where(member: Member) -> str:
    """The place of an object in a few words."""
    match member.state:
        case "task":
            return f"at {member.type}"
        case "event":
            return f"with event {member.event} of {member.type}"
        case "leaving":
            return "aborted"
        case "parts":
            return "in parts"
    return member.state


def step_id(number: int) -> str:
    """The id of a step of the trail, from 1, as surfaces show it."""
    return f"step{number + 1}"
