"""The end of rules and events, and those who wait for them.

At its end the raiser of an event is told, and the carried object goes back (KA13). Instances wait for an
event or its end (K53, K54), and events are kept for them (KA12).

Instances that wait for each other through synchronous events, across any number of types, are found and freed
(KA10). A raiser waits for its receiver. When a receiver is chosen, the service run of the raiser's type is
told the path of that wait and extends it backwards: to those that wait for the raiser, and so on. If the path
reaches the receiver, all on it wait for each other, and the event that was raised last fails. An event that
no free instance can receive waits for the one that alone is at work; any other might still come to its state.
The wait that closes a circle is told, and nothing is stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain, islice
from typing import Any

from narval.core.engines import commands
from narval.core.engines.events import Plain, Signalled
from narval.kinds.task.engine.server import changes
from narval.kinds.task.engine.server.changes import StoredTaken, WaitOver, WaitParked
from narval.kinds.task.engine.server.decision import ServerDecision, stop_timer, unwatch, wake_name
from narval.kinds.task.engine.server.state import (
    KnownInstance,
    RaisedEvent,
    Result,
    StoredEvent,
    ended,
    read_key,
)

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
    rule = event.rules[number]
    was_taken = event.state
    stop_timer(decision, event, number)
    unwatch(decision, event, number)
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
    result: Result = next((gravest for gravest in GRAVITY if gravest in event.results), "expired")
    if event.object:
        _give_back(decision, event)
    decision.change(changes.EventOver(decision.now, event.id, result, why))
    if event.signal:
        outcome = "failed" if result == "cancelled" else result
        decision.reply(event.signal, event=event.id, result=outcome, why=why)
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


# --- waits for events -------------------------------------------------------------------------------------

WAIT = "wait"


def wait(decision: ServerDecision, event: Signalled) -> None:
    """Answer an instance when the event comes, or at once from a stored event."""
    name, instance, end = event.text("event"), event.number("instance"), event.arguments.get("end") is True
    if not any(rule.event == name for rule in decision.definition.events):
        names = ", ".join(dict.fromkeys(rule.event for rule in decision.definition.events)) or "none"
        why = (
            f"{decision.definition.full_name} has no rule for {name!r:.80}; the events it answers are {names}"
        )
        decision.refuse(event, "no-rule", why)
        return
    if not event.sender:
        _replace(decision, instance, ended(name) if end else name)
    stored = decision.state.stored.get(ended(name) if end else name)
    if stored:
        oldest = stored[0]
        decision.change(StoredTaken(decision.now, ended(name) if end else name, oldest.event, instance))
        decision.reply(event.signal, **_told(oldest, end))
        return
    until_given = event.arguments.get("until")
    until = (
        float(until_given)
        if isinstance(until_given, int | float) and not isinstance(until_given, bool)
        else None
    )
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


# --- instances that wait for each other -------------------------------------------------------------------

WAITS, CIRCLE = "waits", "circle"
"""The signals from one service run to another: a path of waits, and the end of an event that closes a circle.
"""

LONGEST = 100
"""The most waits of a path."""

Way = list[list[Any]]
"""A path of waits from its first raiser on; each has the event, the type at which it was raised, the raiser
and the receiver.
"""


def follow_wait(decision: ServerDecision, event: RaisedEvent, receiver: int | str) -> None:
    """Follow the wait of a raiser for its receiver back to those that wait for the raiser."""
    if event.raiser and event.signal:
        wait = [event.id, decision.definition.full_name, event.raiser, receiver]
        _lead_on(decision, [wait], event.raiser_type)


def follow_open_wait(decision: ServerDecision, event: RaisedEvent) -> None:
    """Follow the wait of a raiser whose event no free instance can receive, if only one may receive it."""
    if event.raiser and event.signal and (instance := _awaited(decision, event)):
        follow_wait(decision, event, instance)


def _awaited(decision: ServerDecision, event: RaisedEvent) -> int | str:
    """The only instance that may receive an event which no free instance can, or the call that has just begun
    it; 0 if several may, or none.
    """
    state, rules = decision.state, event.rules.values()
    begins = decision.definition.invocation == "auto" and not state.called and not event.started
    if begins or any(rule.stage != "open" for rule in rules):
        return 0
    meant = (one for one, entry in state.at_work.items() if is_meant(event, entry))
    begun = (call for call, called in state.called.items() if not called.instance)
    candidates: list[int | str] = list(islice(chain(meant, begun), 2))
    return candidates[0] if len(candidates) == 1 else 0


def _is(decision: ServerDecision, instance: int, one: int | str) -> bool:
    """True if an instance is the one with this number, or the one that this call has begun."""
    caller = decision.view.caller(instance)
    return instance == one or (caller is not None and caller.call == one)


def is_meant(event: RaisedEvent, entry: KnownInstance) -> bool:
    """True if an instance is among those to whom an event is addressed."""
    return (not event.users or entry.user in event.users) and (not event.roles or entry.role in event.roles)


def _lead_on(decision: ServerDecision, way: Way, kind: str) -> None:
    """Extend a path at the service run of its first raiser."""
    if kind == decision.definition.full_name:
        _go_back(decision, way)
    elif kind:
        decision.tell(WAITS, {"way": way}, name=kind)


def extend_path(decision: ServerDecision, event: Signalled) -> None:
    """Extend a path that another service run has sent."""
    decision.answer(event)
    way = event.arguments.get("way")
    if isinstance(way, list) and 0 < len(way) < LONGEST:
        _go_back(decision, way)


def _go_back(decision: ServerDecision, way: Way) -> None:
    _, _, raiser, _ = way[0]
    last = way[-1][3]
    for event in list(_waiting_for(decision, raiser)):
        longer = [[event.id, decision.definition.full_name, event.raiser, raiser], *way]
        if _is(decision, event.raiser, last):
            _break(decision, longer)
        elif event.raiser not in {wait[2] for wait in way}:
            _lead_on(decision, longer, event.raiser_type)


def _waiting_for(decision: ServerDecision, instance: int) -> Iterator[RaisedEvent]:
    """The events whose raisers wait for an instance: as their receiver, as the only one that may become it,
    or as the action of a global event.
    """
    state = decision.state
    keys = list(state.chosen.get(instance, ()))
    caller = decision.view.caller(instance)
    if caller is not None and caller.call in state.acts:
        keys.append(state.acts[caller.call])
    raised = (state.events.get(read_key(key)[0]) for key in keys)
    yield from (event for event in raised if event is not None and event.raiser and event.signal)
    opened = {read_key(key)[0] for line in state.open.values() for key in line}
    for event in (state.events[identifier] for identifier in sorted(opened)):
        if event.raiser and event.signal and _is(decision, instance, _awaited(decision, event)):
            yield event


def _break(decision: ServerDecision, way: Way) -> None:
    """End the youngest event of a circle."""
    event, kind, _, _ = max(way)
    why = f"instances {', '.join(str(wait[2]) for wait in way)} wait for each other by synchronous events"
    if kind == decision.definition.full_name:
        _fail(decision, event, why)
    else:
        decision.tell(CIRCLE, {"event": event, "why": why}, name=kind)


def break_circle(decision: ServerDecision, event: Signalled) -> None:
    """End an event that another service run has found to close a circle."""
    decision.answer(event)
    _fail(decision, event.number("event"), str(event.arguments.get("why", "")))


def _fail(decision: ServerDecision, event: int, why: str) -> None:
    raised = decision.state.events.get(event)
    if raised is not None:
        cancel_event(decision, raised, "failed", why)
