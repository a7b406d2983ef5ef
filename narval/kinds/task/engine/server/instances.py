"""Instances that work: those that join, and those that the server calls (K44, K45, K61)."""

from __future__ import annotations

from typing import Any

from narval.core.engines import commands
from narval.core.engines.events import Plain, Returned, Signalled
from narval.kinds.task.engine.server import actions, changes, ending, queue, rules
from narval.kinds.task.engine.server.decision import ServerDecision, number, text

STEP = "instance"
"""The step of the calls that begin instances."""


def join(decision: ServerDecision, event: Signalled) -> None:
    """Know an instance that somebody else has begun."""
    instance = number(event, "instance") or event.sender
    if instance not in decision.state.at_work:
        program = event.arguments.get("program") is True
        user, role = text(event, "user"), text(event, "role")
        decision.change(changes.InstanceJoined(decision.now, instance, user, role, program))
    decision.answer(event)


def at(decision: ServerDecision, event: Signalled) -> None:
    """Know in which state that has rules an instance is, and let it be judged for what waits there."""
    instance, state = number(event, "instance") or event.sender, decision.state
    known = state.at_work.get(instance)
    call = known.call if known is not None else _call_of(decision, instance)
    decision.answer(event)
    if known is None and not call:
        return
    where = text(event, "state") if decision.definition.states.get(text(event, "state")) else ""
    eid, case = number(event, "object"), number(event, "case")
    if adopts := number(event, "adopts"):
        eid = _adopted(decision, instance, eid, adopts)
    had, _ = held_by(decision, instance)
    if had and eid and (eid == had or decision.elements(had) == (eid,)):
        eid = had
    decision.change(changes.InstanceAt(decision.now, instance, where, eid, case, call))
    actions.serve(decision, instance)
    if adopts in state.events:
        actions.serve_ready(decision, state.events[adopts])


def _adopted(decision: ServerDecision, instance: int, eid: int, event: int) -> int:
    """Know that an instance works on what an event brought; 0 if it was taken from the event meanwhile, and
    the instance is to let go of it.
    """
    state = decision.state
    if instance in state.at_work and state.carried.get(eid) == event:
        decision.change(changes.CarriedTaken(decision.now, event, "an instance has it", instance))
        return eid
    why = f"event {event}, which brought object {eid}, does not carry it any more"
    decision.tell("stop", {"why": why, "withdrawn": True, "object": eid}, run=instance)
    return 0


def held_by(decision: ServerDecision, instance: int) -> tuple[int, int]:
    """The object that an instance has, by the name under which it came here, and its case; 0 for none."""
    state = decision.state
    called = state.called.get(_call_of(decision, instance))
    if called is not None:
        return called.object, called.case
    entry = state.at_work.get(instance)
    return (entry.object, entry.case) if entry is not None else (0, 0)


def _call_of(decision: ServerDecision, instance: int) -> str:
    """The call of the server that began an instance; "" if it did not."""
    caller = decision.view.caller(instance)
    return caller.call if caller is not None and caller.call in decision.state.called else ""


def down(decision: ServerDecision, event: Signalled) -> None:
    """Know an instance no more, and take back what it gives back: the object as it is now."""
    state, instance = decision.state, number(event, "instance") or event.sender
    eid, (had, case) = number(event, "object"), held_by(decision, instance)
    if instance in state.at_work:
        leave(decision, instance, "down")
    is_withdrawn = any(gone == had for _, gone in state.withdrawing.values())
    if eid and had and not is_withdrawn:
        if eid != had:
            decision.change(changes.ObjectGone(decision.now, had, f"element {eid} takes its place"))
        queue.enqueue(decision, eid, case, front=event.arguments.get("front") is not False)
    decision.answer(event)


def leave(decision: ServerDecision, instance: int, why: str) -> None:
    """Know an instance no more; what it was to do is judged again as its time comes."""
    decision.change(changes.InstanceLeft(decision.now, instance, why))
    actions.abandon(decision, instance)


def gone(decision: ServerDecision, instance: int, signal: str) -> None:
    """Know an instance no more that gave up asking for an object, be it that it was given one meanwhile."""
    entry = decision.state.at_work.get(instance)
    if entry is None or signal not in (entry.take, entry.took):
        return
    leave(decision, instance, "its program is gone")
    if entry.object and signal == entry.took:
        queue.enqueue(decision, entry.object, entry.case, front=True)


# --- instances that the server calls ----------------------------------------------------------------------


def call_next(decision: ServerDecision) -> None:
    """Begin an instance on the next object of the queue, or on none."""
    eid = queue.next_object(decision)
    queued = decision.state.objects[eid] if eid else None
    call_instance(decision, eid, queued.case if queued is not None else 0)


def call_instance(decision: ServerDecision, eid: int, case: int, event: int = 0) -> None:
    """Begin an instance on an object, or with 0 on none."""
    call, name = decision.identifier(), decision.definition.full_name
    environment: dict[str, Plain] = {"object": str(eid), "case": str(case)} if eid else {}
    if event:
        environment["event"] = str(event)
    payload: Any = {"environment": environment}
    elements = decision.elements(eid)
    kind = decision.definition.kind
    decision.command(commands.Call(call, kind, name, STEP, elements=elements, payload=payload))
    decision.change(changes.InstanceCalled(decision.now, call, eid, case, event))


def begin_more(decision: ServerDecision) -> None:
    """Begin the instances that objects and events ask for, as far as the type has them begun."""
    definition, state = decision.definition, decision.state
    if state.gone or definition.is_global:
        return
    if definition.is_interactive and definition.invocation in ("manual", "auto"):
        while queue.next_object(decision):
            call_next(decision)
    elif definition.invocation == "auto" and not state.called:
        event = state.events.get(state.unserved.first or 0)
        if event is not None:
            eid, case = event.object, event.case
            if eid:
                decision.change(changes.CarriedTaken(decision.now, event.id, "an instance has it"))
                ending.tell_at(decision, eid, case, definition.full_name)
            call_instance(decision, eid, case, event.id)
        elif queue.next_object(decision):
            call_next(decision)


BROKEN = frozenset({"internal-error", "unreadable"})
"""The problems of an instance that was cut short, and has told nobody of its object."""


def _take_back(decision: ServerDecision, eid: int, case: int, problem: str, left: tuple[int, ...]) -> None:
    """Have an object go on whose instance has not told the case of it: one that is over has `left` what it
    had, or its error. One that was stopped before it began has it in the queue again (K16).
    """
    if problem == "run-cancelled" and not left:
        queue.enqueue(decision, eid, case, front=True)
    elif problem in BROKEN or not left:
        queue.tell_lost(decision, eid, case, f"no instance could work on it: {problem}")


def returned(decision: ServerDecision, event: Returned) -> None:
    """Know that an instance is over that the server had called."""
    state, called = decision.state, decision.state.called[event.call]
    problem = "abandoned" if event.abandoned else event.problem.message if event.problem is not None else ""
    is_here = state.given.get(called.object) == event.call and not event.abandoned
    failure = event.problem if is_here else None
    decision.change(changes.CalledOver(decision.now, event.call, problem))
    if failure is not None and called.object:
        _take_back(decision, called.object, called.case, failure.kind, event.eids)
    if called.instance:
        actions.abandon(decision, called.instance)
    raised = state.events.get(called.event)
    for at_ in list(raised.rules) if raised is not None else ():
        if raised is not None and at_ in raised.rules and raised.rules[at_].stage == "open":
            rules.look(decision, raised, at_)
