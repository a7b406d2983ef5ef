"""The pages of many runs over time: a list of all with filters, and the last hour with a bar for each."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Any

from narval.core.errors import RequestError
from narval.core.kinds import PHASES
from narval.surfaces.http.page import Follows, Shown, Visit, page
from narval.surfaces.web.drawing.figures import days, gantt

LISTED = 50
"""Runs on a page."""

FILTERS = ("phase", "waiting_for", "state", "kind", "name", "definition", "since", "error", "text", "notices")
"""The filters, in the order of the form. Without any, runs that only report failures are left out; `notices`
includes them and has no other effect.
"""


def filters(query: Mapping[str, str]) -> dict[str, str]:
    """The values of filters in an address or a form."""
    return {name: query[name] for name in FILTERS if query.get(name)}


def arguments(chosen: Mapping[str, str]) -> dict[str, Any]:
    """The arguments of `runs` for filters; a phase is passed as a state."""
    query: dict[str, Any] = {name: value for name, value in chosen.items() if name != "phase"}
    query["notices"] = bool(chosen)
    if "phase" in chosen:
        query["state"] = chosen["phase"]
    return query


RUN_OPTIONS = {
    **{name: f"--{name.replace('_', '-')}" for name in FILTERS},
    "phase": "--state", "before": "--before", "notices": "--notices!",
}  # fmt: skip
"""The options of the command for the parameters of the list."""


@page("/a/{agent}/runs", command="narval runs", options=RUN_OPTIONS)
async def run_list(visit: Visit) -> Shown:
    """List the runs that match the filters, newest first; on the first page those under way are on top."""
    chosen, before = filters(visit.query), visit.number("before")
    query = arguments(chosen)
    problem = ""
    listed: list[dict[str, Any]] = []
    active: list[dict[str, Any]] = []
    try:
        listed = await visit.ask("runs", limit=LISTED + 1, before=before, **query)
        if before is None and not {"state", "waiting_for"} & query.keys():
            active = await visit.ask("runs", limit=LISTED + 1, **query, state="active")
    except RequestError as error:
        if str(error).startswith("there is no agent"):
            raise
        problem = str(error)
    rows = listed[:LISTED]
    figures = await visit.ask("figures") if not chosen and before is None else None
    url = partial(visit.url, "/runs")
    is_empty = not rows and not problem and before is None
    begins = is_empty and not chosen and not active and not await visit.ask("runs", limit=1, notices=True)
    older = url(**chosen, before=rows[-1]["eid"]) if len(listed) > LISTED else ""
    under_way = active[:LISTED] or [run for run in rows if run["phase"] == "active"]
    all_active = {**chosen, "phase": "active"}
    about = await visit.ask("runs_about", runs=[run["eid"] for run in (*rows, *under_way)])
    values = {
        "runs": [run for run in rows if run["phase"] != "active"],
        "active": under_way,
        "about": about,
        "more_active": url(**all_active, before=under_way[-1]["eid"]) if len(active) > LISTED else "",
        "chosen": {name: chosen.get(name, "") for name in FILTERS},
        "filtered": bool(chosen),
        "phases": [(phase, url(**{**chosen, "phase": phase})) for phase in PHASES],
        "begins": begins,
        "lifted": await _lifted(visit, chosen) if is_empty else [],
        "problem": problem,
        "only_active": chosen.get("phase") == "active" or "waiting_for" in chosen,
        "older": older,
        "newest": url(**chosen) if before is not None else "",
        "figures": figures,
        "drawn_days": days(figures["days"]) if figures else None,
        "here": "/runs",
    }
    return Shown(
        "runs.html",
        values,
        rows,
        status=400 if problem else 200,
        links={"next": older} if older else {},
        follows=Follows(runs=True),
    )


async def _lifted(visit: Visit, chosen: Mapping[str, str]) -> list[dict[str, Any]]:
    """For each filter, the number of runs that match all the others, and the address of their list (M10)."""
    rest = [{name: value for name, value in chosen.items() if name != left} for left in chosen]
    asked = (visit.ask("runs", limit=LISTED + 1, **arguments(others)) for others in rest)
    counts = [len(rows) for rows in await asyncio.gather(*asked)]
    return [
        {
            "filter": f"{name.replace('_', ' ')} {chosen[name]}",
            "count": f"more than {LISTED}" if count > LISTED else str(count),
            "url": visit.url("/runs", **others),
        }
        for name, others, count in zip(chosen, rest, counts, strict=True)
    ]


SPANS = ((10, "10 minutes"), (60, "an hour"), (360, "6 hours"), (1440, "a day"))
"""The periods that links offer, in minutes."""

GANTT_OPTIONS = {"minutes": "--minutes", "notices": "--notices!"}
"""The options of the command for the parameters of the page."""


@page("/a/{agent}/runs/gantt", command="narval gantt", options=GANTT_OPTIONS)
async def gantt_page(visit: Visit) -> Shown:
    """Show the runs of the last hour, or of another number of minutes, as bars over time."""
    minutes, notices = visit.number("minutes") or 60, visit.query.get("notices")
    answer = await visit.ask("gantt", minutes=minutes, notices=bool(notices))

    def url(minutes: int, notices: str | None) -> str:
        return visit.url("/runs/gantt", minutes=minutes, notices=notices)

    values = {
        "gantt": answer,
        "drawn": gantt(answer),
        "minutes": minutes,
        "with_notices": url(minutes, "yes"),
        "spans": [(words, number, url(number, notices)) for number, words in SPANS],
        "here": "/runs",
    }
    return Shown("gantt.html", values, answer)
