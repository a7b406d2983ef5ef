"""Spans: the runs, steps and calls of the journal, as spans of traces.

They are derived from recorded turns, in any thread, without access to the agents. No span has the content of
an element: spans have names, numbers and the types of errors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from narval.agent.trace_ids import call_name, run_name, span_id, trace_id
from narval.core.elements.element import Element
from narval.core.elements.own_elements import read_error
from narval.core.engines.commands import SIGNAL, Call, Finish
from narval.core.engines.events import Returned, Started
from narval.core.engines.registry import is_standing
from narval.core.error_types import OTHER, OWN_TYPES
from narval.store.batch import Advance, RunRow

ABANDONED = "abandoned"
"""The error type of a call that was given up."""

Attributes = Mapping[str, str | int]


class Span(NamedTuple):
    """An ended run, step or call. Moments are seconds since 1970, ids hexadecimal digits."""

    name: str
    """The definition, the step, or the target of the call."""
    trace: str
    """The id of its trace."""
    id: str
    """Its own id."""
    parent: str
    """The id of the enclosing span; "" for none."""
    start: float
    """The moment at which it began."""
    end: float
    """The moment at which it ended."""
    attributes: Attributes
    """The facts about it, by name."""
    role: str = ""
    """Its part between two agents: "client" if it calls another, "server" if another called it."""
    error: str = ""
    """The type of the error; "" on success."""


class Beginning(NamedTuple):
    """An agent when its tracing begins, with what is under way then."""

    agent: int
    """Its number in the store."""
    id: str
    name: str
    at: float
    runs: tuple[RunRow, ...] = ()
    traces: Mapping[int, str] = {}
    """The traces of those runs that other agents have called, by eid."""
    calls: Mapping[int, tuple[Call, ...]] = {}
    """The calls under way of the runs, by eid."""


class Recorded(NamedTuple):
    """The part of a recorded turn from which spans are made."""

    agent: int
    runs: Sequence[RunRow]
    journal: Sequence[Advance]


class _Step(msgspec.Struct):
    """A step with calls under way, or a failed one that may be tried again."""

    id: str
    start: float
    end: float
    calls: int = 0
    failed: dict[str, str] = {}
    """The error types of its calls, by call, without those that a retry has cleared."""


class _OpenCall(NamedTuple):
    call: Call
    start: float


class _Run(msgspec.Struct):
    """A run under way."""

    row: RunRow
    trace: str
    parent: str
    calls: dict[str, _OpenCall] = {}
    steps: dict[str, _Step] = {}


class _Agent(msgspec.Struct):
    """An agent whose batches are followed."""

    id: str
    name: str
    runs: dict[int, _Run] = {}


class SpanMaker:
    """Makes spans of the batches of agents, in the order in which they were recorded."""

    def __init__(self) -> None:
        self._agents: dict[int, _Agent] = {}

    def begin(self, beginning: Beginning) -> None:
        """Record an agent, and what it has under way."""
        agent = self._agents[beginning.agent] = _Agent(beginning.id, beginning.name)
        for row in sorted(beginning.runs):
            run = self._begun(agent, row, beginning.traces.get(row.eid, ""))
            for call in beginning.calls.get(row.eid, ()):
                run.calls[call.call] = _OpenCall(call, beginning.at)

    def end(self, agent: int) -> None:
        """Forget an agent, by its number in the store."""
        self._agents.pop(agent, None)

    def spans(self, recorded: Recorded) -> Iterator[Span]:
        """The spans of everything that a turn has ended."""
        agent = self._agents.get(recorded.agent)
        if agent is None:
            return
        rows = {row.eid: row for row in recorded.runs} if recorded.runs else {}
        for advance in recorded.journal:
            event, row = advance.event, rows.get(advance.run)
            run = agent.runs.get(advance.run)
            if run is None:
                if row is None:
                    continue
                asked_in = event.caller.trace if type(event) is Started and event.caller is not None else ""
                run = self._begun(agent, row, asked_in)
            if type(event) is Returned and event.call in run.calls:
                yield from _ended(agent, run, event.call, event.at, _error_of(event))
            for command in advance.commands:
                if type(command) is Call and command.kind != SIGNAL:
                    yield from _called(agent, run, command, event.id, event.at)
                elif type(command) is Finish:
                    yield from self._finished(agent, run, command, event.at)

    def _begun(self, agent: _Agent, row: RunRow, asked_in: str) -> _Run:
        trace, parent = asked_in or trace_id(agent.id, row.eid), ""
        caller = agent.runs.get(row.parent_run) if row.parent_run else None
        if caller is not None and is_standing(caller.row.kind):  # its span would hardly ever end
            caller = None
        if row.parent_run == 0:
            parent = span_id("call", row.parent_call) if asked_in else ""
        elif caller is not None:
            under_way = caller.calls.get(row.parent_call)
            attempt = under_way.call.attempt if under_way is not None else 1
            trace = caller.trace
            parent = span_id("call", call_name(agent.id, row.parent_call, attempt))
        run = agent.runs[row.eid] = _Run(row, trace, parent)
        return run

    def _finished(self, agent: _Agent, run: _Run, end: Finish, at: float) -> Iterator[Span]:
        """The spans of a run that has ended, and of everything under way in it."""
        for call in tuple(run.calls):
            yield from _ended(agent, run, call, at, ABANDONED)
        for name, step in run.steps.items():
            yield _of_step(agent, run, name, step)
        row = run.row
        id = span_id("run", run_name(agent.id, row.eid))
        about = {"narval.kind": row.kind, "narval.outcome": end.phase, "narval.version": row.digest}
        role = "server" if row.parent_run == 0 else ""
        error = "" if end.phase == "done" else end.phase
        attributes = _about(agent, run) | about
        yield Span(row.name, run.trace, id, run.parent, row.started, at, attributes, role, error)
        agent.runs.pop(row.eid, None)


def _error_of(event: Returned) -> str:
    """The error type of a returned call, if it is one of narval's own, else `OTHER`; "" on success."""
    if event.abandoned:
        return ABANDONED
    if event.problem is not None:
        return _told(event.problem.kind)
    for each in event.elements:
        if each.xml.startswith(b"<error") and (element := Element(0, each.xml)).name == "error":
            return _told(read_error(element)[0])
    return ""


def _told(type: str) -> str:
    return type if type in OWN_TYPES else OTHER


def _called(agent: _Agent, run: _Run, call: Call, event: int, at: float) -> Iterator[Span]:
    """Record a call, or a retry; a first attempt ends an earlier step of that name without open calls."""
    step = run.steps.get(call.step)
    if step is not None and not step.calls and call.attempt == 1:
        yield _of_step(agent, run, call.step, step)
        step = None
    if step is None:
        name = f"{run_name(agent.id, run.row.eid)} {call.step} {event}"
        step = run.steps[call.step] = _Step(span_id("step", name), at, at)
    step.calls += 1
    run.calls[call.call] = _OpenCall(call, at)


def _ended(agent: _Agent, run: _Run, id: str, at: float, error: str) -> Iterator[Span]:
    """The span of a returned call, and that of its step if the step has ended."""
    call, start = run.calls.pop(id)
    step = run.steps.get(call.step)
    parent = step.id if step is not None else span_id("run", run_name(agent.id, run.row.eid))
    about: dict[str, str | int] = {
        "narval.step": call.step,
        "narval.call": call_name(agent.id, call.call),
        "narval.attempt": call.attempt,
        "narval.target": call.name,
        "narval.target.kind": call.kind,
    }
    if call.agent:
        about["narval.target.agent"] = call.agent
    if error:
        about["error.type"] = error
    name, span = f"{call.kind} {call.name}", span_id("call", call_name(agent.id, call.call, call.attempt))
    role, attributes = "client" if call.agent else "", _about(agent, run) | about
    yield Span(name, run.trace, span, parent, start, at, attributes, role, error)
    if step is not None:
        step.calls, step.end = step.calls - 1, at
        if error:
            step.failed[id] = error
        else:
            step.failed.pop(id, None)
        if not step.calls and not step.failed:
            yield _of_step(agent, run, call.step, run.steps.pop(call.step))


def _of_step(agent: _Agent, run: _Run, name: str, step: _Step) -> Span:
    parent, error = span_id("run", run_name(agent.id, run.row.eid)), next(iter(step.failed.values()), "")
    attributes = _about(agent, run) | {"narval.step": name}
    return Span(name, run.trace, step.id, parent, step.start, step.end, attributes, error=error)


def _about(agent: _Agent, run: _Run) -> dict[str, str | int]:
    return {
        "narval.agent": agent.name,
        "narval.run": run.row.eid,
        "narval.definition": run.row.name,
    }
