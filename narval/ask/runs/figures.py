"""The operation `figures`: how many runs ended each day and how, their durations, and the last ones."""

from __future__ import annotations

import asyncio
import math
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Sequence
from datetime import date, datetime, time, timedelta
from itertools import islice, pairwise
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from narval.agent.agent import AgentState
from narval.agent.run import Run
from narval.ask.definitions.listing import LAST, Key, key
from narval.ask.json_forms import moment
from narval.ask.lookup import find_definition
from narval.ask.registry import operation
from narval.ask.runs.notices import is_notice
from narval.ask.turn_index import TurnIndex, up_to_date
from narval.core.engines.registry import listed_kinds, run_kinds, standing_kinds
from narval.core.errors import RequestError
from narval.core.kinds import ENDED
from narval.daemon.daemon import Daemon
from narval.daemon.news import Changes
from narval.system.long_work import TimeSlice

USUAL, MOST_DAYS = 14, 366
"""The default number of days, and the most."""

RUNS_LOOKED_AT = 50_000
"""The most ended runs from which the figures are computed, the newest."""


class End(NamedTuple):
    """The end of a run: the moment (seconds since 1970), the run, its phase, and its duration in seconds."""

    at: float
    run: int
    phase: str
    took: float


class RunEnds(TurnIndex):
    """The ends of an agent's runs in order: of all listed ones, and of each definition."""

    def __init__(self, agent: AgentState) -> None:
        super().__init__(agent)
        self._listed = frozenset(listed_kinds())
        self.listed: list[End] = []
        self.of: dict[Key, list[End]] = {}
        self.is_cut = False
        """True if there were more runs than are read."""
        self._series: dict[int, tuple[End, tuple[list[End], ...]]] = {}

    async def follow(self, changes: Changes) -> None:
        """Add or remove the ends of runs that changed."""
        if changes.lost:
            await self._begin_again()
            return
        time_slice = TimeSlice()
        for eid in changes.runs:
            await time_slice.yield_if_due()
            self._follow(eid)

    async def _begin_again(self) -> None:
        """Rebuild the series from the newest ended runs."""
        again, time_slice = RunEnds(self._agent), TimeSlice()
        kinds = set(run_kinds()) - set(standing_kinds().values())
        runs = self._agent.runs
        newest = self._agent.memory.index.newest_named(kinds)
        for eid in newest:
            await time_slice.yield_if_due()
            if (run := runs.get(eid)) is not None and run.ended is not None:
                if len(again._series) == RUNS_LOOKED_AT:
                    again.is_cut = True
                    break
                for series in again.put(run):
                    series.append(again._series[eid][0])
        for series in (again.listed, *again.of.values()):
            await time_slice.yield_if_due()
            series.reverse()  # newest first: reversed, they are cheap to sort
            series.sort()
        self.listed, self.of, self._series, self.is_cut = again.listed, again.of, again._series, again.is_cut

    def put(self, run: Run) -> tuple[list[End], ...]:
        """Record the end of a run, and return the series that it belongs to."""
        ended = run.ended or run.started
        end = End(ended, run.eid, run.phase, max(0.0, ended - run.started))
        own = self.of.setdefault(key(run), [])
        series = (self.listed, own) if run.kind in self._listed else (own,)
        self._series[run.eid] = end, series
        return series

    def _follow(self, eid: int) -> None:
        """Add the end of a run, or remove that of a forgotten one."""
        run = self._agent.runs.get(eid)
        if run is None and eid in self._series:
            end, series = self._series.pop(eid)
            for ends in series:
                del ends[bisect_left(ends, end)]
        elif run is not None and run.ended is not None and eid not in self._series:
            for ends in self.put(run):
                insort(ends, self._series[eid][0])


@operation("read")
async def figures(
    daemon: Daemon, name: str | None = None, kind: str | None = None, days: int = USUAL
) -> dict[str, Any]:
    """The runs of the last days, today included, or those of a definition: how many ended each day in each
    phase, in the zone of the home; how many seconds the successful ones took, as 50th and 95th percentile;
    and the last twenty that ended, newest first.

    Forgotten runs are not counted. Runs are taken from the newest 50,000 that have ended; `more` says that
    there are others. `kind` chooses the definition if several have the name. `notices` counts the runs of
    these days that only report failures. Raises RequestError.
    """
    if not 1 <= days <= MOST_DAYS:
        raise RequestError(f"expected days to be from 1 to {MOST_DAYS}, got {days}")
    if name is None and kind is not None:
        raise RequestError("expected the name of a definition along with kind")
    ends = await up_to_date(daemon, RunEnds)
    of = _meant(daemon, ends, name, kind) if name is not None else None
    series = ends.of.get(of, ()) if of is not None else ends.listed
    zone = ZoneInfo(daemon.agent.clockwork.zone)
    today = datetime.fromtimestamp(daemon.rounds.clock.now(), zone).date()
    dates = [today - timedelta(days=before) for before in reversed(range(days))]
    recent = series[_place(series, dates[0], zone) :]
    notices = (listed for key, listed in ends.of.items() if of in (None, key) and is_notice(key[1], "done"))
    notice_ends = [end for listed in notices for end in listed[_place(listed, dates[0], zone) :]]

    def counted() -> tuple[list[dict[str, Any]], list[float]]:
        return _by_day(recent, dates, zone), sorted(end.took for end in recent if end.phase == "done")

    by_day, took = await asyncio.to_thread(counted)  # there may be 50,000 runs
    return {
        "kind": of[0] if of is not None else None,
        "name": of[1] if of is not None else None,
        "zone": zone.key,
        "days": by_day,
        "took": {"runs": len(took), "p50": percentile(took, 50), "p95": percentile(took, 95)},
        "last": [
            {"run": end.run, "phase": end.phase, "ended": moment(end.at), "took": round(end.took, 3)}
            for end in islice(reversed(series), LAST)
        ],
        "more": ends.is_cut,
        "notices": sum(end.phase != "failed" for end in notice_ends),
    }


def _meant(daemon: Daemon, ends: RunEnds, name: str, kind: str | None) -> Key:
    """The definition of a name: a loaded one, or one that still has runs. Raises RequestError."""
    try:
        definition = find_definition(daemon, name, kind)
    except RequestError:
        there = [of for of in ends.of if of[1] == name and kind in (None, of[0])]
        if len(there) != 1:
            raise
        return there[0]
    return definition.kind, definition.full_name


def _place(series: Sequence[End], day: date, zone: ZoneInfo) -> int:
    """The place in a series at which a day begins."""
    return bisect_left(series, (datetime.combine(day, time(), zone).timestamp(),))


def _by_day(series: Sequence[End], dates: Sequence[date], zone: ZoneInfo) -> list[dict[str, Any]]:
    places = [_place(series, day, zone) for day in (*dates, dates[-1] + timedelta(days=1))]
    counts = (Counter(end.phase for end in series[first:last]) for first, last in pairwise(places))
    return [
        {"day": day.isoformat(), **{phase: count[phase] for phase in ENDED}}
        for day, count in zip(dates, counts, strict=True)
    ]


def percentile(ascending: Sequence[float], percent: int) -> float | None:
    """A percentile of sorted numbers, to the millisecond: the smallest that `percent` percent of them do not
    exceed; None without numbers.
    """
    place = math.ceil(len(ascending) * percent / 100) - 1
    return round(ascending[place], 3) if ascending else None
