"""Instances that wait for an event or its end (K53, K54), and events that are kept for them (KA12)."""

from __future__ import annotations

from collections.abc import Mapping

from narval.core.engines import commands
from narval.core.engines.events import Plain, Signalled
from narval.kinds.task.engine.server.changes import StoredTaken, WaitOver, WaitParked
from narval.kinds.task.engine.server.decision import ServerDecision, wake_name
from narval.kinds.task.engine.server.state import RaisedEvent, StoredEvent, ended

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
