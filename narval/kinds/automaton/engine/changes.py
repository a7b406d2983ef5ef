"""Facts that change a run of an automaton. Applying one decides nothing; `state.py` says what each does."""

from __future__ import annotations

from typing import Literal

from narval.core.engines.run_state import RunBegan, RunChange

Hold = Literal["programs", "date", "signal", "quick", "back-off", "room"]
"""The things a ready state waits for: killed programs to be gone, a date, a signal, the end of a pause
after quick deaths, the moment of its next try, or room under `max-parallel`."""


class AutomatonChange(RunChange, frozen=True):
    """A fact that changes a run of an automaton. `at` is its moment, 0 where it was recorded without one."""


class RunStarted(AutomatonChange, RunBegan, frozen=True):
    """The run began; `elements` are its first context. It is given up at the moment `until`, which `wake`
    names, if it has one (A17)."""

    wake: str = ""
    until: float | None = None


class RunLate(AutomatonChange, frozen=True):
    """The run has had its time, and is given up (A17)."""


class StateReady(AutomatonChange, frozen=True):
    """The state is to run; `by` started it, and would take it along when it is killed itself. `dying` are the
    calls of what was killed for it: they are gone before it runs. `soon`: an error led
    back to it soon after it had begun."""

    state: str
    by: str = ""
    dying: tuple[str, ...] = ()
    soon: bool = False
    at: float = 0.0


class StateHeld(AutomatonChange, frozen=True):
    """The state waits before it runs; `wake` names the moment and `until` is it, where there is one. After a
    back-off the contender `fallback` has its turn."""

    state: str
    hold: Hold
    wake: str = ""
    until: float | None = None
    fallback: int = 0
    at: float = 0.0


class StateCalled(AutomatonChange, frozen=True):
    """A program, or a run, was asked for: the first contender, or a later one (A8). `wake` names the end of
    the time that a run has; a program's is kept by who runs it."""

    state: str
    call: str
    fallback: int
    at: float
    wake: str = ""


class StateSkipped(AutomatonChange, frozen=True):
    """The state was up to date: what it creates is there, and nothing it needs is newer; counts as 0 (A9)."""

    state: str
    at: float = 0.0


class CallLate(AutomatonChange, frozen=True):
    """The run that answers in place of a program has had its time, and is given up."""

    call: str


class StateInterrupted(AutomatonChange, frozen=True):
    """A signal interrupts the state: it ends with this label once what runs of it is gone (A20)."""

    state: str
    label: str


class CallFailed(AutomatonChange, frozen=True):
    """A call did not succeed, and another contender or another try follows (A7, A8); with `again` another try
    of the same contender (A21)."""

    call: str
    label: str
    output: str = ""
    again: bool = False


class StateEnded(AutomatonChange, frozen=True):
    """The last call of the state came back: `label` is how it ended, `skipped`: it was up to date (A9)."""

    state: str
    label: str
    output: str = ""
    skipped: bool = False
    produced: tuple[int, ...] = ()
    at: float = 0.0


class StateAwaited(AutomatonChange, frozen=True):
    """A successor needs the 0 of this state no more; `W` of section 4."""

    state: str
    of: str


class StatesKilled(AutomatonChange, frozen=True):
    """These states are as if they had never run; `calls` are those of theirs under way, now being ended."""

    states: tuple[str, ...]
    calls: tuple[str, ...] = ()
    at: float = 0.0


class CallGone(AutomatonChange, frozen=True):
    """A killed call is gone."""

    call: str


class SignalHeard(AutomatonChange, frozen=True):
    """A signal that no state waited for yet."""

    name: str


class SignalTaken(AutomatonChange, frozen=True):
    """A state had waited for this signal, and goes on; `kept`: it had been heard before."""

    state: str
    name: str
    kept: bool = False


class FinalReached(AutomatonChange, frozen=True):
    """A state that nothing follows ended with 0."""

    state: str


class RunMoved(AutomatonChange, frozen=True):
    """The run went on to another state; `outcome` is what it will come to once its programs are gone."""

    to: str
    at: float
    outcome: str = ""
    error: int | None = None
