"""Resuming: the first turn of an agent after it was restored; damage of the store is reported once (N35)."""

from __future__ import annotations

import logging
from collections.abc import Container

from msgspec.structs import replace

from narval.agent.labelling import LABELLED, derive_labels
from narval.agent.recovery import restore_runs
from narval.agent.turn import Turn
from narval.core.elements.changes import Keyed
from narval.core.elements.names import ACTED
from narval.core.elements.own_elements import make_error
from narval.daemon.agents.agent_host import AgentHost
from narval.daemon.agents.agent_rows import register
from narval.daemon.files_in_force import PEOPLE, FilesInForce, sync, tell_of_people
from narval.store.rows import LOST_PAGES, LostEvent, LostJob, LostOrigin, LostTurns
from narval.system.clock import utc

log = logging.getLogger("narval.recovery")


def runs_are_back(host: AgentHost, latest: float, now: float) -> None:
    """Compute the dates of an agent again if they may differ from those at its last turn.

    `latest` is the latest moment recorded for its runs.
    """
    agent = host.agent
    has_moved = agent.facts.get("zone", agent.clockwork.zone) != agent.clockwork.zone
    if not host.loop.record_only and (has_moved or now < latest):
        agent.work_dates_out_anew()  # the zone has changed, or the clock was set back


def resume_fork(host: AgentHost, files: FilesInForce, now: float) -> None:
    """Continue the runs of a store in a simulation, as if no daemon had stopped: a call that was under way
    still is, even one that the end of a daemon would have interrupted.
    """
    runs_are_back(host, restore_runs(host.agent), now)
    runs = host.agent.runs.active
    for run in runs.values():
        run.calls.update((id, replace(call, on_restart="retry")) for id, call in [*run.calls.items()])
    files.attach(host)
    host.dispatcher.resume()


def acted_before(host: AgentHost) -> Container[int]:
    """The control elements that have already acted: some of them act again at a daemon's start."""
    return frozenset(host.agent.memory.marks.get(ACTED, ()))


def resume(turn: Turn, host: AgentHost, files: FilesInForce, again: Container[int]) -> None:
    """Report what could not be restored from the store, and update memory to match its declarations.

    Claims are checked again if the directory of people has changed since (P18). The `start-plan` elements of
    `again` that declare it act again.
    """
    agent = host.agent
    if not host.loop.record_only:
        facts = agent.facts
        if facts.get("zone") != agent.clockwork.zone:
            turn.transaction.batch.meta.append(("zone", agent.clockwork.zone))
        for run in [run for run in agent.runs.active.values() if run.unreadable]:
            turn.fail_unreadable(run)
        report_damage(turn)
        if LABELLED not in facts:
            derive_labels(turn.transaction)
        tell_of_people(turn, facts.get(PEOPLE, ""))
    sync(turn, files.of(host), again)


def resume_own(
    host: AgentHost,
    files: FilesInForce,
    again: Container[int],
    turn: Turn,
) -> None:
    """Resume the home's own agent, and store its present name from the settings."""
    row, name = host.agent.store.identity(), files.settings.name
    if row.name != name and not host.loop.record_only:
        register(row._replace(name=name), turn)
    resume(turn, host, files, again)


TOLD = ("error", "an origin that cannot be read")
"""The key that records which elements were reported: the element stays, and so does the damage."""


def report_damage(turn: Turn) -> None:
    """Report all damage by error elements, and clear the list of damage."""
    damage = list(turn.agent.damage)
    turn.agent.damage.clear()
    if any(isinstance(lost, LostEvent) and lost.run == 0 for lost in damage):
        _offer_again(turn)
    for lost in damage:
        if isinstance(lost, LostOrigin):
            _report_origin(turn, lost)
        elif isinstance(lost, LostEvent):
            _report_event(turn, lost)
        elif isinstance(lost, LostTurns):
            _report_turns(turn, lost)
        else:
            _report_job(turn, lost)


def _report_origin(turn: Turn, lost: LostOrigin) -> None:
    key = (*TOLD, str(lost.eid))
    if key not in turn.agent.memory.unique_values:
        turn.transaction.change(Keyed(*key))
        message = f"where element {lost.eid} comes from is no longer known: {lost.why}"
        _report(turn, message, element=str(lost.eid))


def _report_event(turn: Turn, lost: LostEvent) -> None:
    turn.transaction.batch.dequeued.append(lost.row)
    if lost.run == 0:
        _report(turn, f"an offer of an element is lost, and all elements were offered again: {lost.why}")


def _report_job(turn: Turn, lost: LostJob) -> None:
    turn.transaction.batch.moments_done.append(lost.identifier)
    due = utc(lost.at).isoformat(timespec="seconds")
    what = f"a job due at {due} is not done: it was to forget an ended run, or to start one again"
    _report(turn, f"{what}: {lost.why}", due=due)


def _report_turns(turn: Turn, lost: LostTurns) -> None:
    turn.transaction.batch.meta.append((LOST_PAGES, "0"))
    message = (
        f"the log of the store (store.db-wal) was cut short: its last {lost.pages} pages, of turns that were "
        "confirmed, are gone, and what was done outside for them may be done again; "
        "put back a backup where that matters (docs/reference/store.md)"
    )
    _report(turn, message)


def _report(turn: Turn, message: str, **where: str) -> None:
    log.error("%s", message)
    turn.add(make_error("unreadable", message, **where))


def _offer_again(turn: Turn) -> None:
    """Offer every element again. Watches satisfied before are no longer set, so none reports twice."""
    memory = turn.agent.memory
    for eid in list(memory):
        element = memory.element(eid)
        if element is not None:
            turn.transaction.offer(element)
