"""The pages of a run: the run itself, one part, its calls over time, its history, its replay.

The first page has its state in a sentence, its graph, why it waits, its context and results.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from typing import Any

from narval.ask.text import article, details
from narval.core.errors import NarvalError, RequestError
from narval.surfaces.http.page import Follows, Shown, Visit, page, segment
from narval.surfaces.web.drawing.figures import OUTCOMES, length, waterfall
from narval.surfaces.web.drawing.svg import drawing, patches

NEWEST = 20
"""The most entries of the history on a run's page, the newest."""

TABLED = 300
"""The parts above which the table of a graph is shown only on request."""

CALLED = 3
"""The most called runs that are shown."""


@page("/a/{agent}/runs/{run:int}", command="narval show {run}", options={"at": "--at"})
async def run_page(visit: Visit) -> Shown:
    """Show one run: its state, its graph and parts, why, calls, context, the newest of its history."""
    eid, at = visit.path["run"], visit.number("at")
    run, drawn, why, story = await asyncio.gather(
        visit.ask("show", run=eid, at=at),
        visit.ask("drawn", run=eid, at=at),
        visit.ask("why", run=eid),
        visit.ask("story", run=eid, limit=NEWEST),
    )
    values = {
        "run": run,
        "drawn": drawn,
        "drawing": None if visit.live else await drawing_of(visit, drawn, f"/runs/{eid}/parts/"),
        "tabled": is_tabled(visit, drawn),
        "why": why,
        "parts": {one["id"] for one in (*drawn["parts"], *drawn["arcs"])},
        "called": await called_by(visit, why),
        "story": story,
        "callers": [] if visit.live else await callers(visit, run),
        "newer": "" if visit.live else await _newer(visit, run),
        "undo": None if visit.live or at is not None else await _undo(visit, run),
        "article": article(run["kind"]).capitalize(),
        "here": "/runs",
    }
    is_over = run["phase"] != "active"
    follows = Follows(run=eid) if at is None else None
    return Shown("run.html", values, run, follows=follows, parts=patches(drawn), over=is_over)


async def drawing_of(visit: Visit, drawn: dict[str, Any], parts: str) -> Any:
    """A graph with places, or None without a layout; `parts` is the address of the pages of its parts."""
    return await drawing_with(visit, drawn, lambda part: visit.url(parts + segment(part)))


async def drawing_with(visit: Visit, drawn: dict[str, Any], url: Callable[[str], str]) -> Any:
    """A graph with places, or None without a layout; `url` gives the address for a part."""
    layout = await visit.layouts.of(drawn)
    return drawing(drawn, layout, url) if layout is not None else None


def is_tabled(visit: Visit, drawn: dict[str, Any]) -> bool:
    """True if the page has the table of a graph beside it: for a large graph it is a separate page (M84)."""
    return len(drawn["parts"]) <= TABLED or visit.query.get("as") == "table"


async def _newer(visit: Visit, run: dict[str, Any]) -> str:
    """The digest of the loaded version of its definition if it differs; else ""."""
    try:
        loaded = await visit.ask("definition", name=run["name"], kind=run["kind"])
    except NarvalError:
        return ""
    return str(loaded["digest"]) if loaded["digest"] != run["definition"] else ""


async def _undo(visit: Visit, run: dict[str, Any]) -> dict[str, Any] | None:
    """The version before its migration to which an active run can return; None without one."""
    if run["phase"] != "active":
        return None
    answer = await visit.ask("migration_plan", run=run["eid"], brief=True)
    undo: dict[str, Any] | None = answer["undo"]
    return undo


async def called_by(visit: Visit, why: dict[str, Any]) -> dict[int, dict[str, Any]]:
    """The runs that a run waits for, by eid, with what they wait for themselves; at most `CALLED`."""
    eids = [eid for wait in why["waiting"] for eid in wait.get("runs") or ()][:CALLED]
    answers = await asyncio.gather(
        *(visit.ask(what, run=eid) for eid in eids for what in ("show", "why")), return_exceptions=True
    )
    pairs = zip(eids, answers[::2], answers[1::2], strict=True)
    return {
        eid: {"run": run, "waiting": why["waiting"]}
        for eid, run, why in pairs
        if isinstance(run, dict) and isinstance(why, dict)
    }


async def callers(visit: Visit, run: dict[str, Any]) -> list[dict[str, Any]]:
    """The callers of a run, the outermost first; at most ten."""
    rows: list[dict[str, Any]] = []
    parent = run.get("parent")
    while parent and parent.get("run") and len(rows) < 10:
        caller = await visit.ask("show", run=parent["run"])
        rows.insert(0, caller)
        parent = caller.get("parent")
    return rows


# --- its parts, calls and history ---------------------------------------------------------------------------


LINES = 100
"""Lines of history on a page."""

ENTRIES = 50
"""Entries of the journal on a page."""

BEFORE, AFTER = {"before": "--before"}, {"after": "--after"}
"""The options of the commands for the parameters of their pages."""

BARS = 500
"""The most calls that are drawn on a page."""

DAEMON_LOGGERS = frozenset(
    f"narval.{name}" for name in ("daemon", "turn", "loop", "perform", "store", "files", "messages")
)
"""The loggers of the daemon itself, independent of calls."""

_LONGEST = 160


@page("/a/{agent}/runs/{run:int}/parts/{id:path}", command="narval part {run} {id}")
async def part_page(visit: Visit) -> Shown:
    """Show a part of a run, or an arc: its state and the reason, its waits, and the attempts of its calls."""
    eid = visit.path["run"]
    part = await visit.ask("part", run=eid, id=visit.path["id"])
    run = await visit.ask("show", run=eid)
    log = [] if visit.live else await _lines_during(visit, part.get("calls", []))
    values = {"run": run, "id": visit.path["id"], "part": part, "log": log}
    values |= {"fall_tones": OUTCOMES, "here": "/runs"}
    return Shown("part.html", values, part, follows=Follows(run=eid), over=run["phase"] != "active")


async def _lines_during(visit: Visit, calls: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The lines that actions wrote to the log during the calls of a part."""
    spans = [(call["begun"] or call["asked"], call["ended"]) for call in calls if call["call"]]
    if not spans:
        return []
    lines = await visit.ask("log", lines=400)
    return [
        line
        for line in lines
        if line["logger"] not in DAEMON_LOGGERS
        and any(first <= line["at"] <= (last or line["at"]) for first, last in spans)
    ][-20:]


@page("/a/{agent}/runs/{run:int}/timeline", command="narval timeline {run}")
async def timeline_page(visit: Visit) -> Shown:
    """Show the calls of a run over time, the newest or the longest."""
    eid = visit.path["run"]
    run, answer = await visit.ask("show", run=eid), await visit.ask("timeline", run=eid)
    rows = answer["rows"]
    is_longest = visit.query.get("sort") == "longest"
    if is_longest:
        rows = sorted(rows, key=lambda row: -length(row, math.inf))
    bars = rows[:BARS] if is_longest else rows[-BARS:]
    values = {
        "run": run,
        "fall": waterfall(bars, answer["started"], answer["ended"], time.time()),
        "at_work": answer["at_work"],
        "left_out": len(rows) - len(bars),
        "sort": "longest" if is_longest else "time",
        "here": "/runs",
    }
    return Shown("timeline.html", values, answer, follows=Follows(run=eid), over=run["phase"] != "active")


@page("/a/{agent}/runs/{run:int}/story", command="narval history {run} --story", options=BEFORE)
async def story_page(visit: Visit) -> Shown:
    """Show the story of a run in sentences: the newest entries of its journal, or earlier ones."""
    eid, before = visit.path["run"], visit.number("before")
    run = await visit.ask("show", run=eid)
    story = await visit.ask("story", run=eid, limit=ENTRIES, before=before)
    older = visit.url(f"/runs/{eid}/story", before=story["older"]) if story["older"] else ""
    values = {
        "run": run,
        "story": story,
        "older": older,
        "newest": visit.url(f"/runs/{eid}/story") if before is not None else "",
        "journal": visit.url(f"/runs/{eid}/history", before=story["last"] + 1 if story["last"] else None),
        "here": "/runs",
    }
    return Shown(
        "story.html",
        values,
        story,
        links={"next": older} if older else {},
        follows=Follows(run=eid) if before is None else None,
        over=run["phase"] != "active",
    )


@page("/a/{agent}/runs/{run:int}/history", command="narval history {run} --journal", options=BEFORE)
async def history_page(visit: Visit) -> Shown:
    """Show a page of a run's journal, the newest lines first."""
    eid, before = visit.path["run"], visit.number("before")
    run = await visit.ask("show", run=eid)
    lines = await visit.ask("history", run=eid, limit=LINES + 1, before=before)
    visible = lines[:LINES]
    older = visit.url(f"/runs/{eid}/history", before=visible[-1]["seq"]) if len(lines) > LINES else ""
    values = {
        "run": run,
        "history": [{**line, "told": details(line, _LONGEST)} for line in visible],
        "older": older,
        "newest": visit.url(f"/runs/{eid}/history") if before is not None else "",
        "here": "/runs",
    }
    return Shown(
        "history.html",
        values,
        visible,
        links={"next": older} if older else {},
        follows=Follows(run=eid) if before is None else None,
        over=run["phase"] != "active",
    )


@page("/a/{agent}/runs/{run:int}/replay", command="narval history {run} --replay", options=AFTER)
async def replay_page(visit: Visit) -> Shown:
    """Show a run as it was after an entry of its journal; a script moves through all of them."""
    eid, at, after = visit.path["run"], visit.number("at"), visit.number("after")
    answer = await visit.ask("replay", run=eid, after=after or 0, limit=1000)
    entries = answer["entries"]
    if not entries and after is None:
        raise RequestError(answer["fault"] or f"there is no entry of run {eid} that can be shown")
    run = await visit.ask("show", run=eid, at=at)
    drawn = await visit.ask("drawn", run=eid, at=at)
    seqs = [entry["seq"] for entry in entries]
    here = at if at is not None else (seqs[-1] if seqs else 0)
    values = {
        "run": run,
        "drawn": drawn,
        "tabled": is_tabled(visit, drawn),
        "drawing": await drawing_of(visit, drawn, f"/runs/{eid}/parts/"),
        "at": here,
        "first": seqs[0] if seqs else here,
        "last": seqs[-1] if seqs else here,
        "back": max((seq for seq in seqs if seq < here), default=None),
        "forward": min((seq for seq in seqs if seq > here), default=None),
        "entry": next((entry for entry in entries if entry["seq"] == here), None),
        "whole": answer["whole"],
        "here": "/runs",
    }
    return Shown("replay.html", values, answer, parts=patches(drawn))
