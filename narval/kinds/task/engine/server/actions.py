"""Actions that are over, and receivers that are free again: what waits for them comes next (KA5, KA6)."""

from __future__ import annotations

from collections.abc import Iterator

from narval.core.engines.events import Returned
from narval.kinds.task.engine.server import ending
from narval.kinds.task.engine.server.changes import InstanceAt, InstanceLeft
from narval.kinds.task.engine.server.decision import ServerDecision
from narval.kinds.task.engine.server.line import ArrivalLine
from narval.kinds.task.engine.server.rules import back, begin, judge
from narval.kinds.task.engine.server.state import RaisedEvent, Result, read_key


def action_over(decision: ServerDecision, event: RaisedEvent, number: int, returned: Returned) -> None:
    """Know what became of an action, and let its receiver do what waits for it."""
    rule, problem, value = event.rules[number], returned.problem, returned.value or {}
    receiver = rule.receiver
    if returned.abandoned:
        ending.end_rule(decision, event, number, "cancelled", "the action was given up")
    elif problem is not None and problem.kind == "unknown-target":
        why = f"instance {receiver} is gone"
        if receiver in decision.state.at_work:
            decision.change(InstanceLeft(decision.now, receiver, why))
            abandon(decision, receiver)
        back(decision, event, number, why)
    elif problem is not None:
        _end_action(decision, event, number, "failed", problem.message)
    elif value.get("state") is False:
        entry = decision.state.at_work.get(receiver)
        if entry is not None and entry.state == rule.state:  # it will tell where it is again
            away = InstanceAt(decision.now, receiver, "", entry.object, entry.case, entry.call)
            decision.change(away)
        back(decision, event, number, f"instance {receiver} was not in state {rule.state} any more")
    else:
        result: Result = "failed" if value.get("result") == "failed" else "done"
        why, kept = str(value.get("why") or ""), value.get("kept") is True
        _end_action(decision, event, number, result, why, kept=kept)
    if receiver:
        serve(decision, receiver)
    serve_ready(decision, event)


def serve_ready(decision: ServerDecision, event: RaisedEvent) -> None:
    """Have the next action of an event done, if what it carries is not claimed any more."""
    for rule in list(event.rules.values()):
        if rule.stage == "ready":
            serve(decision, rule.receiver)


def _end_action(
    decision: ServerDecision,
    event: RaisedEvent,
    number: int,
    result: Result,
    why: str,
    *,
    kept: bool = False,
) -> None:
    """End a rule whose action is done; rules of other states do not answer the event any more (K37)."""
    where = event.rules[number].state
    for other in [other for other, rule in event.rules.items() if rule.state != where]:
        ending.end_rule(decision, event, other, "passed over", f"it was answered in {where}")
    ending.end_rule(decision, event, number, result, why, kept=kept)


def abandon(decision: ServerDecision, instance: int) -> None:
    """Judge again what an instance was to do at once that is gone; what is due later is, when it is due."""
    for key in list(decision.state.pending.get(instance, ())):
        identifier, number = read_key(key)
        back(decision, decision.state.events[identifier], number, f"instance {instance} is gone")


def serve(decision: ServerDecision, instance: int) -> None:
    """Let an instance that is free do what waits for it, and be judged for what waits in its state."""
    state = decision.state
    while (entry := state.at_work.get(instance)) is not None and not entry.acting:
        keys = map(read_key, _walk(state.pending.get(instance)))
        found = next((key for key in keys if not state.events[key[0]].is_claimed), None)
        if found is None:
            break
        begin(decision, state.events[found[0]], found[1])
    entry = state.at_work.get(instance)
    if entry is None or not entry.state or entry.acting:
        return
    for lines in (state.open, state.picky):
        waiting = lines.get(entry.state)
        for key in _walk(waiting):
            if state.present.get(entry.state) is None:
                return
            identifier, number = read_key(key)
            judge(decision, state.events[identifier], number)


def _walk(line: ArrivalLine[str] | None) -> Iterator[str]:
    """The keys of a line that may alter meanwhile, as it goes on."""
    if line is None:
        return
    place, last = line.head, line.tail
    while place < last:
        key = line.keys.get(place)
        place += 1
        if key is not None:
            yield key
