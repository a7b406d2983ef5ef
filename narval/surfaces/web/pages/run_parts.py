"""The pages of a run's details: one part, its calls over time, its history, its replay (M32, M34, M36)."""

from __future__ import annotations

import math
import time
from typing import Any

from narval.ask.text import details
from narval.core.errors import RequestError
from narval.surfaces.http.page import Follows, Shown, Visit, page
from narval.surfaces.web.drawing.figures import OUTCOMES, length, waterfall
from narval.surfaces.web.drawing.svg import patches
from narval.surfaces.web.pages.run import drawing_of, is_tabled

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
    """Show one part of a run, or an arc: its state and the reason, its waits, and the tries of its calls."""
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
