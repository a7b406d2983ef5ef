"""The engine of instances of tasks (K25–K31, K43–K61): states, scripts, and the work on one object at a time.

`life` decides what an instance does next, `moves` enters states and ends it, `scripts` runs scripts and their
functions, `signals` handles what servers, programs and people send.
"""

from __future__ import annotations

import msgspec

from narval.core.engines import commands
from narval.core.engines.events import Cancelled, Event, Returned, Signalled, Started, TimerFired
from narval.kinds.task.engine import life, moves, scripts, signals
from narval.kinds.task.engine.changes import (
    CallBack,
    InstanceBegan,
    InstanceOver,
    LeaseOver,
    LeaseRenewed,
    OutputKept,
    ScriptAt,
    ScriptBegan,
    TaskChange,
)
from narval.kinds.task.engine.decision import InstanceDecision
from narval.kinds.task.engine.explain import explain as explain
from narval.kinds.task.engine.explain import part_word as part_word
from narval.kinds.task.engine.explain import parts as parts
from narval.kinds.task.engine.explain import render as render
from narval.kinds.task.engine.explain import story as story
from narval.kinds.task.engine.explain import waiting_for as waiting_for
from narval.kinds.task.engine.graph import graph as graph
from narval.kinds.task.engine.state import GONE, InstanceState, ScriptFrame
from narval.kinds.task.engine.structure import unreachable as unreachable
from narval.kinds.task.engine.values import ScriptFault
from narval.kinds.task.language.definition import TaskDefinition

kind = "task"
definition_kind = TaskDefinition.kind
changes = TaskChange.union()
state_type = InstanceState
decision_type = InstanceDecision
instead_of_retry = "its object is with its case, or in the queue again: narval task retry, or narval task put"
instead_of_renewal = "for its object: narval task stop"

LEASE = 3600.0
"""Seconds without a call after which a program's instance counts as dead."""


def read_environment(values: dict[str, object]) -> dict[str, str]:
    """The attributes that an instance begins with, without those that are None."""
    return {name: str(value) for name, value in values.items() if value is not None}


def advance(decision: InstanceDecision, event: Event) -> None:
    """Decide the changes and commands that follow from one event."""
    state = decision.state
    try:
        match event:
            case Signalled():
                signals.signalled(decision, event)
            case Started() if state.status == "ready":
                _started(decision, event)
            case Returned() if event.call in state.calls:
                _returned(decision, event)
            case TimerFired() if event.wake == state.wake and not state.over:
                _lease_over(decision)
            case TimerFired() if state.frames and event.wake == state.frames[-1].wake:
                decision.change(ScriptAt(state.frames[-1].position))
            case Cancelled() if not (state.over or state.outcome):
                why = event.reason or f"it was cancelled{f' by {event.by}' if event.by else ''}"
                moves.begin_end(decision, "cancelled", why, gives_back=True)
    except ScriptFault as fault:
        moves.fail(decision, fault)
    if state.status != "ready":
        life.settle(decision)


def fail(decision: InstanceDecision, error: int) -> None:
    """Decide the end of an instance whose advance raised."""
    state = decision.state
    for wake in filter(None, (state.wake, *(frame.wake for frame in state.frames))):
        decision.command(commands.CancelTimer(wake))
    decision.change(InstanceOver(decision.event.at, "failed", error))
    decision.report_end((error,))


def _started(decision: InstanceDecision, event: Started) -> None:
    environment = event.environment
    program = environment.get("program") == "yes"
    joins = event.caller is None and not decision.definition.is_global
    decision.change(
        InstanceBegan(
            event.at,
            event.elements,
            event.caller,
            event.attempt,
            user=environment.get("user") or event.by,
            role=environment.get("role", ""),
            handle=environment.get("handle", ""),
            program=program,
            joined=joins,
            compensates=environment.get("compensates", ""),
            lease=float(environment.get("lease") or LEASE) if program else 0.0,
        )
    )
    decision.add_to_context(event.elements)
    if decision.definition.rule is not None:
        _begin_global(decision, environment)
    elif joins:
        signals.join(decision)
        if program:
            _set_lease(decision)
        else:
            life.take(decision)
    else:
        object_text = environment.get("object", "")
        eid = int(object_text) if object_text.isdecimal() else next(iter(event.elements), 0)
        case = environment.get("case", "")
        life.begin(decision, eid, int(case) if case.isdecimal() else 0, environment.get("exception", ""))


def _begin_global(decision: InstanceDecision, environment: dict[str, str]) -> None:
    """Run the action of a global event."""
    rule = decision.definition.rule
    assert rule is not None, decision.definition
    parameters = msgspec.json.decode(environment.get("parameters") or "{}", type=dict[str, str])
    decision.change(ScriptBegan(ScriptFrame("action", "", event=rule.event, parameters=parameters)))


def _set_lease(decision: InstanceDecision) -> None:
    wake, state = decision.identifier(), decision.state
    until = max(decision.event.at + state.lease if not state.wake else 0.0, state.lease_until or 0.0)
    decision.change(LeaseRenewed(until, wake))
    decision.command(commands.SetTimer(wake, until))


def _lease_over(decision: InstanceDecision) -> None:
    """End an instance whose program is presumed dead; wait again if its lease was renewed."""
    state = decision.state
    if state.lease_until is not None and state.lease_until > decision.event.at:
        _set_lease(decision)
        return
    decision.change(LeaseOver())
    if state.outcome:  # it ends already
        return
    where = f"in state {state.state} with object {state.object}" if state.state else "without an object"
    message = f"its program has asked nothing for {state.lease:g} s; it was {where}"
    error = decision.add_error_element("dead", message, decision.part, where={"object": state.object or None})
    moves.begin_end(decision, "dead", message, error=error, gives_back=True)


def _returned(decision: InstanceDecision, event: Returned) -> None:
    state = decision.state
    purpose, signal, reserved = state.calls[event.call], state.answered.get(event.call, ""), state.reserved
    decision.change(CallBack(event.call))
    match purpose:
        case "take":
            life.given(decision, event, signal)
        case "code" if not state.is_busy:
            decision.free(reserved, well=False)
        case "code":
            life.code_back(decision, event, reserved)
        case "script":
            _script_back(decision, event)
        case "ended":
            life.told(decision, event.problem)
        case "raise":
            scripts.take_back(decision, event)
            if signal:
                decision.ask(commands.Answer(signal, event.value, event.problem))
        case _ if purpose == GONE:
            scripts.take_back(decision, event)


def _script_back(decision: InstanceDecision, event: Returned) -> None:
    """Continue the script whose call has returned, or make the call again."""
    frame = decision.state.frames[-1]
    assert frame.call == event.call, frame
    decision.change(ScriptAt(frame.position))
    asked = decision.view.pending_call(event.call)
    target = (asked.kind, asked.name) if asked is not None else ("", "")
    scripts.take_back(decision, event)
    try:
        produced = scripts.keep(decision, event, target, frame.reserved)
    except ScriptFault as fault:
        if not moves.try_again(decision, fault):
            moves.script_failed(decision, fault)
        return
    if produced:
        decision.change(OutputKept(produced))
