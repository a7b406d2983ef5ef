"""Deadlocks: instances that wait for each other through synchronous events, across any number of types
(KA10).

A raiser waits for its receiver. When a receiver is chosen, the service run of the raiser's type is told the
path of that wait and extends it backwards: to those that wait for the raiser, and so on. If the path reaches
the receiver, all on it wait for each other, and the event that was raised last fails. The wait that closes a
circle is always told, so no circle is overlooked, and nothing is stored.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from narval.core.engines.events import Signalled
from narval.kinds.task.engine.server.decision import ServerDecision
from narval.kinds.task.engine.server.ending import cancel_event
from narval.kinds.task.engine.server.state import RaisedEvent, read_key

WAITS, CIRCLE = "waits", "circle"
"""The signals from one service run to another: a path of waits, and the end of an event that closes a circle.
"""

LONGEST = 100
"""The most waits of a path."""

Way = list[list[Any]]
"""A path of waits from its first raiser on; each has the event, the type at which it was raised, the raiser
and the receiver.
"""


def follow_wait(decision: ServerDecision, event: RaisedEvent, receiver: int) -> None:
    """Follow the wait of a raiser for its receiver back to those that wait for the raiser."""
    if event.raiser and event.signal:
        wait = [event.id, decision.definition.full_name, event.raiser, receiver]
        _lead_on(decision, [wait], event.raiser_type)


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
        if event.raiser == last:
            _break(decision, longer)
        elif event.raiser not in {wait[2] for wait in way}:
            _lead_on(decision, longer, event.raiser_type)


def _waiting_for(decision: ServerDecision, instance: int) -> Iterator[RaisedEvent]:
    """The events whose raisers wait for an instance, as their receiver or as the action of a global event."""
    state = decision.state
    keys = list(state.chosen.get(instance, ()))
    caller = decision.view.caller(instance)
    if caller is not None and caller.call in state.acts:
        keys.append(state.acts[caller.call])
    for key in keys:
        event = state.events.get(read_key(key)[0])
        if event is not None and event.raiser and event.signal:
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
    found = decision.state.events.get(event)
    if found is not None:
        cancel_event(decision, found, "failed", why)
