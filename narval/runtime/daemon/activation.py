"""Activation: an agent goes on as its store says it is, at the start of a daemon or while it works (G9)."""

from __future__ import annotations

from collections.abc import Container

from narval.memory.elements.control_elements import ACTED
from narval.runtime.agent.damage_report import report_damage
from narval.runtime.agent.recovery import restore_runs
from narval.runtime.agent.turn import Turn
from narval.runtime.daemon.agent_host import AgentHost
from narval.runtime.daemon.reload import FilesInForce


def bring_back_runs(host: AgentHost, now: float) -> None:
    """Restore the runs of an agent, as of a moment. Raises StoreError."""
    agent = host.agent
    latest = restore_runs(agent)
    has_moved = agent.store.meta.get("zone", agent.clockwork.zone) != agent.clockwork.zone
    if not host.loop.record_only and (has_moved or now < latest):
        agent.work_dates_out_anew()  # the zone is another, or the clock was set back meanwhile


def acted_before(host: AgentHost) -> Container[int]:
    """The control elements that acted already: of these some act once more at the start of a daemon."""
    return frozenset(host.agent.memory.marks.get(ACTED, ()))


def go_on(
    turn: Turn, host: AgentHost, files: FilesInForce, declared: list[bytes] | None, again: Container[int]
) -> None:
    """Report what the store could not give back, and bring memory in line with what declares it.

    The `start-plan` elements of `again` that say so act once more.
    """
    agent = host.agent
    if not host.loop.record_only:
        if agent.store.meta.get("zone") != agent.clockwork.zone:
            turn.transaction.batch.meta.append(("zone", agent.clockwork.zone))
        for run in [run for run in agent.runs.active.values() if run.unreadable]:
            turn.fail_unreadable(run)
        report_damage(turn)
    files.sync_declared(turn, declared, again)
