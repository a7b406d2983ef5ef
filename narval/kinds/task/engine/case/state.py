"""The state of a case: plain data, altered only by its changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

import msgspec

from narval.core.engines.run_state import Moves, RunState

MOVES: Mapping[str, frozenset[str]] = {
    "ready": frozenset({"active", "failed", "cancelled"}),
    "active": frozenset({"held", "aborting", "committed", "aborted", "failed"}),
    "held": frozenset({"active", "aborting", "committed", "aborted", "failed"}),
    "aborting": frozenset({"blocked", "active", "aborted", "cancelled", "failed"}),
    "blocked": frozenset({"aborting", "failed"}),
}
"""The statuses that may follow each status of a case. It is `held` while one of its objects cannot continue
by itself, `blocked` while its chain of compensators cannot.
"""

PHASES: Mapping[str, str] = {
    "committed": "done",
    "aborted": "cancelled",
    "cancelled": "cancelled",
    "failed": "failed",
}
"""The phase of a case that has ended."""

UNDER_WAY = frozenset({"new", "task", "event", "held", "withdrawing", "aborting", "leaving"})
"""The states of an object under way: not put anywhere yet, with a task, with an event, held, being withdrawn,
at ABORT while the rest is undone, and after that while its script may still route it.
"""


TO_COMPENSATE = frozenset({"forwarded", "compensating", "failed"})
"""The states of a step that may still have to be compensated."""

Routes = tuple[tuple[str, int], ...]
"""The types that objects go to, each with the present version of the object."""

Divisions = tuple[tuple[int, tuple[int, ...]], ...]
"""Objects, each with the parts or copies made from it."""


class Member(msgspec.Struct, omit_defaults=True):
    """An object of the family."""

    now: int
    """Its present eid."""
    parent: int = 0
    """The object that it is a part or a copy of; 0 if none."""
    ordinal: int = 0
    """Its number among the parts or copies of that object, from 1."""
    count: int = 0
    """The number of those parts or copies."""
    state: str = "new"
    """The kind of place where it is: one of `UNDER_WAY`, "parts", or an end."""
    type: str = ""
    """The type that has it, or had it last."""
    event: str = ""
    """The event that carries it."""
    since: float = 0.0
    """The moment at which it came there."""
    instance: int = 0
    """The instance that has it, or had it last."""
    composes: bool = False
    """True while it waits for the other parts."""
    call: str = ""
    """The call of the instance that runs its type's script of EXCEPTION."""
    why: str = ""
    """The reason for its state."""
    error: int = 0
    """The error element."""
    visits: dict[str, int] = {}
    """The number of times that it came to each type."""
    steps: list[int] = []
    """The numbers of its steps in the trail."""
    parts: tuple[int, ...] = ()
    """Its parts or copies, which continue in its place while its state is "parts"."""
    open: int = 0
    """The number of its parts that have not ended."""
    composing: int = 0
    """The number of its parts that wait for the others."""
    missing: int = 0
    """The first of its parts that will not come; 0 if none."""
    signal: str = ""
    """The signal whose answer its instance awaits at ABORT."""
    routes: Routes | None = None
    """The types that it goes to once everything is undone."""
    divisions: Divisions = ()
    """The objects that its script has divided, each with its parts or copies."""

    @property
    def is_over(self) -> bool:
        """True if its path has ended."""
        return self.state != "parts" and self.state not in UNDER_WAY

    def count_visit(self, type: str) -> None:
        """Count another visit to a type (KA28)."""
        self.visits[type] = self.visits.get(type, 0) + 1


class TrailStep(msgspec.Struct, omit_defaults=True):
    """A task that an object passed."""

    object: int
    """The identity of the object."""
    type: str
    """The type of the task."""
    instance: int
    """The instance that did it."""
    result: str
    """The terminal state."""
    at: float
    """The moment."""
    now: int
    """The object as it was left."""
    outputs: tuple[int, ...] = ()
    """The other elements made from it."""
    compensator: str = ""
    """The task that compensates it; "" if there is none."""
    state: str = "forwarded"
    """One of forwarded, committed, compensating, compensated, failed, none (it has no compensator)."""
    call: str = ""
    """The call of the compensator."""
    why: str = ""
    """The reason why the compensator failed."""
    error: int = 0
    """The error element."""


class CaseState(RunState, omit_defaults=True):
    """A case: its objects by identity, and the trail they left."""

    KIND: ClassVar[str] = "case"
    MOVES: ClassVar[Moves] = MOVES
    PHASES: ClassVar[Mapping[str, str]] = PHASES

    members: dict[int, Member] = {}
    """The objects by identity."""
    objects: dict[int, int] = {}
    """The identities by present eid."""
    trail: list[TrailStep] = []
    """The tasks that objects passed, in order."""
    chain: list[int] = []
    """The numbers of the steps that may have to be compensated."""
    link: int | None = None
    """The step that is being compensated."""
    open: int = 0
    """The number of objects under way."""
    withdrawing: int = 0
    """The number of objects being withdrawn."""
    held: int = 0
    """The number of objects that cannot continue by themselves."""
    committed: int = 0
    """The number of objects that reached COMMIT, since the last abort if there was one."""
    waiters: dict[str, int] = {}
    """The signals to answer once everything is undone, each with the object at ABORT."""
    cancelled: bool = False
    """True if a person cancelled it."""
    cancelled_by: str = ""
    """The person who cancelled it."""
    why: str = ""
    """The reason for undoing it."""

    def progress(self) -> Iterator[tuple[str, str]]:
        """The objects, and where they are."""
        return ((f"object {identity}", where(member)) for identity, member in self.members.items())

    @property
    def is_undoing(self) -> bool:
        """True while the family is being withdrawn and compensated, even if that is blocked."""
        return self.status in ("aborting", "blocked")

    def stopped(self) -> dict[int, tuple[int, str]]:
        """The held objects, or the failed compensator's object, each with the reason, by error element."""
        if self.status == "blocked" and self.link is not None:
            step = self.trail[self.link]
            return {step.error: (step.now, f"{step.compensator} failed: {step.why}")}
        held = (member for member in self.members.values() if member.state == "held")
        return {member.error: (member.now, member.why) for member in held} if self.held else {}

    def place(self, identity: int, to: str, at: float) -> Member:
        """Move an object to another state, and update the counts."""
        member = self.members[identity]
        before = member.state
        self.open += (to in UNDER_WAY) - (before in UNDER_WAY)
        self.withdrawing += (to == "withdrawing") - (before == "withdrawing")
        self.held += (to == "held") - (before == "held")
        if member.composes:
            self.members[member.parent].composing -= 1
        member.state, member.since, member.composes, member.call = to, at, False, ""
        if self.status in ("active", "held"):
            status = "held" if self.held else "active"
            if status != self.status:
                self.move(status)
        return member

    def go_to(self, identity: int, to: str, at: float, type: str) -> Member:
        """Move an object to another type, and clear what belonged to the last one."""
        member = self.place(identity, to, at)
        member.type, member.instance, member.event, member.why, member.error = type, 0, "", "", 0
        member.routes, member.divisions = None, ()
        return member

    def replace_object(self, identity: int, now: int) -> None:
        """Replace an object by another version."""
        member = self.members[identity]
        if now != member.now:
            self.objects.pop(member.now, None)
            member.now = now
        self.objects[now] = identity

    def commit(self, member: Member) -> None:
        """Make the work of an object, and of the parts merged into it, final."""
        line = [member]
        for done in line:
            for number in done.steps:
                if self.trail[number].state == "forwarded":
                    self.trail[number].state = "committed"
            line.extend(part for eid in done.parts if (part := self.members[eid]).state == "merged")

    def settle_link(self, number: int, to: str) -> None:
        """Settle a step of the chain, and drop the newest steps that need no more compensation."""
        self.trail[number].state = to
        self.link = None
        while self.chain and self.trail[self.chain[-1]].state not in TO_COMPENSATE:
            self.chain.pop()


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
