"""The trace of a simulation: events, taken from the records of turns, in the words of history."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from operator import attrgetter
from typing import Any

from narval.core.elements.element import Element
from narval.core.elements.own_elements import read_error
from narval.core.engines import commands as asked
from narval.core.engines.events import CallApproved, Returned, Started, TimerFired
from narval.core.engines.registry import engine_of_run, is_beside, is_runnable, is_standing
from narval.core.engines.story import filled, story_of
from narval.core.kinds import ASKING, KINDS
from narval.store.batch import Advance, Batch, RunRow
from narval.system.clock import Clock

Line = dict[str, Any]
"""One event of the simulation: `at` (seconds since 1970, UTC), `what`, mostly `run`, and details."""

ERROR = "error"


class Trace:
    """The lines of all agents in order, each with `who` if there are several; `names` are the agents' names
    by number, and `find` returns an element of an agent.
    """

    def __init__(
        self, clock: Clock, names: Mapping[int, str], find: Callable[[str, int], Element | None]
    ) -> None:
        self._clock, self._names, self._find = clock, names, find
        self.lines: list[Line] = []
        self._shown = 0
        self.of: dict[str, AgentTrace] = {}
        """The traces of the agents that have had a turn, by name."""

    def time_passes(self) -> None:
        """Begin a new moment."""
        for trace in self.of.values():
            trace.begun = 0

    def crowd(self, most: int) -> str:
        """The sentence that more than `most` runs began at this moment; "" if not."""
        if sum(trace.begun for trace in self.of.values()) <= most:
            return ""
        last = max(self.of.values(), key=attrgetter("begun")).last
        return f"{most:,} runs began at one moment, the last of {last}"

    def new_lines(self) -> list[Line]:
        """The lines since the last request."""
        new, self._shown = self.lines[self._shown :], len(self.lines)
        return new

    def drop(self) -> None:
        """Drop lines that were fetched, and runs that have ended."""
        self.lines, self._shown = [], 0
        for trace in self.of.values():
            trace.drop()

    def know(self, name: str, rows: Iterable[RunRow]) -> None:
        """Record the runs of an agent that began before the simulation."""
        self._of(name).know(rows)

    def _of(self, name: str) -> AgentTrace:
        if (trace := self.of.get(name)) is None:
            trace = self.of[name] = AgentTrace(self._clock)
        return trace

    def listen(self, batch: Batch) -> None:
        """Add the record of one turn."""
        name = self._names[batch.agent]
        for line in self._of(name).lines_of(batch):
            self.add(name, line)

    def add(self, name: str, line: Line) -> None:
        """Add an event of an agent; one that sends elements has their `xml` too."""
        if line["what"] == "sent":
            elements = (self._find(name, eid) for eid in line["elements"])
            sent = [element.xml.decode("utf-8") for element in elements if element is not None]
            line = {**line, "xml": ", ".join(sent)}
        self.lines.append({**line, "who": name} if len(self._names) > 1 else line)


class AgentTrace:
    """Deeds of one agent, and the phases of its runs; `last` is the definition started last."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.begun = 0
        """The number of runs that began at this moment."""
        self.last = ""
        self._runs: dict[int, RunRow] = {}
        """The runs as last recorded, forgotten ones included."""
        self.items: dict[int, str] = {}
        """The work definition of each item."""
        self._errors: dict[int, str] = {}
        self._calls: dict[str, asked.Call] = {}
        """The active calls by their ids: one that needs agreement is reported when it is made."""
        self._over: list[int] = []
        """The runs that have ended since the last drop."""

    @property
    def phases(self) -> dict[int, tuple[str, str]]:
        """The definition and the phase of each run of the usual kind of its definition."""
        return {row.eid: (row.name, row.phase) for row in self._runs.values() if not is_beside(row.kind)}

    def know(self, rows: Iterable[RunRow]) -> None:
        """Record runs in their current state."""
        for row in rows:
            self._runs[row.eid] = row
            if row.kind == KINDS[ASKING].run:
                self.items[row.eid] = row.name

    def drop(self) -> None:
        """Drop runs that have ended."""
        for run in self._over:
            self._runs.pop(run, None)
            self.items.pop(run, None)
        self._over.clear()
        self._errors.clear()

    def name(self, run: int) -> str:
        """The name of the definition that a run follows."""
        return self._runs[run].name if run in self._runs else ""

    def lines_of(self, batch: Batch) -> Iterator[Line]:
        """The record of one turn in lines."""
        self.know(batch.runs)
        by_engines = {
            command.element.eid
            for advance in batch.journal
            for command in advance.commands
            if isinstance(command, asked.Add)
        }
        new = (row.element for row in batch.elements if not row.declared)
        others = [element for element in new if element.eid not in by_engines]
        yield from (_arrived(element) for element in others if not _maker(element))
        for advance in batch.journal:
            yield from self._entry(advance)
        yield from (self._added(element, run) for element in others if (run := _maker(element)))
        if batch.forgotten_runs or batch.forgotten_elements:
            runs, elements = len(batch.forgotten_runs), len(batch.forgotten_elements)
            yield {"at": self._clock.now(), "what": "forgot", "runs": runs, "elements": elements}

    def _entry(self, advance: Advance) -> Iterator[Line]:
        run, event = advance.run, advance.event
        if isinstance(event, Started) and not is_standing(self._runs[run].kind):
            yield self._start(run, event)
        elif isinstance(event, CallApproved) and (call := self._calls.get(event.call)) is not None:
            if (line := self._command(run, event.at, call)) is not None:  # it is made now
                yield line
        elif isinstance(event, TimerFired):
            parts = (
                getattr(change, "transition", "") or getattr(change, "step", "") for change in advance.changes
            )
            part = next(filter(None, parts), None)
            line = {"at": event.at, "what": "woken", "run": run, "name": self.name(run), "part": part}
            yield line | {"did": [*_sentences(advance, self._runs[run].kind)] if run in self.items else []}
        elif isinstance(event, Returned):
            self._calls.pop(event.call, None)
        for change in advance.changes:
            if took := getattr(change, "took", ()):
                line = {"at": event.at, "what": "fired", "run": run}
                yield {**line, "transition": getattr(change, "transition", ""), "elements": list(took)}
        for command in advance.commands:
            if isinstance(command, asked.Call):
                self._calls[command.call] = command
            if entry := self._command(run, event.at, command):
                yield entry

    def _start(self, run: int, event: Started) -> Line:
        self.begun, self.last = self.begun + 1, self.name(run)
        line = {"at": event.at, "what": "started", "run": run, "name": self.name(run)}
        caller, by = event.caller, None
        if caller is not None and caller.agent:
            by = {"run": caller.asked_by, "step": caller.step, "agent": caller.agent}
        elif caller is not None:
            by = {"run": caller.run, "step": caller.step}
        return {**line, "elements": list(event.elements), "caller": by}

    def _command(self, run: int, at: float, command: asked.Command) -> Line | None:
        if isinstance(command, asked.Add):
            return self._added(command.element, run)
        if isinstance(command, asked.Outdate):
            return {"at": at, "what": "replaced", "run": run, "elements": list(command.eids)}
        if isinstance(command, asked.Finish):
            return self._ended(run, at, command)
        if isinstance(command, asked.Call) and command.kind == asked.SEND:
            sent = [eid for _, eids in command.inputs for eid in eids]
            to = {"to": command.name.split(), "elements": sent}
            return {"at": at, "what": "sent", "run": run, "step": command.step, **to}
        if isinstance(command, asked.Call) and command.kind == asked.SIGNAL:
            payload = command.payload or {}
            line = {"at": at, "what": "told", "run": run, "name": command.name}
            return {**line, "hearer": payload.get("run"), "signal": payload.get("signal")}
        if isinstance(command, asked.Call) and (command.agent or not is_runnable(command.kind)):
            inputs = {id: list(eids) for id, eids in command.inputs}
            line = {"at": at, "what": "called", "run": run, "step": command.step}
            if command.agent:
                line["agent"] = command.agent
            if command.agent or command.kind == asked.FLOW:
                inputs[""] = list(command.elements)
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
        self._over.append(run)
        row, why = self._runs[run], self._errors.get(command.error or 0)
        line = {"at": at, "what": "ended", "run": run, "name": row.name, "phase": command.phase}
        line |= {"called": row.parent_run is not None, "took": at - row.started}
        return {**line, "state": command.state, "error": why}


def _maker(element: Element) -> int:
    """The run that made an element; 0 for one from outside."""
    return element.origin.run if element.origin is not None else 0


def _arrived(element: Element) -> Line:
    line: Line = {"at": element.added, "what": "arrived", "element": element.eid}
    if element.origin is not None and element.origin.agent:
        line["from"] = element.origin.agent
    return {**line, "xml": element.xml.decode("utf-8")}


def _sentences(advance: Advance, kind: str) -> Iterator[str]:
    """The acts of an item at its moment, such as a reminder, in the words of its history."""
    story = story_of(engine_of_run(kind))
    for change in advance.changes:
        name = type(change).__name__
        if name in story and not name.startswith("Notice"):
            words = "".join(filled(story[name].words, partial(_valued, change))).removesuffix(".")
            yield words[:1].lower() + words[1:]


def _valued(change: object, field: str, form: str) -> list[str]:
    """The field of a change in words; none for an empty field, and for a moment."""
    value = getattr(change, field, None)
    if not value or form == "moment":
        return []
    return [" and ".join(value) if isinstance(value, tuple) else str(value)]
