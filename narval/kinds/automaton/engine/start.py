"""Running a state: the waits before it, and the calls of its contenders (A7-A10, A14, A15)."""

from __future__ import annotations

from collections.abc import Callable, Collection

from narval.core.definitions.remote_calls import limit_of_remote
from narval.core.engines import commands
from narval.core.engines.calls.backoff import wait
from narval.core.engines.dates import next_date
from narval.kinds.automaton.engine.changes import (
    Hold,
    SignalTaken,
    StateCalled,
    StateHeld,
    StateReady,
    StateSkipped,
)
from narval.kinds.automaton.engine.decision import AutomatonDecision
from narval.kinds.automaton.engine.state import STEADY
from narval.kinds.automaton.language.definition import Automaton, State

QUICK, QUICK_DEATHS = 1.0, 20
"""The seconds after a state's start within which an error that leads back to it is a quick death, and the
quick deaths in a row after which it pauses before the next start.
"""
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 30.0
"""The first of these pauses, which double, and the longest, in seconds."""


def make_ready(
    decision: AutomatonDecision,
    state: State,
    by: str = "",
    killed: Collection[str] = (),
    *,
    erred: bool = False,
) -> None:
    """Make a state ready, to run when what was killed for it is gone, unless it has used up its visits."""
    now = decision.state.of(state.name)
    visits, dying = now.visits, decision.state.dying
    if state.max_visits is not None and visits >= state.max_visits:
        message = f"state {state.name} was to start again after {visits} visits, the limit of its max-visits"
        decision.end("failed", decision.add_error_element("max-visits", message, state.name))
        return
    gone_first = tuple([call for call, of in dying.items() if of in killed or of == by]) if dying else ()
    lived = decision.event.at - now.since if erred and visits > 0 else STEADY
    died = lived < STEADY and not (state.after or state.wait)  # otherwise it is not meant to run always
    decision.change(StateReady(state.name, by, gone_first, lived < QUICK, decision.event.at, died))
    decision.to_run.append(state)


def go_on(decision: AutomatonDecision, state: State) -> None:
    """Advance a state to its next wait, or run it."""
    for held_or_skipped in _NEXT[decision.state.states[state.name].hold]:
        if held_or_skipped(decision, state):
            return
    call(decision, state, decision.state.of(state.name).fallback)


def call(decision: AutomatonDecision, state: State, fallback: int) -> None:
    """Call the program of a contender, or the run that takes its place (A8, A15)."""
    identifier = decision.identifier()
    if state.target is not None:
        _call_run(decision, state, state.target, identifier)
        return
    decision.change(StateCalled(state.name, identifier, fallback, decision.event.at))
    program = program_of(decision.definition, state, fallback)
    who = identifier, commands.PROGRAM, program.words[0], state.name
    fed, limit, restart = _fed(decision, state), state.timeout, state.on_restart
    asked = commands.Call(*who, fed, ("",), timeout=limit, on_restart=restart, program=program)
    decision.command(asked)


def _call_run(decision: AutomatonDecision, state: State, target: tuple[str, str], identifier: str) -> None:
    """Call a run. Its nearest elements are this state's inputs and what its states have produced.

    A run of another agent gets these and sees nothing else (G33). The time limit of a run is enforced here:
    executors enforce only that of programs.
    """
    kind, name = target
    limit = limit_of_remote(state.timeout) if state.agent else state.timeout
    wake = decision.identifier() if limit is not None else ""
    decision.change(StateCalled(state.name, identifier, 0, decision.event.at, wake))
    produced = tuple(eid for run in decision.state.states.values() for eid in run.produced)
    along = (*produced, *decision.state.first)
    elements, nearby = (along, ()) if state.agent else ((), (along,))
    who = identifier, kind, name, state.name
    decision.command(
        commands.Call(*who, elements=elements, nearby=nearby, on_restart=state.on_restart, agent=state.agent)
    )
    if limit is not None:
        decision.command(commands.SetTimer(wake, decision.event.at + limit))


def program_of(automaton: Automaton, state: State, fallback: int) -> commands.Program:
    """The program of a state; whether it must run is checked when it is started."""
    return commands.Program(
        words=state.contenders[fallback].words,
        text=state.contenders[fallback].text,
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
        processes=state.limits.processes,
        run_processes=automaton.processes,
        reaches=state.reaches,
    )


def _fed(decision: AutomatonDecision, state: State) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """The elements of the run's context for the state's programs, by variable; "" is standard input."""
    fed = []
    for feed in state.inputs:
        bound = feed.condition.bind({})
        eids = tuple(decision.view.among(decision.view.context(decision.state.eid), bound, None))
        if eids:
            fed.append((feed.name, eids if not feed.name else eids[-1:]))
    return tuple(fed)


def _is_up_to_date(decision: AutomatonDecision, state: State) -> bool:
    """True if there is nothing to do; this check takes no room and no program.

    It is made once an event: in a circle of such states the program backend makes the second check.
    """
    if not state.creates or state.name in decision.asked:
        return False
    decision.asked.add(state.name)
    return decision.view.is_up_to_date(state.directory, state.creates, state.needs, decision.times)


# --- waits ----------------------------------------------------------------------------------------------

_Wait = Callable[[AutomatonDecision, State], bool]
"""A function that holds a state, or skips it; it returns False if there is no need to wait."""


def _hold_for_programs(decision: AutomatonDecision, state: State) -> bool:
    """Hold a state until the programs of its previous visit are gone."""
    dying = decision.state.dying
    if not dying or not any(call_id in dying for call_id in decision.state.of(state.name).dying):
        return False
    decision.change(StateHeld(state.name, "programs", at=decision.event.at))
    return True


def wait_for_date(decision: AutomatonDecision, state: State) -> bool:
    """Wait for the next matching date, if the state has dates; also after the clock was set back."""
    if not state.after:
        return False
    date = next_date(state.after, decision.view.zone, decision.event.at)
    if date is None:
        message = f"none of the dates that state {state.name} waits for ever comes again"
        decision.end("failed", decision.add_error_element("no-date", message, state.name))
        return True
    wake = decision.identifier()
    decision.change(StateHeld(state.name, "date", wake, date, at=decision.event.at))
    decision.command(commands.SetTimer(wake, date, calendar=True))
    return True


def _hold_for_signal(decision: AutomatonDecision, state: State) -> bool:
    if not state.wait:
        return False
    if state.wait in decision.state.signals:
        decision.change(SignalTaken(state.name, state.wait, kept=True))
        return False
    decision.change(StateHeld(state.name, "signal", at=decision.event.at))
    return True


def _hold_after_quick_deaths(decision: AutomatonDecision, state: State) -> bool:
    """Pause a state that died quickly more than `QUICK_DEATHS` times in a row."""
    deaths = decision.state.states[state.name].quick - QUICK_DEATHS
    if deaths <= 0:
        return False
    wake = decision.identifier()
    until = decision.event.at + min(LONGEST_PAUSE, wait(FIRST_PAUSE, deaths, decision.event.id))
    decision.change(StateHeld(state.name, "quick", wake, until, at=decision.event.at))
    decision.command(commands.SetTimer(wake, until))
    return True


def _skip_or_hold_for_room(decision: AutomatonDecision, state: State) -> bool:
    if _is_up_to_date(decision, state):
        decision.change(StateSkipped(state.name, decision.event.at))
        decision.skipped.append(state)
        return True
    if decision.state.has_capacity(decision.definition.max_parallel):
        return False
    decision.change(StateHeld(state.name, "room", at=decision.event.at))
    return True


_HOLDS: dict[Hold, _Wait] = {
    "programs": _hold_for_programs,
    "date": wait_for_date,
    "signal": _hold_for_signal,
    "quick": _hold_after_quick_deaths,
    "room": _skip_or_hold_for_room,
}
"""The waits of a ready state, in order."""

_NEXT: dict[str, tuple[_Wait, ...]] = {
    "": (*_HOLDS.values(),),
    "back-off": (_HOLDS["room"],),
    **{hold: (*_HOLDS.values(),)[place:] for place, hold in enumerate(_HOLDS, 1)},
}
"""The waits that may follow each wait."""
