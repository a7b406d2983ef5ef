"""A slow look at a standing run: all that must hold of it at rest, reckoned anew from what is there."""

from __future__ import annotations

from typing import Any

from narval.kinds.task.engine.server.state import EventRule, RaisedEvent, TaskServerState, rule_key
from narval.kinds.task.language.definition import TaskDefinition
from narval.kinds.task.language.windows import Interval
from tests.kinds.task.engine.server.hall import Hall

AWAY = {"due", "ready", "acting"}


def lasts(windows: tuple[Interval, ...] | None, now: float) -> bool:
    """True if a rule without windows may be judged, or one is open and goes on."""
    return windows is None or any(one.start <= now < one.end for one in windows)


def to_come(windows: tuple[Interval, ...] | None, now: float) -> float | None:
    return min((one.start for one in windows or () if one.start > now), default=None)


def check(hall: Hall, name: str, since: int = 0) -> None:
    """Raise AssertionError for whatever does not hold of the standing run of a type.

    The clock was not set back since event `since`: the windows of earlier ones are those of another time.
    """
    state, run = hall.server(name), hall.servers[name]
    definition: Any = hall.definitions[run]
    for event in state.events.values():
        assert event.rules, f"event {event.id} is over and still there"
        for number in event.rules:
            _check_rule(hall, definition, state, event, number, event.id > since)
    _check_lines(state)
    _check_instances(state)
    rules = {
        f"{run}/{rule_key(event.id, number)}": rule
        for event in state.events.values()
        for number, rule in event.rules.items()
    }
    wakes = {wake: timer.at for wake, (of, timer) in hall.wakes.items() if of == run}
    assert wakes == {wake: rule.wake for wake, rule in rules.items() if rule.wake is not None}
    assert all(moment > hall.now for moment in wakes.values())
    watched = {watch for watch, (of, _) in hall.watches.items() if of == run}
    assert watched == {watch for watch, rule in rules.items() if rule.watched}


def _check_rule(
    hall: Hall,
    definition: TaskDefinition,
    state: TaskServerState,
    event: RaisedEvent,
    number: int,
    by_the_clock: bool,
) -> None:
    rule, now = event.rules[number], hall.now
    about = f"event {event.id}, rule {number} in {rule.state} ({rule.stage}) at {now}"
    if event.state and rule.state != event.state:
        assert rule.stage == "registered", f"{about}: it is taken in {event.state}"
        return
    assert rule.stage not in AWAY or event.state == rule.state, about
    match rule.stage:
        case "registered":
            assert rule.wake is not None, f"{about}: nothing wakes it"
            if by_the_clock:
                assert not lasts(rule.before_condition, now), f"{about}: its window is open"
                assert rule.wake == to_come(rule.before_condition, now), about
        case "open":
            if by_the_clock and not _is_begun_for(definition, state, event):
                assert lasts(rule.before_condition, now), f"{about}: its window is not open"
            assert not _fitting(state, event, rule), f"{about}: somebody is there"
        case "false":
            assert rule.before_condition is not None, about
            assert lasts(rule.before_condition, now) or not by_the_clock, f"{about}: its window is not open"
            for instance in _fitting(state, event, rule):
                assert not _holds(hall, definition, state, event, rule, instance), f"{about}: it holds"
        case "due":
            assert rule.wake is not None, about
            if by_the_clock:
                assert not lasts(rule.before_action, now), f"{about}: its action may be done"
                assert rule.wake == to_come(rule.before_action, now), about
        case "ready":
            entry = state.at_work[rule.receiver]
            assert entry.acting, f"{about}: its receiver is free"
            assert entry.acting != rule_key(event.id, number), about
        case "acting":
            assert rule.call in hall.calls, f"{about}: nobody was asked"
            if rule.receiver in state.at_work:
                assert state.at_work[rule.receiver].acting == rule_key(event.id, number), about


def _is_begun_for(definition: TaskDefinition, state: TaskServerState, event: RaisedEvent) -> bool:
    """True if an instance is begun for an event, or will be: it may come after an instant (KA7)."""
    under_way = any(called.event == event.id for called in state.called.values())
    return definition.invocation == "auto" and (not event.started or under_way)


def _fitting(state: TaskServerState, event: RaisedEvent, rule: EventRule) -> list[int]:
    return [
        instance
        for instance, entry in state.at_work.items()
        if entry.state == rule.state
        and not entry.acting
        and (not event.users or entry.user in event.users)
        and (not event.roles or entry.role in event.roles)
    ]


def _holds(
    hall: Hall,
    definition: TaskDefinition,
    state: TaskServerState,
    event: RaisedEvent,
    rule: EventRule,
    instance: int,
) -> bool:
    """The conditions of these tests, said once more: a constant, `go[@n = '1']`, `$object/@ok = 'yes'`."""
    found = definition.rules_for(rule.state, event.name)[rule.ordinal].condition
    if isinstance(found, bool):
        return found
    if "object" in found.variables:
        eid = hall.current(state.at_work[instance].object or event.object or -1)
        return eid is not None and "ok='yes'" in hall.xml(eid).replace('"', "'")
    return any(element.attributes.get("n") == "1" for element in hall.named("go"))


def _check_lines(state: TaskServerState) -> None:
    rules = {
        rule_key(event.id, number): rule
        for event in state.events.values()
        for number, rule in event.rules.items()
    }
    for lines, stages in ((state.open, {"open"}), (state.picky, {"false"}), (state.pending, {"ready"})):
        for where, line in lines.items():
            assert len(line) == len(set(line)) > 0
            for key in line:
                assert rules[key].stage in stages
                assert where == (rules[key].receiver if lines is state.pending else rules[key].state)
    for stage, lines in (("open", state.open), ("ready", state.pending)):
        lined = {key for line in lines.values() for key in line}  # type: ignore[attr-defined]
        assert lined == {key for key, rule in rules.items() if rule.stage == stage}
    assert state.acts == {rule.call: key for key, rule in rules.items() if rule.stage == "acting"}
    carried = {event.object: event.id for event in state.events.values() if event.object}
    assert state.carried == carried
    places = [*state.objects, *state.carried, *state.given]
    assert len(places) == len(set(places)), "an object is in one place"
    assert {*state.queue, *(eid for parts in state.parts.values() for eid in parts.values())} == {
        *state.objects
    }
    raisers = {event.signal: event.id for event in state.events.values() if event.signal}
    assert state.raisers == raisers
    chosen = {key for line in state.chosen.values() for key in line}
    assert chosen == {
        key for key, rule in rules.items() if rule.stage in AWAY and state.events[int(key.split("/")[0])].sync
    }
    assert all(not state.events[event].started for event in state.unserved)


def _check_instances(state: TaskServerState) -> None:
    for where, present in state.present.items():
        assert present.idle == sorted(present.idle)
        assert present.busy == sorted(present.busy)
        there = {
            instance: entry
            for instance, entry in state.at_work.items()
            if entry.state == where and not entry.acting
        }
        assert {*present.idle, *present.busy} == {*there}
        assert all(not there[instance].object for instance in present.idle)
    places = {entry.state for entry in state.at_work.values() if entry.state and not entry.acting}
    assert places == {*state.present}
    acting = [entry.acting for entry in state.at_work.values() if entry.acting]
    assert len(acting) == len(set(acting))
