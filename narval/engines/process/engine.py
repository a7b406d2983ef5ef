"""The process engine: moves tokens, forward and back.

`state.py` has the tables of what may follow what and what is kept of all tokens, `tokens.py` what a token is,
`changes.py` the facts, which are the events of section 3 too. `moving.py` moves tokens, `joins.py` and
`requirements.py` say where they join, `guards.py` whether they are let in. `node_types.py` says what nodes
do: `calling.py` makes calls, `returning.py` takes what came of them, `effects.py` does what code of the
user's own wants, `waiting.py` watches memory. `backtracking.py` goes back, `traversal.py` walks over tokens,
`environment.py` reads attributes, `signals.py` hears operations, `ending.py` ends a process, `story.py` and
`telling.py` tell of it, and `deciding.py` is what they share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from narval.definitions.process.definition import Process
from narval.engines import commands
from narval.engines.commands import Command
from narval.engines.engine import Lookup
from narval.engines.events import (
    Cancelled,
    Event,
    Matched,
    Produced,
    Resume,
    Returned,
    Reusable,
    Signalled,
    Started,
    TimerFired,
)
from narval.engines.process import completion, flow, operations, returns
from narval.engines.process import state as states
from narval.engines.process import waits as waiting
from narval.engines.process.changes import Paused, ProcessChange, ProcessCreated, ProcessStarted
from narval.engines.process.decision import NodeFault, ProcessDecision
from narval.engines.process.explain import diagnose, explain, parts, render, waiting_for
from narval.engines.process.state import ProcessState
from narval.engines.process.structure import unreachable
from narval.engines.process.token_view import token_view
from narval.engines.view import View
from narval.errors import RequestError

__all__ = [
    "advance",
    "apply",
    "begin",
    "changes",
    "definition_kind",
    "diagnose",
    "explain",
    "kind",
    "on_engine_error",
    "parts",
    "plan_resume",
    "render",
    "resumed",
    "state_type",
    "status",
    "token_view",
    "unreachable",
    "waiting_for",
]

kind = "process"
definition_kind = "process"
changes = ProcessChange
state_type = ProcessState
apply = states.apply


def begin(run: int, definition: Process) -> ProcessState:
    """A process that has not started."""
    return ProcessState(run, definition.full_name)


def status(state: ProcessState) -> str:
    """The process' own word for its state."""
    return state.state


def resumed(state: ProcessState) -> tuple[int, str] | None:
    """Processes are not begun again from a part of an earlier one: they go back."""
    return None


def plan_resume(
    definition: Process, before: ProcessState, part: str | None, given: Iterable[Reusable], element: Lookup
) -> Resume:
    """Processes are not begun again from a part of an earlier one. Raises RequestError."""
    raise RequestError(
        f"process {before.run} cannot be begun again from a node; "
        "go back within it while it executes (narval backtrack), or start another"
    )


def advance(
    definition: Process, state: ProcessState, event: Event, view: View
) -> tuple[list[ProcessChange], list[Command]]:
    """What follows from one event."""
    run = ProcessDecision(definition, state, event, view)
    decide = _ON.get(type(event))
    if decide is not None and not state.over:
        try:
            decide(run, event)
        except NodeFault as fault:
            _fault(run, event, fault)
    return run.record.changes, run.record.commands


def on_engine_error(
    definition: Process, state: ProcessState, event: Event, view: View, error: int
) -> tuple[list[ProcessChange], list[Command]]:
    """What ends a process whose advance raised: it fails where it stands; its calls are given up for it."""
    run = ProcessDecision(definition, state, event, view)
    if not state.over:
        completion.fail(run, error, abandon=False)
    return run.record.changes, run.record.commands


def _fault(run: ProcessDecision, event: Event, fault: NodeFault) -> None:
    """A node could not go on: who asked for what led there is told, and may ask again; else the run fails."""
    error = fault.error
    if error is None:
        error = run.add_error(fault.kind, fault.message, fault.node, detail=fault.detail)
    if isinstance(event, Signalled):
        run.refuse(event, fault.kind, fault.message)
    if not isinstance(event, Signalled) or fault.kind == "endless":
        completion.fail(run, error)


def _started(run: ProcessDecision, event: Started) -> None:
    if run.state.started:
        return
    environment = dict(event.environment)
    run.happens(ProcessCreated(event.at, event.elements, event.caller, event.attempt, environment))
    if event.elements:
        run.record.command(commands.AddToContext(event.elements))
    run.happens(ProcessStarted())
    starts = run.process.start_nodes
    if not starts:
        raise NodeFault("no-start-node", f"process {run.process.full_name} has no node with isStart")
    for node in starts:
        flow.run_node(run, node, flow.create(run, node))
    flow.run_queue(run)


def _returned(run: ProcessDecision, event: Returned) -> None:
    if event.call in run.state.calls:
        returns.returned(run, event)
        _go_on(run)


def _produced(run: ProcessDecision, event: Produced) -> None:
    if event.call in run.state.calls:
        returns.produced(run, event)
        _go_on(run)


def _matched(run: ProcessDecision, event: Matched) -> None:
    number = run.state.watches.get(event.watch)
    if number is None:
        return
    token = run.state.nodes[number]
    if waiting.satisfied(run, run.node(token), token):
        flow.complete(run, token)
        _go_on(run)


def _woken(run: ProcessDecision, event: TimerFired) -> None:
    """A delayed token is asked about again; or the queue, which was too long for one advance, goes on."""
    if event.wake == run.state.paused:
        run.goes_on = True
        run.record.change(Paused(laps=run.state.laps))
    else:
        number = run.state.delayed.get(event.wake)
        if number is None:
            return
        token = run.state.nodes[number]
        run.woken(token)
        flow.run_node(run, run.node(token), token)
    _go_on(run)


def _go_on(run: ProcessDecision) -> None:
    if not run.leaves_queue:
        flow.run_queue(run)


def _cancelled(run: ProcessDecision, event: Cancelled) -> None:
    if run.state.state != "pending-cancel":
        completion.cancel(run)


_ON: dict[type, Callable[[ProcessDecision, Any], None]] = {
    Started: _started,
    Returned: _returned,
    Produced: _produced,
    Matched: _matched,
    TimerFired: _woken,
    Signalled: operations.signalled,
    Cancelled: _cancelled,
}
