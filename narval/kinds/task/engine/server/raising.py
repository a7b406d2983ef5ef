"""The raising of events (K33, K38, K52) by tasks and people, events that come by themselves (K41, K64, KA14),
and periodic tasks (KA15).
"""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import lru_cache
from math import ceil, floor

from narval.core.definitions.wall import moment_of, zone_named
from narval.core.engines import commands
from narval.core.engines.events import LABELS, Signalled
from narval.kinds.task.engine.server import instances, rules
from narval.kinds.task.engine.server.changes import EventRaised, ObjectGone, RuleWindows, TickSet
from narval.kinds.task.engine.server.decision import ServerDecision, wake_name
from narval.kinds.task.engine.server.ending import cancel_event, tell_waiting
from narval.kinds.task.language.definition import Rule, TaskDefinition
from narval.kinds.task.language.windows import windows

Answering = list[tuple[str, int, Rule]]
"""The rules for an event, each with its state and its place among that state's rules for the event."""


def raise_event(decision: ServerDecision, event: Signalled) -> None:
    """Register an event. The raiser of a synchronous event is answered at its end."""
    name, values = event.text("event"), event.texts("parameters")
    rules = answering(decision.definition, name)
    problem = _fault(decision, name, values, rules, event.number("object"))
    if problem is None:
        try:
            change = _raised(decision, event, name, values, rules)
        except ValueError as error:
            problem = "bad-parameters", str(error)
    if problem is not None:
        decision.refuse(event, *problem)
        return
    if not change.sync:
        decision.reply(event.signal, event=change.event)
    register(decision, change)


@lru_cache(maxsize=256)
def answering(definition: TaskDefinition, name: str) -> Answering:
    """The rules of all states that answer an event."""
    if definition.rule is not None:
        return [("", 0, definition.rule)] if name in (definition.rule.event, definition.name) else []
    return [
        (state, at, rule)
        for state in definition.states
        for at, rule in enumerate(definition.rules_for(state, name))
    ]


def _fault(
    decision: ServerDecision, name: str, values: tuple[str, ...], rules: Answering, eid: int
) -> tuple[str, str] | None:
    """The reason why an event cannot be raised; None if it can."""
    definition = decision.definition
    if not rules or decision.state.gone:
        names = ", ".join(dict.fromkeys(rule.event for rule in definition.events)) or "no event"
        if decision.state.gone:
            names = "no event any more, for its file is gone"
        return "no-rule", f"{definition.full_name} has no rule for {name!r:.80}; it answers {names}"
    parameters = max((rule.parameters for _, _, rule in rules), key=len)
    if len(values) != len(parameters):
        count = "1 parameter" if len(parameters) == 1 else f"{len(parameters)} parameters"
        listed = f" ({', '.join(parameters)})" if parameters else ""
        return "bad-parameters", f"{name} takes {count}{listed}, got {len(values)}"
    if eid and definition.is_global:
        return "no-object", "a global event has no receiver, so it carries no object; raise it without one"
    if eid in decision.state.carried:
        return "object-gone", f"object {eid} is carried by event {decision.state.carried[eid]}"
    return None


def _raised(
    decision: ServerDecision, event: Signalled, name: str, values: tuple[str, ...], rules: Answering
) -> EventRaised:
    """The change that raises an event. Raises ValueError for a parameter that is not a time."""
    mode, raiser = event.text("mode"), event.number("raiser")
    sync = mode == "sync" or (mode != "async" and any(rule.mode == "sync" for _, _, rule in rules))
    _check_action_times(decision, values, rules)
    return EventRaised(
        decision.now,
        event.id,
        name,
        decision.now,
        windows_of(decision, values, rules, decision.now),
        values,
        sync,
        event.number("object"),
        event.number("case"),
        event.texts("users"),
        event.texts("roles"),
        raiser,
        (decision.view.name_of(raiser) or "") if raiser else "",
        event.signal if sync else "",
        event.by,
        labels=tuple(event.text(LABELS).split()),
    )


def windows_of(
    decision: ServerDecision, values: tuple[str, ...], rules: Answering, base: float
) -> tuple[RuleWindows, ...]:
    """The windows of rules, counted from a moment. Raises ValueError for a parameter that is not a time."""
    windows_of_rules = []
    for state, at, rule in rules:
        named, opened = dict(zip(rule.parameters, values, strict=False)), None
        if rule.before_condition is not None:
            opened = windows(rule.before_condition, base, decision.view.zone, named)
        windows_of_rules.append(RuleWindows(state, at, opened))
    return tuple(windows_of_rules)


def _check_action_times(decision: ServerDecision, values: tuple[str, ...], rules: Answering) -> None:
    """Raise ValueError early if a parameter is not a time but the window of an action needs one."""
    for _, _, rule in rules:
        if rule.before_action is not None:
            named = dict(zip(rule.parameters, values, strict=False))
            windows(rule.before_action, decision.now, decision.view.zone, named)


def register(decision: ServerDecision, change: EventRaised) -> None:
    """Record an event, take its object, tell the instances that wait for it, and examine its rules."""
    state = decision.state
    if change.object in state.objects or change.object in state.given:
        decision.change(ObjectGone(decision.now, change.object, f"event {change.name} carries it"))
    decision.change(change)
    event = state.events[change.event]
    tell_waiting(decision, event)
    for at in list(event.rules):
        if at in event.rules:
            rules.look(decision, event, at)


def let_go(decision: ServerDecision) -> None:
    """Cancel all events, as the service run has ended."""
    for event in list(decision.state.events.values()):
        cancel_event(decision, event, "cancelled", "the service run is over")


# --- events and runs that come by themselves ----------------------------------------------------------

MOST_DAYS = 400
"""The most periods tried to find one that ends on a listed weekday; even a period of 25 h reaches each in
time.
"""

EVERY = "every"
"""The name of the timer."""


def loaded(decision: ServerDecision, *, comes: bool) -> None:
    """Set the period of a loaded version. A new version also comes now; one that is loaded again waits for
    its next period.
    """
    if comes or decision.state.due is None:
        stop(decision)
        _set(decision, decision.now)
    if comes and _counts(decision, decision.now):
        _come(decision, decision.now)


def ticked(decision: ServerDecision) -> None:
    """Begin what is due. Missed periods count as one, and nothing begins while the last event or run is under
    way.
    """
    due, period = decision.state.due, decision.definition.period
    if due is None or period is None:
        return
    if decision.now < due:
        decision.command(commands.SetTimer(wake_name(decision, EVERY), due, calendar=True))
        return
    last = due + period * floor((decision.now - due) / period)
    if not _counts(decision, last):
        last = due  # what was missed on the days before
    decision.change(TickSet(decision.now, None, decision.state.missed))
    _set(decision, last)
    _come(decision, last)


def catch_up(decision: ServerDecision) -> None:
    """Begin what fell due while the last event or run was under way, once that has ended."""
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
        return  # nothing gives values for its parameters
    windows = windows_of(decision, (), [("", 0, rule)], base)
    identifier, name = decision.event.id, rule.event or decision.definition.name
    register(decision, EventRaised(decision.now, identifier, name, base, windows, own=True))


def _counts(decision: ServerDecision, moment: float) -> bool:
    """True if a moment is on a listed weekday, or if none are listed."""
    weekdays = decision.definition.weekdays
    return (
        not weekdays or datetime.fromtimestamp(moment, zone_named(decision.view.zone)).weekday() in weekdays
    )


def _set(decision: ServerDecision, base: float) -> None:
    period = decision.definition.period
    if period is not None and period > 0:
        due = _on_weekday(decision, base + period, period)
        decision.change(TickSet(decision.now, due, decision.state.missed))
        decision.command(commands.SetTimer(wake_name(decision, EVERY), due, calendar=True))


def _on_weekday(decision: ServerDecision, due: float, period: float) -> float:
    """The moment, or the first one a number of periods later that is on a listed weekday. If there is none,
    as with a period of weeks, the same time on the next listed day.
    """
    weekdays, zone = decision.definition.weekdays, zone_named(decision.view.zone)
    moment = due
    for _ in range(MOST_DAYS if weekdays else 0):
        wall = datetime.fromtimestamp(moment, zone).replace(tzinfo=None)
        if wall.weekday() in weekdays:
            return moment
        midnight = datetime.combine(wall.date() + timedelta(1), datetime.min.time())
        moment += period * max(1, ceil((moment_of(midnight, zone) - moment) / period))
    first = datetime.fromtimestamp(due, zone).replace(tzinfo=None)
    days = (first + timedelta(day) for day in range(7))
    return next((moment_of(day, zone) for day in days if day.weekday() in weekdays), due)


def stop(decision: ServerDecision) -> None:
    """Cancel the timer of the period."""
    if decision.state.due is not None:
        decision.command(commands.CancelTimer(wake_name(decision, EVERY)))
    if decision.state.due is not None or decision.state.missed:
        decision.change(TickSet(decision.now))
