"""The state of a run of an automaton, and the tables of transitions (A2-A6).

A state   idle → ready → held → running → done | erred
          ready → running      held → held: it waits for one thing after another      running → held: back-off
          ready, held → done: it is up to date      held → erred: a signal interrupted it
          any → idle: it was killed, or is started again     done, erred, idle → ready
A run     ready → running → ending → done | failed      any that has not ended → cancelled | failed
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import ClassVar, Self

import msgspec

from narval.core.engines.run_state import Moves, RunState, illegal_move
from narval.kinds.automaton.language.definition import Automaton

STATE_MOVES: dict[str, frozenset[str]] = {
    "idle": frozenset({"ready"}),
    "ready": frozenset({"held", "running", "done"}),
    "held": frozenset({"held", "running", "done", "erred"}),
    "running": frozenset({"running", "held", "done", "erred"}),
    "done": frozenset({"ready"}),
    "erred": frozenset({"ready"}),
}
TIMED = ("held", "running")
"""The states of a state whose duration is recorded: it waits, or its program runs."""
RUN_MOVES: dict[str, frozenset[str]] = {
    "ready": frozenset({"running", "cancelled", "failed"}),
    "running": frozenset({"ending", "done", "failed", "cancelled"}),
    "ending": frozenset({"done", "failed", "cancelled"}),
}


STEADY, SEVERAL = 600.0, 3
"""The seconds after which a state that is meant to run always counts as stable, and the deaths in a row
before that which count as several.
"""


class StateRun(msgspec.Struct, omit_defaults=True, gc=False):
    """The progress of a state; a state missing from the run's state is idle and still awaits everything."""

    state: str = "idle"
    """Its present state."""
    call: str = ""
    """Its running call."""
    visits: int = 0
    """The number of times it was entered."""
    failures: int = 0
    """The contenders given up in this visit."""
    fallback: int = 0
    """The contender being tried."""
    label: str = ""
    """The label with which it ended."""
    output: str = ""
    """The output of its last call."""
    skipped: bool = False
    """True if it was up to date."""
    hold: str = ""
    """Its present wait while it is held."""
    wake: str = ""
    """The timer of `until`."""
    until: float | None = None
    """The moment it waits for."""
    dying: tuple[str, ...] = ()
    """The calls of states killed for it: they must be gone before it runs."""
    started: dict[str, None] = {}
    """The states that its present or last visit has started: `V` of section 4."""
    by: str = ""
    """The state that started it."""
    missing: dict[str, None] | None = None
    """The states whose 0 it still needs, None for all: `W`."""
    produced: tuple[int, ...] = ()
    """The elements that its last call returned."""
    since: float = 0.0
    """The moment of its last call."""
    quick: int = 0
    """The times in a row that an error led back to it soon after that moment."""
    deaths: int = 0
    """The times in a row that an error led back to it before it had run for `STEADY` seconds."""
    first_death: float = 0.0
    """The moment of the first of these deaths."""
    last_death: float = 0.0
    """The moment of the last of them."""
    late: bool = False
    """True if the run that answers its call has exceeded its time limit."""
    interrupted: str = ""
    """The label of the signal that interrupted it, while its program is being ended."""
    tries: int = 0
    """The failures of the present contender that led to a retry."""
    stood: float = 0.0
    """The moment at which it entered its present state."""
    succeeded: float = 0.0
    """The moment of its last 0."""
    spent: dict[str, float] = {}
    """The seconds for which it was held, and for which it ran, over all its visits up to `stood`."""

    def become(self, state: str, at: float) -> None:
        """Move to a state at a moment (0 if unknown)."""
        if at:
            if self.stood and self.state in TIMED:
                self.spent[self.state] = self.spent.get(self.state, 0.0) + max(0.0, at - self.stood)
            if state == "done":
                self.succeeded = at
        self.state, self.stood = state, at


class AutomatonState(RunState, omit_defaults=True):
    """One run of an automaton."""

    KIND: ClassVar[str] = "run"
    MOVES: ClassVar[Moves] = RUN_MOVES

    awaits: dict[str, tuple[str, ...]] = {}
    """For each state, those whose 0 it needs before it starts."""
    outcome: str = ""
    """The status that the run will have once its programs are gone."""
    states: dict[str, StateRun] = {}
    """The states that were reached."""
    calls: dict[str, str] = {}
    """Running calls: id to state."""
    dying: dict[str, str] = {}
    """Calls that were killed but are not gone yet: id to state."""
    held: dict[str, None] = {}
    """States that are ready and wait for something, in order of arrival."""
    queue: dict[str, None] = {}
    """The held states that wait for room."""
    signals: tuple[str, ...] = ()
    """Signals received that no state waited for yet."""
    finals: tuple[str, ...] = ()
    """Final states that ended with 0."""
    wake: str = ""
    """The timer of `until`; "" if there is none, or it has fired."""
    until: float | None = None
    """The moment at which the run is given up."""
    after: int = 0
    """The failed run that this one restarts; 0 if none."""

    @classmethod
    def blank(cls, run: int, definition: Automaton) -> Self:
        """The state of a run that has not started; its joins wait for all their states."""
        awaits = {state.name: state.awaits for state in definition.states.values() if state.awaits}
        return cls(run, definition.full_name, awaits=awaits)

    @property
    def dies_again(self) -> bool:
        """True if a state died several times in a row."""
        return any(run.deaths >= SEVERAL for run in self.states.values())

    def of(self, state: str) -> StateRun:
        """The progress of a state; idle if it was never reached."""
        return self.states.get(state, _IDLE)

    def missing(self, state: str) -> Collection[str]:
        """The states whose 0 a state still needs."""
        missing = self.of(state).missing
        return self.awaits.get(state, ()) if missing is None else missing

    def has_capacity(self, most: int | None) -> bool:
        """True if one more program may run; killed programs take up room until they are gone (A14)."""
        return most is None or len(self.calls) + len(self.dying) < most

    def progress(self) -> Iterator[tuple[str, str]]:
        """The states that were reached, with their progress."""
        return ((name, part.state) for name, part in self.states.items())

    def move_state(self, name: str, to: str, at: float) -> StateRun:
        """Move a state to another of its states. Raises InternalError for a transition in no table."""
        run = self.states.get(name)
        if run is None:
            run = self.states[name] = StateRun()
        if to not in STATE_MOVES[run.state]:
            raise illegal_move(self, f"state {name}", run.state, to)
        run.become(to, at)
        return run

    def let_go(self, run: StateRun, name: str) -> None:
        """End all waits of a state."""
        run.hold, run.wake, run.until = "", "", None
        self.held.pop(name, None)
        self.queue.pop(name, None)


_IDLE = StateRun()
