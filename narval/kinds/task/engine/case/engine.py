"""The engine of cases: an object with its family on its way through tasks (K8, K19–K21, K43–K47).

`routing` handles what instances and servers report about objects, `decision` puts objects to servers and ends
their paths, `compensation` undoes their work. The acts of people on a case that cannot continue are at the
end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from narval.core.engines.commands import SIGNAL
from narval.core.engines.events import Cancelled, Event, Returned, Signalled, Started
from narval.kinds.task.engine.case import compensation
from narval.kinds.task.engine.case.changes import CaseBegan, CaseChange, WaiterGone
from narval.kinds.task.engine.case.decision import CaseDecision
from narval.kinds.task.engine.case.explain import explain as explain
from narval.kinds.task.engine.case.explain import graph as graph
from narval.kinds.task.engine.case.explain import part_word as part_word
from narval.kinds.task.engine.case.explain import parts as parts
from narval.kinds.task.engine.case.explain import remedy as remedy
from narval.kinds.task.engine.case.explain import render as render
from narval.kinds.task.engine.case.explain import story as story
from narval.kinds.task.engine.case.explain import waiting_for as waiting_for
from narval.kinds.task.engine.case.routing import _begin_with_event, _ended, _lost, _merged, _moved, _routed
from narval.kinds.task.engine.case.state import CaseState, step_id
from narval.kinds.task.engine.values import RefusedSignal
from narval.kinds.task.language.definition import TaskDefinition

kind = "task-case"
definition_kind = TaskDefinition.kind
changes = CaseChange.union()
state_type = CaseState
decision_type = CaseDecision
instead_of_retry = "what cannot go on, goes on by hand: narval task retry"


def advance(decision: CaseDecision, event: Event) -> None:
    """Decide the changes and commands that follow from one event."""
    state = decision.state
    match event:
        case Signalled():
            _signalled(decision, event)
        case Started() if state.status == "ready":
            _started(decision, event)
        case Returned() if not state.over:
            _returned(decision, event)
        case Cancelled() if state.status == "ready":
            decision.end("cancelled")
        case Cancelled() if not state.over:
            compensation.cancel(decision, event.reason, event.by)
    if state.status != "ready":
        decision.settle()


def fail(decision: CaseDecision, error: int) -> None:
    """Decide the end of a case whose advance raised: its objects stay where they are."""
    decision.end("failed", error)


def _started(decision: CaseDecision, event: Started) -> None:
    decision.change(CaseBegan(event.at, event.elements, event.caller, event.attempt))
    if not event.elements:
        message = f"a case of {decision.definition.full_name} needs an object, and was given none"
        decision.end("failed", decision.add_error_element("no-object", message))
        return
    decision.add_to_context(event.elements)
    for identity in event.elements:
        if event.environment.get("event"):
            _begin_with_event(decision, identity, event.environment)
        else:
            decision.put(identity, decision.definition.full_name)


def _returned(decision: CaseDecision, event: Returned) -> None:
    """Handle the end of a compensator, or a server's answer; ignore a mere confirmation."""
    call = decision.view.pending_call(event.call)
    if call is None or call.kind != SIGNAL:
        compensation.returned(decision, event)
        return
    identity = int(call.step)
    member, signal = decision.state.members[identity], (call.payload or {})["signal"]
    if signal == "withdraw":
        if member.state == "withdrawing":
            decision.end_object(identity, "withdrawn", decision.state.why)
            compensation.go_on(decision)
    elif event.problem is not None and member.state in ("task", "event") and member.type == call.name:
        decision.hold(identity, call.name, event.problem.kind, event.problem.message)


def _signalled(decision: CaseDecision, event: Signalled) -> None:
    """Handle the signals of instances and servers, which no person may send, and those of people."""
    if decision.state.over:
        decision.refuse(event, "over", f"case {decision.state.eid} is {decision.state.status}")
    elif event.sender and event.name == "gone":
        signal = event.arguments.get("signal")
        if signal in decision.state.waiters:
            decision.change(WaiterGone(str(signal)))
    elif event.sender and event.name in _SAID:
        try:
            _SAID[event.name](decision, event)
        except RefusedSignal as refusal:
            decision.refuse(event, refusal.kind, refusal.message)
    elif not event.sender and event.name in _BY_HAND:
        _BY_HAND[event.name](decision, event)
    else:
        heard = ", ".join(_BY_HAND)
        decision.refuse(event, "not-listening", f"expected {heard}, got {event.name!r:.80}")


_SAID: Mapping[str, Callable[[CaseDecision, Signalled], None]] = {
    "ended": _ended,
    "routed": _routed,
    "moved": _moved,
    "merged": _merged,
    "lost": _lost,
}


def _retry(decision: CaseDecision, event: Signalled) -> None:
    """Resume a blocked chain, or put the current versions of held objects to their type again, or to a named
    one.
    """
    state = decision.state
    if state.status == "blocked":
        number = compensation.resume(decision, event.by)
        decision.answer(event, step=step_id(number), compensator=state.trail[number].compensator)
        return
    object, type = event.arguments.get("object"), event.arguments.get("type") or ""
    current = {
        identity: decision.view.current(member.now) or member.now
        for identity, member in state.members.items()
        if member.state == "held"
    }
    held = [
        identity
        for identity, now in current.items()
        if object in (None, 0, identity, state.members[identity].now, now)
    ]
    if not held:
        which = f"object {object}" if object else "no object of it"
        decision.refuse(event, "not-held", f"case {state.eid} is {state.status}: {which} is held")
    elif type and decision.find_type(str(type)) is None:
        decision.refuse(event, "no-type", f"expected a task type that is loaded, got {type!r:.80}")
    elif not all(type or state.members[identity].type for identity in held):
        unrouted = next(identity for identity in held if not state.members[identity].type)
        why = f"object {state.members[unrouted].now} was not routed; name the type where it is to go"
        decision.refuse(event, "no-type", why)
    else:
        decision.answer(event, objects=[current[identity] for identity in held])
        for identity in held:
            decision.tell_version(identity, current[identity])
            decision.add_to_context((current[identity],))
            decision.put(identity, str(type or state.members[identity].type), by_hand=True)


def _cancel(decision: CaseDecision, event: Signalled) -> None:
    """Withdraw all objects, and compensate what was done."""
    why = event.arguments.get("why")
    decision.answer(event)
    if decision.state.status == "ready":
        decision.end("cancelled")
        return
    compensation.cancel(decision, str(why or ""), event.by)


_BY_HAND: Mapping[str, Callable[[CaseDecision, Signalled], None]] = {"retry": _retry, "cancel": _cancel}
"""The acts of people, by the name of the signal."""
