"""The operations `status`, `fleet` and `changed`: the activity of a daemon, the daemons beside it, and what
changed since a turn.

Status has since when it runs, and its latest failed runs. Its cost grows with the active runs, not with those
stored. Programs that show an agent ask what changed.
"""

from __future__ import annotations

import os
import resource
import sys
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from operator import attrgetter
from pathlib import Path
from typing import Any

from narval import __version__
from narval.agent.agent import AgentState
from narval.ask import json_forms
from narval.ask.attention.attention import attention
from narval.ask.home_state import (
    inbox_of,
    standing_of,
    store_away,
    unconfined_in,
    withheld_in,
    withheld_of_others,
    without_effect,
)
from narval.ask.registry import operation
from narval.ask.runs.waiting import WaitingRuns, asked_in
from narval.ask.turn_index import up_to_date
from narval.core.definitions.remote_calls import called
from narval.core.engines.registry import asking_kinds
from narval.core.kinds import PHASES
from narval.daemon.daemon import Daemon
from narval.daemon.news import Changes
from narval.files.grants import ASK
from narval.files.home import Holder
from narval.store.batch import ACTIVE, PASSIVE, SUSPENDED
from narval.store.look import ServerLook
from narval.store.postgresql.urls import shown
from narval.system.confinement import confinement

SHOWN = 5
"""The most failed runs, and moments to come, that are listed."""


@operation("read")
async def status(daemon: Daemon) -> dict[str, Any]:
    """The daemon's activity, since when it runs, what needs attention, and the latest failures."""
    agent, alive, home = daemon.agent, not daemon.agents.supervisor.record_only, daemon.home
    other = home.known_holder() if home is not None and not alive else None
    holder = Holder(os.getpid(), daemon.main_loop.since) if alive else other
    counts, calls = daemon.calls.counts, _calls(daemon)
    due, kinds = agent.clockwork.timers.next(), _kinds(agent)
    return {
        "home": str(home.path) if home is not None else None,
        "attention": await attention(daemon),
        "name": daemon.name,
        **standing_of(daemon),
        "version": __version__,
        "pid": holder.pid if holder is not None else None,
        "since": json_forms.moment(holder.since) if holder is not None else None,
        "uptime": round(max(0.0, daemon.rounds.clock.now() - daemon.main_loop.since), 3) if alive else None,
        "state": "running" if alive else _standing(holder),
        "runs": {phase: sum(counts[phase] for counts in kinds.values()) for phase in PHASES},
        "kinds": kinds,
        "elements": len(agent.memory),
        "waiting": len(agent.watches.index),
        "waits": _waits(agent),
        "waits_for": (await up_to_date(daemon, WaitingRuns)).counts(),
        "next": json_forms.moment(due) if due is not None else None,
        "later": [json_forms.later(agent, *due) for due in agent.clockwork.timers.soonest(SHOWN)],
        "calls": [] if daemon.record_only else calls,
        "calls_left": len(calls) if daemon.record_only else 0,
        "executor": {
            "running": counts.running,
            "queued": counts.queued,
            "given_up": counts.given_up + daemon.host.questions.given_up,
            "worker_restarts": counts.worker_restarts,
        },
        **({"cluster": cluster.shown()} if (cluster := daemon.calls.executor.cluster) is not None else {}),
        **(
            {"mcp": servers.shown(agent.library)}
            if (servers := daemon.calls.executor.servers) is not None
            else {}
        ),
        **({"agents": agent_counts(daemon)} if len(daemon.agents.rows) else {}),
        "turns": daemon.host.loop.turns,
        "failures": [json_forms.run(agent, run) for run in agent.runs.latest_failures(SHOWN)],
        "inbox": inbox_of(daemon),
        "faults": [json_forms.fault(fault) for fault in [*daemon.files.faults, *without_effect(daemon)]],
        "grants": _grants(daemon),
        "durability": daemon.files.settings.durability,
        "store": store_bytes(daemon),
        **(fleet(daemon) if daemon.store.is_shared else {}),
        "memory": resident() if alive else None,
    }


def fleet(daemon: Daemon) -> dict[str, Any]:
    """The daemons that share the store, as of the last heartbeat, or as the store lists them now if no daemon
    runs here; and since when the store is away.
    """
    leases, away = daemon.store.leases, store_away(daemon)
    members = daemon.fleet.members if daemon.fleet is not None else None
    latest = leases.latest if leases is not None else None
    daemons = daemon.store.daemons() if isinstance(daemon.store, ServerLook) else ()
    rows = sorted(latest.daemons if latest is not None else daemons, key=attrgetter("home"))
    return {
        "fleet": [
            {
                "home": row.home,
                "address": row.address,
                "version": row.version,
                "agents": row.agents,
                "weight": row.weight,
                "until": json_forms.moment(row.until),
                "draining": row.draining,
                "self": leases is not None and row.daemon == leases.daemon,
            }
            for row in rows
        ],
        "server": shown(daemon.files.settings.store or ""),
        "answered_in": round(members.answered_in, 3) if members is not None else None,
        "lost": [json_forms.moment(at) for at in members.lost] if members is not None else [],
        "apart": round(members.clocks.apart, 3) if members is not None else None,
        "away": {"since": json_forms.moment(away[0]), "why": away[1]} if away is not None else None,
    }


def _standing(holder: Holder | None) -> str:
    """The state of a home in which no daemon runs, by the program that holds it."""
    if holder is None:
        return "stopped"
    return "standby" if holder.is_standby else "held"


def agent_counts(daemon: Daemon) -> dict[str, int]:
    """The number of agents in each state, the home's own among them."""
    rows = daemon.agents.rows
    peers = rows.peers()
    agents = [row for row in rows.in_full() if row.name not in peers]
    states = Counter(map(daemon.agents.state_of, agents))
    states[PASSIVE] += len(rows) - len(agents)
    return {state: states[state] + (state == ACTIVE) for state in (ACTIVE, PASSIVE, SUSPENDED)}


def _kinds(agent: AgentState) -> dict[str, dict[str, int]]:
    """The number of runs in each phase, by kind."""
    kinds = sorted({kind for (kind, _), number in agent.runs.counts.items() if number})
    return {kind: {phase: agent.runs.counts[kind, phase] for phase in PHASES} for kind in kinds}


def _waits(agent: AgentState) -> dict[str, int]:
    """The number of active runs that wait for a call, an element, a moment; one run may wait for several."""
    counts = {"call": 0, "condition": 0, "time": 0}
    for run in agent.runs.active.values():
        counts["call"] += bool(run.calls)
        counts["condition"] += bool(run.watches)
        counts["time"] += bool(run.wakes)
    return counts


def _calls(daemon: Daemon) -> list[dict[str, Any]]:
    """The calls that runs wait for, the oldest first if that is known."""
    agent, calls = daemon.agent, []
    for run in agent.runs.active.values():
        for call in run.calls.values():
            record, child = daemon.host.dispatcher.find(call.call), agent.runs.by_call.get(call.call)
            done = record.call.progressed if record is not None else None
            begun = agent.runs[child].started if child is not None else record.since if record else None
            line = {
                "call": call.call,
                "run": run.eid,
                "step": call.step,
                "target": called(call.kind, call.name, call.agent),
                **({"asks": asked} if child and (asked := asked_in(agent, agent.runs[child])) else {}),
                "since": json_forms.moment(begun),
                "age": round(max(0.0, time.time() - begun), 3) if begun is not None else None,
                "progress": list(done) if done is not None else None,
            }
            calls.append(line)
    return sorted(calls, key=lambda line: -(line["age"] or 0.0))


def _grants(daemon: Daemon) -> dict[str, Any]:
    """The definitions that wait for a grant, if the home asks for grants, and what confines code."""
    withheld = [definition.full_name for definition in withheld_in(daemon)]
    return {
        "asks": daemon.files.settings.grants == ASK,
        "confined_by": confinement(),
        "not_confined": unconfined_in(daemon),
        "withheld": withheld,
        "of_others": withheld_of_others(daemon),
    }


def store_bytes(daemon: Daemon) -> int | None:
    """The size of the store in bytes; None if it is in memory or on a server."""
    if daemon.home is None or daemon.files.settings.store:
        return None
    path = daemon.home.store
    size = 0
    for file in (path, path.with_name(path.name + "-wal")):
        with suppress(OSError):
            size += file.stat().st_size
    return size


def resident() -> int | None:
    """The resident memory of this program in bytes; its peak if the system gives only that."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, IndexError):
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024
    return pages * resource.getpagesize()


@operation("read")
async def changed(
    daemon: Daemon, after: int = 0, wait: float = 0.0, run: int | None = None, files: bool = False
) -> dict[str, Any]:
    """The runs that changed after a turn, by eid; and whether elements were added or removed, work of people
    changed, other files became active, jobs made progress. Waits `wait` seconds for a turn that changes
    something.

    `turn` is the `after` of the next request. The last 1,024 turns are remembered while somebody asks, and
    for a minute after. `lost` says that `after` is not among them, so anything may have changed: begin with
    it, and then read everything to be displayed. With `run`, waits only for changes of that run; with
    `files`, only for other files.
    """
    news, clock, deadline = daemon.host.waiters.news, daemon.rounds.clock, time.monotonic() + wait
    if wait > 0:
        await news.rest(wait)
    last, changes = after, news.since(after, clock.now())
    while changes is None or not (changes.lost or _is_asked_for(changes, run, files=files)):
        last = changes.turn if changes is not None else last
        left = deadline - time.monotonic()
        if left <= 0:
            break
        await news.more(left)
        if run is not None:
            await news.rest(deadline - time.monotonic())
        changes = news.since(last, clock.now())
    if changes is None:
        changes = Changes(last)
    elif not changes.lost:
        changes = changes._replace(work=_are_of_people(daemon.agent, changes.runs))
    return changes._asdict() | {"runs": list(changes.runs)}


def _is_asked_for(changes: Changes, run: int | None, *, files: bool) -> bool:
    return (run is None or run in changes.runs) and (not files or changes.faults)


def _are_of_people(agent: AgentState, eids: Iterable[int]) -> bool:
    """True if any of these runs asks people something, or if a forgotten one may have."""
    kinds = frozenset(asking_kinds())
    runs = map(agent.runs.get, eids)
    return any(run is None or run.kind in kinds for run in runs)
