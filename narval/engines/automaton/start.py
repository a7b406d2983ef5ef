"""Running a state: what it waits for first, and the calls of its contenders (A7-A10, A14, A15)."""

from __future__ import annotations

from collections.abc import Collection

from narval.definitions.automaton.definition import State
from narval.engines import commands
from narval.engines.automaton.changes import (
    Hold,
    SignalTaken,
    StateCalled,
    StateHeld,
    StateReady,
    StateSkipped,
)
from narval.engines.automaton.decision import AutomatonDecision
from narval.engines.backoff import wait
from narval.engines.dates import next_date

_HOLDS: tuple[Hold, ...] = ("programs", "date", "signal", "quick", "room")
"""What a state that is ready waits for, in this order."""


QUICK, QUICK_DEATHS = 1.0, 20
"""An error that leads back to a state within so many seconds of its start is a quick death; after more of
them in a row than that, a pause comes before the next start."""
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 30.0
"""Seconds of the first of these pauses, which double, and of the longest."""


def make_ready(
    run: AutomatonDecision, state: State, by: str = "", killed: Collection[str] = (), *, erred: bool = False
) -> None:
    """A state is to run, once what was killed for it is gone; unless it was visited often enough (A7)."""
    now = run.state.of(state.name)
    visits = now.visits
    if state.max_visits is not None and visits >= state.max_visits:
        message = f"state {state.name} was to start again after {visits} visits, which is its max-visits"
        run.end("failed", run.add_error("max-visits", message, state.name))
        return
    dying = tuple(each for each, of in run.state.dying.items() if of in killed)
    soon = erred and visits > 0 and run.event.at - now.since < QUICK
    run.record.change(StateReady(state.name, by, dying, soon))
    run.to_run.append(state)


def go_on(run: AutomatonDecision, state: State) -> None:
    """A state goes on to the next thing it waits for, or runs."""
    held = run.state.of(state.name).hold
    passed = _HOLDS.index(held) + 1 if held in _HOLDS else 0
    for hold in _HOLDS[passed:] if held != "back-off" else _HOLDS[-1:]:
        if hold == "room" and _is_up_to_date(run, state):
            run.record.change(StateSkipped(state.name))
            run.skipped.append(state)
            return
        if _HOLD[hold](run, state):
            return
    call(run, state, run.state.of(state.name).contender)


def call(run: AutomatonDecision, state: State, contender: int) -> None:
    """Ask for the program of a contender, or for the run that answers in its place (A8, A15)."""
    identifier = run.record.identifier()
    if state.target is not None:
        _call_run(run, state, state.target, identifier)
        return
    run.record.change(StateCalled(state.name, identifier, contender, run.event.at))
    asked = commands.Call(
        identifier,
        "program",
        state.commands[contender][0],
        state.name,
        inputs=_fed(run, state),
        listed=("",),
        timeout=state.timeout,
        on_restart=state.on_restart,
        program=program(state, contender),
    )
    run.record.command(asked)


def _call_run(run: AutomatonDecision, state: State, target: tuple[str, str], identifier: str) -> None:
    """A run is called, which finds what this one was given and what its states have produced nearest.

    Its time limit is kept here: who makes calls keeps that of programs alone.
    """
    kind, name = target
    wake = run.record.identifier() if state.timeout is not None else ""
    run.record.change(StateCalled(state.name, identifier, 0, run.event.at, wake))
    produced = tuple(eid for each in run.state.states.values() for eid in each.produced)
    near = ((*produced, *run.state.first),)
    run.record.command(
        commands.Call(identifier, kind, name, state.name, nearby=near, on_restart=state.on_restart)
    )
    if state.timeout is not None:
        run.record.command(commands.SetTimer(wake, run.event.at + state.timeout))


def program(state: State, contender: int) -> commands.Program:
    """What the system is to run; whether it must be run is seen when it is started (A9)."""
    return commands.Program(
        words=state.commands[contender],
        text=state.texts[contender],
        environment=tuple(state.environment.items()),
        selects=tuple((feed.name, feed.select) for feed in state.inputs if feed.name),
        directory=state.directory,
        creates=state.creates,
        needs=state.needs,
        unless=state.unless,
        cpu=state.limits.cpu,
        memory=state.limits.memory,
        files=state.limits.files,
        grace=state.grace,
    )


def _fed(run: AutomatonDecision, state: State) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """The elements of the run's context that its programs are given, by variable; "" is standard input."""
    fed = []
    for feed in state.inputs:
        bound = feed.condition.bind({})
        found = tuple(run.view.among(run.view.context(run.state.run), bound, None))
        if found:
            fed.append((feed.name, found if not feed.name else found[-1:]))
    return tuple(fed)


def _is_up_to_date(run: AutomatonDecision, state: State) -> bool:
    """Whether there is nothing to do (A9): it takes no room, and no program, to see that.

    Once in an event: the second time round in a circle of such states it is left to who runs programs.
    """
    if not state.creates or state.name in run.asked:
        return False
    run.asked.add(state.name)
    return run.view.is_up_to_date(state.directory, state.creates, state.needs)


# --- what it waits for ----------------------------------------------------------------------------------


def _hold_for_programs(run: AutomatonDecision, state: State) -> bool:
    """What is left of its former visit is gone before it starts (A3, A4)."""
    if not any(each in run.state.dying for each in run.state.of(state.name).dying):
        return False
    run.record.change(StateHeld(state.name, "programs"))
    return True


def wait_for_date(run: AutomatonDecision, state: State) -> bool:
    """Wait for the next date that fits, if the state has dates (A10); so too when the clock was set back."""
    if not state.after:
        return False
    date = next_date(state.after, run.view.zone, run.event.at)
    if date is None:
        message = f"none of the dates that state {state.name} waits for ever comes again"
        run.end("failed", run.add_error("no-date", message, state.name))
        return True
    wake = run.record.identifier()
    run.record.change(StateHeld(state.name, "date", wake, date))
    run.record.command(commands.SetTimer(wake, date, dated=True))
    return True


def _hold_for_signal(run: AutomatonDecision, state: State) -> bool:
    if not state.wait:
        return False
    if state.wait in run.state.signals:
        run.record.change(SignalTaken(state.name, state.wait, kept=True))
        return False
    run.record.change(StateHeld(state.name, "signal"))
    return True


def _hold_after_quick_deaths(run: AutomatonDecision, state: State) -> bool:
    """What dies again and again as soon as it was started is given a pause; the first times it is not."""
    deaths = run.state.of(state.name).quick - QUICK_DEATHS
    if deaths <= 0:
        return False
    wake = run.record.identifier()
    until = run.event.at + min(LONGEST_PAUSE, wait(FIRST_PAUSE, deaths, run.event.id))
    run.record.change(StateHeld(state.name, "quick", wake, until))
    run.record.command(commands.SetTimer(wake, until))
    return True


def _hold_for_room(run: AutomatonDecision, state: State) -> bool:
    if run.state.has_room(run.automaton.max_parallel):
        return False
    run.record.change(StateHeld(state.name, "room"))
    return True


_HOLD = {
    "programs": _hold_for_programs,
    "date": wait_for_date,
    "signal": _hold_for_signal,
    "quick": _hold_after_quick_deaths,
    "room": _hold_for_room,
}
