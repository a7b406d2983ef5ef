"""The process engine: moves tokens, forward and back.

`state` has all tokens and the order of their states. `changes` has the facts, among them the events of
section 3, and their effects on the state. `tokens` moves, joins and backtracks tokens. `calls` makes the
calls of nodes, `returns` receives their results and applies what the user's code requests, `conditions` looks
into memory. `operations` handles signals, `decision` ends a process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from narval.core.engines import events
from narval.kinds.process.engine import conditions, migrating, operations, returns
from narval.kinds.process.engine.changes import (
    DelayOver,
    NodeTokenFailed,
    ProcessChange,
    ProcessCreated,
    ProcessStarted,
)
from narval.kinds.process.engine.decision import (
    NodeFault,
    OperationRefused,
    ProcessDecision,
    cancel_process,
    fail_process,
)
from narval.kinds.process.engine.explain import diagnose as diagnose
from narval.kinds.process.engine.explain import explain as explain
from narval.kinds.process.engine.explain import part_word as part_word
from narval.kinds.process.engine.explain import parts as parts
from narval.kinds.process.engine.explain import remedy as remedy
from narval.kinds.process.engine.explain import render as render
from narval.kinds.process.engine.explain import story as story
from narval.kinds.process.engine.explain import waiting_for as waiting_for
from narval.kinds.process.engine.graph import graph as graph
from narval.kinds.process.engine.migrating import migrated as migrated
from narval.kinds.process.engine.state import ProcessState
from narval.kinds.process.engine.structure import unreachable as unreachable
from narval.kinds.process.engine.tokens import backtracking, flow
from narval.kinds.process.engine.tokens.views import token_view as token_view
from narval.kinds.process.language.attribute_types import kept

kind = "process"
definition_kind = "process"
changes = ProcessChange.union()
state_type = ProcessState
decision_type = ProcessDecision

instead_of_retry = "go back within it while it executes (narval backtrack), or start another"


def read_environment(values: Mapping[str, Any]) -> dict[str, str]:
    """The attributes that a run begins with, without those that are None. Raises ValueError, TypeError."""
    attributes = {name: kept(name, value) for name, value in values.items()}
    return {name: text for name, text in attributes.items() if text is not None}


def advance(decision: ProcessDecision, event: events.Event) -> None:
    """Decide the changes and commands that follow from one event."""
    decide = _ON.get(type(event))
    if decide is not None and not decision.state.over:
        for act in (partial(decide, decision, event), partial(_run_code, decision)):
            while not decision.state.over:
                try:
                    act()
                    break
                except NodeFault as fault:
                    _fault(decision, event, fault)
                    act = partial(_resume, decision)
        _fail_if_stuck(decision)


def fail(decision: ProcessDecision, error: int) -> None:
    """Decide the end of a process whose advance raised: it fails where it is, and its calls are given up."""
    fail_process(decision, error, abandon=False)


def _fault(decision: ProcessDecision, event: events.Event, fault: NodeFault) -> None:
    """Report a node that cannot continue, and refuse the signal that led to it; the token stays."""
    error = fault.error
    if error is None:
        error = decision.add_error(fault.kind, fault.message, fault.node, token=fault.token or 0)
    if fault.token is not None:
        decision.change(NodeTokenFailed(fault.token, error))
    if isinstance(event, events.Signalled) and not decision.refused:
        decision.refused = True
        decision.refuse(event, fault.kind, fault.message)
    if fault.kind == flow.ENDLESS:
        fail_process(decision, error)


def _run_code(decision: ProcessDecision) -> None:
    """Run the queued code, that of backtracked nodes first."""
    state = decision.state
    while state.status == "executing":
        first = state.code_line.first
        if decision.ways_back:
            _go_back(decision)
        elif state.code:
            break
        elif state.undoing:
            backtracking.undo(decision)
        elif first is not None:
            flow.run_code(decision, state.nodes[first])
        else:
            break
        _go_on(decision)


def _go_back(decision: ProcessDecision) -> None:
    """Go back with a token that leaves by an arc that leads back; if that is refused, the token stays. Raises
    NodeFault.
    """
    token = decision.ways_back[0][0]
    try:
        backtracking.take_ways_back(decision)
    except OperationRefused as refusal:
        fault = NodeFault(refusal.kind, refusal.message, decision.node(token))
        fault.token = token.id
        raise fault from None


def _resume(decision: ProcessDecision) -> None:
    """Continue after a fault with everything that can continue."""
    _go_on(decision)
    _run_code(decision)


def _fail_if_stuck(decision: ProcessDecision) -> None:
    """Fail the process if nothing else can ever happen and a failed node asks for that (section 18)."""
    state = decision.state
    if not state.failed or state.status != "executing" or state.calls or state.paused or state.undoing:
        return
    if len(state.failed) < len(state.active_nodes) or state.queue.first is not None:
        return
    for number, error in state.failed.items():
        if decision.node(state.nodes[number]).text_of("on-error") == "fail":
            fail_process(decision, error)
            return


def _started(decision: ProcessDecision, event: events.Started) -> None:
    if decision.state.started:
        return
    environment = dict(event.environment)
    decision.happens(ProcessCreated(event.at, event.elements, event.caller, event.attempt, environment))
    decision.add_to_context(event.elements)
    decision.happens(ProcessStarted())
    starts = decision.definition.start_nodes
    if not starts:
        why = f"process {decision.definition.full_name} has no node with isStart"
        fail_process(decision, decision.add_error("no-start-node", why))
        return
    for node in starts:
        token = flow.create(decision, node)
        try:
            flow.run_node(decision, node, token)
        except NodeFault as fault:
            _fault(decision, event, fault)
    flow.run_queue(decision)


def _migrated(decision: ProcessDecision, event: events.Migrated) -> None:
    acts = migrating.follow_version(decision, event)
    for act in acts:
        try:
            act()
        except NodeFault as fault:
            _fault(decision, event, fault)
    if acts:
        _go_on(decision)


def _returned(
    receive: Callable[..., None], decision: ProcessDecision, event: events.Returned | events.Produced
) -> None:
    if event.call in decision.state.calls:
        receive(decision, event)
        _go_on(decision)


def _matched(decision: ProcessDecision, event: events.Matched) -> None:
    token = decision.state.nodes.get(decision.state.watches.get(event.watch, 0))
    if token is not None and conditions.satisfied(decision, decision.node(token), token):
        flow.complete(decision, token)
        _go_on(decision)


def _woken(decision: ProcessDecision, event: events.TimerFired) -> None:
    """Ask the guard of a delayed token again, give up a call at another agent, or continue the queue that was
    too long for one advance.
    """
    if event.wake == decision.state.paused:
        decision.resume_queue()
    elif event.wake in decision.state.calls:
        returns.expired(decision, event.wake)
    else:
        token = decision.state.nodes.get(decision.state.delayed.get(event.wake, 0))
        if token is None:
            return
        decision.change(DelayOver(token.id))
        node = decision.node(token)
        (flow.execute if token.guard == "AcceptToken" else flow.run_node)(decision, node, token)
    _go_on(decision)


def _go_on(decision: ProcessDecision) -> None:
    if not decision.leaves_queue:
        flow.run_queue(decision)


def _cancelled(decision: ProcessDecision, event: events.Cancelled) -> None:
    if decision.state.status != "pending-cancel":
        cancel_process(decision)


_ON: dict[type, Callable[[ProcessDecision, Any], None]] = {
    events.Started: _started,
    events.Migrated: _migrated,
    events.Returned: partial(_returned, returns.returned),
    events.Produced: partial(_returned, returns.produced),
    events.Matched: _matched,
    events.TimerFired: _woken,
    events.Signalled: operations.signalled,
    events.Cancelled: _cancelled,
}
