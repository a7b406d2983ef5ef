"""The end of rules and events: the raiser is told, and the carried object goes back (KA13)."""

from __future__ import annotations

from collections.abc import Mapping

from narval.core.engines import commands
from narval.core.engines.events import Plain, Signalled
from narval.kinds.task.engine.server import changes
from narval.kinds.task.engine.server.changes import StoredTaken, WaitOver, WaitParked
from narval.kinds.task.engine.server.decision import ServerDecision, stop_timer, wake_name
from narval.kinds.task.engine.server.state import RaisedEvent, Result, StoredEvent, ended, rule_key

GRAVITY: tuple[Result, ...] = ("cancelled", "failed", "expired", "done")
"""Results, the most severe first."""


def end_rule(
    decision: ServerDecision,
    event: RaisedEvent,
    number: int,
    result: Result,
    why: str = "",
    *,
    kept: bool = False,
) -> None:
    """End a rule; its event ends with the last one."""
    rule, key = event.rules[number], rule_key(event.id, number)
    was_taken = event.state
    stop_timer(decision, rule, key)
    if rule.watched:
        decision.command(commands.Unwatch(wake_name(decision, key)))
    if rule.call and result == "cancelled":
        decision.command(commands.CancelCall(rule.call))
    decision.change(changes.RuleOver(decision.now, event.id, number, result, why, kept))
    if not event.rules:
        _end_event(decision, event, why)
    elif was_taken and not event.state:
        decision.loose.append(event.id)


def cancel_event(decision: ServerDecision, event: RaisedEvent, result: Result, why: str) -> None:
    """End an event, whatever its rules do."""
    for number in list(event.rules):
        rule = event.rules[number]
        if rule.call and result != "cancelled":
            decision.command(commands.CancelCall(rule.call))
        end_rule(decision, event, number, result, why)


def _end_event(decision: ServerDecision, event: RaisedEvent, why: str) -> None:
    result: Result = next((found for found in GRAVITY if found in event.results), "expired")
    if event.object:
        _give_back(decision, event)
    decision.change(changes.EventOver(decision.now, event.id, result, why))
    if event.signal:
        told = "failed" if result == "cancelled" else result
        decision.reply(event.signal, event=event.id, result=told, why=why)
    tell_waiting(decision, event, result)


def _give_back(decision: ServerDecision, event: RaisedEvent) -> None:
    """Put an event's object into the queue of its raiser's type, or into this one if no instance
    raised it.
    """
    eid, case, target = event.object, event.case, event.raiser_type
    decision.change(changes.CarriedTaken(decision.now, event.id, target))
    own = decision.definition.full_name
    if not target or target == own:
        decision.change(changes.Enqueued(decision.now, eid, case, front=True))
        target = own
    else:
        elements = decision.elements(eid)
        call = decision.tell(
            "put", {"object": eid, "case": case, "front": True}, name=target, elements=elements
        )
        decision.change(changes.ObjectSent(decision.now, call, eid, case, target))
    tell_at(decision, eid, case, target)


def tell_at(decision: ServerDecision, eid: int, case: int, type: str) -> None:
    """Tell a case that its object is no longer carried by an event: it is at a type."""
    if case:
        decision.tell("moved", {"object": eid, "type": type, "event": 0}, run=case)


WAIT = "wait"


def wait(decision: ServerDecision, event: Signalled) -> None:
    """Answer an instance when the event comes, or at once from a stored event."""
    name, instance, end = event.text("event"), event.number("instance"), event.arguments.get("end") is True
    if not any(rule.event == name for rule in decision.definition.events):
        known = ", ".join(dict.fromkeys(rule.event for rule in decision.definition.events)) or "none"
        why = (
            f"{decision.definition.full_name} has no rule for {name!r:.80}; the events it answers are {known}"
        )
        decision.refuse(event, "no-rule", why)
        return
    if not event.sender:
        _replace(decision, instance, ended(name) if end else name)
    stored = decision.state.stored.get(ended(name) if end else name)
    if stored:
        found = stored[0]
        decision.change(StoredTaken(decision.now, ended(name) if end else name, found.event, instance))
        decision.reply(event.signal, **_told(found, end))
        return
    given = event.arguments.get("until")
    until = float(given) if isinstance(given, int | float) and not isinstance(given, bool) else None
    if until is not None and until <= decision.now:
        decision.answer(event, timeout=True)
        return
    decision.change(WaitParked(decision.now, event.signal, instance, name, end, until))
    if until is not None:
        decision.command(
            commands.SetTimer(wake_name(decision, f"{WAIT}/{event.signal}"), until, calendar=True)
        )


def _replace(decision: ServerDecision, instance: int, name: str) -> None:
    """Forget the earlier wait of a program that waits again, as after a restart: nothing would read its
    answer.
    """
    for signal in list(decision.state.waiters.get(name, ())):
        if decision.state.waits[signal].instance == instance:
            end_wait(decision, signal)


def _told(stored: StoredEvent, end: bool) -> Mapping[str, Plain]:
    value: dict[str, Plain] = {"event": stored.event, "parameters": list(stored.parameters)}
    return {**value, "result": stored.result} if end else value


def tell_waiting(decision: ServerDecision, event: RaisedEvent, result: str = "") -> None:
    """Tell every waiting instance that an event is raised, or, with a result, that it has ended."""
    name = ended(event.name) if result else event.name
    waiters = list(decision.state.waiters.get(name, ()))
    for signal in waiters:
        end_wait(decision, signal, event.id)
        decision.reply(signal, **_told(StoredEvent(event.id, event.parameters, result), bool(result)))
    if waiters:
        decision.change(StoredTaken(decision.now, name, event.id))


def end_wait(decision: ServerDecision, signal: str, event: int = 0, *, fired: bool = False) -> None:
    """End a wait: the event came, the time ran out, or it is no longer needed."""
    if decision.state.waits[signal].until is not None and not fired:
        decision.command(commands.CancelTimer(wake_name(decision, f"{WAIT}/{signal}")))
    decision.change(WaitOver(decision.now, signal, event))


def wait_woken(decision: ServerDecision, signal: str) -> None:
    """End a wait whose time has run out."""
    waiter = decision.state.waits.get(signal)
    if waiter is None:
        return
    if waiter.until is not None and decision.now < waiter.until:
        decision.command(
            commands.SetTimer(wake_name(decision, f"{WAIT}/{signal}"), waiter.until, calendar=True)
        )
        return
    end_wait(decision, signal, fired=True)
    decision.reply(signal, timeout=True)


def end_waits(decision: ServerDecision) -> None:
    """Forget all waits: the service run has ended, and the runtime tells the waiting instances."""
    for signal in list(decision.state.waits):
        end_wait(decision, signal)
