"""The instances of a type (K44, K45, K61): those that join, those that the server calls, and the work that
waits until one is free again (KA5, KA6).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from narval.core.engines import commands
from narval.core.engines.events import Plain, Returned, Signalled
from narval.core.kinds import ASKING
from narval.kinds.task.engine.server import changes, queue, rules
from narval.kinds.task.engine.server.changes import InstanceAt, InstanceLeft
from narval.kinds.task.engine.server.decision import ServerDecision
from narval.kinds.task.engine.server.ending import end_rule, tell_at
from narval.kinds.task.engine.server.line import ArrivalLine
from narval.kinds.task.engine.server.rules import back, begin, judge
from narval.kinds.task.engine.server.state import RaisedEvent, Result, read_key

STEP = "instance"
"""The step of the calls that begin instances."""


def join(decision: ServerDecision, event: Signalled) -> None:
    """Register an instance that the server did not begin."""
    instance = event.number("instance") or event.sender
    if instance not in decision.state.at_work:
        program = event.arguments.get("program") is True
        user, role = event.text("user"), event.text("role")
        decision.change(changes.InstanceJoined(decision.now, instance, user, role, program))
    decision.answer(event)


def at(decision: ServerDecision, event: Signalled) -> None:
    """Record the state of an instance, if that has rules, and judge the rules that wait for an instance in
    it.
    """
    instance, state = event.number("instance") or event.sender, decision.state
    entry = state.at_work.get(instance)
    call = entry.call if entry is not None else _call_of(decision, instance)
    decision.answer(event)
    if entry is None and not call:
        return
    where = event.text("state") if decision.definition.states.get(event.text("state")) else ""
    eid, case = event.number("object"), event.number("case")
    if adopts := event.number("adopts"):
        eid = _adopted(decision, instance, eid, adopts)
    had, _ = held_by(decision, instance)
    if had and eid and (eid == had or decision.elements(had) == (eid,)):
        eid = had
    decision.change(changes.InstanceAt(decision.now, instance, where, eid, case, call))
    serve(decision, instance)
    if adopts in state.events:
        serve_ready(decision, state.events[adopts])


def _adopted(decision: ServerDecision, instance: int, eid: int, event: int) -> int:
    """Record that an instance works on the object that an event brought; return 0 if the event no longer
    carries the object, so that the instance must drop it.
    """
    state = decision.state
    if instance in state.at_work and state.carried.get(eid) == event:
        decision.change(changes.CarriedTaken(decision.now, event, "an instance has it", instance))
        return eid
    why = f"event {event}, which brought object {eid}, no longer carries it"
    decision.tell("stop", {"why": why, "withdrawn": True, "object": eid}, run=instance)
    return 0


def held_by(decision: ServerDecision, instance: int) -> tuple[int, int]:
    """The object that an instance has, by its eid on arrival, and its case; 0 for none."""
    state = decision.state
    called = state.called.get(_call_of(decision, instance))
    if called is not None:
        return called.object, called.case
    entry = state.at_work.get(instance)
    return (entry.object, entry.case) if entry is not None else (0, 0)


def _call_of(decision: ServerDecision, instance: int) -> str:
    """The server's call that began an instance; "" if there was none."""
    caller = decision.view.caller(instance)
    return caller.call if caller is not None and caller.call in decision.state.called else ""


def down(decision: ServerDecision, event: Signalled) -> None:
    """Forget an instance, and queue the object that it gives back, in its present version."""
    state, instance = decision.state, event.number("instance") or event.sender
    eid, (had, case) = event.number("object"), held_by(decision, instance)
    if instance in state.at_work:
        leave(decision, instance, "down")
    is_withdrawn = any(gone == had for _, gone in state.withdrawing.values())
    if eid and had and not is_withdrawn:
        if eid != had:
            decision.change(changes.ObjectGone(decision.now, had, f"element {eid} takes its place"))
        front = event.arguments.get("front") is not False
        decision.change(changes.Enqueued(decision.now, eid, case, front=front))
    decision.answer(event)


def leave(decision: ServerDecision, instance: int, why: str) -> None:
    """Forget an instance; the rules that it should have served are judged again when they are due."""
    decision.change(changes.InstanceLeft(decision.now, instance, why))
    abandon(decision, instance)


def gone(decision: ServerDecision, instance: int, signal: str) -> None:
    """Forget an instance that no longer asks for an object, even if it has just been given one."""
    entry = decision.state.at_work.get(instance)
    if entry is None or signal not in (entry.take, entry.took):
        return
    leave(decision, instance, "its program is gone")
    if entry.object and signal == entry.took:
        decision.change(changes.Enqueued(decision.now, entry.object, entry.case, front=True))


# --- instances that the server calls ----------------------------------------------------------------------


def call_next(decision: ServerDecision) -> None:
    """Begin an instance on the next object of the queue, or on none."""
    eid = queue.next_object(decision)
    queued = decision.state.objects[eid] if eid else None
    call_instance(decision, eid, queued.case if queued is not None else 0)


def call_instance(decision: ServerDecision, eid: int, case: int, event: int = 0) -> None:
    """Begin an instance on an object, or on none if `eid` is 0."""
    call, name = decision.identifier(), decision.definition.full_name
    environment: dict[str, Plain] = {"object": str(eid), "case": str(case)} if eid else {}
    if event:
        environment["event"] = str(event)
    payload: Any = {"environment": environment}
    elements = decision.elements(eid)
    kind = decision.definition.kind
    decision.command(commands.Call(call, kind, name, STEP, elements=elements, payload=payload))
    decision.change(changes.InstanceCalled(decision.now, call, eid, case, event))


def _asks_people(decision: ServerDecision) -> bool:
    """True if people do the work of a type: it names them, or it starts by itself and its code is work."""
    definition = decision.definition
    if definition.is_interactive or definition.code is None or definition.invocation != "auto":
        return definition.is_interactive
    worked_by = definition.worked_by(decision.view.definition)
    return worked_by is not None and worked_by.kind == ASKING


def begin_more(decision: ServerDecision) -> None:
    """Begin the instances that objects and events need, if the type starts them by itself."""
    definition, state = decision.definition, decision.state
    if state.gone or definition.is_global:
        return
    if definition.invocation in ("manual", "auto") and _asks_people(decision):
        while queue.next_object(decision):
            call_next(decision)
    elif definition.invocation == "auto" and not state.called:
        event = state.events.get(state.unserved.first or 0)
        if not (event is not None and event.object) and queue.next_object(decision):
            call_next(decision)  # its instance answers the event too
        elif event is not None:
            eid, case = event.object, event.case
            if eid:
                decision.change(changes.CarriedTaken(decision.now, event.id, "an instance has it"))
                tell_at(decision, eid, case, definition.full_name)
            call_instance(decision, eid, case, event.id)


BROKEN = frozenset({"internal-error", "unreadable"})
"""The problems of an instance that was cut short before it could report its object."""


def _take_back(decision: ServerDecision, eid: int, case: int, problem: str, left: tuple[int, ...]) -> None:
    """Send on an object whose instance failed to report it to the case. An ended instance has `left` what it
    had, or its error. If it was stopped before it began, the object returns to the queue.
    """
    if problem == "run-cancelled" and not left:
        decision.change(changes.Enqueued(decision.now, eid, case, front=True))
    elif problem in BROKEN or not left:
        queue.tell_lost(decision, eid, case, f"no instance could work on it: {problem}")


def returned(decision: ServerDecision, event: Returned) -> None:
    """Handle the end of an instance that the server had called."""
    state, called = decision.state, decision.state.called[event.call]
    problem = "abandoned" if event.abandoned else event.problem.message if event.problem is not None else ""
    is_here = state.given.get(called.object) == event.call and not event.abandoned
    failure = event.problem if is_here else None
    decision.change(changes.CalledOver(decision.now, event.call, problem))
    if failure is not None and called.object:
        _take_back(decision, called.object, called.case, failure.kind, event.eids)
    if called.instance:
        abandon(decision, called.instance)
    raised = state.events.get(called.event)
    for at_ in list(raised.rules) if raised is not None else ():
        if raised is not None and at_ in raised.rules and raised.rules[at_].stage == "open":
            rules.look(decision, raised, at_)


# --- the end of actions -------------------------------------------------------------------------------


def action_over(decision: ServerDecision, event: RaisedEvent, number: int, returned: Returned) -> None:
    """Handle the result of an action, and give its receiver the work that waits for it."""
    rule, problem, value = event.rules[number], returned.problem, returned.value or {}
    receiver = rule.receiver
    if returned.abandoned:
        end_rule(decision, event, number, "cancelled", "the action was given up")
    elif problem is not None and problem.kind == "unknown-target":
        why = f"instance {receiver} is gone"
        if receiver in decision.state.at_work:
            decision.change(InstanceLeft(decision.now, receiver, why))
            abandon(decision, receiver)
        back(decision, event, number, why)
    elif problem is not None:
        _end_action(decision, event, number, "failed", problem.message)
    elif value.get("state") is False:
        entry = decision.state.at_work.get(receiver)
        if entry is not None and entry.state == rule.state:  # it will report its state again
            away = InstanceAt(decision.now, receiver, "", entry.object, entry.case, entry.call)
            decision.change(away)
        back(decision, event, number, f"instance {receiver} was no longer in state {rule.state}")
    else:
        result: Result = "failed" if value.get("result") == "failed" else "done"
        why, is_kept = str(value.get("why") or ""), value.get("kept") is True
        _end_action(decision, event, number, result, why, kept=is_kept)
    if receiver:
        serve(decision, receiver)
    serve_ready(decision, event)


def serve_ready(decision: ServerDecision, event: RaisedEvent) -> None:
    """Run the next action of an event, if its object is no longer claimed."""
    for rule in list(event.rules.values()):
        if rule.stage == "ready":
            serve(decision, rule.receiver)


def _end_action(
    decision: ServerDecision,
    event: RaisedEvent,
    number: int,
    result: Result,
    why: str,
    *,
    kept: bool = False,
) -> None:
    """End a rule whose action is done; the rules of other states are passed over."""
    where = event.rules[number].state
    for other in [other for other, rule in event.rules.items() if rule.state != where]:
        end_rule(decision, event, other, "passed over", f"it was answered in {where}")
    end_rule(decision, event, number, result, why, kept=kept)


def abandon(decision: ServerDecision, instance: int) -> None:
    """Judge again the rules that a vanished instance should serve now; later ones are judged when they are
    due.
    """
    for key in list(decision.state.pending.get(instance, ())):
        identifier, number = read_key(key)
        back(decision, decision.state.events[identifier], number, f"instance {instance} is gone")


def serve(decision: ServerDecision, instance: int) -> None:
    """Give a free instance the actions that wait for it, and judge the rules that wait in its state."""
    state = decision.state
    while (entry := state.at_work.get(instance)) is not None and not entry.acting:
        keys = map(read_key, _walk(state.pending.get(instance)))
        first = next((key for key in keys if not state.events[key[0]].is_claimed), None)
        if first is None:
            break
        begin(decision, state.events[first[0]], first[1])
    entry = state.at_work.get(instance)
    if entry is None or not entry.state or entry.acting:
        return
    for lines in (state.open, state.picky):
        waiting = lines.get(entry.state)
        for key in _walk(waiting):
            identifier, number = read_key(key)
            if state.present.get(entry.state) is None and identifier != _acts_for(decision, instance):
                return
            judge(decision, state.events[identifier], number)


def _acts_for(decision: ServerDecision, instance: int) -> int:
    """The event whose action an instance does; 0 if none."""
    entry = decision.state.at_work.get(instance)
    return read_key(entry.acting)[0] if entry is not None and entry.acting else 0


def _walk(line: ArrivalLine[str] | None) -> Iterator[str]:
    """The keys of a line that may change during iteration."""
    if line is None:
        return
    place, last = line.head, line.tail
    while place < last:
        key = line.keys.get(place)
        place += 1
        if key is not None:
            yield key
