"""Instances that wait for each other by synchronous events, over any number of types (KA10).

A raiser waits for its receiver. When a receiver is chosen, the service run of the raiser's type is told the
way of that wait, and leads it on backwards: to who waits for the raiser, and so on. If it comes round to the
receiver, all on it wait for each other, and the event on it that was raised last fails. The last of the waits
that make a circle is always told of, so none is overlooked, and nothing is kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from narval.core.engines.events import Signalled
from narval.kinds.task.engine.server import ending
from narval.kinds.task.engine.server.decision import ServerDecision
from narval.kinds.task.engine.server.state import RaisedEvent, read_key

WAITS, CIRCLE = "waits", "circle"
"""The signals from one service run to another: a way of waits, and the end of an event that closes one."""

LONGEST = 100
"""Waits of a way at most."""

Way = list[list[Any]]
"""The waits, that of the first raiser first: the event, the type it was raised at, raiser and receiver."""


def look_round(decision: ServerDecision, event: RaisedEvent, receiver: int) -> None:
    """Follow the wait of a raiser for its receiver back to whoever waits for the raiser."""
    if event.raiser and event.signal:
        wait = [event.id, decision.definition.full_name, event.raiser, receiver]
        _lead_on(decision, [wait], event.raiser_type)


def _lead_on(decision: ServerDecision, way: Way, kind: str) -> None:
    """Lead a way on where the instances are that its first raiser is one of."""
    if kind == decision.definition.full_name:
        _go_back(decision, way)
    elif kind:
        decision.tell(WAITS, {"way": way}, name=kind)


def waits(decision: ServerDecision, event: Signalled) -> None:
    """Lead a way on that another service run has told of."""
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


def circle(decision: ServerDecision, event: Signalled) -> None:
    """End an event that another service run has found to close a circle."""
    decision.answer(event)
    _fail(decision, event.number("event"), str(event.arguments.get("why", "")))


def _fail(decision: ServerDecision, event: int, why: str) -> None:
    found = decision.state.events.get(event)
    if found is not None:
        ending.cancel(decision, found, "failed", why)
