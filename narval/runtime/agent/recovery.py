"""An agent as its store says it is (N35): what was recorded is applied, nothing is decided again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import groupby
from operator import itemgetter

import msgspec
from lxml import etree

from narval.engines.events import Caller
from narval.engines.registry import engine_of_run
from narval.errors import UnreadableError
from narval.memory.elements.element import Element
from narval.runtime.agent.agent import AgentState
from narval.runtime.agent.jobs import ForgetRun, decode_deed
from narval.runtime.agent.replay import definition_of, rebuild, state_of
from narval.runtime.agent.run import Run, origin_of
from narval.runtime.store import codec
from narval.runtime.store.batch import KeptElement, RunRow
from narval.runtime.store.damage import LostEvent, LostJob, LostOrigin
from narval.runtime.store.store import Store


def restore(agent: AgentState, store: Store) -> None:
    """Fill an empty agent from its store."""
    memory = agent.memory
    agent.render = partial(render, agent, store)
    next_eid = int(store.meta.get("next_eid", "1"))
    memory.fill(_noted(agent, store.elements()), store.keys(), next_eid)
    for run, held in groupby(store.contexts(), key=itemgetter(0)):
        memory.contexts.join(run, [eid for _, eid in held])
    for definition, place, slot, eid in store.marks():
        memory.marks.setdefault((definition, place, slot), set()).add(eid)
    agent.sequence = int(store.meta.get("sequence", "0"))


def _noted(agent: AgentState, kept: Iterable[KeptElement]) -> Iterator[tuple[Element, str, bool]]:
    """What memory is filled with, while the agent learns what else there is to know of each."""
    for element, declared, outdated, fault in kept:
        if fault:
            agent.damage.append(LostOrigin(fault, element.eid))
        if agent.idle is not None:
            agent.idle.added(element.eid, element.added)
        yield element, declared, outdated


def restore_runs(agent: AgentState, store: Store) -> None:
    """Bring the runs back: those under way whole, those that are over by their row alone."""
    for row in store.runs():
        run = _run_of(row)
        agent.add_run(run)
        agent.latest = max(agent.latest, row.started, row.ended or 0.0)
        if agent.idle is not None and row.ended is not None:
            agent.idle.used(agent.memory.contexts.of(row.eid), row.ended)
            agent.idle.added(row.eid, row.ended)
    for run in agent.active.values():
        try:
            rebuild(agent, store, run, ())
        except UnreadableError as error:
            agent.unreadable[run.eid] = str(error)
    for run in agent.active.values():
        _nest(agent, run)
    for number, run_eid, data in store.queue():
        try:
            agent.queue.append((number, run_eid, codec.decode_event(data)))
        except UnreadableError as error:
            agent.damage.append(LostEvent(str(error), number, run_eid))
            if run_eid in agent.active:
                agent.unreadable.setdefault(run_eid, str(error))
    for identifier, at, data in store.moments():
        try:
            deed = decode_deed(data)
        except UnreadableError as error:
            agent.damage.append(LostJob(str(error), identifier, at))
            continue
        agent.timers.push(at, (0, identifier), deed)
        if isinstance(deed, ForgetRun) and deed.run in agent.runs:
            agent.runs[deed.run].decays = True


def render(agent: AgentState, store: Store, eid: int) -> Element:
    """A run as an element of memory, rendered once for each version of its state (N2)."""
    run = agent.runs[eid]
    if run.shown is None or run.shown[0] != run.version:
        try:
            state, definition = state_of(agent, store, run), definition_of(agent, store, run)
            xml = run.engine.render(definition, state, agent.memory.contexts.of(run.eid))
        except UnreadableError:
            xml = _outline(run)
        run.shown = (run.version, Element(run.eid, xml, run.started, origin_of(run)))
    shown = run.shown[1]
    if not run.active:
        agent.cache_rendered(run)
    return shown


def _outline(run: Run) -> bytes:
    """A run of which nothing is known but its row."""
    root = etree.Element(run.kind, name=run.name, state=run.status, unreadable="yes")
    return etree.tostring(root, encoding="utf-8")


def _nest(agent: AgentState, run: Run) -> None:
    """What was nearest to the calling step stands in the call, not in the row of the run."""
    parent = agent.active.get(run.caller.run) if run.caller is not None else None
    call = parent.calls.get(run.caller.call) if parent is not None and run.caller is not None else None
    if run.caller is not None and call is not None:
        run.caller = msgspec.structs.replace(run.caller, nearby=call.nearby)


def _run_of(row: RunRow) -> Run:
    engine = engine_of_run(row.kind)
    caller = None
    if row.parent_run is not None:
        caller = Caller(row.parent_run, row.parent_step, row.parent_call)
    run = Run(row.eid, engine, row.name, row.digest, row.started or 0.0, caller, row.attempt)
    run.status, run.phase, run.ended, run.error = row.state, row.phase, row.ended, row.error
    return run
