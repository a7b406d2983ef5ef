"""The page of a run: its state in a sentence, its graph, why it waits, its context and results (M29)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from narval.ask.text import article
from narval.core.errors import NarvalError
from narval.surfaces.http.page import Follows, Shown, Visit, page, segment
from narval.surfaces.web.drawing.svg import drawing, patches

ENTRIES = 20
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
        visit.ask("story", run=eid, limit=ENTRIES),
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
