"""The engine of cases: an object with its family on its way through tasks (K8, K19–K21, K43–K47).

Instances and servers report each result of an object, and the case sends the object on (K28). `decision` puts
objects to servers, ends their paths, and undoes their work. The acts of people on a case that cannot continue
are at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from narval.core.engines.commands import SIGNAL
from narval.core.engines.events import Cancelled, Event, Plain, Returned, Signalled, Started
from narval.kinds.task.engine.case.changes import (
    CaseBegan,
    CaseChange,
    ObjectLeft,
    ObjectMerged,
    ObjectMoved,
    RoutesKept,
    WaiterGone,
)
from narval.kinds.task.engine.case.decision import (
    MOST_VISITS,
    CaseDecision,
    abort,
    compensator_of,
    continue_chain,
    resume_chain,
    run_returned,
    undo_all,
    withdraw,
)
from narval.kinds.task.engine.case.explain import explain as explain
from narval.kinds.task.engine.case.explain import graph as graph
from narval.kinds.task.engine.case.explain import part_word as part_word
from narval.kinds.task.engine.case.explain import parts as parts
from narval.kinds.task.engine.case.explain import remedy as remedy
from narval.kinds.task.engine.case.explain import render as render
from narval.kinds.task.engine.case.explain import story as story
from narval.kinds.task.engine.case.explain import waiting_for as waiting_for
from narval.kinds.task.engine.case.state import CaseState, Divisions, Routes, step_id
from narval.kinds.task.engine.values import RefusedSignal
from narval.kinds.task.language.definition import ABORT, COMMIT, EXCEPTION, TaskDefinition

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
            undo_all(decision, event.reason, event.by)
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
    """Handle the end of a run that the case called, or a server's answer; ignore a mere confirmation."""
    call = decision.view.pending_call(event.call)
    if call is None or call.kind != SIGNAL:
        run_returned(decision, event)
        return
    identity = int(call.step)
    member, signal = decision.state.members[identity], (call.payload or {})["signal"]
    if signal == "withdraw":
        if member.state == "withdrawing":
            decision.end_object(identity, "withdrawn", decision.state.why)
            continue_chain(decision)
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


# --- what instances and servers report ------------------------------------------------------------------

GOES_ON = frozenset({"new", "task", "event", "held"})
"""The states in which tasks can send an object on."""


def _begin_with_event(decision: CaseDecision, identity: int, environment: Mapping[str, str]) -> None:
    """Raise an event that carries an object, at the type with which the case begins."""
    type, event = decision.definition.full_name, environment["event"]
    decision.change(ObjectMoved(decision.event.at, identity, type, event))
    parameters: list[Plain] = msgspec.json.decode(environment.get("parameters") or "[]", type=list[Any])
    arguments: dict[str, Plain] = {
        "event": event,
        "parameters": parameters,
        "object": decision.state.members[identity].now,
        "case": decision.state.eid,
        "mode": environment.get("mode", ""),
        "users": environment.get("users", "").split(),
        "roles": environment.get("roles", "").split(),
        "raiser": 0,
    }
    decision.tell(identity, type, "raise", arguments)


def _ended(decision: CaseDecision, event: Signalled) -> None:
    """Record an instance's result for an object, and send the object on. Raises RefusedSignal."""
    state, said = decision.state, event.arguments
    identity = _identity(decision, said.get("was"), said.get("object"))
    member = state.members[identity]
    now = event.number("object") or member.now
    result, why = event.text("result"), event.text("why")
    type = event.text("type") or member.type
    divided, routes = _divided(decision, identity, now, said), _routes(said)
    if result in (COMMIT, ABORT):
        divided = ()
    _check(decision, identity, now, divided, routes)
    is_late = member.state not in GOES_ON
    outputs = _numbers(said.get("outputs"))
    is_kept = result not in (COMMIT, ABORT, EXCEPTION) or (result == COMMIT and is_late)
    decision.change(
        ObjectLeft(
            event.at,
            identity,
            type,
            event.sender,
            result,
            was=member.now,
            now=now,
            outputs=outputs,
            kept=is_kept,
            compensator=compensator_of(decision, type) if is_kept else "",
            why=why,
        )
    )
    decision.add_to_context(
        tuple(dict.fromkeys((now, *outputs, *(eid for _, eids in divided for eid in eids))))
    )
    if result == ABORT:
        abort(decision, event, identity, why or f"{type} came to {ABORT}")
        return
    decision.answer(event)
    if is_late:
        return
    if result == COMMIT:
        decision.end_object(identity, "committed")
        return
    left = decision.follow(identity, divided, routes)
    if left and result == EXCEPTION:
        why = why or f"{type} came to {EXCEPTION}"
        decision.except_from(identity, type, "exception", why, was_asked=True)
    elif left:
        why = f"no script of {type} routes it after {result}; name the type where it goes"
        decision.hold(identity, "", "no-route", why)


def _routed(decision: CaseDecision, event: Signalled) -> None:
    """Send an object where a script routed it: the action of a rule that it was carried to, or the script of
    ABORT. Raises RefusedSignal.
    """
    state, said = decision.state, event.arguments
    object = event.number("object")
    identity = _identity(decision, object)
    decision.tell_version(identity, object)
    member, routes = state.members[identity], _routes(said)
    divided = _divided(decision, identity, member.now, said)
    _check(decision, identity, member.now, divided, routes)
    decision.answer(event)
    if member.state == "aborting":
        decision.change(RoutesKept(identity, routes, divided))
    elif member.state in (*GOES_ON, "leaving"):
        is_left = decision.follow(identity, divided, routes)
        if is_left and member.state == "leaving":
            decision.end_object(identity, "aborted", state.why)


def _moved(decision: CaseDecision, event: Signalled) -> None:
    """Record that an event carried an object to another type, or that the object is back at a type. An
    aborted object is withdrawn instead, until everything is undone. Raises RefusedSignal.
    """
    said = event.arguments
    identity = _identity(decision, said.get("object"))
    decision.tell_version(identity, event.number("object"))
    member, carried = decision.state.members[identity], said.get("event")
    type = event.text("type") or member.type
    if member.state == "aborting" and carried:
        why = f"object {member.now} was aborted, and all else is not undone yet"
        decision.tell(identity, type, "withdraw", {"object": member.now, "why": why})
        decision.change(RoutesKept(identity))
    elif member.state in (*GOES_ON, "leaving"):
        decision.change(ObjectMoved(event.at, identity, type, str(carried) if carried else ""))
        if not carried and decision.visits(identity, type) > MOST_VISITS:
            why = f"events that carry it bring it back to {type} again and again; see why none keeps it"
            object = decision.state.members[identity].now
            decision.tell(identity, type, "withdraw", {"object": object, "why": why})
            decision.except_from(identity, type, "visits", why)
    decision.answer(event)


def _merged(decision: CaseDecision, event: Signalled) -> None:
    """Record that parts were merged into their object, which is now where they were. Raises
    RefusedSignal.
    """
    state, said = decision.state, event.arguments
    identity, object = event.number("parent"), event.number("object")
    whole = state.members.get(identity)
    if whole is None or whole.state != "parts":
        raise RefusedSignal("not-parts", f"object {identity} does not continue as its parts")
    merged = [_identity(decision, eid) for eid in _numbers(said.get("parts"))]
    states = ("task", "event", "withdrawing")
    waiting = [part for part in whole.parts if state.members[part].state in states]
    if not merged or sorted(merged) != sorted(waiting) or whole.missing:
        why = f"expected the parts {waiting} of object {identity}, got {merged}"
        raise RefusedSignal("missing-part", why)
    type = event.text("type") or state.members[merged[0]].type
    decision.change(ObjectMerged(event.at, identity, object, type, tuple(merged)))
    decision.add_to_context((object,))
    decision.answer(event)
    if state.is_undoing:
        withdraw(decision, identity, state.why)


def _lost(decision: CaseDecision, event: Signalled) -> None:
    """Make an exception of an object that cannot continue at a type, if it is still there. Raises
    RefusedSignal.
    """
    said = event.arguments
    identity = _identity(decision, said.get("object"))
    members, why = decision.state.members, event.text("why") or "it cannot go on there"
    decision.answer(event)
    whole = members[identity]
    waiting = [part for part in whole.parts if members[part].composes] if whole.state == "parts" else []
    for one in waiting or [identity]:
        type = members[one].type
        if members[one].state in ("task", "event") and said.get("type", type) == type:
            decision.except_from(one, type, "lost", why)


# --- what reports name ------------------------------------------------------------------------------------


def _check(decision: CaseDecision, identity: int, now: int, divided: Divisions, routes: Routes) -> None:
    """Raise RefusedSignal unless the routes are of this object and its parts, each once."""
    of_the_case = {now, *(eid for _, parts in divided for eid in parts)}
    seen = set[int]()
    for type, object in routes:
        if object not in of_the_case and decision.state.objects.get(object) != identity:
            message = f"object {object} is not in the case, and cannot be routed to {type}"
            raise RefusedSignal("unknown-object", message)
        if object in seen:
            raise RefusedSignal("routed-twice", f"object {object} is routed twice; make copies of it")
        seen.add(object)


def _identity(decision: CaseDecision, *objects: Plain) -> int:
    """The identity of an object of the case, found by an eid that it has or had. Raises RefusedSignal."""
    identity_of, members = decision.state.objects, decision.state.members
    for object in objects:
        if isinstance(object, int) and object in identity_of:
            return identity_of[object]
        if isinstance(object, int) and object in members:
            return object
    for identity, member in members.items():  # it was replaced after the case last heard of it
        if decision.view.current(member.now) in objects:
            return identity
    raise RefusedSignal("unknown-object", f"object {objects[0]} is not in case {decision.state.eid}")


def _divided(decision: CaseDecision, identity: int, now: int, said: dict[str, Plain]) -> Divisions:
    """The divided objects, each before its parts. Raises RefusedSignal."""
    parts = said.get("parts")
    divisions, members = list[tuple[int, tuple[int, ...]]](), decision.state.members
    for whole, pieces in parts.items() if isinstance(parts, dict) else ():
        object, eids = int(whole), _numbers(pieces)
        if any(eid in members for eid in eids):
            raise RefusedSignal("known-object", f"the parts of object {object} are in the case already")
        if object in (now, identity, members[identity].now):
            divisions.insert(0, (now, eids))
        else:
            divisions.append((object, eids))
    return tuple(divisions)


def _routes(said: dict[str, Plain]) -> Routes:
    rows: Any = said.get("routes") or ()
    return tuple((str(row["type"]), int(row["object"])) for row in rows)


def _numbers(value: Plain) -> tuple[int, ...]:
    return tuple(int(one) for one in value) if isinstance(value, list | tuple) else ()


# --- people ---------------------------------------------------------------------------------------------


def _retry(decision: CaseDecision, event: Signalled) -> None:
    """Resume a blocked chain, or put the current versions of held objects to their type again, or to a named
    one.
    """
    state = decision.state
    if state.status == "blocked":
        number = resume_chain(decision, event.by)
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
    decision.answer(event)
    if decision.state.status == "ready":
        decision.end("cancelled")
    else:
        undo_all(decision, event.text("why"), event.by)


_SAID: Mapping[str, Callable[[CaseDecision, Signalled], None]] = {
    "ended": _ended,
    "routed": _routed,
    "moved": _moved,
    "merged": _merged,
    "lost": _lost,
}
"""The reports of instances and servers, by the name of the signal."""

_BY_HAND: Mapping[str, Callable[[CaseDecision, Signalled], None]] = {"retry": _retry, "cancel": _cancel}
"""The acts of people, by the name of the signal."""
