"""The end of rules and events: the raiser is told, and the carried object goes back (KA13)."""

from __future__ import annotations

from narval.core.engines import commands
from narval.kinds.task.engine.server import changes
from narval.kinds.task.engine.server.decision import ServerDecision, stop_timer, wake_name
from narval.kinds.task.engine.server.state import RaisedEvent, Result, rule_key
from narval.kinds.task.engine.server.waiting import tell_waiting

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
