"""Resuming: the first turn of an agent after it was restored."""

from __future__ import annotations

from collections.abc import Container

from msgspec.structs import replace

from narval.agent.first_labels import LABELLED, derive_labels
from narval.agent.recovery import restore_runs
from narval.agent.turn import Turn
from narval.core.elements.control_elements import ACTED
from narval.daemon.agents.agent_host import AgentHost
from narval.daemon.agents.agent_rows import register
from narval.daemon.agents.damage_report import report_damage
from narval.daemon.files_in_force import PEOPLE, FilesInForce, sync, tell_of_people


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
