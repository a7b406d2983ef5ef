"""Recovery of an agent from its store (N35): what was recorded is applied, nothing is decided again."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sized
from functools import partial
from itertools import groupby, islice
from operator import itemgetter
from sys import intern
from typing import Any, TypeVar

import msgspec
from lxml import etree
from msgspec.structs import replace

from narval.agent.agent import AgentState
from narval.agent.replay import definition_of, rebuild, state_of
from narval.agent.run import Run, begin_again
from narval.agent.timers import ForgetRun, decode_job
from narval.agent.waiting import unanswered
from narval.core.definitions.library import Library
from narval.core.elements import changes
from narval.core.elements.element import Element
from narval.core.engines.commands import SIGNAL
from narval.core.engines.events import Caller, Returned, Started
from narval.core.engines.registry import engine_of_run, standing_kinds
from narval.core.errors import StoreError, UnreadableError
from narval.store import codec
from narval.store.batch import FILES, KeptElement, RunRow
from narval.store.rows import LOST_PAGES, SEQUENCE, LostEvent, LostJob, LostOrigin, LostTurns, number
from narval.store.store import AgentStore

Read = Callable[[], Sized]
"""Read what the next piece of work needs from the store; may be called in another thread."""

PIECE, RUNS = 500, 25
"""The rows, and the active runs, that are restored without a break: about 3 ms."""

GONE = "gone"
"""The fact in the store that names the service runs whose definitions are no longer loaded."""

Result = TypeVar("Result")


def blank(library: Library, store: AgentStore, **settings: Any) -> AgentState:
    """An agent with nothing restored from its store yet."""
    return AgentState(library, _render, store=store, **settings)


def restore_runs(agent: AgentState) -> float:
    """Restore the runs in one go, as `restoring_runs` does in pieces."""
    return at_once(restoring_runs(agent))


def at_once(work: Generator[Read, Sized, Result]) -> Result:
    """The result of work done without a break."""
    try:
        read = next(work)
        while True:
            read = work.send(read())
    except StopIteration as done:
        result: Result = done.value
        return result


def restoring(agent: AgentState) -> Generator[Read, Any, float]:
    """Restore everything that the store has of a blank agent: `restoring_memory`, then `restoring_runs`."""
    yield from restoring_memory(agent)
    return (yield from restoring_runs(agent))


def restoring_memory(agent: AgentState) -> Generator[Read, Any, None]:
    """Restore memory from the store in pieces of at most `PIECE` rows; each yields the read that it needs.
    The labels of files are read in one go, as runs are, and restored in pieces.
    """
    memory, store, facts = agent.memory, agent.store, agent.facts
    facts.update(store.meta)
    memory.fill((), store.keys(), number(facts, "next_eid", 1))
    # Declared elements share the library's bytes, which exist once for all agents that follow it.
    shared = {definition.xml: definition.xml for definition in agent.library}
    elements = store.elements()
    while piece := (yield partial(_some, elements)):
        memory.fill(_noted(agent, piece, shared))
        if len(piece) < PIECE:
            break
    contexts = store.contexts()
    while held := (yield partial(_some, contexts)):
        for run, rows in groupby(held, key=itemgetter(0)):
            memory.contexts.join(run, [eid for _, eid in rows])
        if len(held) < PIECE:
            break
    known_runs: dict[int, int] = {}  # a number that a thousand marks name is stored once
    stored_marks = store.marks()
    while used := (yield partial(_some, stored_marks)):
        for definition, place, slot, eid, run in used:
            marks = memory.marks.setdefault((definition, place, slot), {})
            marks[eid] = known_runs.setdefault(run, run)
        if len(used) < PIECE:
            break
    stored_withdrawals = store.withdrawals()
    while taken_back := (yield partial(_some, stored_withdrawals)):
        for eid, why, doubtful in taken_back:
            memory.apply(changes.Doubted((eid,)) if doubtful else changes.Withdrawn((eid,), why))
        if len(taken_back) < PIECE:
            break
    stored_labels = store.labels()
    while labelled := (yield partial(_some, stored_labels)):
        for eid, label in labelled:
            memory.labels.restore(eid, label)
        if len(labelled) < PIECE:
            break
    stored_files = iter((yield partial(store.results, FILES)))
    while written := _some(stored_files):
        for row in written:
            memory.labels.files[row.key] = memory.labels.number(msgspec.json.decode(row.data, type=list[str]))
        if len(written) == PIECE:
            yield tuple
    if lost := number(facts, LOST_PAGES, 0):
        agent.damage.append(LostTurns(lost))
    agent.numbers.resume(number(facts, SEQUENCE, 0))
    agent.clockwork.recall_late(facts.get("late", "[]"))


def _some(rows: Iterator[Any]) -> list[Any]:
    return list(islice(rows, PIECE))


def _noted(
    agent: AgentState, rows: Iterable[KeptElement], shared: Mapping[bytes, bytes]
) -> Iterator[tuple[Element, str, bool]]:
    """The elements to fill memory with; damage and idle times are recorded along the way."""
    for element, declared, outdated, fault in rows:
        if declared and (xml := shared.get(element.xml)) is not None:
            element = replace(element, xml=xml)
        if fault:
            agent.damage.append(LostOrigin(fault, element.eid))
        if agent.clockwork.idle is not None:
            agent.clockwork.idle.added(element.eid, element.added)
        yield element, intern(declared), outdated


def restoring_runs(agent: AgentState) -> Generator[Read, Any, float]:
    """Restore the runs in pieces, like `restoring_memory`: active runs completely, ended runs only from their
    row.

    Return the latest moment recorded for a run.
    """
    latest = 0.0
    idle = agent.clockwork.idle
    stored = iter((yield agent.store.runs))
    while rows := _some(stored):
        for row in rows:
            agent.runs.add(run_of(row))
            latest = max(latest, row.started, row.ended or 0.0)
            if idle is not None and row.ended is not None:
                idle.used(agent.memory.contexts.of(row.eid), row.ended)
                idle.added(row.eid, row.ended)
        if len(rows) == PIECE:
            yield tuple
    active = iter(list(agent.runs.active.values()))
    while runs := list(islice(active, RUNS)):
        histories = yield partial(agent.store.under_way, runs[0].eid, runs[-1].eid)
        for run in runs:
            try:
                latest = max(latest, rebuild(agent, run, (), histories.get(run.eid)))
            except UnreadableError as error:
                run.lose(str(error))
    standing = frozenset(standing_kinds().values())
    for run in agent.runs.active.values():
        _nest(agent, run)
        if run.kind in standing:
            agent.signals.standing[run.name] = run.eid
    agent.signals.lack(frozenset(agent.facts.get(GONE, "").split()))
    _restore_queue(agent)
    _restore_signals(agent)
    yield from _restoring_jobs(agent)
    return latest


def _restore_queue(agent: AgentState) -> None:
    for row, run_eid, data in agent.store.queue():
        try:
            event = codec.decode_queued(data)
            agent.queue.append((row, run_eid, event))
            if type(event) is Started and event.resume is not None and run_eid in agent.runs.active:
                begin_again(agent.runs[run_eid], event.resume.of)
                agent.runs.note_retry(agent.runs[run_eid])
        except UnreadableError as error:
            agent.damage.append(LostEvent(str(error), row, run_eid))
            if run_eid in agent.runs.active:
                agent.runs[run_eid].lose(str(error))


def _restore_signals(agent: AgentState) -> None:
    """Wait for the answers of runs to signals: a call whose answer is not in the queue is unanswered."""
    back = {event.call for _, _, event in agent.queue if type(event) is Returned}
    for run in agent.runs.active.values():
        for call in run.calls.values():
            if call.kind == SIGNAL and call.call not in back:
                hearer = agent.signals.hearer(call)
                if hearer in agent.runs.active:
                    agent.signals.add(hearer, call.call, run.eid)
                elif hearer in agent.runs:
                    over = Returned(0, 0.0, call.call, problem=unanswered(hearer))
                    agent.queue.append((0, run.eid, over))


def _restoring_jobs(agent: AgentState) -> Generator[Read, Any, None]:
    for index, (identifier, at, data) in enumerate((yield agent.store.moments)):
        if index % PIECE == PIECE - 1:
            yield tuple
        try:
            job = decode_job(data)
        except UnreadableError as error:
            agent.damage.append(LostJob(str(error), identifier, at))
            continue
        agent.clockwork.plan(at, identifier, job)
        if isinstance(job, ForgetRun) and job.run in agent.runs:
            agent.runs[job.run].schedule_forget()


def _render(agent: AgentState, run: Run) -> bytes:
    """The XML of a run."""
    try:
        state, definition = state_of(agent, run), definition_of(agent, run)
        return run.engine.render(definition, state, agent.memory.contexts.of(run.eid))
    except UnreadableError:
        return _outline(run)


def _outline(run: Run) -> bytes:
    """The XML of a run of which only the row is readable."""
    root = etree.Element(run.kind, name=run.name, state=run.status, unreadable="yes")
    return etree.tostring(root, encoding="utf-8")


def _nest(agent: AgentState, run: Run) -> None:
    """Take the elements nearest to the calling step from the call, and the calls it holds back from the
    caller: the row of the run has neither.
    """
    if run.caller is not None and run.caller.held is not None:
        agent.runs.by_call.update(dict.fromkeys(run.caller.calls, run.eid))
    parent = agent.runs.active.get(run.caller.run) if run.caller is not None else None
    call = parent.calls.get(run.caller.call) if parent is not None and run.caller is not None else None
    if call is not None:
        run.nest(call.nearby)


# --- runs as rows of the store ------------------------------------------------------------------


def row_of(run: Run) -> RunRow:
    """A run as a row of the store; if another agent called it, the row names that agent instead of a step."""
    parent, step, call = None, "", ""
    if (caller := run.caller) is not None:
        parent, step, call = caller.run, caller.agent or caller.step, caller.call
    return RunRow(
        run.eid,
        run.kind,
        run.name,
        run.digest,
        run.status,
        run.phase,
        run.started,
        run.ended,
        parent,
        step,
        call,
        run.attempt,
        run.error,
        run.by,
        run.actor,
    )


def run_of(row: RunRow) -> Run:
    """A run, as far as its row in the store describes it. Raises StoreError for an unknown kind."""
    caller = None
    if row.parent_run is not None:
        step, agent = (row.parent_step, "") if row.parent_run else ("", row.parent_step)
        caller = Caller(row.parent_run, step, row.parent_call, agent=agent)
    try:
        engine, now = engine_of_run(row.kind), (row.ended, row.phase, row.state, row.error)
    except KeyError:
        raise StoreError(
            f"the store is damaged: run {row.eid} is said to be of the kind {row.kind!r:.40}, which there is "
            "not; put back a backup (docs/reference/store.md)"
        ) from None
    fields = (row.eid, engine, row.name, row.digest, row.started, caller, row.attempt, row.kind)
    run = Run(*fields, *now, by=row.by, actor=row.actor)
    if not run.active:
        run.rest()
    return run
