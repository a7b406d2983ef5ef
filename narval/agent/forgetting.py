"""Forgetting of runs and elements, piece by piece; what active calls use is put off (N1, N5)."""

from __future__ import annotations

from functools import partial

from narval.agent.agent import AgentState
from narval.agent.effects import notify_of_gone
from narval.agent.run import Run
from narval.agent.timers import ForgetRun
from narval.agent.transaction import Transaction
from narval.core.definitions.library import Library, RunDefinition
from narval.core.elements import changes
from narval.core.elements.changes import Forgotten, MarkScope
from narval.core.engines.decision import resolve
from narval.core.engines.engine import HeedsPeople
from narval.core.engines.registry import is_standing
from narval.core.index.index import Index
from narval.core.memory.retention import IdleTracker, next_chunk

IN_USE = 60.0
"""Seconds until something that a call still uses is considered for forgetting again."""

FORGOTTEN_AT_ONCE = 250
"""Elements and runs that are forgotten before the loop checks its time again."""


def forget(transaction: Transaction, fact: Forgotten) -> None:
    """Remove runs and elements from memory; numbering continues after them."""
    memory, runs, meta = transaction.agent.memory, transaction.agent.runs, transaction.batch.meta
    for eid in (*fact.eids, *fact.runs):  # their holders are rendered without them from now on
        for holder in memory.contexts.holders(eid):
            runs[holder].render_anew()
    for unheld in _contexts_left(transaction, fact):
        transaction.change(unheld)
    notify_of_gone(transaction.agent, (*fact.eids, *fact.runs), are_forgotten=True)
    transaction.change(fact)
    for run in fact.runs:
        runs.remove(run)
    meta[:] = [(key, value) for key, value in meta if key != "next_eid"]
    meta.append(("next_eid", str(memory.next_eid)))


def _contexts_left(transaction: Transaction, fact: Forgotten) -> list[changes.Unheld]:
    """The elements that leave the contexts of remaining runs: all contexts but the maker's have rows."""
    memory, runs = transaction.agent.memory, transaction.agent.runs
    leaving: dict[int, list[int]] = {}
    for eid in (*fact.eids, *fact.runs):
        element = memory.element(eid) if eid not in runs else None
        maker = element.origin.run if element is not None and element.origin is not None else None
        for holder in memory.contexts.holders(eid):
            if holder != maker and holder not in fact.runs:
                leaving.setdefault(holder, []).append(eid)
    return [changes.Unheld(run, tuple(eids)) for run, eids in leaving.items()]


def forget_at_once(transaction: Transaction, run: int) -> None:
    """Forget an ended run that called none, even if it was to be kept; its elements stay."""
    forget(transaction, Forgotten((), (run,)))


def forget_run(transaction: Transaction, job: ForgetRun) -> None:
    """Forget a run and those it called, innermost first, piece by piece; the rest is left to later turns.

    Runs in which people acted stay as long as the home keeps those, even if their caller is forgotten. If the
    family is still active and has asked people, nothing goes until its top-level run does.
    """
    memory, runs = transaction.agent.memory, transaction.agent.runs
    top = runs.get(job.run)
    if top is None or top.active or runs.families.needs(top) or _keep(transaction, top):
        return
    stays, is_awaited = partial(_stays, transaction), partial(_is_awaited, transaction.agent)
    room, goes_too = FORGOTTEN_AT_ONCE, partial(runs.is_over_within, job.run)
    while room > 0:
        run = runs.innermost(job.run, stays)
        transaction.agent.pacing.note_forgotten(runs[run])
        going, staying, last = next_chunk(memory, run, goes_too, is_awaited, room)
        if not transaction.in_use.eids().isdisjoint(going):
            transaction.later(transaction.at + IN_USE, job)
            return
        if staying and not last:  # else they leave with the run
            transaction.change(changes.Unheld(run, staying))
            runs[run].render_anew()
        for child in tuple(runs.children.get(run, ())) if last else ():
            _keep(transaction, runs[child])
        forget(transaction, Forgotten(going, (run,) if last else ()))
        if last and run == job.run:
            return
        room -= len(going) + len(staying) + 1
    transaction.later(transaction.at, job)


def _is_awaited(agent: AgentState, eid: int) -> bool:
    """True for an element that a condition with `use` may still take, if its definition is active or
    scheduled to start: it may be waiting for another element, or busy.
    """
    memory, takers = agent.memory, _takers(agent.library)
    element = memory.element(eid)
    if element is None or eid in memory.outdated or eid in memory.withdrawn:
        return False
    if not takers.interested(element.name):
        return False
    starts = agent.clockwork.starts.values()
    return any(
        eid not in memory.marks.get(scope, ())
        and (name in agent.runs.names or any(job.name == name for job in starts))
        for name, scope in takers.wakes(memory.tree(element))
    )


def _takers(library: Library) -> Index[tuple[str, MarkScope]]:
    """The definitions of a library that use elements up, by condition, each with the scope of its marks.
    Conditions with variables are left out: they depend on a run.
    """
    takers: Index[tuple[str, MarkScope]] | None = library.built.get(_takers)
    if takers is None:
        takers = library.built[_takers] = Index()
        for definition in library:
            for part, conditions in definition.waits if isinstance(definition, RunDefinition) else ():
                for (bound, scope), each in zip(
                    resolve(conditions, definition.full_name, part, lambda _: {}), conditions, strict=True
                ):
                    if scope is not None and not each.condition.variables:
                        takers.add((definition.full_name, scope), bound)
    return takers


def _stays(transaction: Transaction, run: Run) -> bool:
    """True for a run in which people acted and which is kept for now."""
    retention = transaction.agent.home.now.work_kept
    return (run.ended or 0.0) + retention > transaction.at and isinstance(run.engine, HeedsPeople)


def _keep(transaction: Transaction, run: Run) -> bool:
    """Schedule the forgetting of a run that stays for now; True if it stays."""
    if not _stays(transaction, run):
        return False
    run.schedule_forget()
    transaction.later((run.ended or 0.0) + transaction.agent.home.now.work_kept, ForgetRun(run.eid))
    return True


def forget_idle(transaction: Transaction, idle: IdleTracker) -> None:
    """Forget some of what has been idle long enough."""
    agent, at, gone = transaction.agent, transaction.at, []
    for eid in list(idle.due(agent.memory, at, agent.runs.active.__contains__, FORGOTTEN_AT_ONCE)):
        run = agent.runs.get(eid)
        if run is not None:
            caller = agent.runs.active.get(run.caller.run) if run.caller is not None else None
            if caller is not None and not is_standing(caller.kind):
                idle.put_off(eid, at)
            elif not run.decays:
                forget_run(transaction, ForgetRun(eid))
        elif eid in transaction.in_use.eids():
            idle.put_off(eid, at)
        else:
            gone.append(eid)
    if gone:
        forget(transaction, Forgotten(eids=tuple(gone)))
