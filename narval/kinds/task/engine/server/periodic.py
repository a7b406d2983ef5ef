"""Beginnings without anybody: global events (K41, K64, KA14), and runs of periodic tasks (KA15)."""

from __future__ import annotations

from math import floor

from narval.core.engines import commands
from narval.kinds.task.engine.server import instances
from narval.kinds.task.engine.server.changes import EventRaised, TickSet
from narval.kinds.task.engine.server.decision import ServerDecision
from narval.kinds.task.engine.server.raising import register, windows_of

EVERY = "every"
"""The name of the timer."""


def loaded(decision: ServerDecision, *, comes: bool) -> None:
    """Begin what comes by itself; a version that is loaded again begins with the next of its period."""
    if comes or decision.state.due is None:
        stop(decision)
        _set(decision, decision.now)
    if comes:
        _come(decision, decision.now)


def ticked(decision: ServerDecision) -> None:
    """Do what is due; what was missed meanwhile is one, and what goes on is not begun twice."""
    due, period = decision.state.due, decision.definition.period
    if due is None or period is None:
        return
    if decision.now < due:
        decision.command(commands.SetTimer(_wake(decision), due, calendar=True))
        return
    last = due + period * floor((decision.now - due) / period)
    decision.change(TickSet(decision.now, None, decision.state.missed))
    _set(decision, last)
    _come(decision, last)


def catch_up(decision: ServerDecision) -> None:
    """Do what came while the one before went on, once that is over."""
    state, period = decision.state, decision.definition.period
    if state.missed and not state.gone and not _goes_on(decision):
        decision.change(TickSet(decision.now, state.due, False))
        base = decision.now if state.due is None or period is None else state.due - period
        _come(decision, base)


def _goes_on(decision: ServerDecision) -> bool:
    return decision.state.own in decision.state.events or bool(decision.state.called)


def _come(decision: ServerDecision, base: float) -> None:
    definition, state = decision.definition, decision.state
    if not definition.is_global and definition.invocation != "periodic":
        return
    if _goes_on(decision):
        decision.change(TickSet(decision.now, state.due, True))
    elif definition.is_global:
        _raise(decision, base)
    else:
        instances.call_next(decision)


def _raise(decision: ServerDecision, base: float) -> None:
    rule = decision.definition.rule
    if rule is None or rule.parameters:
        return  # nobody gives what its parameters stand for
    known = windows_of(decision, (), [("", 0, rule)], base)
    identifier, name = decision.event.id, rule.event or decision.definition.name
    register(decision, EventRaised(decision.now, identifier, name, base, known, own=True))


def _set(decision: ServerDecision, base: float) -> None:
    period = decision.definition.period
    if period is not None and period > 0:
        decision.change(TickSet(decision.now, base + period, decision.state.missed))
        decision.command(commands.SetTimer(_wake(decision), base + period, calendar=True))


def stop(decision: ServerDecision) -> None:
    """Let nothing come by itself any more."""
    if decision.state.due is not None:
        decision.command(commands.CancelTimer(_wake(decision)))
    if decision.state.due is not None or decision.state.missed:
        decision.change(TickSet(decision.now))


def _wake(decision: ServerDecision) -> str:
    return f"{decision.state.eid}/{EVERY}"
