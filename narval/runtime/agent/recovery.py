"""An agent as its store says it is (N35): what was recorded is applied, nothing is decided again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from sys import intern
from typing import Any

from lxml import etree
from msgspec.structs import replace

from narval.definitions.library import Library
from narval.engines.events import Caller
from narval.engines.registry import engine_of_run
from narval.errors import StoreError, UnreadableError
from narval.memory.elements.element import Element
from narval.runtime.agent.agent import AgentState
from narval.runtime.agent.jobs import ForgetRun, decode_job
from narval.runtime.agent.replay import definition_of, rebuild, state_of
from narval.runtime.agent.run import Run
from narval.runtime.store import codec
from narval.runtime.store.batch import KeptElement, RunRow
from narval.runtime.store.damage import LOST_PAGES, LostEvent, LostJob, LostOrigin, LostTurns
from narval.runtime.store.rows import number
from narval.runtime.store.store import AgentStore


def restore(library: Library, store: AgentStore, **settings: Any) -> AgentState:
    """An agent with the memory that its store has; `settings` are those of `AgentState`."""
    agent = AgentState(library, _render, store=store, **settings)
    memory, meta = agent.memory, store.meta
    memory.fill(_noted(agent, store.elements()), store.keys(), number(meta, "next_eid", 1))
    for run, held in groupby(store.contexts(), key=itemgetter(0)):
        memory.contexts.join(run, [eid for _, eid in held])
    known_runs: dict[int, int] = {}  # a number that a thousand marks name is there once
    for definition, place, slot, eid, run in store.marks():
        marks = memory.marks.setdefault((definition, place, slot), {})
        marks[eid] = known_runs.setdefault(run, run)
    if lost := number(meta, LOST_PAGES, 0):
        agent.damage.append(LostTurns(lost))
    agent.numbers.resume(number(meta, "sequence", 0))
    return agent


def _noted(agent: AgentState, kept: Iterable[KeptElement]) -> Iterator[tuple[Element, str, bool]]:
    """The elements to fill memory with; damage and idle times are noted on the way.

    Those that the library declares share its bytes: these are there once, however many agents follow it (G4).
    """
    shared = {definition.xml: definition.xml for definition in agent.library}
    for element, declared, outdated, fault in kept:
        if declared and (xml := shared.get(element.xml)) is not None:
            element = replace(element, xml=xml)
        if fault:
            agent.damage.append(LostOrigin(fault, element.eid))
        if agent.clockwork.idle is not None:
            agent.clockwork.idle.added(element.eid, element.added)
        yield element, intern(declared), outdated


def restore_runs(agent: AgentState) -> float:
    """Bring the runs back: those under way whole, those that are over by their row alone.

    Returns the latest moment that was recorded of a run.
    """
    latest = 0.0
    idle = agent.clockwork.idle
    for row in agent.store.runs():
        agent.runs.add(run_of(row))
        latest = max(latest, row.started, row.ended or 0.0)
        if idle is not None and row.ended is not None:
            idle.used(agent.memory.contexts.of(row.eid), row.ended)
            idle.added(row.eid, row.ended)
    for run in agent.runs.active.values():
        try:
            latest = max(latest, rebuild(agent, run, ()))
        except UnreadableError as error:
            run.lose(str(error))
    for run in agent.runs.active.values():
        _nest(agent, run)
    _restore_queue(agent)
    _restore_jobs(agent)
    return latest


def _restore_queue(agent: AgentState) -> None:
    for row, run_eid, data in agent.store.queue():
        try:
            agent.queue.append((row, run_eid, codec.decode_queued(data)))
        except UnreadableError as error:
            agent.damage.append(LostEvent(str(error), row, run_eid))
            if run_eid in agent.runs.active:
                agent.runs[run_eid].lose(str(error))


def _restore_jobs(agent: AgentState) -> None:
    for identifier, at, data in agent.store.moments():
        try:
            job = decode_job(data)
        except UnreadableError as error:
            agent.damage.append(LostJob(str(error), identifier, at))
            continue
        agent.clockwork.timers.push(at, (0, identifier), job)
        if isinstance(job, ForgetRun) and job.run in agent.runs:
            agent.runs[job.run].schedule_forget()


def _render(agent: AgentState, run: Run) -> bytes:
    """The XML of a run (N2)."""
    try:
        state, definition = state_of(agent, run), definition_of(agent, run)
        return run.engine.render(definition, state, agent.memory.contexts.of(run.eid))
    except UnreadableError:
        return _outline(run)


def _outline(run: Run) -> bytes:
    """A run of which nothing is known but its row."""
    root = etree.Element(run.kind, name=run.name, state=run.status, unreadable="yes")
    return etree.tostring(root, encoding="utf-8")


def _nest(agent: AgentState, run: Run) -> None:
    """Take from the call what was nearest to the calling step: the row of the run has it not."""
    parent = agent.runs.active.get(run.caller.run) if run.caller is not None else None
    call = parent.calls.get(run.caller.call) if parent is not None and run.caller is not None else None
    if call is not None:
        run.nest(call.nearby)


# --- runs as rows of the store ------------------------------------------------------------------


def row_of(run: Run) -> RunRow:
    """A run as a row of the store; where another agent called it, the row names that in place of a step."""
    caller: tuple[int | None, str, str] = (None, "", "")
    if run.caller is not None:
        caller = run.caller.run, run.caller.agent or run.caller.step, run.caller.call
    known = (run.eid, run.kind, run.name, run.digest, run.status, run.phase, run.started, run.ended)
    return RunRow._make((*known, *caller, run.attempt, run.error, run.by, run.actor))


def run_of(row: RunRow) -> Run:
    """A run as far as its row in the store tells. Raises StoreError for a kind that there is not."""
    caller = None
    if row.parent_run is not None:
        step, agent = (row.parent_step, "") if row.parent_run else ("", row.parent_step)
        caller = Caller(row.parent_run, step, row.parent_call, agent=agent)
    try:
        engine, now = engine_of_run(row.kind), (row.ended, row.phase, row.state, row.error)
    except KeyError:
        raise StoreError(
            f"the store is damaged: run {row.eid} is said to be of the kind {row.kind!r:.40}, which there is "
            "not; put back a backup (docs/store.md)"
        ) from None
    known = (row.eid, engine, row.name, row.digest, row.started, caller, row.attempt, row.kind)
    return Run(*known, *now, by=row.by, actor=row.actor)
