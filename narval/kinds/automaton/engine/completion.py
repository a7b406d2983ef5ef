"""The end of a state: its successors, the states killed for them, and the end of the run (A3-A5,
section 4).
"""

from __future__ import annotations

from narval.core.engines import commands
from narval.core.engines.calls.backoff import wait
from narval.core.engines.events import Returned
from narval.kinds.automaton.engine.changes import (
    CallFailed,
    CallGone,
    FinalReached,
    StateAwaited,
    StateEnded,
    StateHeld,
    StateInterrupted,
)
from narval.kinds.automaton.engine.decision import AutomatonDecision
from narval.kinds.automaton.engine.explain import last_line
from narval.kinds.automaton.engine.start import call, go_on, make_ready
from narval.kinds.automaton.language.definition import END, SIGNAL, SUCCESS, TIMEOUT, State

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
    labels, output = how_it_ended(event) if not now.late else ((TIMEOUT,), "")
    if now.interrupted:
        labels = (now.interrupted,)
    if now.wake:
        decision.command(commands.CancelTimer(now.wake))
    is_final = event.problem is not None and event.problem.final  # another try is useless (N29)
    if labels[0] != SUCCESS and not now.interrupted and not is_final:
        contender = state.contenders[now.fallback] if state.contenders else None
        if contender is not None and now.tries < contender.retries:
            decision.change(CallFailed(event.call, labels[0], output, again=True))
            _back_off(decision, state, contender.backoff, now.tries, now.fallback)
            return
        if now.fallback + 1 < len(state.contenders):
            decision.change(CallFailed(event.call, labels[0], output))
            call(decision, state, now.fallback + 1)
            return
        if now.failures // max(1, len(state.contenders)) < state.retries:
            decision.change(CallFailed(event.call, labels[0], output))
            _back_off(decision, state, state.backoff, now.failures // max(1, len(state.contenders)))
            return
    skipped = bool(event.value and event.value.get("skipped"))
    produced = event.eids if labels[0] == SUCCESS else ()
    decision.change(StateEnded(state.name, labels[0], output, skipped, produced, event.at))
    _follow(decision, state, labels)


def interrupt(decision: AutomatonDecision, state: State, label: str) -> None:
    """Leave a running state by the transition of a signal, when its program is gone."""
    now = decision.state.of(state.name)
    if now.wake:
        decision.command(commands.CancelTimer(now.wake))
    decision.change(StateInterrupted(state.name, label))
    if now.state == "held":
        decision.change(StateEnded(state.name, label, at=decision.event.at))
        _follow(decision, state, (label,))
    else:
        decision.command(commands.CancelCall(now.call))


def how_it_ended(event: Returned) -> tuple[Ended, str]:
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


def _back_off(
    decision: AutomatonDecision, state: State, backoff: float | None, tries: int, fallback: int = 0
) -> None:
    """Schedule the next try after `tries` failures of all contenders, or of one; the pause doubles."""
    wake = decision.identifier()
    until = decision.event.at + wait(backoff, max(1, tries), decision.event.id)
    decision.change(StateHeld(state.name, "back-off", wake, until, fallback, decision.event.at))
    decision.command(commands.SetTimer(wake, until))


# --- successors -----------------------------------------------------------------------------------------


def _follow(decision: AutomatonDecision, state: State, labels: Ended) -> None:
    label = state.label(*labels)
    if label is None:
        _lead_nowhere(decision, state, labels)
        return
    for successor in state.follow[label]:
        if decision.state.status != "running":
            return
        if label == SUCCESS:
            decision.change(StateAwaited(successor.name, state.name))
            if decision.state.states[successor.name].missing:
                continue
        _start_over(decision, successor, state, erred=label != SUCCESS)


def _start_over(decision: AutomatonDecision, successor: State, by: State, *, erred: bool) -> None:
    """Start a successor; first kill what is left of it, and everything that it started (A3, A4).

    If that includes the state that led here, that state does not own its successor. Otherwise starting it
    again would kill what it has just begun, as the printed log of example 2 shows (A6).
    """
    killed: tuple[str, ...] = (successor.name,)
    if decision.state.of(successor.name).state != "idle":  # an idle state has nothing left that it started
        killed = decision.started_by(successor.name)
        decision.kill(killed)
    make_ready(decision, successor, "" if by.name in killed else by.name, killed, erred=erred)


def _lead_nowhere(decision: AutomatonDecision, state: State, labels: Ended) -> None:
    """Handle an end that no transition matches: a branch ends well, or the run ends (A5)."""
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
    found = []
    for name, state in decision.definition.states.items():
        missing = decision.state.missing(name)
        if missing and len(missing) < len(state.awaits):
            found.append(f"{name} waits for 0 of {', '.join(missing)}")
    return "; ".join(found) or "no final state was reached"
