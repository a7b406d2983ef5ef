"""Facts of events as they alter the state of a standing run, and who is there for them (KA8)."""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import TypeVar

from msgspec.structs import replace

from narval.kinds.task.engine.server.changes import (
    ActionBegan,
    ActionDue,
    CarriedTaken,
    ConditionJudged,
    EventOver,
    EventRaised,
    RaiserGone,
    RuleBack,
    RuleOver,
    RuleWakes,
    StoredTaken,
    WaitOver,
    WaitParked,
    WindowOpened,
)
from narval.kinds.task.engine.server.line import ArrivalLine
from narval.kinds.task.engine.server.state import (
    EventRule,
    EventWaiter,
    KnownInstance,
    Present,
    RaisedEvent,
    Stage,
    StoredEvent,
    TaskServerState,
    rule_key,
)

Name = TypeVar("Name", int, str)

MOST_STORED = 100
"""The events of one name that are kept until somebody waits for them (KA12)."""


def ended(name: str) -> str:
    """The name under which the ends of events are stored, and waited for."""
    return f"{name}!"


def _raised(state: TaskServerState, change: EventRaised) -> None:
    rules = {
        number: EventRule(rule.state, rule.ordinal, rule.windows)
        for number, rule in enumerate(change.rules, 1)
    }
    state.events[change.event] = RaisedEvent(
        change.event,
        change.name,
        change.at,
        change.base,
        change.parameters,
        change.sync,
        change.object,
        change.case,
        change.users,
        change.roles,
        change.raiser,
        change.raiser_type,
        change.signal,
        rules=rules,
    )
    if change.own:
        state.own = change.event
    if change.object:
        state.carried[change.object] = change.event
    if change.signal:
        state.raisers[change.signal] = change.event
    _store(state, change.name, StoredEvent(change.event, change.parameters))


def _store(state: TaskServerState, name: str, event: StoredEvent) -> None:
    stored = state.stored.setdefault(name, [])
    stored.append(event)
    del stored[:-MOST_STORED]


def _stored_taken(state: TaskServerState, change: StoredTaken) -> None:
    stored = [event for event in state.stored[change.name] if event.event != change.event]
    if stored:
        state.stored[change.name] = stored
    else:
        del state.stored[change.name]


# --- rules ------------------------------------------------------------------------------------------------


def _wakes(state: TaskServerState, change: RuleWakes) -> None:
    state.events[change.event].rules[change.rule].wake = change.at


def _move(state: TaskServerState, event: int, number: int, stage: Stage | None) -> EventRule:
    """Let a rule stand at another stage, in the lines that belong to it; None: it is over."""
    rule, key = state.events[event].rules[number], rule_key(event, number)
    for lines in (state.open, state.picky):
        _leave(lines, rule.state, key)
    _leave(state.pending, rule.receiver, key)
    if stage in (None, "registered"):
        _leave(state.chosen, rule.receiver, key)
    if rule.call:
        state.acts.pop(rule.call, None)
        rule.call = ""
        entry = state.at_work.get(rule.receiver)
        if entry is not None and entry.acting == key:
            put_instance(state, rule.receiver, replace(entry, acting=""))
    rule.watched = False
    if stage is not None:
        rule.stage = stage
    return rule


def _leave(lines: dict[Name, ArrivalLine[str]], name: Name, key: str) -> None:
    line = lines.get(name)
    if line is not None:
        line.discard(key)
        if not line:
            del lines[name]


def _opened(state: TaskServerState, change: WindowOpened) -> None:
    rule = _move(state, change.event, change.rule, "open")
    rule.wake = change.until
    state.open.setdefault(rule.state, ArrivalLine()).append(rule_key(change.event, change.rule))
    if not state.events[change.event].started:
        state.unserved.append(change.event)


def _judged(state: TaskServerState, change: ConditionJudged) -> None:
    rule = _move(state, change.event, change.rule, "due" if change.held else "false")
    event = state.events[change.event]
    state.unserved.discard(change.event)
    if change.held:
        rule.receiver, rule.before_action = change.receiver, change.windows
        rule.hearsay = rule.hearsay or change.hearsay
        if event.sync:
            state.chosen.setdefault(rule.receiver, ArrivalLine()).append(rule_key(event.id, change.rule))
        event.state = rule.state
        for number, other in event.rules.items():
            if other.state != rule.state:
                _move(state, event.id, number, "registered")
    else:
        rule.watched = change.watched
        if change.picky:
            state.picky.setdefault(rule.state, ArrivalLine()).append(rule_key(change.event, change.rule))


def _due(state: TaskServerState, change: ActionDue) -> None:
    rule = _move(state, change.event, change.rule, "ready")
    state.pending.setdefault(rule.receiver, ArrivalLine()).append(rule_key(change.event, change.rule))


def _began(state: TaskServerState, change: ActionBegan) -> None:
    rule, key = _move(state, change.event, change.rule, "acting"), rule_key(change.event, change.rule)
    rule.call = change.call
    state.acts[change.call] = key
    if rule.receiver:
        put_instance(state, rule.receiver, replace(state.at_work[rule.receiver], acting=key))


def _back(state: TaskServerState, change: RuleBack) -> None:
    rule = _move(state, change.event, change.rule, "registered")
    rule.receiver, rule.before_action = 0, None
    _unbind(state.events[change.event])


def _unbind(event: RaisedEvent) -> None:
    """Let rules of other states be judged again, if none of the one goes on."""
    if not any(rule.stage in ("due", "ready", "acting") for rule in event.rules.values()):
        event.state = ""


def _rule_over(state: TaskServerState, change: RuleOver) -> None:
    _move(state, change.event, change.rule, None)
    event = state.events[change.event]
    del event.rules[change.rule]
    if change.result != "passed over":
        event.results = (*event.results, change.result)
    _unbind(event)
    if change.kept:
        _take_carried(state, event)


def _take_carried(state: TaskServerState, event: RaisedEvent) -> None:
    state.carried.pop(event.object, None)
    event.object = event.case = 0


def _carried_taken(state: TaskServerState, change: CarriedTaken) -> None:
    event = state.events[change.event]
    if change.instance:
        hold(state, change.instance, state.at_work[change.instance], event.object, event.case)
    _take_carried(state, event)


def hold(state: TaskServerState, instance: int, entry: KnownInstance, eid: int, case: int) -> None:
    """Know an instance as it is now, but with an object, and no other; with 0 without one."""
    called = state.called.get(entry.call)
    holder, had = (str(instance), entry.object) if called is None else (entry.call, called.object)
    if called is not None:
        state.called[holder] = replace(called, object=eid, case=case)
    if state.given.get(had) == holder:
        del state.given[had]
    if eid:
        state.given[eid] = holder
    put_instance(state, instance, replace(entry, object=eid, case=case))


def _event_over(state: TaskServerState, change: EventOver) -> None:
    event = state.events.pop(change.event)
    state.raisers.pop(event.signal, None)
    state.unserved.discard(change.event)
    _store(state, ended(event.name), StoredEvent(event.id, event.parameters, change.result))


def _raiser_gone(state: TaskServerState, change: RaiserGone) -> None:
    event = state.events[change.event]
    state.raisers.pop(event.signal, None)
    event.signal = ""


# --- those who wait ---------------------------------------------------------------------------------------


def _wait_parked(state: TaskServerState, change: WaitParked) -> None:
    state.waits[change.signal] = EventWaiter(change.instance, change.event, change.end, change.until)
    name = ended(change.event) if change.end else change.event
    state.waiters.setdefault(name, {})[change.signal] = None


def _wait_over(state: TaskServerState, change: WaitOver) -> None:
    waiter = state.waits.pop(change.signal)
    name = ended(waiter.event) if waiter.end else waiter.event
    del state.waiters[name][change.signal]
    if not state.waiters[name]:
        del state.waiters[name]


# --- who is there -----------------------------------------------------------------------------------------


def put_instance(state: TaskServerState, instance: int, entry: KnownInstance | None) -> None:
    """Know an instance as it is now, or with None no more."""
    before = state.at_work.pop(instance, None)
    if before is not None and (line := _line(state, before)) is not None:
        del line[bisect_left(line, instance)]
        if not (present := state.present[before.state]).idle and not present.busy:
            del state.present[before.state]
    if entry is None:
        return
    state.at_work[instance] = entry
    if (line := _line(state, entry)) is not None:
        insort(line, instance)


def _line(state: TaskServerState, entry: KnownInstance) -> list[int] | None:
    """The list in which an instance stands; None for one that is in no state with rules, or acting."""
    if not entry.state or entry.acting:
        return None
    present = state.present.setdefault(entry.state, Present())
    return present.busy if entry.object else present.idle
