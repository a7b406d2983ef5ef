"""A service run as people see it: its element, what it waits for, its parts, and the reasons (K61, K62)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from math import inf
from typing import Any

from lxml import etree

from narval.core.engines.commands import Watch
from narval.core.engines.engine import Find, Lookup, Wait
from narval.core.engines.graph import Graph, GraphEdge, GraphNode, Tone
from narval.core.engines.story import Fact, Story, Words, joined
from narval.kinds.task.engine.server.state import (
    EventRule,
    KnownInstance,
    RaisedEvent,
    TaskServerState,
    rule_key,
)
from narval.kinds.task.language.definition import TaskDefinition
from narval.kinds.task.language.windows import Interval

QUEUES = ("registered", "awaiting-condition", "awaiting-action")
"""The queues of events, in the order in which an event passes them."""


def render(definition: TaskDefinition, state: TaskServerState, context: Iterable[int]) -> bytes:
    """The `task-server` element: the numbers of objects, events and instances."""
    root = etree.Element("task-server", name=definition.full_name, state=state.status)
    root.set("queue", str(len(state.queue)))
    root.set("events", str(len(state.events)))
    root.set("instances", str(_working(state)))
    return etree.tostring(root, encoding="utf-8")


def _working(state: TaskServerState) -> int:
    begun = sum(not called.instance for called in state.called.values())
    return len(state.at_work) + begun


def waiting_for(
    definition: TaskDefinition, state: TaskServerState, watches: dict[str, Watch]
) -> Iterator[Wait]:
    """The waits of a service run: for new objects and events, for windows and conditions of present events,
    and for instances.
    """
    if state.over:
        return
    what = "events" if definition.is_global else "objects and events"
    yield Wait("queue", "signal", f"of {what} for {definition.full_name}")
    if state.due is not None:
        yield Wait("every", "time", until=state.due)
    for call in state.called:
        yield Wait("instance", "call", f"an instance of {definition.full_name}", calls=(call,))
    for event in state.events.values():
        for number, rule in event.rules.items():
            yield _wait(state, event, number, rule, watches)


_CLAIMED = "which may keep object {}"


def _wait(
    state: TaskServerState, event: RaisedEvent, number: int, rule: EventRule, watches: dict[str, Watch]
) -> Wait:
    name, until = f"event {event.id}", rule.wake
    match rule.stage:
        case "registered":
            return Wait(name, "time", "its window for the condition", until=until)
        case "open":
            return Wait(name, "signal", f"of an instance in state {rule.state}", until=until)
        case "false":
            watch = watches.get(f"{state.eid}/{rule_key(event.id, number)}")
            text = f"the condition in state {rule.state}"
            if watch is None:
                return Wait(name, "condition", text, until=until)
            return Wait(name, "condition", text, watch.conditions, watch.scopes, until=until)
        case "due":
            return Wait(name, "time", "its window for the action", until=until)
        case "ready" if event.is_claimed:
            other = f"that another action is done, {_CLAIMED.format(event.object)}"
            return Wait(name, "signal", other, until=until)
        case "ready":
            busy = f"by instance {rule.receiver}, which does another action, that it is free"
            return Wait(name, "signal", busy, until=until)
    return Wait(name, "call", "the action", calls=(rule.call,))


def parts(definition: TaskDefinition, state: TaskServerState) -> dict[str, list[dict[str, Any]]]:
    """The queue in its order, the instances, and the events."""
    queue = [{"id": str(eid), "state": "queued", **_object(state, eid)} for eid in state.queue]
    gathered = [
        {"id": str(eid), "state": "part", "parent": parent, "ordinal": ordinal, **_object(state, eid)}
        for parent, parts in state.parts.items()
        for ordinal, eid in sorted(parts.items())
    ]
    return {
        "queue": [*queue, *gathered],
        "instances": list(_instances(state)),
        "events": [_event(event) for event in state.events.values()],
    }


def _object(state: TaskServerState, eid: int) -> dict[str, Any]:
    queued = state.objects[eid]
    return {"at": queued.at, "case": queued.case}


def _instances(state: TaskServerState) -> Iterator[dict[str, Any]]:
    for instance, entry in state.at_work.items():
        yield {
            "id": str(instance),
            "state": entry.state or "working",
            "object": entry.object or None,
            "user": entry.user or None,
            "role": entry.role or None,
            "since": entry.since,
        }
    for call, called in state.called.items():
        if not called.instance:
            yield {"id": call, "state": "called", "object": called.object or None, "since": called.at}


def _event(event: RaisedEvent) -> dict[str, Any]:
    wakes = [rule.wake for rule in event.rules.values() if rule.wake is not None]
    return {
        "id": str(event.id),
        "state": event.queue,
        "event": event.name,
        "at": event.at,
        "parameters": list(event.parameters),
        "object": event.object or None,
        "raiser": event.raiser or None,
        "until": min(wakes, default=None),
    }


def explain(definition: TaskDefinition, state: TaskServerState, identifier: str | None) -> Words | None:
    """Explain the state of an event, an object or an instance; None if there is nothing to say."""
    if identifier is None:
        return None
    if not identifier.isdecimal():
        return _why_queue(definition, state, identifier)
    number = int(identifier)
    event, entry = state.events.get(number), state.at_work.get(number)
    of_rules = [_why_rule(state, event, rule) for rule in event.rules.values()] if event else []
    reasons = {
        "event": joined(of_rules, "; "),
        "object": [why] if (why := _why_object(definition, state, number)) else (),
        "instance": [_why_instance(entry)] if entry is not None else (),
    }
    several = sum(map(bool, reasons.values())) > 1
    parts = [[f"{name} {number}: "] * several + [*why] for name, why in reasons.items() if why]
    return joined(parts, "; ") or None


def _why_queue(definition: TaskDefinition, state: TaskServerState, name: str) -> str | None:
    """The number of objects in the queue, of instances, or of events in one of their queues, with
    the reason.
    """
    if name == "queue":
        idle = f": {_nobody(definition, state)}" if state.queue else ""
        return f"{len(state.queue)} objects wait for an instance{idle}"
    if name == "instances":
        return f"{_working(state)} instances are at work"
    if name not in QUEUES:
        return None
    return f"{sum(event.queue == name for event in state.events.values())} events are {name}"


def _why_object(definition: TaskDefinition, state: TaskServerState, eid: int) -> str:
    if eid in state.queue:
        return f"it waits in the queue of {definition.full_name}: {_nobody(definition, state)}"
    if (queued := state.objects.get(eid)) is not None:
        there = state.parts.get(queued.parent, {})
        missing = [str(at) for at in range(1, queued.count + 1) if at not in there]
        here = f"{len(there)} of the {queued.count} parts of {queued.parent} are here"
        return f"{here}; missing: {', '.join(missing)}"
    if eid in state.carried:
        return f"event {state.carried[eid]} carries it"
    return ""


def _why_instance(entry: KnownInstance) -> str:
    if entry.acting:
        return f"it does the action of event {entry.acting.partition('/')[0]}"
    return "it waits for an object" if entry.take else f"it works on {entry.object or 'no object'}"


def _nobody(definition: TaskDefinition, state: TaskServerState) -> str:
    if state.gone:
        return "the file of its type is gone, so nothing is begun"
    if definition.invocation == "manual" and not definition.is_interactive:
        return "no instance asks for an object; begin one with narval task init"
    if state.called:
        return "an instance works on another"
    return "an instance takes it when its turn comes"


def _why_rule(state: TaskServerState, event: RaisedEvent, rule: EventRule) -> Words:
    where = f"rule {rule.ordinal + 1} in state {rule.state}" if rule.state else "its rule"
    match rule.stage:
        case "registered" if event.state and rule.state != event.state:
            return f"{where} is not asked while it is answered in state {event.state}"
        case "registered":
            return f"{where} waits for its window ", *_windows(rule.before_condition)
        case "open":
            working = state.at_work.items()
            acting = [str(one) for one, entry in working if entry.acting and entry.state == rule.state]
            there = [f"; an action is done there by instance {', '.join(acting)}"] if acting else []
            return f"{where} waits for an instance in that state", *_until(rule), *there
        case "false":
            return f"{where} waits for its condition to hold", *_until(rule)
        case "due":
            held = f"the condition of {where} held, and its action waits for its window "
            return held, *_windows(rule.before_action)
        case "ready" if event.is_claimed:
            other = f"the action of {where} waits for another, {_CLAIMED.format(event.object)}"
            return other, *_until(rule)
        case "ready":
            busy = f"the action of {where} waits for instance {rule.receiver}, which does another"
            return busy, *_until(rule)
    who = f"instance {rule.receiver} does" if rule.receiver else "an instance does"
    return f"{who} the action of {where}"


def _until(rule: EventRule) -> Sequence[str | float]:
    return () if rule.wake is None else (" until ", rule.wake)


def _windows(windows: tuple[Interval, ...] | None) -> Sequence[str | float]:
    return joined([(one.start, "–", *([one.end] * (one.end < inf))) for one in windows or ()], " or ")


def diagnose(
    definition: TaskDefinition, state: TaskServerState, identifier: str | None, element: Lookup, find: Find
) -> Iterator[Wait]:
    """The windows, states and conditions that decide how an event continues."""
    event = state.events.get(int(identifier)) if identifier and identifier.isdecimal() else None
    for number, rule in event.rules.items() if event is not None else ():
        if event is not None:
            yield _wait(state, event, number, rule, {})


part_word = "instance"

story: Story = {
    "ServerLoaded": Fact("[Version {version:brief} of the task is loaded.]"),
    "Enqueued": Fact("{object:element} is in the queue[, of case {case:run}]."),
    "ObjectGiven": Fact("[Instance {instance:run} is given {object:element}.]"),
    "ObjectGone": Fact("{object:element} is out of the queue[: {why}]."),
    "PartsMerged": Fact("{parts:element} are one again: {element:element}."),
    "ObjectSent": Fact("{object:element} is put back[ to {to}]."),
    "WithdrawalBegan": Fact("{object:element} is withdrawn[: {why}]."),
    "InstanceJoined": Fact("Instance {instance:run} works[, for {user}]."),
    "InstanceAt": Fact("[Instance {instance:run} is in state {state}.]"),
    "InstanceLeft": Fact("Instance {instance:run} has stopped[: {why}]."),
    "CalledOver": Fact("[An instance failed: {problem}.]"),
    "TickSet": Fact("[The next run is due at {due:moment}.]"),
    "EventRaised": Fact("Event {name} is raised[, with {object:element}][, by run {raiser:run}][, by {by}]."),
    "ActionBegan": Fact("The action of a rule begins."),
    "RuleOver": Fact("A rule is over, {result}[: {why}]."),
    "EventOver": Fact("An event is over, {result}[: {why}]."),
    "WaitParked": Fact("Instance {instance:run} waits for event {event}[ until {until:moment}]."),
}
"""The changes of interest to people, in sentences."""


def graph(definition: TaskDefinition, state: TaskServerState) -> Graph:
    """The queue and the queues of events, with the number in each."""
    counts = dict.fromkeys(QUEUES, 0)
    for event in state.events.values():
        counts[event.queue] += 1
    nodes = [_node("queue", len(state.queue)), _node("instances", len(state.at_work) + len(state.called))]
    nodes += [_node(name, count) for name, count in counts.items()]
    ways = [("queue", "instances"), *pairwise(QUEUES), (QUEUES[-1], "instances")]
    return Graph(definition.full_name, (*nodes, *(GraphEdge(*way) for way in ways)))


def _node(name: str, count: int) -> GraphNode:
    tone: Tone = ("active" if name == "instances" else "waiting") if count else "idle"
    status = "there" if count else "empty"
    return GraphNode(name, (name,), status, "tokens", kind="queue", tone=tone, badge=str(count or ""))
