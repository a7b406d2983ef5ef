"""The pages on the state of a home: status, calendar, errors, log.

Each begins with what needs a person: the status page with what needs attention, the calendar with what came
late or not at all, the errors with open incidents, similar ones in one row.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from datetime import date, timedelta
from operator import itemgetter
from typing import Any

from narval.core.engines.registry import is_beside
from narval.core.errors import RequestError
from narval.surfaces.http.page import Follows, Redirect, Shown, Visit, act, page, segment, whole_number

LISTED = 12
"""The most runs under way, and the most ended ones, that are listed."""

PLACES = {"run": "/runs/{}", "element": "/memory/{}", "incident": "/errors/{}", "page": "/{}"}
"""The paths of linked things by kind; anything else has a page of its own name."""

AT_REST = ("element", "moment", "call")
"""The things a run may wait for that arrive without a person."""

GRAVE_GROUPS = {"high": "failed", "middle": "active", "low": "waiting"}
"""The tones of things that need attention."""


@page("/a/{agent}/", command="narval status")
async def status_page(visit: Visit) -> Shown:
    """Show what needs attention, runs under way or ended lately, calls, the next moments, figures."""
    status, asking, active, latest = await asyncio.gather(
        visit.ask("status"),
        visit.ask("runs", waiting_for="person", limit=LISTED),
        visit.ask("runs", state="active", limit=LISTED + 1),
        visit.ask("runs", ended=True, limit=4 * LISTED, notices=False),
    )
    needs = status["attention"]
    ended: dict[tuple[str, str], list[dict[str, Any]]] = {}
    over = {run["eid"]: run for run in (*latest, *status["failures"])}
    for run in sorted(over.values(), key=itemgetter("ended"), reverse=True):
        ended.setdefault((run["name"], run["phase"]), []).append(run)
    values = {
        "status": status,
        "active": list({run["eid"]: run for run in (*asking, *active)}.values())[:LISTED],
        "more_active": len(active) > LISTED,
        "at_rest": sum(status["waits_for"][sort] for sort in AT_REST),
        "ended": [(runs[0], len(runs) - 1) for runs in ended.values()][:LISTED],
        "needs": [{**thing, "url": link_of(visit, thing.get("link"))} for thing in needs],
        "grave_groups": GRAVE_GROUPS,
        "attention": len(needs),
        "here": "/",
    }
    follows = Follows(runs=True, elements=True, work=True, faults=True)
    return Shown("status.html", values, status, follows=follows)


def link_of(visit: Visit, link: dict[str, Any] | None) -> str:
    """The address of a link in an answer, such as `{"run": 7}`; "" for none."""
    if not link:
        return ""
    [(what, which)] = list(link.items())[:1]
    if (what, which) == ("page", "status"):
        return visit.url()
    if what == "agent":
        return f"/a/{segment(which)}/"
    return visit.url(PLACES.get(what, f"/{what}/{{}}").format(segment(which)))


# --- the calendar -------------------------------------------------------------------------------------------


ENTRY_TONES = {"late": "failed", "dropped": "cancelled", "expected": "idle", "set": "waiting"}
"""The tones of entries."""


@page("/a/{agent}/calendar", command="narval calendar", options={"start": "--from", "end": "--to"})
async def calendar_page(visit: Visit) -> Shown:
    """Show the moments of some days, by default two weeks from today."""
    start, end = visit.query.get("start") or None, visit.query.get("end") or None
    answer = await visit.ask("calendar", start=start, end=end)
    try:
        first = date.fromisoformat(answer["start"][:10])
        span = max(date.fromisoformat(answer["end"][:10]) - first, timedelta(days=1))
        before, after = (first - span, first), (first + span, first + 2 * span)
    except (ValueError, OverflowError):
        raise RequestError(f"expected dates such as 2026-11-23, got {start!r:.40} and {end!r:.40}") from None
    values = {
        "calendar": answer,
        "start": answer["start"][:10],
        "end": answer["end"][:10],
        "before": visit.url("/calendar", start=before[0], end=before[1]),
        "after": visit.url("/calendar", start=after[0], end=after[1]),
        "entry_tones": ENTRY_TONES,
        "here": "/calendar",
    }
    return Shown("calendar.html", values, answer, follows=Follows(runs=True))


# --- errors -------------------------------------------------------------------------------------------------


ROWS = 200
"""The most rows that are listed."""

SPARK = 26.0
"""The height of the highest bar of a row's days, in pixels."""

INCIDENT_TONES = {"open": "failed", "acknowledged": "cancelled", "settled": "done"}
"""The tones of the states of rows."""


@page("/a/{agent}/errors", command="narval errors", options={"all": "--all!"})
async def errors_page(visit: Visit) -> Shown:
    """List the incidents that are open, or all."""
    every = visit.query.get("all") == "yes"
    rows = await visit.ask("incidents", every=every, limit=ROWS)
    values = {
        "rows": [{**row, "bars": bars(row["days"]), "url": _first(visit, row)} for row in rows],
        "every": every,
        "incident_tones": INCIDENT_TONES,
        "here": "/errors",
    }
    return Shown("errors.html", values, rows, follows=Follows(runs=True, elements=True, faults=True))


def _first(visit: Visit, row: Mapping[str, Any]) -> str:
    """The page of the newest incident of a row."""
    return visit.url(f"/{'runs' if row['what'] == RUN else 'memory'}/{row['newest'][0]}")


RUN = "run"
"""The kind of incident that is a failed run."""


def bars(days: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The bars of a row's days: the height and the text of each."""
    most = max((day["count"] for day in days), default=0) or 1
    return [{**day, "height": round(SPARK * day["count"] / most, 1)} for day in days]


@page("/a/{agent}/errors/{incident}", command="narval errors show {incident}")
async def incident_page(visit: Visit) -> Shown:
    """Show one row of incidents: its members, and the possible acts."""
    [row] = await visit.ask("incidents", incident=visit.path["incident"])
    values = {
        "row": row,
        "bars": bars(row["days"]),
        "is_runs": row["what"] == RUN,
        "starts": not is_beside(row["kind"]),
        "incident_tones": INCIDENT_TONES,
        "here": "/errors",
    }
    return Shown("incident.html", values, row, follows=Follows(runs=True, elements=True, faults=True))


@act("/a/{agent}/errors/{incident}/acknowledge")
async def acknowledge_incident(visit: Visit) -> Redirect:
    """Acknowledge a row, or that of one run, with the reason why nothing more is to be done."""
    incident, reason, run = visit.path["incident"], visit.fields.get("reason"), visit.fields.get("run")
    await visit.act("acknowledge", incident=incident, reason=reason, run=whole_number(run))
    return Redirect(visit.url("/errors"))


# --- the log ------------------------------------------------------------------------------------------------


LINES = 400
"""The most lines that are searched, the newest."""

LEVELS = ("debug", "info", "warning", "error", "critical")

LEVEL_TONES = {
    "debug": "idle", "info": "idle", "warning": "active", "error": "failed", "critical": "failed",
}  # fmt: skip
"""The tones of the levels of lines."""

_RUN = re.compile(r"\brun (\d{1,18})\b")


@page("/a/{agent}/log", command="narval log")
async def log_page(visit: Visit) -> Shown:
    """Show the newest lines of the log from a level on that contain some words."""
    level, words, logger = (visit.query.get(name, "") for name in ("level", "text", "logger"))
    lines = await visit.ask("log", lines=LINES)
    least = _rank(level) if level in LEVELS else 0
    lines_shown = [
        line
        for line in lines
        if _rank(line["level"]) >= least
        and words.casefold() in line["message"].casefold()
        and logger in ("", line["logger"])
    ]
    values = {
        "lines": [{**line, "runs": _RUN.findall(line["message"])[:3]} for line in reversed(lines_shown)],
        "left_out": len(lines) - len(lines_shown),
        "level": level,
        "levels": LEVELS,
        "level_tones": LEVEL_TONES,
        "loggers": sorted({line["logger"] for line in lines}),
        "logger": logger,
        "text": words,
        "here": "/log",
    }
    answer: list[dict[str, Any]] = lines_shown
    return Shown("log.html", values, answer, follows=Follows(log=True, runs=True, faults=True))


def _rank(level: str) -> int:
    """The gravity of a level; lines of an unknown level are always shown."""
    return LEVELS.index(level) if level in LEVELS else len(LEVELS)
