"""The operation `calendar`: for each day, upcoming moments, missed ones, and why (M48)."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from narval.agent.agent import AgentState
from narval.agent.run import Run
from narval.agent.timers import ForgetRun, StartRun
from narval.ask import json_forms
from narval.ask.registry import Form, operation
from narval.ask.runs.waiting import about, waits_of
from narval.ask.text import counted
from narval.core.definitions.appointment import read_date
from narval.core.definitions.schedule import Time, schedule_of, text_of
from narval.core.engines.engine import HasDates, HeedsPeople, Wait
from narval.core.errors import RequestError
from narval.daemon.daemon import Daemon
from narval.system.long_work import TimeSlice

MOST = 1000
"""The most set moments that are shown, and the most expected ones."""

LOOKED_AT = 10_000
"""The most moments that are read, the nearest; most of them may be those at which runs are forgotten."""

LONGEST = 366 * 86_400.0
"""The longest time shown at once, in seconds."""

OFTEN = 10
"""The most dates of one text listed for a day; if there are more, one line summarizes the rest."""

USUAL = 14
"""The days covered if no end is named."""


class _Dates(NamedTuple):
    """The dates of a part of a run; the first is set, the later ones are expected."""

    run: Run
    part: str
    times: tuple[Time, ...]
    at: float


@operation("read")
async def calendar(daemon: Daemon, start: str | None = None, end: str | None = None) -> dict[str, Any]:
    """By day, in the zone of the home: the moments that are set, with the part of the run that waits and the
    text of its dates; the later dates of the same text, which are expected; and those missed or dropped.
    `about` is the question that the run asks people, or else the first element that it held.

    `start` and `end` are dates or moments, by default today and two weeks later. At most 1,000 set and 1,000
    expected moments are listed; `more` says that there are others.
    """
    agent, now = daemon.agent, daemon.rounds.clock.now()
    zone = ZoneInfo(agent.clockwork.zone)
    first, last = _range(start, end, zone, now)
    entries, dates, full = await _set(agent, first, last)
    expected = list(islice(_expected(dates, agent.clockwork.zone, max(first, now), last), MOST + 1))
    entries += [_late(late, zone.key) for late in agent.clockwork.late if first <= late.at < last]
    entries += [
        _entry(at, "date", occurrence.run, occurrence.part, text, expected=True)
        for at, occurrence, text in expected[:MOST]
    ]
    entries.sort(key=lambda entry: entry["at"])
    runs = {eid: run for entry in entries if (run := agent.runs.active.get(eid := entry["run"] or 0))}
    subjects = {eid: about(agent, run) for eid, run in runs.items()}
    days: dict[str, Form] = {day: _day(day, clock) for day, clock in _set_clocks(first, last, zone)}
    for entry in entries:
        at = entry["at"]
        day = datetime.fromtimestamp(at, zone).date().isoformat()
        days.setdefault(day, _day(day, None))["entries"].append(
            {**entry, "at": json_forms.moment(at, zone.key), "about": subjects.get(entry["run"], "")}
        )
    return {
        "zone": zone.key,
        "start": json_forms.moment(first, zone.key),
        "end": json_forms.moment(last, zone.key),
        "days": [days[day] for day in sorted(days)],
        "more": full or len(expected) > MOST,
    }


def _range(start: str | None, end: str | None, zone: ZoneInfo, now: float) -> tuple[float, float]:
    """The first and the last moment to list. Raises RequestError."""
    try:
        today = datetime.fromtimestamp(now, zone).date()
        first = read_date(start or today.isoformat(), zone.key)
        until = datetime.fromtimestamp(first, zone).date() + timedelta(days=USUAL)
        last = read_date(end or until.isoformat(), zone.key)
    except (ValueError, OverflowError):
        expectation = "a date such as 2026-11-23, or a moment such as 2026-11-23T07:00"
        named = " and ".join(repr(moment) for moment in (start, end) if moment)
        raise RequestError(f"expected {expectation}, got {named:.200}") from None
    if not 0 < last - first <= LONGEST:
        raise RequestError(
            f"expected an end after the start, and at most 366 days after it, got {start} and {end}"
        )
    return first, last


def _day(day: str, clock: str | None) -> Form:
    return {"day": day, "clock": clock, "entries": []}


def _entry(at: float, what: str, run: Run | None, part: str = "", text: str = "", **more: Any) -> Form:
    return {
        "at": at,
        "what": what,
        "run": run.eid if run is not None else None,
        "name": run.name if run is not None else None,
        "part": part or None,
        "text": text,
        "expected": False,
        "came": None,
        "why": None,
        "dropped": False,
        **more,
    }


# --- set moments ------------------------------------------------------------------------------------------


async def _set(agent: AgentState, first: float, last: float) -> tuple[list[Form], list[_Dates], bool]:
    """The set moments, the recurring dates, and True if there are more moments than are listed.

    Moments of forgetting are counted by day.
    """
    forms: list[Form] = []
    dates: list[_Dates] = []
    forgotten: dict[int, tuple[float, int]] = {}
    limits: dict[tuple[int, str], tuple[float, Run, Wait]] = {}
    seen, time_slice = 0, TimeSlice()
    for at, (eid, _), job in agent.clockwork.timers.before(last, LOOKED_AT):
        await time_slice.yield_if_due()
        if isinstance(job, ForgetRun):
            day = int(at // 86_400)
            forgotten[day] = (forgotten.get(day, (at, 0))[0], forgotten.get(day, (at, 0))[1] + 1)
            continue
        seen += 1
        if seen > MOST:
            break
        run = agent.runs.active.get(eid)
        if run is not None and run.state is not None:
            held = list(waits_of(run))
            waits = [wait for wait in held if wait.until == at]
            dates += [_Dates(run, wait.id, times, at) for wait in waits if (times := _times(run, wait))]
            forms += [_waited(at, run, wait) for wait in waits if at >= first]
            later = [wait for wait in held if wait.what == "limit" and at < (wait.until or at) < last]
            limits |= {(eid, wait.id): (wait.until or at, run, wait) for wait in later}
            if not waits and at >= first:
                heeds = isinstance(run.engine, HeedsPeople)
                forms.append(_entry(at, "reminder", run) if heeds else _entry(at, "wake", run, text=GOES_ON))
        elif isinstance(job, StartRun) and at >= first:
            forms.append(_entry(at, "start", None, text="starts again, after its back-off", name=job.name))
    set_already = {(form["run"], form["part"]) for form in forms}
    forms += [
        _waited(at, run, wait)
        for (eid, id), (at, run, wait) in limits.items()
        if at >= first and (eid, id) not in set_already
    ]
    forms += [
        _entry(at, "forget", None, text=f"{counted(count, 'ended run')} will be forgotten")
        for at, count in forgotten.values()
        if at >= first
    ]
    return forms, dates, seen > MOST


GOES_ON = "it goes on"
"""The words for a run's moment that does not say what it waits for."""

_WHAT = {"time": "date", "try": "back-off", "again": "back-off", "limit": "deadline"}
"""The words for moments, by what a part waits for."""


def _waited(at: float, run: Run, wait: Wait) -> Form:
    """A moment for which a part of a run waits."""
    times = _times(run, wait)
    text = text_of(times) if times else wait.reckoned or wait.text
    return _entry(at, _WHAT.get(wait.what, "wake"), run, wait.id, text)


def _times(run: Run, wait: Wait) -> tuple[Time, ...]:
    """The recurring dates of a part that waits for one of them."""
    if wait.what != "time" or not isinstance(run.engine, HasDates):
        return ()
    return run.engine.dates_of(run.definition, wait.id)


# --- expected moments, late moments, and the clock --------------------------------------------------------


_Expected = tuple[float, _Dates, str]


def _expected(dates: list[_Dates], zone: str, first: float, last: float) -> Iterator[_Expected]:
    """The later dates of the same texts, in order, computed lazily."""
    return heapq.merge(*(_of(each, zone, first, last) for each in dates), key=lambda each: each[0])


def _of(dates: _Dates, zone: str, first: float, last: float) -> Iterator[_Expected]:
    """The later dates of a text; for a day with more than `OFTEN`, the first ones, and words for the rest."""
    schedule, text = schedule_of(dates.times, zone), text_of(dates.times)
    at = schedule.next(max(dates.at, first - 1))
    while at is not None and at < last:
        midnight = _midnight_after(at, ZoneInfo(zone))
        of_day = [at]
        while len(of_day) <= OFTEN and (at := schedule.next(of_day[-1])) and at < min(midnight, last):
            of_day.append(at)
        if len(of_day) > OFTEN:
            yield of_day[0], dates, f"{text}, and more than {OFTEN} times that day"
            at = schedule.next(midnight - 1)
        else:
            yield from ((moment, dates, text) for moment in of_day)


def _midnight_after(at: float, zone: ZoneInfo) -> float:
    day = datetime.fromtimestamp(at, zone).replace(hour=0, minute=0, second=0, microsecond=0, fold=0)
    return (day + timedelta(days=1)).timestamp()


def _late(late: Any, zone: str) -> Form:
    """A moment that was late, or was dropped for being late."""
    text = "it was dropped, and the next date is waited for" if late.dropped else "it came late"
    return {
        **_entry(late.at, "late", None, late.part, text, name=late.name),
        "run": late.run,
        "came": json_forms.moment(late.came, zone),
        "why": late.why,
        "dropped": late.dropped,
    }


def _set_clocks(first: float, last: float, zone: ZoneInfo) -> Iterator[tuple[str, str]]:
    """The days on which the clock changes, and the effect on their dates."""
    day = datetime.fromtimestamp(first, zone).replace(hour=0, minute=0, second=0, microsecond=0, fold=0)
    while day.timestamp() < last:
        after = day + timedelta(days=1)
        by = ((after.utcoffset() or timedelta()) - (day.utcoffset() or timedelta())).total_seconds()
        if by:
            yield day.date().isoformat(), _said_of_clock(day, after, by, zone)
        day = after


def _said_of_clock(day: datetime, after: datetime, by: float, zone: ZoneInfo) -> str:
    low, high = int(day.timestamp()), int(after.timestamp())
    while high - low > 1:
        middle = (low + high) // 2
        if datetime.fromtimestamp(middle, zone).utcoffset() == day.utcoffset():
            low = middle
        else:
            high = middle
    new = datetime.fromtimestamp(high, zone)
    old = new.replace(tzinfo=None) - timedelta(seconds=by)
    read = f"{old:%H:%M} becomes {new:%H:%M}"
    if by > 0:
        return f"the clock goes forward, {read}: dates between come at {new:%H:%M}"
    return f"the clock goes back, {read}: dates between come once, the first time"
