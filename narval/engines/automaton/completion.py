"""A state has ended: who follows it, who is killed for that, and when the run is over (A3-A5, section 4)."""

from __future__ import annotations

from narval.definitions.automaton.definition import END, SIGNAL, SUCCESS, TIMEOUT, State
from narval.engines import commands
from narval.engines.automaton.changes import (
    CallFailed,
    CallGone,
    FinalReached,
    StateAwaited,
    StateEnded,
    StateHeld,
)
from narval.engines.automaton.decision import AutomatonDecision
from narval.engines.automaton.start import call, go_on, make_ready
from narval.engines.backoff import wait
from narval.engines.events import Returned

Ended = tuple[str, ...]
"""How a call ended: its labels, most precise first."""


def returned(run: AutomatonDecision, event: Returned) -> None:
    """A program, or a run in its place, is gone: because it ended, or because it was killed."""
    if event.call in run.state.dying:
        run.record.change(CallGone(event.call))
    elif event.call in run.state.calls:
        state = run.automaton.states[run.state.calls[event.call]]
        if event.eids:
            run.record.command(commands.AddToContext(event.eids))
        _came_back(run, state, event)
    _let_go(run)


def _came_back(run: AutomatonDecision, state: State, event: Returned) -> None:
    now = run.state.of(state.name)
    labels, output = how_it_ended(event) if not now.late else ((TIMEOUT,), "")
    if now.wake:
        run.record.command(commands.CancelTimer(now.wake))
    if labels[0] != SUCCESS:
        if now.contender + 1 < len(state.commands):
            run.record.change(CallFailed(event.call, labels[0], output))
            call(run, state, now.contender + 1)
            return
        if now.failures // max(1, len(state.commands)) < state.retries:
            run.record.change(CallFailed(event.call, labels[0], output))
            _back_off(run, state)
            return
    skipped = bool(event.value and event.value.get("skipped"))
    produced = event.eids if labels[0] == SUCCESS else ()
    run.record.change(StateEnded(state.name, labels[0], output, skipped, produced))
    _follow(run, state, labels)


def how_it_ended(event: Returned) -> tuple[Ended, str]:
    """The labels that a call's end has, most precise first, and the last lines of its output."""
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


def _back_off(run: AutomatonDecision, state: State) -> None:
    """All contenders have failed; they are tried again after a while, which doubles (A7)."""
    tries = run.state.of(state.name).failures // max(1, len(state.commands))
    wake = run.record.identifier()
    until = run.event.at + wait(state.backoff, max(1, tries), run.event.id)
    run.record.change(StateHeld(state.name, "back-off", wake, until))
    run.record.command(commands.SetTimer(wake, until))


# --- who follows ----------------------------------------------------------------------------------------


def _follow(run: AutomatonDecision, state: State, labels: Ended) -> None:
    label = state.label(*labels)
    if label is None:
        _lead_nowhere(run, state, labels)
        return
    for successor in state.follow[label]:
        if run.state.state != "running":
            return
        if label == SUCCESS:
            run.record.change(StateAwaited(successor.name, state.name))
            if run.state.lacking(successor.name):
                continue
        _start_over(run, successor, state, erred=label != SUCCESS)


def _start_over(run: AutomatonDecision, successor: State, by: State, *, erred: bool) -> None:
    """What is left of the successor, and all it had started, is killed before it starts (A3, A4).

    Where that includes the state that led here, it does not own its successor: or to start that one anew
    would kill what it has just begun, which is what the log printed for example 2 shows (A6).
    """
    killed = run.started_by(successor.name)
    run.kill(killed)
    make_ready(run, successor, "" if by.name in killed else by.name, killed, erred=erred)


def _lead_nowhere(run: AutomatonDecision, state: State, labels: Ended) -> None:
    """No transition has this label: the end of a branch that went well, or of the run (A5)."""
    if labels[0] == SUCCESS and state.is_final:
        run.record.change(FinalReached(state.name))
        if state.name == END:
            run.end("done")
        return
    how = f"signal {labels[0]}" if SIGNAL in labels else f"status {labels[0]}"
    how = "its time limit" if labels[0] == TIMEOUT else how
    message = f"state {state.name} ended with {how}, and no transition leads on from there"
    output = run.state.of(state.name).output
    error = run.add_error("status", message, state.name, status=labels[0], detail=output)
    run.end("failed", error)


# --- what went on waiting -------------------------------------------------------------------------------


def _let_go(run: AutomatonDecision) -> None:
    """A call is gone: states that waited for that, or for its room, go on."""
    if run.state.state != "running":
        return
    if len(run.state.held) > len(run.state.queue):
        for name in tuple(run.state.held):
            now = run.state.of(name)
            if now.hold == "programs" and not any(each in run.state.dying for each in now.dying):
                go_on(run, run.automaton.states[name])
    while run.state.queue and run.state.has_room(run.automaton.max_parallel):
        go_on(run, run.automaton.states[next(iter(run.state.queue))])


def settle(run: AutomatonDecision) -> None:
    """Go on until nothing is left to decide, then see whether the run is over (A5, A11)."""
    while run.to_run or run.skipped:
        while run.to_run:
            state = run.to_run.popleft()
            if run.state.of(state.name).state == "ready":  # a later decision may have killed it
                go_on(run, state)
        while run.skipped:
            state = run.skipped.popleft()
            if run.state.of(state.name).skipped:
                _follow(run, state, (SUCCESS,))
    now = run.state
    if now.state == "running" and not now.calls and not now.held and not now.dying:
        if now.finals:
            run.finish("done")
        else:
            run.finish(
                "failed", run.add_error("stuck", f"nothing runs and nothing can start: {_lacking(run)}")
            )
    elif now.state == "ending" and not now.calls and not now.dying:
        run.finish(now.outcome)


def _lacking(run: AutomatonDecision) -> str:
    """The joins that have got some of what they need."""
    found = []
    for name, state in run.automaton.states.items():
        lacking = run.state.lacking(name)
        if lacking and len(lacking) < len(state.awaits):
            found.append(f"{name} waits for 0 of {', '.join(lacking)}")
    return "; ".join(found) or "no final state was reached"
