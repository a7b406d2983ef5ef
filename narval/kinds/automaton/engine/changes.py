"""Facts that change a run of an automaton, each with its effect. Applying one decides nothing."""

from __future__ import annotations

from typing import Literal

from narval.core.engines.run_state import RunBegan, RunChange, take_over
from narval.kinds.automaton.engine.state import AutomatonState, StateRun

Hold = Literal["programs", "date", "signal", "quick", "back-off", "room"]
"""The reasons for which a ready state waits: killed programs to be gone, a date, a signal, the end of a pause
after quick deaths, the moment of its next try, or room under `max-parallel`.
"""


class AutomatonChange(RunChange, frozen=True):
    """A fact that changes a run of an automaton. `at` is its moment, 0 if none was recorded."""


class RunStarted(AutomatonChange, RunBegan, frozen=True):
    """The run began; `elements` are its first context. At `until`, if set, the timer `wake` ends the run
    (A17). `after` is the failed run that this one restarts, or 0.
    """

    wake: str = ""
    until: float | None = None
    after: int = 0

    def apply(self, state: AutomatonState) -> None:
        state.move("running")
        state.begin(self)
        state.wake, state.until, state.after = self.wake, self.until, self.after


class RunLate(AutomatonChange, frozen=True):
    """The run exceeded its time limit and is given up."""

    def apply(self, state: AutomatonState) -> None:
        state.wake = ""


class StateReady(AutomatonChange, frozen=True):
    """The state is to run. `by` started it; if `by` is killed, so is this state. `dying` are the calls of
    states killed for it: they must be gone before it runs. `soon`: an error led back to it soon after it
    began; `died`: before it ran long enough to count as stable.
    """

    state: str
    by: str = ""
    dying: tuple[str, ...] = ()
    soon: bool = False
    at: float = 0.0
    died: bool = False

    def apply(self, state: AutomatonState) -> None:
        run = state.move_state(self.state, "ready", self.at)
        if self.by:
            if run.by and run.by in state.states:
                state.states[run.by].started.pop(self.state, None)
            state.states[self.by].started[self.state] = None
            run.by = self.by
        run.visits += 1
        run.failures = run.fallback = run.tries = 0
        run.started, run.missing, run.produced = {}, None, ()
        run.skipped, run.late, run.interrupted, run.dying = False, False, "", self.dying
        run.quick = run.quick + 1 if self.soon else 0
        run.deaths = run.deaths + 1 if self.died else 0
        run.first_death = self.at if run.deaths <= 1 else run.first_death
        run.last_death = self.at


class StateHeld(AutomatonChange, frozen=True):
    """The state waits before it runs, until the moment `until`, if set, whose timer is `wake`. After a
    back-off the contender `fallback` is tried.
    """

    state: str
    hold: Hold
    wake: str = ""
    until: float | None = None
    fallback: int = 0
    at: float = 0.0

    def apply(self, state: AutomatonState) -> None:
        run = state.move_state(self.state, "held", self.at)
        run.hold, run.wake, run.until = self.hold, self.wake, self.until
        if self.hold == "back-off":
            run.fallback = self.fallback
        state.held[self.state] = None
        if self.hold == "room":
            state.queue[self.state] = None


class StateCalled(AutomatonChange, frozen=True):
    """A program or a run was called: the first contender, or a later one (A8). `wake` is the timer of a run's
    time limit; the executor enforces that of a program.
    """

    state: str
    call: str
    fallback: int
    at: float
    wake: str = ""

    def apply(self, state: AutomatonState) -> None:
        run = state.move_state(self.state, "running", self.at)
        state.let_go(run, self.state)
        run.call, run.fallback, run.since = self.call, self.fallback, self.at
        run.wake, run.late = self.wake, False
        state.calls[self.call] = self.state


class StateSkipped(AutomatonChange, frozen=True):
    """The state was up to date: its files exist, and nothing it needs is newer. It counts as 0 (A9)."""

    state: str
    at: float = 0.0

    def apply(self, state: AutomatonState) -> None:
        run = state.move_state(self.state, "done", self.at)
        if run.hold:
            state.let_go(run, self.state)
        run.label, run.output, run.skipped = "0", "", True


class CallLate(AutomatonChange, frozen=True):
    """The run called in place of a program exceeded its time limit and is given up."""

    call: str

    def apply(self, state: AutomatonState) -> None:
        run = state.states[state.calls[self.call]]
        run.late, run.wake = True, ""


class StateInterrupted(AutomatonChange, frozen=True):
    """A signal interrupts the state: it ends with this label when its program is gone (A20)."""

    state: str
    label: str

    def apply(self, state: AutomatonState) -> None:
        run = state.states[self.state]
        run.interrupted, run.wake = self.label, ""


class CallFailed(AutomatonChange, frozen=True):
    """A call failed; another contender or try follows (A7, A8), with `again` of the same contender (A21)."""

    call: str
    label: str
    output: str = ""
    again: bool = False

    def apply(self, state: AutomatonState) -> None:
        run = state.states[state.calls.pop(self.call)]
        run.call, run.wake, run.label, run.output = "", "", self.label, self.output
        run.tries = run.tries + 1 if self.again else 0
        run.failures += not self.again


class StateEnded(AutomatonChange, frozen=True):
    """The last call of the state returned. `label` is how it ended; `skipped`: it was up to date."""

    state: str
    label: str
    output: str = ""
    skipped: bool = False
    produced: tuple[int, ...] = ()
    at: float = 0.0

    def apply(self, state: AutomatonState) -> None:
        run = state.move_state(self.state, "done" if self.label == "0" else "erred", self.at)
        state.let_go(run, self.state)
        state.calls.pop(run.call, None)
        run.call, run.wake, run.label, run.output = "", "", self.label, self.output
        run.skipped, run.produced = self.skipped, self.produced


class StateAwaited(AutomatonChange, frozen=True):
    """A successor no longer needs the 0 of this state: `W` of section 4."""

    state: str
    of: str

    def apply(self, state: AutomatonState) -> None:
        run = state.states.get(self.state)
        if run is None:
            run = state.states[self.state] = StateRun()
        if run.missing is None:
            run.missing = dict.fromkeys(state.awaits.get(self.state, ()))
        run.missing.pop(self.of, None)


class StatesKilled(AutomatonChange, frozen=True):
    """These states are reset, as if they had never run; `calls` are their running calls, which are being
    ended.
    """

    states: tuple[str, ...]
    calls: tuple[str, ...] = ()
    at: float = 0.0

    def apply(self, state: AutomatonState) -> None:
        for call in self.calls:
            state.dying[call] = state.calls.pop(call)
        killed = dict.fromkeys(self.states)
        for name in killed:
            run = state.states[name]
            state.let_go(run, name)
            run.become("idle", self.at)
            run.call, run.started, run.missing = "", {}, None
        for name, run in state.states.items():
            if run.missing is not None:  # a join that has not started needs their 0 again
                run.missing.update((other, None) for other in state.awaits[name] if other in killed)


class CallGone(AutomatonChange, frozen=True):
    """A killed call is gone."""

    call: str

    def apply(self, state: AutomatonState) -> None:
        state.dying.pop(self.call, None)


class SignalHeard(AutomatonChange, frozen=True):
    """A signal arrived that no state waited for yet."""

    name: str

    def apply(self, state: AutomatonState) -> None:
        state.signals = (*state.signals, self.name)


class SignalTaken(AutomatonChange, frozen=True):
    """A state that waited for this signal continues; `kept`: the signal had arrived before."""

    state: str
    name: str
    kept: bool = False

    def apply(self, state: AutomatonState) -> None:
        if self.kept:
            at = state.signals.index(self.name)
            state.signals = state.signals[:at] + state.signals[at + 1 :]


class FinalReached(AutomatonChange, frozen=True):
    """A final state ended with 0."""

    state: str

    def apply(self, state: AutomatonState) -> None:
        if self.state not in state.finals:
            state.finals = (*state.finals, self.state)


class RunMoved(AutomatonChange, frozen=True):
    """The run moved to another state; `outcome` is its status when its programs are gone."""

    to: str
    at: float
    outcome: str = ""
    error: int | None = None

    def apply(self, state: AutomatonState) -> None:
        state.move(self.to, self.at, self.error)
        state.outcome = self.outcome
        state.wake, state.until = "", None
        for name in tuple(state.held):
            run = state.states[name]
            state.let_go(run, name)
            run.become("idle", self.at)


class AutomatonMigrated(AutomatonChange, frozen=True):
    """The run continues with another version of its automaton, in this state."""

    version: str
    state: AutomatonState

    def apply(self, state: AutomatonState) -> None:
        take_over(state, self.state)
