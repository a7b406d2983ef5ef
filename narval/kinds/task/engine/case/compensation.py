"""Abort: an object's family is withdrawn, then its steps are compensated, newest first (K47, KA19).

The steps of the trail are links of a chain: each is compensated once, or recorded as having no compensator.
Committed work is not undone (KA22). A compensator is a run that the case calls; it reports no steps to the
case, so nothing compensates it (KA21).
"""

from __future__ import annotations

from narval.core.engines import commands
from narval.core.engines.events import Failure, Plain, Returned, Signalled
from narval.kinds.task.engine.case import changes
from narval.kinds.task.engine.case.decision import CaseDecision
from narval.kinds.task.engine.case.state import TO_COMPENSATE, step_id
from narval.kinds.task.language.definition import ABORT, TaskDefinition


def compensator_of(decision: CaseDecision, type: str) -> str:
    """The full name of the type that compensates another; "" if there is none (K46)."""
    definition = decision.find_type(type)
    if definition is None or not definition.compensated_by:
        return ""
    found = decision.find_type(definition.compensated_by, definition.full_name)
    return found.full_name if found is not None else definition.compensated_by


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
    decision.change(changes.WithdrawalAsked(decision.event.at, identity))
    decision.tell(identity, member.type, "withdraw", {"object": member.now, "why": why})


def compensator_returned(decision: CaseDecision, event: Returned) -> None:
    """Handle the end of a compensator."""
    state, number = decision.state, decision.state.link
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


# --- inside -----------------------------------------------------------------------------------------------


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
    """Call a step's compensator with the current versions of what the step left (K47)."""
    step, state, view = decision.state.trail[number], decision.state, decision.view
    now, *outputs = (view.current(eid) or eid for eid in (step.now, *step.outputs))
    call = decision.identifier()
    environment: dict[str, Plain] = {"compensates": step.type, "object": str(now), "case": str(state.eid)}
    decision.change(changes.LinkBegan(decision.event.at, number, call, now))
    asked, elements = (call, TaskDefinition.kind, step.compensator, step_id(number)), (now, *outputs)
    payload: dict[str, Plain] = {"environment": environment}
    decision.ask(commands.Call(*asked, elements=tuple(dict.fromkeys(elements)), payload=payload))


def _block(decision: CaseDecision, number: int, problem: Failure) -> None:
    """Stop the chain at a compensator that failed (KA20), and tell the instances that wait for it."""
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
