"""The automaton engine: starts and kills programs, depending on how others end (A1-A16).

`state` has the tables of transitions and `changes` the facts. `running` holds a state until it may run, calls
its programs, and decides what follows when they end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from narval.core.definitions.schedule import Time
from narval.core.engines import commands
from narval.core.engines.dates import has_come
from narval.core.engines.events import Cancelled, Event, Migrated, Returned, Signalled, Started, TimerFired
from narval.kinds.automaton.engine import running
from narval.kinds.automaton.engine.changes import (
    AutomatonChange,
    CallLate,
    RunLate,
    RunStarted,
    SignalHeard,
    SignalTaken,
)
from narval.kinds.automaton.engine.decision import AutomatonDecision
from narval.kinds.automaton.engine.explain import explain as explain
from narval.kinds.automaton.engine.explain import part_word as part_word
from narval.kinds.automaton.engine.explain import parts as parts
from narval.kinds.automaton.engine.explain import render as render
from narval.kinds.automaton.engine.explain import story as story
from narval.kinds.automaton.engine.explain import waiting_for as waiting_for
from narval.kinds.automaton.engine.graph import graph as graph
from narval.kinds.automaton.engine.migrating import follow_version
from narval.kinds.automaton.engine.migrating import migrated as migrated
from narval.kinds.automaton.engine.state import AutomatonState
from narval.kinds.automaton.language.definition import Automaton, signal_label

kind = "automaton"
definition_kind = "automaton"
changes = AutomatonChange.union()
state_type = AutomatonState
decision_type = AutomatonDecision
instead_of_retry = (
    "start the automaton again: states whose creates=… are there and newer than their needs=… are skipped"
)


def advance(decision: AutomatonDecision, event: Event) -> None:
    """Decide the changes and commands that follow from one event."""
    decide = _ON.get(type(event))
    if decide is not None and not decision.state.over:
        decide(decision, event)
        if not decision.state.over:
            running.settle(decision)


def fail(decision: AutomatonDecision, error: int) -> None:
    """End a run whose advance raised: it fails where it is."""
    decision.finish("failed", error)


def _started(decision: AutomatonDecision, event: Started) -> None:
    if decision.state.status != "ready":
        return
    wake, until, timeout = "", None, decision.definition.timeout
    if timeout is not None:
        wake, until = decision.identifier(), event.at + timeout
        decision.command(commands.SetTimer(wake, until))
    begun = event.at, event.elements, event.caller, event.attempt, wake, until, event.after
    decision.change(RunStarted(*begun))
    decision.add_to_context(event.elements)
    running.make_ready(decision, decision.definition.start)


def dates_of(definition: Automaton, part: str) -> tuple[Time, ...]:
    """The dates of a state."""
    state = definition.states.get(part)
    return state.after if state is not None else ()


def _woken(decision: AutomatonDecision, event: TimerFired) -> None:
    """Handle a timer: a date, the next try, or the time limit of this run or of a called run."""
    if event.wake == decision.state.wake:
        _give_up(decision)
        return
    for call, name in decision.state.calls.items():
        if decision.state.of(name).wake == event.wake:
            decision.change(CallLate(call))
            decision.command(commands.CancelCall(call))
            return
    for name in decision.state.held:
        now = decision.state.of(name)
        if now.wake != event.wake:
            continue
        state = decision.definition.states[name]
        early = now.hold == "date" and not has_come(state.after, now.until or 0.0, event.at, decision.view)
        if early:
            running.wait_for_date(decision, state)
        else:
            running.go_on(decision, state)
        return


def _give_up(decision: AutomatonDecision) -> None:
    """End a run that exceeded its time limit, with its programs."""
    definition, under_way = decision.definition, [*decision.state.calls.values(), *decision.state.held]
    at = f": it was at {', '.join(under_way)}" if under_way else ""
    decision.change(RunLate())
    message = f"{definition.full_name} was not over within {definition.timeout:g} s{at}"
    decision.end("failed", decision.add_error_element("timeout", message))


def _signalled(decision: AutomatonDecision, event: Signalled) -> None:
    """Handle a signal: leave the states that it interrupts, and resume the first state that waits for it.

    A signal that a state may still wait for is kept. The elements that came with it join the run's context,
    from which programs get their elements.
    """
    if decision.state.status not in ("ready", "running"):
        why = f"run {decision.state.eid} is {decision.state.status}: it waits for nothing more"
        decision.refuse(event, "not-listening", why)
        return
    waiting, listening = _listeners(decision, event.name)
    if not waiting and not listening:
        decision.refuse(event, "not-listening", _unheard(decision, event.name))
        return
    for raw in event.elements:
        decision.add_told(raw.xml, event)
    label, states = signal_label(event.name), decision.definition.states
    taken = [name for name in listening if running.interrupt(decision, states[name], label)]
    for name in decision.state.held:
        state = states[name]
        if decision.state.of(name).hold == "signal" and state.wait == event.name:
            decision.change(SignalTaken(name, event.name))
            taken.append(name)
            running.go_on(decision, state)
            break
    if not taken:
        decision.change(SignalHeard(event.name))
    decision.answer(event, taken_by=", ".join(taken) or None)


def _listeners(decision: AutomatonDecision, signal: str) -> tuple[list[str], list[str]]:
    """The states that can wait for a signal, and the running states that it interrupts."""
    states, now = decision.definition.states, decision.state
    under_way = dict.fromkeys((*now.calls.values(), *now.held))
    return (
        [name for name, state in states.items() if state.wait == signal],
        [name for name in under_way if signal in states[name].interrupted_by],
    )


def _unheard(decision: AutomatonDecision, signal: str) -> str:
    """The reason why nothing listens to a signal: unknown, or it interrupts only states not running."""
    definition = decision.definition
    states = definition.states.values()
    interrupts = [state.name for state in states if signal in state.interrupted_by]
    if interrupts:
        return f"{signal} interrupts {', '.join(interrupts)}, and none of these is under way"
    names = {name for state in states for name in (state.wait, *state.interrupted_by) if name}
    heard = f"; its signals are {', '.join(sorted(names))}" if names else ""
    return f"no state of {definition.full_name} takes the signal {signal}{heard}"


def _cancelled(decision: AutomatonDecision, event: Cancelled) -> None:
    """End everything that runs, with its process groups; the run ends when they are gone."""
    if decision.state.status == "running" and (decision.state.calls or decision.state.dying):
        decision.end("cancelled")
    elif decision.state.status != "ending":
        decision.finish("cancelled")


_ON: dict[type, Callable[[AutomatonDecision, Any], None]] = {
    Started: _started,
    Migrated: follow_version,
    Returned: running.returned,
    TimerFired: _woken,
    Signalled: _signalled,
    Cancelled: _cancelled,
}
