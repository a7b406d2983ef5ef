"""The operation `gantt`: the runs of the last hour over time, with their calls."""

from __future__ import annotations

from bisect import bisect_left
from typing import Any

from narval.agent.run import Run
from narval.ask import json_forms
from narval.ask.json_forms import moment
from narval.ask.registry import operation
from narval.ask.runs.calls import form, tries_and_waits
from narval.ask.runs.figures import RunEnds
from narval.ask.runs.notices import is_notice
from narval.ask.turn_index import up_to_date
from narval.core.engines.registry import listed_kinds
from narval.core.errors import RequestError
from narval.daemon.daemon import Daemon
from narval.system.time_slice import TimeSlice

HOUR, MOST_MINUTES = 60, 1440
"""The default number of minutes, and the most."""

USUAL, MOST_RUNS = 60, 200
"""The default number of runs, and the most: the history of each is read."""

ENTRIES, CALLS = 200, 50
"""The most entries of a run, the newest, that are read for its calls, and the most calls in the answer."""


@operation("read")
async def gantt(
    daemon: Daemon, minutes: int = HOUR, limit: int = USUAL, notices: bool = True
) -> dict[str, Any]:
    """The runs that were active at any time in the last minutes, in order of their beginning, each with the
    calls that it made in that time, in the form of `timeline`.

    If there are more runs than `limit`, the newest are returned, and `left_out` counts the others; for each
    run at most the newest 50 calls. Without `notices`, runs that only report failures are left out, and the
    answer counts them. Raises RequestError.
    """
    for name, number, most in (("minutes", minutes, MOST_MINUTES), ("limit", limit, MOST_RUNS)):
        if not 1 <= number <= most:
            raise RequestError(f"expected {name} to be from 1 to {most}, got {number}")
    until = daemon.rounds.clock.now()
    since = until - minutes * 60
    eids = await _under_way(daemon, since)
    rows, left, time_slice = list[dict[str, Any]](), 0, TimeSlice()
    for eid in sorted(eids, reverse=True):
        await time_slice.yield_if_due()
        if (run := daemon.agent.runs.get(eid)) is None:
            continue
        if not notices and is_notice(run.name, run.phase):
            left += 1
        elif len(rows) < limit:
            rows.append(await _row(daemon, run, since))
    return {
        "since": moment(since),
        "until": moment(until),
        "left_out": len(eids) - left - len(rows),
        "notices": left,
        "runs": sorted(rows, key=lambda row: (row["started"], row["eid"])),
    }


async def _under_way(daemon: Daemon, since: float) -> set[int]:
    """The listed runs that are active, or were after a moment."""
    listed, agent = frozenset(listed_kinds()), daemon.agent
    ended = (await up_to_date(daemon, RunEnds)).listed
    active = [eid for eid, run in agent.runs.active.items() if run.kind in listed]
    return {*active, *(end.run for end in ended[bisect_left(ended, (since,)) :])}


async def _row(daemon: Daemon, run: Run, since: float) -> dict[str, Any]:
    """A run in the form of `runs`, with its calls after a moment."""
    tries = await tries_and_waits(daemon, run, ENTRIES)
    calls = [
        row for row in tries if row["call"] is not None and (row["ended"] is None or row["ended"] >= since)
    ]
    return {
        **json_forms.run(daemon.agent, run),
        "calls": [form(row) for row in calls[-CALLS:]],
        "calls_left_out": max(0, len(calls) - CALLS),
    }
