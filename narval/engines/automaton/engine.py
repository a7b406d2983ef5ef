"""The automaton engine: orders programs started and killed, by how they end (A1-A16).

`state.py` has the tables of what may follow what, `changes.py` the facts; `running.py` holds a state until it
may run and asks for its programs, `ending.py` takes what came of them, `story.py` tells how far a run is, and
`deciding.py` is what they share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from narval.definitions.automaton.definition import Automaton
from narval.engines import commands
from narval.engines.automaton import completion, start
from narval.engines.automaton import state as states
from narval.engines.automaton.changes import (
    AutomatonChange,
    CallLate,
    RunStarted,
    SignalHeard,
    SignalTaken,
)
from narval.engines.automaton.decision import AutomatonDecision
from narval.engines.automaton.explain import diagnose, explain, parts, render, waiting_for
from narval.engines.automaton.state import AutomatonState
from narval.engines.commands import Command
from narval.engines.dates import has_come
from narval.engines.engine import Lookup
from narval.engines.events import (
    Cancelled,
    Event,
    Failure,
    Resume,
    Returned,
    Reusable,
    Signalled,
    Started,
    TimerFired,
)
from narval.engines.view import View
from narval.errors import RequestError
from narval.memory.elements.element import Element, Origin

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
    "waiting_for",
]

kind = "automaton"
definition_kind = "automaton"
changes = AutomatonChange
state_type = AutomatonState
apply = states.apply


def begin(run: int, definition: Automaton) -> AutomatonState:
    """A run that has not started."""
    awaits = {
        state.name: tuple(each.name for each in state.awaits)
        for state in definition.states.values()
        if state.awaits
    }
    return AutomatonState(run, definition.full_name, awaits)


def resumed(state: AutomatonState) -> tuple[int, str] | None:
    """None: a run of an automaton begins at its start; what is up to date is skipped there (A9)."""
    return None


def plan_resume(
    definition: Automaton,
    before: AutomatonState,
    part: str | None,
    given: Iterable[Reusable],
    element: Lookup,
) -> Resume:
    """An automaton is not begun again from one of its states. Raises RequestError."""
    raise RequestError(
        f"a run of an automaton cannot begin in the middle; start {definition.full_name} again: states whose "
        "creates=… are there and newer than their needs=… are skipped"
    )


def status(state: AutomatonState) -> str:
    """The run's own word for its state."""
    return state.state


def advance(
    definition: Automaton, state: AutomatonState, event: Event, view: View
) -> tuple[list[AutomatonChange], list[Command]]:
    """What follows from one event."""
    run = AutomatonDecision(definition, state, event, view)
    decide = _ON.get(type(event))
    if decide is not None and not state.over:
        decide(run, event)
        if not state.over:
            completion.settle(run)
    return run.record.changes, run.record.commands


def on_engine_error(
    definition: Automaton, state: AutomatonState, event: Event, view: View, error: int
) -> tuple[list[AutomatonChange], list[Command]]:
    """What ends a run whose advance raised: it fails where it stands."""
    run = AutomatonDecision(definition, state, event, view)
    if not state.over:
        run.finish("failed", error)
    return run.record.changes, run.record.commands


def _started(run: AutomatonDecision, event: Started) -> None:
    if run.state.state != "ready":
        return
    run.record.change(RunStarted(event.at, event.elements, event.caller, event.attempt))
    if event.elements:
        run.record.command(commands.AddToContext(event.elements))
    start.make_ready(run, run.automaton.start)


def _woken(run: AutomatonDecision, event: TimerFired) -> None:
    """A date has come, or the moment of the next try, or a run that was called has had its time."""
    for call, name in run.state.calls.items():
        if run.state.of(name).wake == event.wake:
            run.record.change(CallLate(call))
            run.record.command(commands.CancelCall(call))
            return
    for name in run.state.held:
        now = run.state.of(name)
        if now.wake != event.wake:
            continue
        state = run.automaton.states[name]
        early = now.hold == "date" and not has_come(state.after, now.until or 0.0, event.at, run.view)
        if early:
            start.wait_for_date(run, state)
        else:
            start.go_on(run, state)
        return


def _signalled(run: AutomatonDecision, event: Signalled) -> None:
    """Someone outside said something (A10): the first state that waits for it goes on; else it is kept.

    What came with it joins the run's context, where programs are given it (A13).
    """
    if run.state.state not in ("ready", "running"):
        why = f"run {run.state.run} is {run.state.state}: it waits for nothing any more"
        run.record.command(commands.Answer(event.signal, problem=Failure("not-listening", why)))
        return
    known = sorted({state.wait for state in run.automaton.states.values() if state.wait})
    if event.name not in known:
        why = f"no state of {run.automaton.full_name} waits for {event.name}"
        why += f"; they wait for {', '.join(known)}" if known else ""
        run.record.command(commands.Answer(event.signal, problem=Failure("not-listening", why)))
        return
    for raw in event.elements:
        origin = Origin(run.state.run, "", event.signal)
        run.record.command(commands.Add(Element(run.view.next_eid, raw.xml, event.at, origin)))
    for name in run.state.held:
        state = run.automaton.states[name]
        if run.state.of(name).hold == "signal" and state.wait == event.name:
            run.record.change(SignalTaken(name, event.name))
            run.record.command(commands.Answer(event.signal, {"taken_by": name}))
            start.go_on(run, state)
            return
    run.record.change(SignalHeard(event.name))
    run.record.command(commands.Answer(event.signal, {"taken_by": None}))


def _cancelled(run: AutomatonDecision, event: Cancelled) -> None:
    """What runs is ended, with all its group; the run is over when that is gone (A4)."""
    if run.state.state == "running" and (run.state.calls or run.state.dying):
        run.end("cancelled")
    elif run.state.state != "ending":
        run.finish("cancelled")


_ON: dict[type, Callable[[AutomatonDecision, Any], None]] = {
    Started: _started,
    Returned: completion.returned,
    TimerFired: _woken,
    Signalled: _signalled,
    Cancelled: _cancelled,
}
