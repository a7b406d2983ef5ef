"""Requests to the daemon itself: stop, reload, log; and its work as `narval run` does it."""

from __future__ import annotations

import logging
from typing import Any

from narval.agent.agent import AgentState
from narval.agent.run import Run
from narval.agent.run_table import MOST_FAILURES
from narval.ask import json_forms
from narval.ask.asker import PROGRAM, Asker
from narval.ask.registry import operation
from narval.ask.text import counted
from narval.core.engines.registry import asking_kinds
from narval.daemon.agents.agent_host import AgentHost
from narval.daemon.daemon import Daemon

FAILED_KEPT = 1000
"""The most failed runs in the summary of `work`, the last ones."""

log_of_requests = logging.getLogger("narval.operations")


@operation("write")
async def stop(daemon: Daemon, drain: bool = False, *, asker: Asker = PROGRAM) -> dict[str, Any]:
    """End the daemon cleanly: calls under way have `stop_grace` seconds, the rest waits for the next start.
    With `drain`, agents that other daemons may run are given away first, as they come to rest.
    """
    _note("stop", asker)
    end_well(daemon, drain=drain)
    return {"stopping": True}


def end_well(daemon: Daemon, *, drain: bool) -> None:
    """Let a daemon come to rest and end; with `drain`, give agents to other daemons first (G56)."""
    if drain and daemon.fleet is not None:
        daemon.fleet.drain()
    else:
        daemon.stop.request()


@operation("write")
async def keep_store(daemon: Daemon) -> dict[str, Any]:
    """Write the whole store to a file beside its place, if its own file was deleted or moved under the
    daemon: `path` is the file written, None if the store is in its place.
    """
    path = daemon.store.keep()
    return {"path": None if path is None else str(path)}


@operation("write")
async def reload(daemon: Daemon, *, asker: Asker = PROGRAM) -> dict[str, Any]:
    """Read recipes, modules, schemas and settings now; returns whether they had changed, and their faults.
    Calls that wait for a missing package look for it again.
    """
    _note("reload", asker)
    changed = await daemon.reloader.reload()
    if (cluster := daemon.calls.executor.cluster) is not None:
        cluster.look_again()
    return {"changed": changed, "faults": [json_forms.fault(fault) for fault in daemon.files.faults]}


@operation("read")
async def log(daemon: Daemon, after: int = 0, wait: float = 0.0, lines: int = 200) -> list[dict[str, Any]]:
    """The daemon's own log: the last lines, or those after a number, for which the request may `wait`."""
    logged = daemon.logbook.lines(after, lines)
    while not logged and wait > 0:
        wait = await daemon.logbook.grown(wait)
        logged = daemon.logbook.lines(after, lines)
    return logged


async def work(daemon: Daemon, *, until_idle: bool = False, timeout: float | None = None) -> dict[str, Any]:
    """Run the daemon until it is stopped, idle or out of time; returns the summary for `narval run`.

    The summary has also the runs that failed in its first turns, before this was called.
    """
    failed: dict[tuple[str, int], dict[str, Any]] = {}  # forms, not agents, which may become passive

    def note(host: AgentHost, run: Run) -> None:
        if run.phase == "failed":
            name = host.agent.store.identity().name
            failed[name, run.eid] = _of(host.agent, json_forms.run(host.agent, run))
            if len(failed) > FAILED_KEPT:
                del failed[next(iter(failed))]

    for host in (daemon.agents.own, *daemon.agents.supervisor.hosts):
        for run in reversed(host.agent.runs.latest_failures(MOST_FAILURES)):
            if (run.ended or 0.0) >= daemon.main_loop.since:
                note(host, run)
    daemon.main_loop.on_end.append(note)
    try:
        summary = await daemon.main_loop.run(until_idle=until_idle, timeout=timeout)
    finally:
        daemon.main_loop.on_end.remove(note)
    return {
        "idle": summary.idle,
        "timed_out": summary.timed_out,
        "stopped_by": daemon.stop.by or None,
        "failed": list(failed.values()),
        "later": [
            _of(due.agent, json_forms.later(due.agent, due.at, due.key, due.job)) for due in summary.later
        ],
        "asked": await _asked(daemon) if until_idle else [],
        "waiting": await _waiting(daemon) if until_idle else [],
    }


def _of(agent: AgentState, form: dict[str, Any]) -> dict[str, Any]:
    """A form that names its agent, if that is not the home's own."""
    own = agent.store.is_own
    return form if own else {**form, "agent": agent.store.identity().name}


async def _asked(daemon: Daemon) -> list[dict[str, Any]]:
    """The work items that wait for people."""
    if not any(daemon.agent.runs.counts[kind, "active"] for kind in asking_kinds()):
        return []
    from narval.kinds.work.operations.items import (
        worklist,  # here: most homes ask no one, and start without it
    )

    return await worklist(daemon, every=True)


async def _waiting(daemon: Daemon) -> list[str]:
    """Sentences on the calls that are blocked now."""
    from narval.ask.attention.lines import calls_that_wait  # here: only the end of such a run needs it

    return [row["text"] for row in await calls_that_wait(daemon)]


async def turn(daemon: Daemon) -> None:
    """Wait for a turn to end: then the daemon can record, and its runs have received all earlier events."""
    await daemon.host.submit(lambda turn: None)


def summary(daemon: Daemon) -> str:
    """The daemon's activity in one line."""
    active, running = len(daemon.agent.runs.active), daemon.calls.counts.running
    return f"{counted(active, 'run')} under way, {counted(running, 'call')} running"


def _note(what: str, asker: Asker) -> None:
    """Log the asker of an act that no journal records."""
    if asker.person:
        log_of_requests.info("asked to %s by %s", what, asker)
