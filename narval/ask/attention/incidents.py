"""Operations on incidents: failed runs and parts, errors outside runs, faults of files. Like incidents share
a row.

An incident is open while the element that reports it is current; an index of the agent has these. The element
is outdated when a retry of the run has ended, successfully or not (a failed one makes its own incident), when
the incident is acknowledged, or when its file has no faults. The error of a failed part is outdated as soon
as that part continues.
"""

from __future__ import annotations

from collections import Counter
from datetime import date, datetime, timedelta
from itertools import islice
from typing import Any
from zoneinfo import ZoneInfo

from msgspec.structs import replace

from narval.agent.agent import AgentState
from narval.agent.effects import outdate
from narval.agent.incidents import FILE, NAMES, RUN, IncidentRow, IncidentRows
from narval.agent.turn import Turn
from narval.ask import json_forms
from narval.ask.asker import PROGRAM, Asker
from narval.ask.lookup import command
from narval.ask.paging import check_limit
from narval.ask.registry import Form, operation
from narval.ask.runs.acts import retry
from narval.ask.runs.calls import tries_and_waits
from narval.ask.titles import place_of, title
from narval.ask.turn_index import TurnIndex, up_to_date
from narval.core.elements.element import Origin
from narval.core.elements.own_elements import ACKNOWLEDGED, make_acknowledged, read_acknowledged
from narval.core.engines.engine import Retryable
from narval.core.engines.events import INTERRUPTED
from narval.core.engines.registry import engine_of_run
from narval.core.errors import NarvalError, NotFoundError, RequestError
from narval.daemon.daemon import Daemon
from narval.daemon.news import Changes
from narval.system.long_work import TimeSlice


class OpenIncidents(TurnIndex):
    """The open incidents of an agent: those whose elements are still current.

    When elements come or go, the new ones and the open ones are checked.
    """

    def __init__(self, agent: AgentState) -> None:
        super().__init__(agent)
        self._incidents = IncidentRows(agent)

    @property
    def rows(self) -> dict[str, IncidentRow]:
        """The rows by identifier."""
        return self._incidents.rows

    async def follow(self, changes: Changes) -> None:
        """Check the elements, if any were added or removed."""
        if changes.runs or changes.lost:
            self._incidents.drop_mended()
        if changes.elements:
            time_slice = TimeSlice()
            for _ in self._incidents.look():
                await time_slice.yield_if_due()


LOOKED_AT = 10_000
"""The most errors and failures that are read, the newest, if settled ones are requested too."""

DAYS = 14
"""The days for which a row has daily counts."""

NEWEST, OF_ONE = 10, 1000
"""The most runs or elements named by a row of the listing, and by a row that is requested alone."""

HELD = 5
"""The most elements listed for a run whose failed part was given none."""

WITH_INPUTS = 100
"""The most runs of a row requested alone that are listed with the inputs of the failed part."""


@operation("read")
async def incidents(
    daemon: Daemon, every: bool = False, incident: str | None = None, limit: int | None = None
) -> list[dict[str, Any]]:
    """The open incidents: like ones in one row, the row with the latest first.

    With `every`, also those that were retried successfully or acknowledged, and faults of files that are
    corrected, among the 10,000 newest errors. With an `incident`, that row alone, open or settled. `newest`
    has the runs, or the elements where there is no run; `days` has the counts of the last 14 days. `runs`,
    only with an `incident`, has the newest 100 runs, each with the elements that the failed part was given,
    or if it was given none the first that the run had.
    """
    check_limit(limit)
    rows = (await up_to_date(daemon, OpenIncidents)).rows
    if every or (incident is not None and incident not in rows):
        rows = await _all_rows(daemon.agent)
    if incident is not None:
        row = _row(daemon, rows, incident)
        return [{**_form(daemon.agent, incident, row, OF_ONE), "runs": await _runs(daemon, row)}]
    latest = sorted(rows.items(), key=lambda pair: -max(pair[1].of))
    return [_form(daemon.agent, id, row, NEWEST) for id, row in islice(latest, limit)]


async def _all_rows(agent: AgentState) -> dict[str, IncidentRow]:
    """The rows of the newest errors and failures, settled ones too."""
    rows, time_slice = IncidentRows(agent), TimeSlice()
    for eid in list(islice(agent.memory.index.newest_named(NAMES), LOOKED_AT)):
        await time_slice.yield_if_due()
        element = agent.memory.element(eid)
        if element is not None:
            rows.put(element)
    return rows.rows


def _row(daemon: Daemon, rows: dict[str, IncidentRow], incident: str) -> IncidentRow:
    row = rows.get(incident)
    if row is None:
        listed = command(daemon, "errors --all")
        raise NotFoundError(f"there is no incident {incident!r:.80}; `{listed}` lists them")
    return row


def _form(agent: AgentState, id: str, row: IncidentRow, most: int) -> Form:
    """A row as plain data."""
    memory, zone, newest = agent.memory, ZoneInfo(agent.clockwork.zone), row.newest
    eids = sorted(row.of)
    is_open = any(eid not in memory.outdated for eid in eids)
    acknowledged = None if is_open else _acknowledged(agent, id)
    return {
        "incident": id,
        "what": newest.what,
        "kind": newest.kind or None,
        "definition": newest.definition or None,
        "part": newest.part or None,
        "type": newest.type,
        "message": newest.message,
        "retryable": newest.what == RUN and isinstance(engine_of_run(newest.kind), Retryable),
        "place": (place_of(agent, element) if (element := memory.element(eids[-1])) is not None else "")
        or None,
        "state": "open" if is_open else "acknowledged" if acknowledged is not None else "settled",
        "count": len(eids),
        "first": json_forms.moment(row.of[eids[0]][0]),
        "last": json_forms.moment(row.of[eids[-1]][0]),
        "days": _days([at for at, _ in row.of.values()], zone),
        "newest": [row.of[eid][1] or eid for eid in reversed(eids[-most:])],
        "acknowledged": acknowledged,
    }


async def _runs(daemon: Daemon, row: IncidentRow) -> list[Form]:
    """The newest runs of a row, when each failed, and the inputs of its failed part, with titles."""
    runs = [(run, at) for at, run in row.of.values() if run in daemon.agent.runs]
    return [
        {"run": run, "at": json_forms.moment(at), "inputs": await _inputs(daemon, run, row.newest.part)}
        for run, at in sorted(runs, reverse=True)[:WITH_INPUTS]
    ]


async def _inputs(daemon: Daemon, run: int, part: str) -> list[Form]:
    """The elements that the failed calls of a part were given, or those that the run had if no call was made;
    with titles.
    """
    agent = daemon.agent
    calls = [
        call
        for call in await tries_and_waits(daemon, agent.runs[run])
        if call["part"] == part and call["outcome"] == "failed"
    ]
    eids = dict.fromkeys(eid for call in calls for slot in call["inputs"] for eid in slot["elements"])
    had = eids or islice(
        (eid for eid in agent.memory.contexts.of(run) if _is_from_before(agent, eid, run)), HELD
    )
    return [{"eid": eid, "title": title(agent, eid)} for eid in had]


def _is_from_before(agent: AgentState, eid: int, run: int) -> bool:
    """True of an element that the run did not make itself, as it made its error."""
    element = agent.memory.element(eid)
    return element is not None and (element.origin is None or element.origin.run != run)


def _days(moments: list[float], zone: ZoneInfo) -> list[Form]:
    """The number of incidents on each of the days up to the last one's, in the zone of the home."""
    counts = Counter(datetime.fromtimestamp(at, zone).date() for at in moments)
    last = max(counts)
    days = [date.fromordinal(last.toordinal()) - timedelta(days=back) for back in reversed(range(DAYS))]
    return [{"day": day.isoformat(), "count": counts[day]} for day in days]


def _acknowledged(agent: AgentState, id: str) -> Form | None:
    """The last acknowledgement of a row: by whom, when and why."""
    for eid in islice(agent.memory.index.newest_named((ACKNOWLEDGED,)), OF_ONE):
        element = agent.memory.element(eid)
        if element is None:
            continue
        incident, reason = read_acknowledged(element)
        if incident == id:
            origin = element.origin or Origin()
            return {
                "by": origin.by or None,
                "actor": origin.actor or None,
                "way": origin.way or None,
                "session": origin.session or None,
                "at": json_forms.moment(element.added),
                "reason": reason,
                "element": eid,
            }
    return None


@operation("write")
async def acknowledge(
    daemon: Daemon, incident: str, reason: str, run: int | None = None, *, asker: Asker = PROGRAM
) -> dict[str, Any]:
    """Acknowledge a row of incidents, with the reason why nothing needs to be done: this settles them. With a
    `run`, only that run's incident.

    An element `acknowledged` records it. A new incident like them opens the row again. A file's incident
    cannot be acknowledged: it ends when the file has no faults.
    """
    if not reason.strip():
        raise RequestError("expected a reason, got none: say why nothing more needs to be done")
    row = await _open_row(daemon, incident)
    if row.newest.what == FILE:
        where = row.newest.definition
        raise RequestError(f"the incident {incident} ends when {where} has no faults; correct that file")
    newest = row.newest
    eids = tuple(sorted(eid for eid, (_, of) in row.of.items() if run is None or of == run))
    if not eids:
        listed = command(daemon, f"errors show {incident}")
        raise RequestError(f"incident {incident} has no open failure of run {run}; `{listed}` lists its runs")
    about = {"what": newest.what, "definition": newest.definition, "part": newest.part, "type": newest.type}

    def work(turn: Turn) -> dict[str, Any]:
        memory = turn.agent.memory
        still = tuple([eid for eid in eids if eid in memory and eid not in memory.outdated])
        if still:
            outdate(turn.transaction, still)
        origin = replace(asker.origin() or Origin(), inputs=still)
        said = make_acknowledged(incident, len(still), reason.strip(), **about)
        return {"incident": incident, "count": len(still), "element": turn.add(said, origin)}

    return dict(await daemon.host.submit(work))


async def _open_row(daemon: Daemon, incident: str) -> IncidentRow:
    """An open row. Raises RequestError if it is settled or does not exist."""
    rows = (await up_to_date(daemon, OpenIncidents)).rows
    if incident not in rows:
        _row(daemon, await _all_rows(daemon.agent), incident)
        raise RequestError(f"the incident {incident} is already settled")
    return rows[incident]


@operation("write")
async def retry_incident(
    daemon: Daemon, incident: str, limit: int = OF_ONE, every: bool = False, *, asker: Asker = PROGRAM
) -> list[dict[str, Any]]:
    """Retry all open runs of a row, each from the part that failed: the newest `limit`, 1,000 at most.

    Several interrupted runs are retried only with `every`: their calls may already have had their effect.
    Runs whose retry is under way come last. Returns for each run the new one, or why it cannot be retried.
    """
    if not 1 <= limit <= OF_ONE:
        raise RequestError(f"expected limit to be 1 to {OF_ONE:,}, got {limit}")
    row = await _open_row(daemon, incident)
    if row.newest.what != RUN:
        why = f"the incident {incident} is not a failed run; only failed runs can be retried"
        raise RequestError(f"{why}; `{command(daemon, 'attention')}` says what to do about a part of one")
    if row.newest.type == INTERRUPTED and min(limit, len(row.of)) > 1 and not every:
        raise RequestError(
            f"some of the {len(row.of):,} runs of {incident} may have done what they should; look at each "
            f"(`{command(daemon, f'errors show {incident}')}`), or begin them all again with --all"
        )
    again = {run.retry_of for run in daemon.agent.runs.retrying.values()}
    runs = sorted([run for _, run in reversed(row.of.values())], key=again.__contains__)[:limit]
    return [await _retried(daemon, run, asker) for run in runs]


async def _retried(daemon: Daemon, run: int, asker: Asker) -> Form:
    """The retry of a run, or the reason why it cannot be retried."""
    try:
        begun = await retry(daemon, run, asker=asker)
    except NarvalError as error:
        return {"run": run, "retry": None, "error": str(error)}
    return {"run": run, "retry": begun["eid"], "error": None}
