"""The trace of a simulation: what happened, from what each turn recorded, in the words of history."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from narval.engines import commands as asked
from narval.engines.events import Started, TimerFired
from narval.engines.registry import is_runnable
from narval.memory.elements.element import Element
from narval.memory.elements.error_element import read_error
from narval.runtime.store.batch import Advance, Batch
from narval.runtime.system.clock import Clock

Line = dict[str, Any]
"""One event of the simulation: `at` (seconds since 1970, UTC), `what`, mostly `run`, and details."""

ERROR = "error"


class Trace:
    """The lines of a simulation in order, and the phases of its runs; `last` is the last definition begun."""

    def __init__(self, clock: Clock, most_at_once: int) -> None:
        self._clock = clock
        self.lines: list[Line] = []
        self._shown = 0
        self._most_at_once, self._at_once = most_at_once, 0
        self.last = ""
        self.phases: dict[int, tuple[str, str]] = {}
        """The definition that each run follows, and its phase, of forgotten runs too."""
        self._names: dict[int, str] = {}
        self._called: set[int] = set()
        """The runs that answer a call of another run."""
        self._starts: dict[int, float] = {}
        self._errors: dict[int, str] = {}

    @property
    def is_endless(self) -> bool:
        """True if more runs began at this moment than may."""
        return self._at_once > self._most_at_once

    def time_passes(self) -> None:
        """Begin a new moment."""
        self._at_once = 0

    def new_lines(self) -> list[Line]:
        """The lines since this was last asked."""
        new, self._shown = self.lines[self._shown :], len(self.lines)
        return new

    def name(self, run: int) -> str:
        """The name of the definition that a run follows."""
        return self._names.get(run, "")

    def listen(self, batch: Batch) -> None:
        """Add what one turn recorded."""
        self._names.update((row.eid, row.name) for row in batch.runs)
        by_engines = {
            command.element.eid
            for advance in batch.journal
            for command in advance.commands
            if isinstance(command, asked.Add)
        }
        others = [
            row.element for row in batch.elements if not row.declared and row.element.eid not in by_engines
        ]
        self.lines += (_arrived(element) for element in others if element.origin is None)
        for advance in batch.journal:
            self.lines += self._entry(advance)
        self.lines += (
            self._added(element, element.origin.run) for element in others if element.origin is not None
        )
        if batch.forgotten_runs or batch.forgotten_elements:
            runs, elements = len(batch.forgotten_runs), len(batch.forgotten_elements)
            line = {"at": self._clock.now(), "what": "forgot", "runs": runs, "elements": elements}
            self.lines.append(line)

    def _entry(self, advance: Advance) -> Iterator[Line]:
        run, event, changes, commands = advance.run, advance.event, advance.changes, advance.commands
        if isinstance(event, Started):
            self._at_once, self.last = self._at_once + 1, self.name(run)
            self._starts[run] = event.at
            self.phases[run] = self.name(run), "active"
            if event.caller is not None:
                self._called.add(run)
            yield self._started(run, event)
        elif isinstance(event, TimerFired):
            yield {"at": event.at, "what": "woken", "run": run, "name": self.name(run)}
        for change in changes:
            took = getattr(change, "took", ())
            if took:
                transition = getattr(change, "transition", "")
                yield {
                    "at": event.at,
                    "what": "fired",
                    "run": run,
                    "transition": transition,
                    "elements": list(took),
                }
        for command in commands:
            line = self._command(run, event.at, command)
            if line is not None:
                yield line

    def _started(self, run: int, event: Started) -> Line:
        caller = event.caller
        return {
            "at": event.at,
            "what": "started",
            "run": run,
            "name": self.name(run),
            "elements": list(event.elements),
            "caller": {"run": caller.run, "step": caller.step} if caller is not None else None,
        }

    def _command(self, run: int, at: float, command: asked.Command) -> Line | None:
        if isinstance(command, asked.Add):
            return self._added(command.element, run)
        if isinstance(command, asked.Outdate):
            return {"at": at, "what": "replaced", "run": run, "elements": list(command.eids)}
        if isinstance(command, asked.Finish):
            return self._ended(run, at, command)
        if isinstance(command, asked.Call) and not is_runnable(command.kind):
            inputs = {id: list(eids) for id, eids in command.inputs}
            line = {"at": at, "what": "called", "run": run, "step": command.step}
            return {**line, "action": command.name, "inputs": inputs, "call": command.call}
        return None

    def _added(self, element: Element, run: int) -> Line:
        step = element.origin.step if element.origin is not None else ""
        if element.name == ERROR:
            kind, message, _ = read_error(element)
            self._errors[element.eid] = f"{kind}: {message}"
        line = {"at": element.added, "what": "added", "run": run, "step": step, "element": element.eid}
        return {**line, "xml": element.xml.decode("utf-8")}

    def _ended(self, run: int, at: float, command: asked.Finish) -> Line:
        line = {"at": at, "what": "ended", "run": run, "name": self.name(run), "phase": command.phase}
        self.phases[run] = self.name(run), command.phase
        line["called"] = run in self._called
        took = at - self._starts.get(run, at)
        why = self._errors.get(command.error, "") if command.error is not None else ""
        return {**line, "state": command.state, "took": took, "error": why or None}


def _arrived(element: Element) -> Line:
    line = {"at": element.added, "what": "arrived", "element": element.eid}
    return {**line, "xml": element.xml.decode("utf-8")}
