"""Running states: the waits before a state, the calls of its contenders, and what follows its end (A3-A5,
A7-A10, A14, A15, section 4).
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from narval.core.definitions.remote_calls import limit_of_remote
from narval.core.engines import commands
from narval.core.engines.dates import next_date, retry_wait
from narval.core.engines.events import Returned
from narval.kinds.automaton.engine.changes import (
    CallFailed,
    CallGone,
    FinalReached,
    Hold,
    SignalTaken,
    StateAwaited,
    StateCalled,
    StateEnded,
    StateInterrupted,
    StateReady,
    StateSkipped,
)
from narval.kinds.automaton.engine.decision import AutomatonDecision
from narval.kinds.automaton.engine.explain import last_line
from narval.kinds.automaton.engine.state import STEADY
from narval.kinds.automaton.language.definition import END, SIGNAL, SUCCESS, TIMEOUT, Automaton, State

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
    unpaced = not (state.after or state.wait)  # by dates or signals; such a state is not meant to run always
    died, soon = unpaced and lived < STEADY, unpaced and lived < QUICK
    decision.change(StateReady(state.name, by, gone_first, soon, decision.event.at, died))
    decision.to_run.append(state)


def go_on(decision: AutomatonDecision, state: State) -> None:
    """Advance a state to its next wait, or run it."""
    run = decision.state.states[state.name]
    may_wait = run.hold or run.dying or run.quick or state.after or state.wait  # for more than room
    for held_or_skipped in _NEXT[run.hold if may_wait else "quick"]:
        if held_or_skipped(decision, state):
            return
    call(decision, state, run.fallback)


def call(decision: AutomatonDecision, state: State, fallback: int) -> None:
    """Call the program of a contender, or the run that takes its place (A8, A15)."""
    identifier = decision.identifier()
    if state.target is not None:
        _call_run(decision, state, state.target, identifier)
        return
    decision.change(StateCalled(state.name, identifier, fallback, decision.event.at))
    program = _program_of(decision.definition, state, fallback)
    who = identifier, commands.PROGRAM, program.words[0], state.name
    fed, limit, restart = _fed(decision, state), state.timeout, state.on_restart
    asked = commands.Call(*who, fed, ("",), timeout=limit, on_restart=restart, program=program)
    decision.command(asked)


def _call_run(decision: AutomatonDecision, state: State, target: tuple[str, str], identifier: str) -> None:
    """Call a run. Its nearest elements are this state's inputs and what its states have produced.

    A run of another agent gets these and sees nothing else. The time limit of a run is enforced here:
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


def _program_of(automaton: Automaton, state: State, fallback: int) -> commands.Program:
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
    decision.hold(state, "programs")
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
    decision.hold(state, "date", date)
    return True


def _hold_for_signal(decision: AutomatonDecision, state: State) -> bool:
    if not state.wait:
        return False
    if state.wait in decision.state.signals:
        decision.change(SignalTaken(state.name, state.wait, kept=True))
        return False
    decision.hold(state, "signal")
    return True


def _hold_after_quick_deaths(decision: AutomatonDecision, state: State) -> bool:
    """Pause a state that died quickly more than `QUICK_DEATHS` times in a row."""
    deaths = decision.state.states[state.name].quick - QUICK_DEATHS
    if deaths <= 0:
        return False
    pause = min(LONGEST_PAUSE, retry_wait(FIRST_PAUSE, deaths, decision.event.id))
    decision.hold(state, "quick", decision.event.at + pause)
    return True


def _skip_or_hold_for_room(decision: AutomatonDecision, state: State) -> bool:
    if _is_up_to_date(decision, state):
        decision.change(StateSkipped(state.name, decision.event.at))
        decision.skipped.append(state)
        return True
    if decision.state.has_capacity(decision.definition.max_parallel):
        return False
    decision.hold(state, "room")
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

Ended = tuple[str, ...]
"""The labels for the end of a call, most precise first."""


def returned(decision: AutomatonDecision, event: Returned) -> None:
    """Handle the end of a program, or of a run in its place: it ended or was killed."""
    if event.call in decision.state.dying:
        decision.change(CallGone(event.call))
    elif event.call in decision.state.calls:
        state = decision.definition.states[decision.state.calls[event.call]]
        decision.add_to_context(event.eids)
        _came_back(decision, state, event)
    let_go(decision)


def _came_back(decision: AutomatonDecision, state: State, event: Returned) -> None:
    now = decision.state.of(state.name)
    labels, output = _how_it_ended(event) if not now.late else ((TIMEOUT,), "")
    if now.interrupted:
        labels = (now.interrupted,)
    if now.wake:
        decision.command(commands.CancelTimer(now.wake))
    # another try is useless (N29); a run that exceeded its time limit was cancelled by this one
    is_final = event.problem is not None and event.problem.final and not now.late
    if labels[0] != SUCCESS and not now.interrupted and not is_final:
        contender = state.contenders[now.fallback] if state.contenders else None
        if contender is not None and now.tries < contender.retries:
            decision.change(CallFailed(event.call, labels[0], output, again=True))
            pause = retry_wait(contender.backoff, max(1, now.tries), event.id)
            decision.hold(state, "back-off", event.at + pause, now.fallback)
            return
        if now.fallback + 1 < len(state.contenders):
            decision.change(CallFailed(event.call, labels[0], output))
            call(decision, state, now.fallback + 1)
            return
        if (rounds := now.failures // max(1, len(state.contenders))) < state.retries:
            decision.change(CallFailed(event.call, labels[0], output))
            pause = retry_wait(state.backoff, max(1, rounds), event.id)
            decision.hold(state, "back-off", event.at + pause)
            return
    skipped = bool(event.value and event.value.get("skipped"))
    produced = event.eids if labels[0] == SUCCESS else ()
    decision.change(StateEnded(state.name, labels[0], output, skipped, produced, event.at))
    _follow(decision, state, labels)


def interrupt(decision: AutomatonDecision, state: State, label: str) -> bool:
    """Leave a running state by the transition of a signal, when its program is gone; False if it was already
    interrupted or is no longer running.
    """
    now = decision.state.of(state.name)
    if now.interrupted or now.state not in ("running", "held"):
        return False
    if now.wake:
        decision.command(commands.CancelTimer(now.wake))
    decision.change(StateInterrupted(state.name, label))
    if now.state == "held":
        decision.change(StateEnded(state.name, label, at=decision.event.at))
        _follow(decision, state, (label,))
    else:
        decision.command(commands.CancelCall(now.call))
    return True


def _how_it_ended(event: Returned) -> tuple[Ended, str]:
    """The labels for the end of a call, most precise first, and the last lines of its output."""
    value = event.value or {}
    output = str(value.get("output") or "")
    if event.problem is not None and not event.value:
        labels = (TIMEOUT,) if event.problem.kind == TIMEOUT else ("1",)
        return labels, output or event.problem.message
    if event.abandoned:
        return ("SIGTERM", SIGNAL), output
    if value.get(TIMEOUT):
        return (TIMEOUT,), output
    if value.get(SIGNAL):
        return (str(value[SIGNAL]), SIGNAL), output
    return (str(value.get("status", 0)),), output


# --- successors -----------------------------------------------------------------------------------------


def _follow(decision: AutomatonDecision, state: State, labels: Ended) -> None:
    ends = labels[0] == SUCCESS and state.name == END
    label = None if ends else state.label(*labels)
    if label is None:
        _lead_nowhere(decision, state, labels)
        return
    ready, states = state.follow[label], decision.state.states
    if label == SUCCESS:
        for successor in ready:
            decision.change(StateAwaited(successor.name, state.name))
        ready = tuple([other for other in ready if not states[other.name].missing])
    # All are killed before one starts: else one that leads back would kill those that have just started.
    killed = [decision.started_by(successor.name) for successor in ready]
    left = [name for names in killed for name in names if name in states and states[name].state != "idle"]
    if left:
        decision.kill(dict.fromkeys(left))
    for successor, names in zip(ready, killed, strict=True):
        if decision.state.status != "running":
            return
        # A state that is killed with its successor does not own it. Otherwise starting it again would kill
        # what it has just begun, as the printed log of example 2 shows.
        by = "" if state.name in names else state.name
        make_ready(decision, successor, by, names, erred=label != SUCCESS)


def _lead_nowhere(decision: AutomatonDecision, state: State, labels: Ended) -> None:
    """Handle an end that no transition matches: a branch ends well, or the run ends."""
    if labels[0] == SUCCESS and state.is_final:
        decision.change(FinalReached(state.name))
        if state.name == END:
            decision.end("done")
        return
    how = f"signal {labels[0]}" if SIGNAL in labels else f"status {labels[0]}"
    how = "its time limit" if labels[0] == TIMEOUT else how
    message = f"state {state.name} ended with {how}, and no transition leads on from there"
    output = decision.state.of(state.name).output
    if last := last_line(output):
        message += f"; it said last: “{last}”"
    where: dict[str, str | int | None] = {"status": labels[0]}
    decision.end("failed", decision.add_error_element("status", message, state.name, output, where=where))


# --- waiting states -------------------------------------------------------------------------------------


def let_go(decision: AutomatonDecision) -> None:
    """Resume states that waited for a call to be gone, or for room."""
    if decision.state.status != "running":
        return
    if len(decision.state.held) > len(decision.state.queue):
        for name in tuple(decision.state.held):
            now = decision.state.of(name)
            if now.hold == "programs" and not any(call in decision.state.dying for call in now.dying):
                go_on(decision, decision.definition.states[name])
    while decision.state.queue and decision.state.has_capacity(decision.definition.max_parallel):
        go_on(decision, decision.definition.states[next(iter(decision.state.queue))])


def settle(decision: AutomatonDecision) -> None:
    """Continue until nothing is left to decide; then check whether the run has ended."""
    while decision.to_run or decision.skipped:
        while decision.to_run:
            state = decision.to_run.popleft()
            if decision.state.states[state.name].state == "ready":  # a later decision may have killed it
                go_on(decision, state)
        while decision.skipped:
            state = decision.skipped.popleft()
            if decision.state.states[state.name].skipped:
                _follow(decision, state, (SUCCESS,))
    now = decision.state
    if now.status == "running" and not now.calls and not now.held and not now.dying:
        if now.finals:
            decision.finish("done")
        else:
            message = f"nothing runs and nothing can start: {_missing(decision)}"
            decision.finish("failed", decision.add_error_element("stuck", message))
    elif now.status == "ending" and not now.calls and not now.dying:
        decision.finish(now.outcome)


def _missing(decision: AutomatonDecision) -> str:
    """Describe the joins that have some, but not all, of what they need."""
    reasons = []
    for name, state in decision.definition.states.items():
        missing = decision.state.missing(name)
        if missing and len(missing) < len(state.awaits):
            reasons.append(f"{name} waits for 0 of {', '.join(missing)}")
    return "; ".join(reasons) or "no final state was reached"
