"""The pages of all runs: a list with filters, and acts on many of them (M27, M28)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Any

from narval.errors import NarvalError, RequestError
from narval.surfaces.http.page import Follows, Shown, Visit, act, page, whole_number

LISTED = 50
"""So many runs are on a page."""

MOST = 1_000
"""So many runs are acted on at most."""

AT_ONCE = 100
"""So many runs are acted on at a time."""

PHASES = ("active", "done", "failed", "cancelled")

FILTERS = ("phase", "state", "kind", "name", "definition", "since", "error", "text")
"""The filters, in the order of the form."""


def filters(query: Mapping[str, str]) -> dict[str, str]:
    """The filters in an address or a form."""
    return {name: query[name] for name in FILTERS if query.get(name)}


def arguments(chosen: Mapping[str, str]) -> dict[str, Any]:
    """The arguments of `runs` for filters; a phase is asked for as a state."""
    wanted: dict[str, Any] = {name: value for name, value in chosen.items() if name != "phase"}
    if "phase" in chosen:
        wanted["state"] = chosen["phase"]
    return wanted


@page("/a/{agent}/runs", command="narval runs")
async def run_list(visit: Visit) -> Shown:
    """List runs, the newest of those that fit the filters; on the first page those under way are on top."""
    chosen, before = filters(visit.query), visit.number("before")
    wanted = arguments(chosen)
    problem = ""
    found: list[dict[str, Any]] = []
    active: list[dict[str, Any]] = []
    try:
        found = await visit.ask("runs", limit=LISTED + 1, before=before, **wanted)
        if before is None and "state" not in wanted:
            active = await visit.ask("runs", limit=LISTED + 1, **wanted, state="active")
    except RequestError as error:
        if str(error).startswith("there is no agent"):
            raise
        problem = str(error)
    rows = found[:LISTED]
    url = partial(visit.url, "/runs")
    is_empty = not rows and not problem and before is None
    older = url(**chosen, before=rows[-1]["eid"]) if len(found) > LISTED else ""
    under_way = active[:LISTED] or [run for run in rows if run["phase"] == "active"]
    all_active = {**chosen, "phase": "active"}
    values = {
        "runs": [run for run in rows if run["phase"] != "active"],
        "active": under_way,
        "more_active": url(**all_active, before=under_way[-1]["eid"]) if len(active) > LISTED else "",
        "chosen": {name: chosen.get(name, "") for name in FILTERS},
        "filtered": bool(chosen),
        "phases": [(phase, url(**{**chosen, "phase": phase})) for phase in PHASES],
        "lifted": await _lifted(visit, chosen) if is_empty else [],
        "problem": problem,
        "only_active": chosen.get("phase") == "active",
        "older": older,
        "newest": url(**chosen) if before is not None else "",
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
    """Of each filter, how many runs fit all the others, and where they are listed (M10)."""
    rest = [{name: value for name, value in chosen.items() if name != left} for left in chosen]
    asked = (visit.ask("runs", limit=LISTED + 1, **arguments(others)) for others in rest)
    counts = [len(found) for found in await asyncio.gather(*asked)]
    return [
        {
            "filter": f"{name} {chosen[name]}",
            "count": f"more than {LISTED}" if count > LISTED else str(count),
            "url": visit.url("/runs", **others),
        }
        for name, others, count in zip(chosen, rest, counts, strict=True)
    ]


VERBS = {"cancel": "Cancel", "retry": "Retry"}


@act("/a/{agent}/runs/all/{what}")
async def act_on_runs(visit: Visit) -> Shown:
    """Say what will be done to each of the runs that are chosen; once that is confirmed, do it (M28)."""
    what = visit.path["what"]
    if what not in VERBS:
        raise RequestError(f"there is no act {what!r:.40} on runs; there are cancel and retry")
    eids = await _chosen(visit)
    confirmed = visit.fields.get("confirmed") == "yes"
    rows: list[dict[str, Any]] = []
    tell = _done if confirmed else _planned
    for first in range(0, len(eids), AT_ONCE):
        rows += await asyncio.gather(*(tell(visit, what, eid) for eid in eids[first : first + AT_ONCE]))
    values = {
        "rows": rows,
        "what": what,
        "verb": VERBS[what],
        "confirmed": confirmed,
        "can": [row["eid"] for row in rows if row["can"]],
        "most": MOST,
        "here": "/runs",
    }
    return Shown("runs_act.html", values, rows)


async def _chosen(visit: Visit) -> list[int]:
    """The runs that are ticked, or all that the filters show; `MOST` at most."""
    if visit.fields.get("which") != "all":
        texts = " ".join(visit.fields.all("run")).split()
        return [eid for text in texts if (eid := whole_number(text)) is not None][:MOST]
    chosen = filters({name: visit.fields.get(name) for name in FILTERS})
    return [run["eid"] for run in await visit.ask("runs", limit=MOST, **arguments(chosen))]


async def _planned(visit: Visit, what: str, eid: int) -> dict[str, Any]:
    """The row of a run that would be acted on: what would be done, or why it cannot be."""
    run = await visit.ask("show", run=eid)
    row = {"eid": eid, "name": run["name"], "state": run["state"], "phase": run["phase"], "can": True}
    if what == "cancel":
        if run["phase"] != "active":
            return {**row, "can": False, "told": f"it is over: {run['state']}"}
        under_way = [call["step"] for call in run["calls"] if call["gave"] is None]
        return {**row, "told": f"gives up {', '.join(under_way)}" if under_way else "has no call under way"}
    try:
        plan = await visit.ask("retry_plan", run=eid)
    except NarvalError as error:
        return {**row, "can": False, "told": str(error)}
    return {**row, "told": f"begins again from {plan['from']}"}


async def _done(visit: Visit, what: str, eid: int) -> dict[str, Any]:
    """The row of a run that was acted on: what became of it."""
    try:
        run = await visit.act(what, run=eid)
    except NarvalError as error:
        row = {"eid": eid, "name": "", "state": "refused", "phase": "failed", "can": False}
        return {**row, "told": str(error)}
    told = f"run {run['eid']} goes on from it" if run["eid"] != eid else run["state"]
    row = {"eid": eid, "name": run["name"], "state": run["state"], "phase": run["phase"], "can": False}
    return {**row, "told": told}
