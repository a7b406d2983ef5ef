"""The facts that change a case (K47, K66), each with its effect. Applying one decides nothing.

An object is named by its *identity*, the eid that it had when it came into the case; `now` is its eid at the
time. Together these facts are the log of work objects: `ObjectPut` says where an object went, `ObjectLeft`
where it had been, with which instance and result.
"""

from __future__ import annotations

from narval.core.engines.run_state import RunBegan, RunChange
from narval.kinds.task.engine.case.state import CaseState, Divisions, Member, Routes, TrailStep


class CaseChange(RunChange, frozen=True):
    """A fact that changes a case."""


class CaseFact(CaseChange, frozen=True):
    """A fact with its moment."""

    at: float


class ObjectFact(CaseFact, frozen=True):
    """A fact about an object, by its identity."""

    object: int


class PlaceFact(ObjectFact, frozen=True):
    """A fact about an object at a type."""

    at_type: str


class StepFact(CaseFact, frozen=True):
    """A fact about a step of the trail."""

    step: int


class CaseBegan(CaseChange, RunBegan, frozen=True):
    """The case began; `elements` are its objects."""

    def apply(self, state: CaseState) -> None:
        state.begin(self)
        state.move("active")
        for eid in self.elements:
            state.members[eid] = Member(eid, since=self.at)
            state.objects[eid] = eid
            state.open += 1


# --- the path of an object --------------------------------------------------------------------------------


class ObjectPut(PlaceFact, frozen=True):
    """An object went into the queue of a type (K21). If it `composes`, it waits there for others (K20). If it
    cannot go on there, the type's script of EXCEPTION is asked: the `call` of an instance.
    """

    composes: bool = False
    call: str = ""
    why: str = ""

    def apply(self, state: CaseState) -> None:
        member = state.go_to(self.object, "task", self.at, self.at_type)
        member.count_visit(self.at_type)
        member.call, member.why = self.call, self.why
        if self.composes:
            member.composes = True
            state.members[member.parent].composing += 1


class ObjectMoved(PlaceFact, frozen=True):
    """An object went to a type with a raised `event` (K39); without one, it is in the queue there."""

    event: str = ""

    def apply(self, state: CaseState) -> None:
        elsewhere = self.at_type != state.members[self.object].type
        to = "event" if self.event else "task"
        member = state.go_to(self.object, to, self.at, self.at_type)
        member.event = self.event
        if elsewhere:
            member.count_visit(self.at_type)


class VersionTold(CaseChange, frozen=True):
    """An object was replaced by another version, and stays in its place."""

    object: int
    now: int

    def apply(self, state: CaseState) -> None:
        state.replace_object(self.object, self.now)


class ObjectLeft(PlaceFact, frozen=True):
    """An instance finished with an object (K28)."""

    instance: int
    """The instance."""
    result: str
    """The terminal state."""
    was: int
    """The object as it was given."""
    now: int
    """The object as it was left."""
    outputs: tuple[int, ...] = ()
    """The other elements made from it."""
    kept: bool = False
    """True if the step can be compensated."""
    compensator: str = ""
    """The task that compensates it; "" if there is none."""
    why: str = ""
    """The reason for the result."""

    def apply(self, state: CaseState) -> None:
        state.replace_object(self.object, self.now)
        member = state.members[self.object]
        member.instance, member.type, member.why = self.instance, self.at_type, self.why
        if self.kept:
            number = len(state.trail)
            member.steps.append(number)
            state.chain.append(number)
            step = TrailStep(self.object, self.at_type, self.instance, self.result, self.at, self.now)
            step.outputs, step.compensator = self.outputs, self.compensator
            state.trail.append(step)


class ObjectDivided(ObjectFact, frozen=True):
    """An object was divided into parts or copies, in this order; they continue in its place (K8, KA18)."""

    parts: tuple[int, ...]

    def apply(self, state: CaseState) -> None:
        whole = state.place(self.object, "parts", self.at)
        whole.parts, whole.open, whole.missing = (*whole.parts, *self.parts), len(self.parts), 0
        for ordinal, eid in enumerate(self.parts, 1):
            state.members[eid] = Member(
                eid, self.object, ordinal, len(self.parts), type=whole.type, since=self.at
            )
            state.objects[eid] = eid
            state.open += 1


class ObjectMerged(ObjectFact, frozen=True):
    """Parts were merged into their object (K20): it is the element `now`, at type `at_type`."""

    now: int
    at_type: str
    parts: tuple[int, ...]

    def apply(self, state: CaseState) -> None:
        for part in self.parts:
            state.place(part, "merged", self.at)
        state.replace_object(self.object, self.now)
        state.go_to(self.object, "task", self.at, self.at_type).open = 0


class ObjectHeld(PlaceFact, frozen=True):
    """An object cannot continue by itself: an incident of a `kind`, with its error element.

    A person may send it to `at_type`, "" if unknown.
    """

    kind: str
    why: str
    error: int

    def apply(self, state: CaseState) -> None:
        member = state.go_to(self.object, "held", self.at, self.at_type)
        member.why, member.error = self.why, self.error
        member.visits.pop(self.at_type, None)


class ObjectEnded(ObjectFact, frozen=True):
    """The path of an object has ended: `end` is committed, aborted or withdrawn."""

    end: str
    why: str = ""

    def apply(self, state: CaseState) -> None:
        member = state.place(self.object, self.end, self.at)
        member.why = self.why
        if self.end == "committed":
            state.committed += 1
            state.commit(member)
        whole = state.members.get(member.parent)
        if whole is not None and whole.state == "parts":
            whole.open -= 1
            whole.missing = whole.missing or self.object


# --- compensation -----------------------------------------------------------------------------------------


class AbortAsked(CaseFact, frozen=True):
    """Everything must be undone (K47): either an object reached ABORT, and its instance waits for the answer
    to `signal`; or a person cancelled the case, and `object` is 0.
    """

    object: int = 0
    signal: str = ""
    why: str = ""
    by: str = ""

    def apply(self, state: CaseState) -> None:
        if not state.is_undoing:
            state.move("aborting")
            state.why, state.committed = self.why, 0
        if self.object:
            member = state.place(self.object, "aborting", self.at)
            member.signal = self.signal
            state.waiters[self.signal] = self.object
        else:
            state.cancelled, state.cancelled_by = True, self.by
            state.why = state.why or self.why


class WithdrawalAsked(ObjectFact, frozen=True):
    """An object must be withdrawn from a queue or an instance."""

    def apply(self, state: CaseState) -> None:
        state.place(self.object, "withdrawing", self.at)


class LinkSkipped(StepFact, frozen=True):
    """A step of the trail has no compensator, so it cannot be undone."""

    def apply(self, state: CaseState) -> None:
        state.settle_link(self.step, "none")


class LinkBegan(StepFact, frozen=True):
    """The compensator of a step was called, with the object `now`."""

    call: str
    now: int

    def apply(self, state: CaseState) -> None:
        step = state.trail[self.step]
        step.state, step.call, step.why, step.error = "compensating", self.call, "", 0
        state.link = self.step


class LinkDone(StepFact, frozen=True):
    """A step is compensated."""

    def apply(self, state: CaseState) -> None:
        state.trail[self.step].call = ""
        state.settle_link(self.step, "compensated")


class ChainBlocked(StepFact, frozen=True):
    """A compensator failed (KA20): the chain stops at this step."""

    why: str
    error: int

    def apply(self, state: CaseState) -> None:
        step = state.trail[self.step]
        step.state, step.call, step.why, step.error = "failed", "", self.why, self.error
        state.waiters = {}
        state.move("blocked")


class ChainResumed(CaseFact, frozen=True):
    """A person lets the chain continue at the step that failed."""

    by: str = ""

    def apply(self, state: CaseState) -> None:
        state.move("aborting")


class ChainGivenUp(CaseFact, frozen=True):
    """A person gave up a blocked chain: the rest of it is not compensated."""

    by: str = ""

    def apply(self, state: CaseState) -> None:
        state.move("aborting")
        state.chain, state.link = [], None


class ChainEnded(CaseFact, frozen=True):
    """The chain has ended: everything that could be compensated is. Waiting instances are told."""

    def apply(self, state: CaseState) -> None:
        state.chain, state.waiters = [], {}
        for identity, member in state.members.items():
            if member.state == "aborting":
                state.place(identity, "leaving", self.at)
        if not state.cancelled:
            state.move("active")


class RoutesKept(CaseChange, frozen=True):
    """The routes that an aborted object's script chose, and its parts; it goes there once everything is
    undone.
    """

    object: int
    routes: Routes = ()
    divisions: Divisions = ()

    def apply(self, state: CaseState) -> None:
        member = state.members[self.object]
        member.routes, member.divisions = self.routes, self.divisions


class WaiterGone(CaseChange, frozen=True):
    """The instance that waited for the answer to a signal has ended."""

    signal: str

    def apply(self, state: CaseState) -> None:
        member = state.members[state.waiters.pop(self.signal)]
        member.routes = member.routes or ()


class CaseOver(CaseFact, frozen=True):
    """The case has ended."""

    status: str
    error: int | None = None

    def apply(self, state: CaseState) -> None:
        state.move(self.status, self.at, self.error)
