"""What the parts of the automaton engine share while one event is decided."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from narval.definitions.automaton.definition import Automaton, State
from narval.engines import commands
from narval.engines.automaton.changes import AutomatonChange, RunMoved, StatesKilled
from narval.engines.automaton.state import APPLY, PHASES, AutomatonState
from narval.engines.events import Event
from narval.engines.recorder import Recorder
from narval.engines.view import View
from narval.memory.elements.element import Element, Origin
from narval.memory.elements.error_element import make_error


class AutomatonDecision:
    """One advance of one run: what is known, what has been decided, and which states are still to go on."""

    __slots__ = ("asked", "automaton", "event", "record", "skipped", "state", "to_run", "view")

    def __init__(self, automaton: Automaton, state: AutomatonState, event: Event, view: View) -> None:
        self.automaton, self.state, self.event, self.view = automaton, state, event, view
        self.record: Recorder[AutomatonState, AutomatonChange] = Recorder(state, APPLY, event, view)
        self.to_run: deque[State] = deque()
        self.asked: set[str] = set()
        """States of which it was asked whether they are up to date."""
        self.skipped: deque[State] = deque()
        """States that were up to date, and whose successors are still to hear of it."""

    def add_error(
        self, kind: str, message: str, state: str = "", *, status: str = "", detail: str = "", call: str = ""
    ) -> int:
        """An error element that names run, automaton and state (A5); its eid."""
        xml = make_error(
            kind,
            message,
            detail,
            run=self.state.run,
            automaton=self.automaton.full_name,
            step=state,
            status=status,
        )
        origin = Origin(self.state.run, state, call)
        element = Element(self.view.next_eid, xml, self.event.at, origin)
        self.record.command(commands.Add(element))
        return element.eid

    # --- killing (section 4, A4) ----------------------------------------------------------------------

    def started_by(self, state: str) -> tuple[str, ...]:
        """A state, and all that it has started, directly or not."""
        found: dict[str, None] = {}
        pending = [state]
        while pending:
            name = pending.pop()
            if name not in found:
                found[name] = None
                pending.extend(self.state.of(name).started)
        return tuple(found)

    def kill(self, states: Iterable[str]) -> None:
        """These are as if they had never run; programs of theirs are ended, with their whole groups.

        So their 0 does not count any more for a join that has not started: section 4 lets it count, and then
        a join starts that some of what it waits for has yet to reach.
        """
        names = tuple(name for name in states if self.state.of(name).state != "idle")
        runs = [self.state.of(name) for name in names]
        calls = tuple(run.call for run in runs if run.call)
        for run in runs:
            if run.wake:
                self.record.command(commands.CancelTimer(run.wake))
        if names:
            self.record.change(StatesKilled(names, calls))
        for call in calls:
            self.record.command(commands.CancelCall(call))

    # --- the end --------------------------------------------------------------------------------------

    def end(self, outcome: str, error: int | None = None) -> None:
        """The run is decided: what still runs is ended, and then it is over (A5)."""
        if self.state.state != "running":
            return
        self.to_run.clear()
        self.skipped.clear()
        self._stop_waiting()
        self.record.change(RunMoved("ending", self.event.at, outcome, error))
        self.kill(tuple(self.state.calls.values()))

    def finish(self, to: str, error: int | None = None) -> None:
        """The run is over: tell its caller, be forgotten in time (N5)."""
        state, automaton = self.state, self.automaton
        self._stop_waiting()
        self.record.change(RunMoved(to, self.event.at, error=error))
        produced = tuple(eid for run in state.states.values() for eid in run.produced)
        failed = (state.error,) if state.error is not None and to == "failed" else ()
        self.record.command(
            commands.Finish(to, PHASES[to], produced if to == "done" else failed, state.error)
        )
        if automaton.decay is not None:
            self.record.command(commands.ScheduleForget(self.event.at + automaton.decay))

    def _stop_waiting(self) -> None:
        for name in self.state.held:
            run = self.state.of(name)
            if run.wake:
                self.record.command(commands.CancelTimer(run.wake))
