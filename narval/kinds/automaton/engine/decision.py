"""One advance of a run of an automaton: killing states, holding them, ending the run."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import msgspec

from narval.core.engines import commands
from narval.core.engines.dates import restart_wait
from narval.core.engines.decision import Decision
from narval.core.engines.view import FileTimes
from narval.kinds.automaton.engine.changes import AutomatonChange, Hold, RunMoved, StateHeld, StatesKilled
from narval.kinds.automaton.engine.state import AutomatonState
from narval.kinds.automaton.language.definition import Automaton, State


class AutomatonDecision(Decision[Automaton, AutomatonState, AutomatonChange], kw_only=True, eq=False):
    """One advance of one run: what is known, what was decided, and the states still to advance."""

    to_run: deque[State] = msgspec.field(default_factory=deque)
    asked: set[str] = msgspec.field(default_factory=set)
    """The states that were checked for being up to date."""
    times: FileTimes = msgspec.field(default_factory=dict)
    """The modification times of the files examined for that."""
    skipped: deque[State] = msgspec.field(default_factory=deque)
    """The states that were up to date, whose successors are still to start."""

    # --- killing (section 4, A4) ----------------------------------------------------------------------

    def started_by(self, state: str) -> tuple[str, ...]:
        """Return a state and every state that it started, directly or not."""
        names: dict[str, None] = {}
        if not self.state.of(state).started:
            return (state,)
        pending = [state]
        while pending:
            name = pending.pop()
            if name not in names:
                names[name] = None
                pending.extend(self.state.of(name).started)
        return tuple(names)

    def kill(self, states: Iterable[str]) -> None:
        """Reset states as if they had never run, and end their programs with their process groups.

        Their 0 no longer counts for a join that has not started. In section 4 it still counts, but then a
        join could start before every state it waits for is reached.
        """
        names = tuple([name for name in states if self.state.of(name).state != "idle"])
        if not names:
            return
        runs = [self.state.of(name) for name in names]
        calls = tuple(run.call for run in runs if run.call)
        for run in runs:
            if run.wake:
                self.command(commands.CancelTimer(run.wake))
        self.change(StatesKilled(names, calls, self.event.at))
        for call in calls:
            self.command(commands.CancelCall(call))

    # --- waiting --------------------------------------------------------------------------------------

    def hold(self, state: State, hold: Hold, until: float | None = None, fallback: int = 0) -> None:
        """Hold a state; if that is until a moment, set a timer for it."""
        wake = self.identifier() if until is not None else ""
        self.change(StateHeld(state.name, hold, wake, until, fallback, self.event.at))
        if until is not None:
            self.command(commands.SetTimer(wake, until, calendar=hold == "date"))

    # --- the end --------------------------------------------------------------------------------------

    def end(self, outcome: str, error: int | None = None) -> None:
        """Decide the outcome of the run: end what is still running, then the run."""
        if self.state.status != "running":
            return
        self.to_run.clear()
        self.skipped.clear()
        self._stop_waiting()
        self.change(RunMoved("ending", self.event.at, outcome, error))
        self.kill(tuple(self.state.calls.values()))

    def finish(self, to: str, error: int | None = None) -> None:
        """End the run; give its caller what the states produced, or the error element of a failed run."""
        state = self.state
        self._stop_waiting()
        self.change(RunMoved(to, self.event.at, error=error))
        produced = tuple(eid for run in state.states.values() for eid in run.produced)
        failed = (state.error,) if state.error is not None and to == "failed" else ()
        self.report_end(produced if to == "done" else failed, state.after)
        if self.definition.restart:
            self._start_again()

    def _start_again(self) -> None:
        """Start the next run as recipes do: a second after this one began, or later after failures."""
        state, now = self.state, self.event.at
        if state.status == "done":
            at = state.started + commands.RESTART_PAUSE
            self.command(commands.Start(state.definition, state.first, at if at > now else None))
        elif state.status == "failed":
            at = now + restart_wait(state.attempt)
            self.command(commands.Start(state.definition, state.first, at, state.attempt + 1))

    def _stop_waiting(self) -> None:
        if self.state.wake:
            self.command(commands.CancelTimer(self.state.wake))
        for name in self.state.held:
            run = self.state.of(name)
            if run.wake:
                self.command(commands.CancelTimer(run.wake))
