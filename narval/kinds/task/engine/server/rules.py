"""Rules of an event, each from its windows to its action (K33, KA4–KA8, KA32).

registered → open → due → ready → acting      to be judged, held, in the window of its action, being done
             open ↔ false                     false, and judged again while its window lasts
due, ready, acting → registered               the receiver was not in the state (KA6)

Conditions are judged on memory (KA4, KA31), the object and the event.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Any

import msgspec

from narval.core.elements.element import Element
from narval.core.engines import commands
from narval.core.engines.decision import Wanted
from narval.core.engines.events import LABELS, Plain
from narval.core.engines.view import GuardVerdict
from narval.core.memory.labels import recorded
from narval.core.patterns.pattern import Bound, Condition
from narval.kinds.task.engine.server import changes
from narval.kinds.task.engine.server.decision import (
    ServerDecision,
    ends,
    inside,
    moment,
    set_wake,
    stop_timer,
    unwatch,
    upcoming,
    wake_name,
)
from narval.kinds.task.engine.server.ending import end_rule, follow_open_wait, follow_wait, is_meant
from narval.kinds.task.engine.server.state import EventRule, RaisedEvent, rule_key
from narval.kinds.task.language.conditions import is_of_memory
from narval.kinds.task.language.definition import Rule
from narval.kinds.task.language.windows import windows

GONE = "the type has no such rule any more"


def rule_of(decision: ServerDecision, event: RaisedEvent, rule: EventRule) -> Rule | None:
    """The rule in the type's present version; None if it is gone."""
    rules = decision.definition.rules_for(rule.state, event.name)
    return rules[rule.ordinal] if rule.ordinal < len(rules) else None


def named(rule: Rule, event: RaisedEvent) -> dict[str, Any]:
    """The parameters of an event by the names that a rule gives them."""
    return dict(zip(rule.parameters, event.parameters, strict=False))


def woken(decision: ServerDecision, event: RaisedEvent, number: int) -> None:
    """Handle a timer; set it again if the clock was set back."""
    wake, key = event.rules[number].wake, rule_key(event.id, number)
    if wake is not None and decision.now < wake:
        decision.command(commands.SetTimer(wake_name(decision, key), wake, calendar=True))
    else:
        decision.fired = key
        look(decision, event, number)


def look(decision: ServerDecision, event: RaisedEvent, number: int) -> None:
    """Bring a rule that is not acting yet up to date with the clock."""
    rule = event.rules[number]
    if event.state and rule.state != event.state:
        set_wake(decision, event, number, None)
    elif rule.stage in ("due", "ready"):
        _look_after(decision, event, number)
    elif rule.before_condition is None:
        _open(decision, event, number, None)
    else:
        at = moment(decision, event, number, rule.before_condition)
        window = inside(rule.before_condition, at)
        if window is None or (rule.stage != "registered" and window.end <= at):
            _wait_for_next(decision, event, number, at)
        elif rule.stage == "registered":
            _open(decision, event, number, ends(window, decision.now))
        else:
            set_wake(decision, event, number, ends(window, decision.now))


def _wait_for_next(decision: ServerDecision, event: RaisedEvent, number: int, at: float) -> None:
    """Let a rule wait for its next window; it expires if there is none."""
    rule = event.rules[number]
    following = upcoming(rule.before_condition or (), at)
    if following is None:
        end_rule(decision, event, number, "expired", "its last window for the condition is over")
        return
    if rule.stage != "registered":
        unwatch(decision, event, number)
        decision.change(changes.RuleBack(decision.now, event.id, number))
    set_wake(decision, event, number, following.start)


# --- the condition ----------------------------------------------------------------------------------------


def _open(decision: ServerDecision, event: RaisedEvent, number: int, until: float | None) -> None:
    stop_timer(decision, event, number, until)
    decision.change(changes.WindowOpened(decision.now, event.id, number, until))
    judge(decision, event, number)


def receivers(decision: ServerDecision, event: RaisedEvent, state: str) -> Iterator[int]:
    """The instances in a state that may answer an event: idle ones first, then the oldest (KA8), then one
    that does an action for the same event (KA32).
    """
    at_work, present = decision.state.at_work, decision.state.present.get(state)
    for line in (present.idle, present.busy) if present is not None else ():
        for instance in line:
            if is_meant(event, at_work[instance]):
                yield instance
    for rule in event.rules.values():
        if rule.stage == "acting" and rule.receiver in at_work and at_work[rule.receiver].state == state:
            yield rule.receiver


def judge(decision: ServerDecision, event: RaisedEvent, number: int) -> None:
    """Judge the condition of a rule whose window is open, for the instances in its state (KA5)."""
    rule, definition = event.rules[number], decision.definition
    the_rule = rule_of(decision, event, rule)
    if the_rule is None:
        end_rule(decision, event, number, "expired", GONE)
        return
    there = (0,) if definition.is_global else receivers(decision, event, rule.state)
    tried: list[Bound] = []
    receiver = None
    for instance in there:
        if isinstance(the_rule.condition, bool):
            verdict = GuardVerdict(the_rule.condition)
        else:
            eid = decision.state.at_work[instance].object if instance else 0
            tried.append(bound(decision, event, the_rule, the_rule.condition, eid))
            verdict = judge_bound(decision, tried[-1])
        receiver = instance
        if verdict.holds:
            _hold(decision, event, number, the_rule, instance, labels=verdict.labels)
            return
        if isinstance(the_rule.condition, bool) or OBJECT not in the_rule.condition.variables:
            break
    if receiver is None:
        _nobody(decision, event, number)
    else:
        _judge_in_vain(decision, event, number, the_rule, receiver, tried)


def _window(decision: ServerDecision, rule: EventRule) -> Any:
    """The open window of a rule, if it lasts; None for an instant."""
    windows_ = rule.before_condition
    window = inside(windows_, decision.now) if windows_ is not None else None
    return window if window is not None and decision.now < window.end else None


def _nobody(decision: ServerDecision, event: RaisedEvent, number: int) -> None:
    """Let a rule wait for a receiver; at an instant, wait only for an instance begun for its event."""
    rule = event.rules[number]
    if rule.stage != "open":
        unwatch(decision, event, number)
        decision.change(changes.WindowOpened(decision.now, event.id, number, rule.wake))
    may_begin = decision.definition.invocation == "auto" and not decision.state.gone
    is_under_way = any(called.event == event.id for called in decision.state.called.values())
    begins = may_begin and (not event.started or is_under_way)
    if rule.before_condition is not None and _window(decision, rule) is None and not begins:
        _wait_for_next(decision, event, number, decision.now)
    elif event.sync:
        follow_open_wait(decision, event)


def _judge_in_vain(
    decision: ServerDecision,
    event: RaisedEvent,
    number: int,
    the_rule: Rule,
    receiver: int,
    tried: list[Bound],
) -> None:
    """Watch the elements that may change a false condition, while the window lasts."""
    rule, condition = event.rules[number], the_rule.condition
    lasts = _window(decision, rule) is not None
    unwatch(decision, event, number)
    watched_conditions: Wanted = (
        [(one, None) for one in dict.fromkeys(tried) if asks_memory(one)] if lasts else []
    )
    elements: tuple[int, ...] = ()
    picky = False
    if lasts and not isinstance(condition, bool):
        picky = OBJECT in condition.variables and not decision.definition.is_global
        elements = _bound_to(tried)
    watched = bool(watched_conditions or elements)
    change = changes.ConditionJudged(
        decision.now, event.id, number, False, receiver, picky=picky and lasts, watched=watched
    )
    decision.change(change)
    if watched:
        conditions = tuple(one for one, _ in watched_conditions)
        scopes = tuple(scope for _, scope in watched_conditions)
        decision.command(
            commands.Watch(
                wake_name(decision, rule_key(event.id, number)), conditions, scopes, elements=elements
            )
        )
    elif not lasts:
        _wait_for_next(decision, event, number, decision.now)


def _bound_to(tried: list[Bound]) -> tuple[int, ...]:
    """The objects that conditions refer to; when one is replaced, the conditions are judged on its new
    version.
    """
    named = (
        element.eid
        for one in tried
        for name, elements in one.variables
        if name in (OBJECT, CARRIED)
        for element in elements
    )
    return tuple(dict.fromkeys(named))


# --- the action -------------------------------------------------------------------------------------------


def _hold(
    decision: ServerDecision,
    event: RaisedEvent,
    number: int,
    the_rule: Rule,
    receiver: int,
    *,
    labels: tuple[str, ...],
) -> None:
    """Record that a condition held, and compute the windows of its action from this moment."""
    rule = event.rules[number]
    unwatch(decision, event, number)
    for other, at in event.rules.items():
        if at.state != rule.state:
            unwatch(decision, event, other)
    opened: Any = None
    if the_rule.before_action is not None:
        opened = windows(the_rule.before_action, decision.now, decision.view.zone, named(the_rule, event))
    change = changes.ConditionJudged(decision.now, event.id, number, True, receiver, opened, labels=labels)
    decision.change(change)
    if receiver and event.sync:
        follow_wait(decision, event, receiver)
    if event.id in decision.state.events and number in event.rules:
        _look_after(decision, event, number)


def _look_after(decision: ServerDecision, event: RaisedEvent, number: int) -> None:
    """Bring a rule whose condition held up to date with the clock."""
    rule = event.rules[number]
    if rule.before_action is None:
        set_wake(decision, event, number, None)
        begin(decision, event, number)
        return
    at = moment(decision, event, number, rule.before_action)
    window = inside(rule.before_action, at)
    following = upcoming(rule.before_action, at)
    if window is not None:
        set_wake(decision, event, number, ends(window, decision.now))
        if rule.stage == "due":
            begin(decision, event, number)
    elif following is not None:
        set_wake(decision, event, number, following.start)
    else:
        why = "its receiver was not free until" if rule.stage == "ready" else "nothing was done before"
        end_rule(decision, event, number, "expired", f"{why} the last window for the action was over")


def begin(decision: ServerDecision, event: RaisedEvent, number: int) -> None:
    """Ask the receiver to do the action; it answers whether it is still in the state (KA5)."""
    rule, state = event.rules[number], decision.state
    receiver = rule.receiver
    if receiver and receiver not in state.at_work:
        back(decision, event, number, f"instance {receiver} is gone")
        return
    if receiver and (state.at_work[receiver].acting or event.is_claimed):
        decision.change(changes.ActionDue(decision.now, event.id, number))
        return
    the_rule = rule_of(decision, event, rule)
    if the_rule is None:
        end_rule(decision, event, number, "expired", GONE)
        return
    set_wake(decision, event, number, None)
    labels = " ".join(sorted({*recorded(rule.labels, rule.hearsay), *event.labels}))
    if receiver:
        said: dict[str, Any] = {
            "event": event.id,
            "name": event.name,
            "rule": rule.ordinal,
            "state": rule.state,
            "parameters": named(the_rule, event),
            "object": event.object,
            "case": event.case,
            "raiser": event.raiser,
            **({LABELS: labels} if labels else {}),
        }
        call = decision.tell("act", said, run=receiver, elements=decision.elements(event.object))
    else:
        call = decision.identifier()
        parameters = msgspec.json.encode(named(the_rule, event)).decode()
        environment: dict[str, Plain] = {"event": str(event.id), "parameters": parameters}
        if event.raiser:
            environment["raiser"] = str(event.raiser)
        if labels:
            environment[LABELS] = labels
        asked = (call, decision.definition.kind, decision.definition.full_name, "action")
        decision.command(commands.Call(*asked, payload={"environment": environment}))
    decision.change(changes.ActionBegan(decision.now, event.id, number, call))


def back(decision: ServerDecision, event: RaisedEvent, number: int, why: str) -> None:
    """Judge a condition again, if it has a present or future window; else end its rule (KA6)."""
    rule = event.rules[number]
    now = decision.now
    set_wake(decision, event, number, None)
    if rule.before_condition is None or not (
        inside(rule.before_condition, now) or upcoming(rule.before_condition, now)
    ):
        end_rule(decision, event, number, "expired", why)
        return
    decision.change(changes.RuleBack(now, event.id, number, why))
    if event.state:
        look(decision, event, number)
    else:
        decision.loose.append(event.id)


def follow(decision: ServerDecision) -> None:
    """Follow the rules of the type's present version; end those that are gone."""
    for event in list(decision.state.events.values()):
        for number, rule in list(event.rules.items()):
            if rule.stage == "acting" or number not in event.rules:
                continue
            if rule_of(decision, event, rule) is None:
                end_rule(decision, event, number, "expired", GONE)
            elif rule.stage == "false":
                judge(decision, event, number)


def look_at_loose(decision: ServerDecision) -> None:
    """Bring the rules of events that are no longer bound to a state up to date."""
    while decision.loose:
        event = decision.state.events.get(decision.loose.pop())
        for number in list(event.rules) if event is not None else ():
            rule = event.rules.get(number) if event is not None else None
            if event is not None and rule is not None and rule.stage == "registered":
                look(decision, event, number)


# --- conditions on memory ---------------------------------------------------------------------------------

OBJECT, CARRIED = "object", "carried"
"""The variables of each condition: the receiver's object, and the object that the event carries."""

_NOTHING = Element(0, b"<nothing/>")


def bound(decision: ServerDecision, event: RaisedEvent, rule: Rule, condition: Condition, eid: int) -> Bound:
    """A rule's condition, bound to the object `eid`, or to the event's object if `eid` is 0."""
    elements_of: dict[str, list[Element]] = {}
    for name, of in ((OBJECT, eid or event.object), (CARRIED, event.object)):
        if name in condition.variables:
            present = (decision.view.element(now) for now in decision.elements(of))
            elements_of[name] = [element for element in present if element is not None]
    for name, value in zip(rule.parameters, event.parameters, strict=False):
        if name in condition.variables:
            elements_of[name] = [Element(0, f"<{name}>{escape(value, quote=False)}</{name}>".encode())]
    return condition.bind(elements_of)


def judge_bound(decision: ServerDecision, bound: Bound) -> GuardVerdict:
    """Judge a condition on memory, or on its variables alone if it asks nothing of memory."""
    view = decision.view
    if asks_memory(bound):
        return view.judge(view.matching(bound, None), bound)
    return view.judge((_NOTHING.eid,) if view.fits(_NOTHING, bound) else (), bound)


def asks_memory(bound: Bound) -> bool:
    """False if a condition depends only on its variables, so that it is the same for all elements."""
    return any(is_of_memory(pattern.text) for pattern in bound.patterns)
