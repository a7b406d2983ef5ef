"""Facts that change a run of an automaton. Applying one decides nothing; `state.py` says what each does."""

from __future__ import annotations

from typing import Literal

import msgspec

from narval.engines.events import Caller

Hold = Literal["programs", "date", "signal", "quick", "back-off", "room"]
"""The things a ready state waits for: killed programs to be gone, a date, a signal, the end of a pause
after quick deaths, the moment of its next try, or room under `max-parallel`."""


class RunStarted(msgspec.Struct, frozen=True, tag=True, omit_defaults=True, gc=False):
    """The run began; `elements` are its first context."""

    at: float
    elements: tuple[int, ...] = ()
    caller: Caller | None = None
    attempt: int = 0


class StateReady(msgspec.Struct, frozen=True, tag=True, omit_defaults=True, gc=False):
    """The state is to run; `by` started it, and would take it along when it is killed itself. `dying` are the
    calls of what was killed for it: they are gone before it runs. `soon`: an error led
    back to it soon after it had begun."""

    state: str
    by: str = ""
    dying: tuple[str, ...] = ()
    soon: bool = False


class StateHeld(msgspec.Struct, frozen=True, tag=True, omit_defaults=True, gc=False):
    """The state waits before it runs; `wake` names the moment and `until` is it, where there is one."""

    state: str
    hold: Hold
    wake: str = ""
    until: float | None = None


class StateCalled(msgspec.Struct, frozen=True, tag=True, omit_defaults=True, gc=False):
    """A program, or a run, was asked for: the first contender, or a later one (A8). `wake` names the end of
    the time that a run has; a program's is kept by who runs it."""

    state: str
    call: str
    fallback: int
    at: float
    wake: str = ""


class StateSkipped(msgspec.Struct, frozen=True, tag=True, gc=False):
    """The state was up to date: what it creates is there, and nothing it needs is newer; counts as 0 (A9)."""

    state: str


class CallLate(msgspec.Struct, frozen=True, tag=True, gc=False):
    """The run that answers in place of a program has had its time, and is given up."""

    call: str


class CallFailed(msgspec.Struct, frozen=True, tag=True, omit_defaults=True, gc=False):
    """A call did not succeed, and another contender or another try follows (A7, A8)."""

    call: str
    label: str
    output: str = ""


class StateEnded(msgspec.Struct, frozen=True, tag=True, omit_defaults=True, gc=False):
    """The last call of the state came back: `label` is how it ended, `skipped`: it was up to date (A9)."""

    state: str
    label: str
    output: str = ""
    skipped: bool = False
    produced: tuple[int, ...] = ()


class StateAwaited(msgspec.Struct, frozen=True, tag=True, gc=False):
    """A successor needs the 0 of this state no more; `W` of section 4."""

    state: str
    of: str


class StatesKilled(msgspec.Struct, frozen=True, tag=True, omit_defaults=True, gc=False):
    """These states are as if they had never run; `calls` are those of theirs under way, now being ended."""

    states: tuple[str, ...]
    calls: tuple[str, ...] = ()


class CallGone(msgspec.Struct, frozen=True, tag=True, gc=False):
    """A killed call is gone."""

    call: str


class SignalHeard(msgspec.Struct, frozen=True, tag=True, gc=False):
    """A signal that no state waited for yet."""

    name: str


class SignalTaken(msgspec.Struct, frozen=True, tag=True, omit_defaults=True, gc=False):
    """A state had waited for this signal, and goes on; `kept`: it had been heard before."""

    state: str
    name: str
    kept: bool = False


class FinalReached(msgspec.Struct, frozen=True, tag=True, gc=False):
    """A state that nothing follows ended with 0."""

    state: str


class RunMoved(msgspec.Struct, frozen=True, tag=True, omit_defaults=True, gc=False):
    """The run went on to another state; `outcome` is what it will come to once its programs are gone."""

    to: str
    at: float
    outcome: str = ""
    error: int | None = None


AutomatonChange = (
    RunStarted
    | StateReady
    | StateHeld
    | StateCalled
    | StateSkipped
    | CallLate
    | CallFailed
    | StateEnded
    | StateAwaited
    | StatesKilled
    | CallGone
    | SignalHeard
    | SignalTaken
    | FinalReached
    | RunMoved
)
