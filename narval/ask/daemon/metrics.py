"""The operation `metrics`: the numbers of a daemon, as Prometheus gathers them. A row of `METRICS` adds one.

Counts since the start are kept where they arise (`Numbers`); everything else is read on request. Labels are
bounded: places, states, kinds, and definitions, of which the first `MOST` are named.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from narval import __version__
from narval.agent.agent import AgentState
from narval.ask.attention.attention import A_DAY, attention
from narval.ask.daemon.status import agent_counts, resident, store_bytes
from narval.ask.home_state import store_away
from narval.ask.registry import operation
from narval.calls.models import FILE
from narval.core.kinds import PHASES
from narval.daemon.daemon import Daemon
from narval.daemon.fleet.fleet import Fleet

MOST = 1000
"""The most definitions that are named, those whose runs ended first; the others are counted together."""

OTHERS = "(others)"

Samples = Mapping[tuple[str, ...], float]


class Gathered(NamedTuple):
    """The sources that metrics are read from."""

    daemon: Daemon
    attention: list[dict[str, Any]]
    spent: list[tuple[str, int, float]]
    """The tokens and the money that each language model cost today."""

    @property
    def agents(self) -> list[AgentState]:
        """The agents in memory."""
        return [participant.loop.agent for participant in self.daemon.rounds.participants]


class Metric(NamedTuple):
    """A number of a daemon: its name, its description, and how it is read; `read` may return None."""

    name: str
    """The name for Prometheus, with the unit; for a counter without `_total`."""
    kind: str
    """`counter` for a number that only grows while the daemon runs, else `gauge`."""
    doc: str
    read: Callable[[Gathered], float | Samples | None]
    labels: tuple[str, ...] = ()
    """The labels, in the order of the values that `read` returns."""


def _agents(number: Callable[[AgentState], float]) -> Callable[[Gathered], float]:
    """The sum of a number of the agents in memory."""
    return lambda gathered: sum(map(number, gathered.agents))


def _fleet(number: Callable[[Fleet], float]) -> Callable[[Gathered], float | None]:
    """A number of a daemon that shares its store; None for any other."""
    return lambda gathered: None if (fleet := gathered.daemon.fleet) is None else number(fleet)


def _active(gathered: Gathered) -> Samples:
    counts = Counter[tuple[str, ...]]()
    for agent in gathered.agents:
        for (kind, phase), number in agent.runs.counts.items():
            if phase == PHASES[0]:
                counts[(kind,)] += number
    return counts


def _ended(gathered: Gathered) -> Samples:
    named: dict[str, None] = {}
    counts = Counter[tuple[str, ...]]()
    for (name, phase), number in gathered.daemon.main_loop.numbers.ended.items():
        if len(named) < MOST:
            named[name] = None
        counts[name if name in named else OTHERS, phase] += number
    return counts


def _calls(gathered: Gathered) -> Samples:
    return Counter((record.call.target.where, record.state) for record in gathered.daemon.calls)


def _attention(gathered: Gathered) -> Samples:
    counts = Counter((item["what"], item["grave"]) for item in gathered.attention)
    return {(what, grave): number for (what, grave), number in counts.items()}


def _late(gathered: Gathered) -> float:
    since = gathered.daemon.rounds.clock.now() - A_DAY
    return sum(late.came >= since for agent in gathered.agents for late in agent.clockwork.late)


def _free(gathered: Gathered) -> float | None:
    if gathered.daemon.home is None:
        return None
    disk = os.statvfs(gathered.daemon.home.path)
    return disk.f_bavail * disk.f_frsize


METRICS: tuple[Metric, ...] = (
    Metric("narval_up", "gauge", "1 while a daemon is running, else 0, alone.", lambda of: 1.0),
    Metric("narval_info", "gauge", "Always 1; the version of narval.",
           lambda of: {(__version__,): 1.0}, ("version",)),
    Metric("narval_start_time_seconds", "gauge", "When the daemon started, in seconds since 1970.",
           lambda of: of.daemon.main_loop.since),
    Metric("narval_cpu_seconds", "counter", "Processor time of the daemon.", lambda of: time.process_time()),
    Metric("narval_resident_memory_bytes", "gauge", "Resident memory of the daemon.", lambda of: resident()),
    Metric("narval_turns", "counter", "Turns of agents that were recorded and performed.",
           lambda of: of.daemon.rounds.turns),
    Metric("narval_turn_seconds", "counter", "Time in which turns were decided, recorded and performed.",
           lambda of: of.daemon.main_loop.numbers.busy),
    Metric("narval_events_queued", "gauge", "Events and requests that wait for a turn.",
           lambda of: sum(len(one.loop.agent.queue) + len(one.loop.intake.waiting)
                          for one in of.daemon.rounds.participants)),
    Metric("narval_agents", "gauge", "Agents, by state; elsewhere are those of other daemons.",
           lambda of: {(state,): number for state, number in agent_counts(of.daemon).items()}, ("state",)),
    Metric("narval_runs_active", "gauge", "Runs under way of agents in memory.", _active, ("kind",)),
    Metric("narval_runs_ended", "counter", "Runs that ended since the start, of the first 1,000 definitions.",
           _ended, ("definition", "phase")),
    Metric("narval_elements", "gauge", "Elements of agents in memory.",
           _agents(lambda agent: len(agent.memory))),
    Metric("narval_watches", "gauge", "Conditions that agents in memory wait for.",
           _agents(lambda agent: len(agent.watches.index))),
    Metric("narval_moments_late", "gauge", "Moments that came late within a day.", _late),
    Metric("narval_messages_waiting", "gauge", "Messages between agents that are not taken.",
           lambda of: of.daemon.host.mail.office.room.total),
    Metric("narval_calls", "gauge", "Calls that have no answer yet, by where they are made.",
           _calls, ("place", "state")),
    Metric("narval_calls_ended", "counter", "Calls that were answered, but those within a turn.",
           lambda of: {(place,): number for place, number in of.daemon.calls.answered.items()}, ("place",)),
    Metric("narval_calls_given_up", "gauge", "Calls that outlived their time limit and still run.",
           lambda of: of.daemon.calls.counts.given_up),
    Metric("narval_worker_restarts", "counter", "Workers that died or were killed.",
           lambda of: of.daemon.calls.counts.worker_restarts),
    Metric("narval_attention_items", "gauge", "Items of `narval attention`.",
           _attention, ("what", "grave")),
    Metric("narval_store_bytes", "gauge", "Size of the store, where it is a file.",
           lambda of: store_bytes(of.daemon)),
    Metric("narval_disk_free_bytes", "gauge", "Room on the disk of the home.", _free),
    Metric("narval_model_day_tokens", "gauge", "Tokens that a language model cost today.",
           lambda of: {(model,): tokens for model, tokens, _ in of.spent}, ("model",)),
    Metric("narval_model_day_money", "gauge", "Money that a language model cost today, as priced.",
           lambda of: {(model,): money for model, _, money in of.spent}, ("model",)),
    Metric("narval_store_away", "gauge", "1 while the server of the store does not answer, else 0.",
           lambda of: None if of.daemon.fleet is None else store_away(of.daemon) is not None),
    Metric("narval_store_answer_seconds", "gauge", "Time that the last heartbeat took to be answered.",
           _fleet(lambda fleet: fleet.members.answered_in)),
    Metric("narval_lease_age_seconds", "gauge", "Time since the lease was last renewed.",
           _fleet(lambda fleet: fleet.members.gate.monotonic() - fleet.members.gate.member.renewed)),
    Metric("narval_lease_renewals", "counter", "Renewals that the store answered.",
           _fleet(lambda fleet: fleet.members.renewals)),
    Metric("narval_leases_lost", "counter", "Leases that this program lost.",
           _fleet(lambda fleet: len(fleet.members.lost))),
    Metric("narval_agents_taken_over", "counter", "Agents that went on here after they were elsewhere.",
           _fleet(lambda fleet: fleet.taking_over.taken)),
    Metric("narval_fleet_daemons", "gauge", "Daemons that share the store.",
           _fleet(lambda fleet: len(fleet.members.daemons))),
    Metric("narval_clock_apart_seconds", "gauge", "Difference of the clocks of machine and store.",
           _fleet(lambda fleet: abs(fleet.members.clocks.apart))),
)  # fmt: skip
"""All metrics, in their order in answers."""


@operation("read")
async def metrics(daemon: Daemon) -> list[dict[str, Any]]:
    """The numbers of the daemon: each with its name, kind, what it says, and samples with their labels.

    If no daemon runs, only `narval_up`, with 0.
    """
    if daemon.record_only:
        return [_form(METRICS[0], 0.0)]
    gathered = Gathered(daemon, await attention(daemon), await _spent(daemon))
    rows = ((metric, metric.read(gathered)) for metric in METRICS)
    return [_form(metric, value) for metric, value in rows if value is not None]


def _form(metric: Metric, value: float | Samples) -> dict[str, Any]:
    samples = value.items() if isinstance(value, Mapping) else [((), value)]
    return {
        "name": metric.name,
        "kind": metric.kind,
        "doc": metric.doc,
        "samples": [
            {"labels": dict(zip(metric.labels, labels, strict=True)), "value": float(number)}
            for labels, number in samples
        ],
    }


async def _spent(daemon: Daemon) -> list[tuple[str, int, float]]:
    """The tokens and the money of each model today, in the zone of the home."""
    if daemon.home is None or not (path := daemon.home.path / FILE).exists():
        return []
    zone = ZoneInfo(daemon.agents.own.agent.clockwork.zone)
    day = datetime.fromtimestamp(daemon.rounds.clock.now(), zone).date().isoformat()
    return await asyncio.to_thread(_read_spent, path, day)


def _read_spent(path: Path, day: str) -> list[tuple[str, int, float]]:
    asked = "SELECT model, SUM(tokens), SUM(money) FROM spent WHERE day = ? GROUP BY model LIMIT 100"
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=1.0)) as ledger:
            return list(ledger.execute(asked, (day,)))
    except sqlite3.Error:  # it is being created, or a call has it locked
        return []
