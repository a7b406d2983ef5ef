"""One advance of one case: where its objects go, what cannot continue, and how its work is undone (K47,
KA19).

After an abort an object's family is withdrawn, then its steps are compensated, newest first. The steps of the
trail are links of a chain: each is compensated once, or recorded as having no compensator. Committed work is
not undone (KA22). A compensator is a run that the case calls; it reports no steps to the case, so nothing
compensates it (KA21).
"""

from __future__ import annotations

from narval.core.engines import commands
from narval.core.engines.decision import Decision
from narval.core.engines.events import Failure, Plain, Returned, Signalled
from narval.kinds.task.engine.case import changes
from narval.kinds.task.engine.case.changes import CaseChange
from narval.kinds.task.engine.case.state import (
    TO_COMPENSATE,
    UNDER_WAY,
    CaseState,
    Divisions,
    Routes,
    step_id,
)
from narval.kinds.task.language.definition import ABORT, EXCEPTION, TaskDefinition

MOST_VISITS = 100
"""The most times that an object, or a whole that it is part of, is put to one type."""

EXCEPTION_TYPE = "exception"
"""The name of the group's type that receives objects which no EXCEPTION script routes."""


class CaseDecision(Decision[TaskDefinition, CaseState, CaseChange], kw_only=True, eq=False):
    """One advance of one case."""

    # --- where objects go -------------------------------------------------------------------------------

    def find_type(self, name: str, near: str = "") -> TaskDefinition | None:
        """The type that a name refers to at type `near`: in its group first, then by the name alone."""
        group = (near or self.definition.full_name).partition(".")[0]
        definition = self.view.definition(TaskDefinition.kind, f"{group}.{name}")
        if definition is None:
            definition = self.view.definition(TaskDefinition.kind, name)
        return definition if isinstance(definition, TaskDefinition) else None

    def put(self, identity: int, name: str, *, by_hand: bool = False) -> None:
        """Put an object into the queue of a type, unless it has been there too often (K21, KA28)."""
        member = self.state.members[identity]
        definition = self.find_type(name, member.type)
        type = definition.full_name if definition is not None else name
        visits = self.visits(identity, type)
        if visits >= MOST_VISITS and not by_hand:
            why = f"it has been at {type} {visits} times; see why it comes back"
            self.except_from(identity, type, "visits", why)
            return
        composes = definition is not None and bool(definition.composed_from) and bool(member.parent)
        if composes and self.state.members[member.parent].missing:
            self.except_from(identity, type, "missing-part", self.missing_part(member.parent))
            return
        self.change(changes.ObjectPut(self.event.at, identity, type, composes))
        arguments: dict[str, Plain] = {
            "object": member.now,
            "case": self.state.eid,
            "parent": member.parent,
            "ordinal": member.ordinal,
            "count": member.count,
            "visits": visits + 1,
        }
        self.tell(identity, type, "put", arguments)

    def tell_version(self, identity: int, object: int) -> None:
        """Record that an object has another current version."""
        if object not in (identity, self.state.members[identity].now):
            self.change(changes.VersionTold(identity, object))

    def visits(self, identity: int, type: str) -> int:
        """The number of times that an object, or a whole that it is part of, was put to a type."""
        member, count = self.state.members[identity], 0
        while True:
            count += member.visits.get(type, 0)
            if not member.parent:
                return count
            member = self.state.members[member.parent]

    def tell(self, identity: int, type: str, signal: str, arguments: dict[str, Plain]) -> None:
        """Send the server of a type a signal about an object."""
        object = self.state.members[identity].now
        call = self.identifier()
        self.ask(commands.telling(call, type, str(identity), signal, arguments, (object,)))

    def follow(self, identity: int, divisions: Divisions, routes: Routes) -> bool:
        """Send an object on, and hold parts that no script has routed; True if the object itself stays."""
        objects, type = self.state.objects, self.state.members[identity].type
        for object, parts in divisions:
            self.change(changes.ObjectDivided(self.event.at, objects[object], parts))
        on_its_way = {objects[object] for object in (*dict(divisions), *(object for _, object in routes))}
        for to, object in routes:
            self.put(objects[object], to)
        for part in (part for _, parts in divisions for part in parts if part not in on_its_way):
            self.hold(part, "", "no-route", f"no script of {type} routes it; name the type where it goes")
        return identity not in on_its_way

    # --- what cannot continue ------------------------------------------------------------------------------

    def except_from(self, identity: int, type: str, kind: str, why: str, *, was_asked: bool = False) -> None:
        """Ask a type's script of EXCEPTION where an object goes, unless it `was_asked`. Without a script, the
        type `exception` of the group takes the object (K29); without that type, hold it.
        """
        definition, taker = self.find_type(type), self.find_type(EXCEPTION_TYPE, type)
        has_script = definition is not None and EXCEPTION in definition.routes
        # The script may send the object back again and again, so that asking it counts as a visit.
        if has_script and not was_asked and self.visits(identity, type) <= MOST_VISITS + 1:
            self._ask_exception(identity, type, why)
            return
        if taker is None or taker.full_name == type:
            self.hold(identity, type, kind, why)
        else:
            self.put(identity, taker.full_name)

    def _ask_exception(self, identity: int, type: str, why: str) -> None:
        """Begin an instance of a type in EXCEPTION; it reports where its script sends the object."""
        call, now = self.identifier(), self.state.members[identity].now
        environment: dict[str, Plain] = {"object": str(now), "case": str(self.state.eid), "exception": why}
        self.change(changes.ObjectPut(self.event.at, identity, type, call=call, why=why))
        asked = (call, TaskDefinition.kind, type, str(identity))
        self.ask(commands.Call(*asked, elements=(now,), payload={"environment": environment}))

    def hold(self, identity: int, type: str, kind: str, why: str) -> None:
        """Hold an object that cannot continue by itself; a person must act."""
        member = self.state.members[identity]
        object, at = member.now, type or member.type
        message = f"object {object} is held at {at}: {why}"
        where: dict[str, str | int | None] = {"object": object, "type_of_task": type, "step": at}
        error = self.add_error_element(kind, message, str(identity), inputs=(object,), where=where)
        self.change(changes.ObjectHeld(self.event.at, identity, type, kind, why, error))

    def except_waiting(self, parent: int) -> None:
        """Make exceptions of the parts that wait for a part that will never come (K20)."""
        why = self.missing_part(parent)
        for part in self.state.members[parent].parts:
            member = self.state.members[part]
            if member.composes:
                self.tell(part, member.type, "withdraw", {"object": member.now, "why": why})
                self.except_from(part, member.type, "missing-part", why)

    def missing_part(self, parent: int) -> str:
        """A sentence about the part that will never come, with the reason."""
        members = self.state.members
        missing = members[members[parent].missing]
        return (
            f"part {missing.ordinal} of object {parent} (object {missing.now}) will not come: {missing.state}"
        )

    # --- the end ----------------------------------------------------------------------------------------

    def end_object(self, identity: int, end: str, why: str = "") -> None:
        """End an object's path, and that of its whole if no other part is under way."""
        members, at = self.state.members, self.event.at
        while True:
            member = members[identity]
            self.change(changes.ObjectEnded(at, identity, end, why))
            if end == "committed":
                self.command(commands.Outdate((member.now,)))
            whole = members.get(member.parent)
            if whole is None or whole.state != "parts":
                break
            if whole.open:
                if whole.composing and not self.state.is_undoing:
                    self.except_waiting(member.parent)
                break
            ends = {members[part].state for part in whole.parts} - {"merged"}
            identity, end = member.parent, end if len(ends) == 1 else "aborted"

    def settle(self) -> None:
        """End the case if none of its objects is under way."""
        state = self.state
        if not (state.open or state.over or state.is_undoing):
            self.end("committed" if state.committed else "aborted")

    def end(self, status: str, error: int | None = None) -> None:
        """End the case; its caller gets its objects, or the error."""
        self.change(changes.CaseOver(self.event.at, status, error))
        self.report_end((error,) if error is not None else self.state.first)

    def under_way(self) -> list[int]:
        """The objects whose path has not ended."""
        return [identity for identity, member in self.state.members.items() if member.state in UNDER_WAY]


# --- compensation ---------------------------------------------------------------------------------------


def compensator_of(decision: CaseDecision, type: str) -> str:
    """The full name of the type that compensates another; "" if there is none (K46)."""
    definition = decision.find_type(type)
    if definition is None or not definition.compensated_by:
        return ""
    compensator = decision.find_type(definition.compensated_by, definition.full_name)
    return compensator.full_name if compensator is not None else definition.compensated_by


def abort(decision: CaseDecision, event: Signalled, identity: int, why: str) -> None:
    """Undo everything because an object reached ABORT; answer its instance once the undoing is done or
    blocked.
    """
    state = decision.state
    if state.members[identity].is_over:
        decision.answer(event)
        return
    is_first, is_blocked = not state.is_undoing, state.status == "blocked"
    signal = "" if is_blocked else event.signal
    decision.change(changes.AbortAsked(event.at, identity, signal, why))
    if is_blocked:
        decision.answer(event, blocked=True)
    _undo(decision, is_first, why)


def undo_all(decision: CaseDecision, why: str, by: str) -> None:
    """Undo everything because a person cancelled the case; give up a blocked chain."""
    state, at = decision.state, decision.event.at
    is_first = not state.is_undoing
    if state.status == "blocked":
        decision.change(changes.ChainGivenUp(at, by))
    decision.change(changes.AbortAsked(at, why=why or "the case was cancelled", by=by))
    _undo(decision, is_first, state.why)


def resume_chain(decision: CaseDecision, by: str) -> int:
    """Let a blocked chain continue at the link that failed; return the number of its step."""
    number = decision.state.link
    assert number is not None, decision.state
    decision.change(changes.ChainResumed(decision.event.at, by))
    _begin(decision, number)
    return number


def withdraw(decision: CaseDecision, identity: int, why: str) -> None:
    """Tell the server of an object's type to give the object back, wherever the server has it."""
    member = decision.state.members[identity]
    if member.call:
        decision.command(commands.CancelCall(member.call))
        decision.end_object(identity, "withdrawn", why)
        return
    decision.change(changes.WithdrawalAsked(decision.event.at, identity))
    decision.tell(identity, member.type, "withdraw", {"object": member.now, "why": why})


def run_returned(decision: CaseDecision, event: Returned) -> None:
    """Handle the end of a compensator, or of an instance that has not said where its object goes after
    EXCEPTION.
    """
    state, number = decision.state, decision.state.link
    identity = next((one for one, member in state.members.items() if member.call == event.call), None)
    if identity is not None:
        member = state.members[identity]
        problem = event.problem.message if event.problem is not None else "it was given up"
        why = f"{member.why}; its script of EXCEPTION: {problem}"
        decision.except_from(identity, member.type, "exception", why, was_asked=True)
        return
    if number is None or state.trail[number].call != event.call:
        return
    decision.add_to_context(event.eids)
    if event.problem is None and not event.abandoned:
        decision.change(changes.LinkDone(event.at, number))
        continue_chain(decision)
    else:
        _block(decision, number, event.problem or Failure("abandoned", "it was given up"))


def continue_chain(decision: CaseDecision) -> None:
    """Call the next compensator, unless something must end first."""
    state = decision.state
    if state.status != "aborting" or state.withdrawing or state.link is not None:
        return
    while (number := _next(decision)) is not None:
        if state.trail[number].compensator:
            _begin(decision, number)
            return
        decision.change(changes.LinkSkipped(decision.event.at, number))
    _end(decision)


# --- the chain --------------------------------------------------------------------------------------------


def _undo(decision: CaseDecision, is_first: bool, why: str) -> None:
    """Withdraw what is still under way, if this `is_first`; then continue the chain."""
    for identity in decision.under_way() if is_first else ():
        state = decision.state.members[identity].state
        if state in ("task", "event"):
            withdraw(decision, identity, why)
        elif state != "aborting":
            decision.end_object(identity, "withdrawn", why)
    continue_chain(decision)


def _next(decision: CaseDecision) -> int | None:
    """The newest step that must still be compensated; None if there is none."""
    state = decision.state
    return next(
        (number for number in reversed(state.chain) if state.trail[number].state in TO_COMPENSATE), None
    )


def _begin(decision: CaseDecision, number: int) -> None:
    """Call a step's compensator with the current versions of what the step left."""
    step, state, view = decision.state.trail[number], decision.state, decision.view
    now, *outputs = (view.current(eid) or eid for eid in (step.now, *step.outputs))
    call = decision.identifier()
    environment: dict[str, Plain] = {"compensates": step.type, "object": str(now), "case": str(state.eid)}
    decision.change(changes.LinkBegan(decision.event.at, number, call, now))
    asked, elements = (call, TaskDefinition.kind, step.compensator, step_id(number)), (now, *outputs)
    payload: dict[str, Plain] = {"environment": environment}
    decision.ask(commands.Call(*asked, elements=tuple(dict.fromkeys(elements)), payload=payload))


def _block(decision: CaseDecision, number: int, problem: Failure) -> None:
    """Stop the chain at a compensator that failed, and tell the instances that wait for it."""
    step, waiters = decision.state.trail[number], tuple(decision.state.waiters)
    message = f"{step.compensator}, which compensates {step.type}, failed: {problem.message}"
    where: dict[str, str | int | None] = {"object": step.now, "compensator": step.compensator}
    error = decision.add_error_element(
        problem.kind, message, step_id(number), inputs=(step.now,), where=where
    )
    decision.change(changes.ChainBlocked(decision.event.at, number, problem.message, error))
    for signal in waiters:
        decision.ask(commands.Answer(signal, {"blocked": True}))


def _end(decision: CaseDecision) -> None:
    """End the undoing: tell the waiting instances, and let the scripts of ABORT route the objects."""
    state = decision.state
    waiters = tuple(state.waiters)
    decision.change(changes.ChainEnded(decision.event.at))
    for signal in waiters:
        decision.ask(commands.Answer(signal, {"blocked": False}))
    for identity in decision.under_way():
        member = state.members[identity]
        definition = decision.find_type(member.type)
        if member.routes and not state.cancelled:
            decision.follow(identity, member.divisions, member.routes)
        elif (
            state.cancelled
            or member.routes is not None
            or definition is None
            or ABORT not in definition.routes
        ):
            decision.end_object(identity, "aborted", state.why)
    if state.cancelled:
        decision.end("cancelled")
