"""The pages of all runs: a list with filters, and acts on many of them (M27, M28)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Any

from narval.core.errors import RequestError
from narval.surfaces.http.page import (
    OPERATORS,
    Fields,
    Follows,
    Redirect,
    Shown,
    Visit,
    act,
    page,
    whole_number,
)

LISTED = 50
"""So many runs are on a page."""

MOST = 1_000
"""So many runs are looked for at most when all that a filter shows are to be acted on."""

AT_ONCE = 100
"""So many runs are acted on by one form."""

PHASES = ("active", "done", "failed", "cancelled")

FILTERS = ("phase", "state", "kind", "name", "definition", "since", "error", "text")
"""The filters, in the order of the form."""


def filters(query: Mapping[str, str]) -> dict[str, str]:
    """The filters in an address or a form."""
    return {name: query[name] for name in FILTERS if query.get(name)}


def arguments(chosen: Mapping[str, str]) -> dict[str, Any]:
    """The arguments of `runs` for filters; a phase is asked for as a state."""
    query: dict[str, Any] = {name: value for name, value in chosen.items() if name != "phase"}
    if "phase" in chosen:
        query["state"] = chosen["phase"]
    return query


RUN_OPTIONS = {
    "phase": "--state", "before": "--before",
    **{name: f"--{name}" for name in FILTERS if name != "phase"},
}  # fmt: skip
"""The options of the command for the parameters of the list."""


@page("/a/{agent}/runs", command="narval runs", options=RUN_OPTIONS)
async def run_list(visit: Visit) -> Shown:
    """List runs, the newest of those that fit the filters; on the first page those under way are on top."""
    chosen, before = filters(visit.query), visit.number("before")
    query = arguments(chosen)
    problem = ""
    found: list[dict[str, Any]] = []
    active: list[dict[str, Any]] = []
    try:
        found = await visit.ask("runs", limit=LISTED + 1, before=before, **query)
        if before is None and "state" not in query:
            active = await visit.ask("runs", limit=LISTED + 1, **query, state="active")
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
    counts = [len(rows) for rows in await asyncio.gather(*asked)]
    return [
        {
            "filter": f"{name} {chosen[name]}",
            "count": f"more than {LISTED}" if count > LISTED else str(count),
            "url": visit.url("/runs", **others),
        }
        for name, others, count in zip(chosen, rest, counts, strict=True)
    ]


VERBS = {"cancel": "Cancel", "retry": "Retry"}


@page("/a/{agent}/runs/all/{what}", roles=OPERATORS)
async def many_runs(visit: Visit) -> Shown:
    """Say what would be done to the next of the runs that are chosen, what was done before, and what remains.

    The address has the choice, the runs that the last form was for, and where to go on: it can be looked at
    again, and nothing is done again.
    """
    what, asked = _what(visit), visit.asked
    choice, eids = _choice(asked), await _chosen(visit, asked) if not visit.live else []
    again = await _tried_again(visit) if what == "retry" and eids else {}
    rows, done, refused = [
        await asyncio.gather(*(tell(eid) for eid in some))
        for tell, some in (
            (partial(_planned, visit, what, again), eids[:AT_ONCE]),
            (partial(_became, visit), _numbers(asked, "done")[:AT_ONCE]),
            (partial(_planned, visit, what, {}), _numbers(asked, "refused")[:AT_ONCE]),
        )
    ]
    handled = whole_number(asked.get("handled")) or 0
    values = {
        "what": what,
        "verb": VERBS[what],
        "choice": {**choice, "before": asked.get("before")},
        "rows": rows,
        "can": [row["eid"] for row in rows if row["can"]],
        "done": done,
        "refused": refused,
        "handled": handled,
        "after": handled + len(rows),
        "total": handled + len(eids),
        "rest": len(eids) - len(rows),
        "is_cut": len(eids) >= MOST,
        "incident": asked.get("incident"),
        "here": "/errors" if "incident" in choice else "/runs",
    }
    is_over = not any(row["phase"] == "active" for row in done)
    return Shown("runs_act.html", values, rows, follows=Follows(runs=True), over=is_over)


@act("/a/{agent}/runs/all/{what}")
async def act_on_runs(visit: Visit) -> Redirect:
    """Do it to the runs that the form names, which were shown, and lead to what became of them."""
    what, fields = _what(visit), visit.fields
    choice, named = _choice(fields), _numbers(fields, "these")
    if len(named) > AT_ONCE:
        raise RequestError(f"expected {AT_ONCE} runs at a time at most, got {len(named):,}")
    if choice:  # some may have been dealt with since they were shown
        still = set(await _chosen(visit, fields))
        named = [eid for eid in named if eid in still]
    again = await _tried_again(visit) if what == "retry" else {}
    became = await asyncio.gather(*(_done(visit, what, eid) for eid in named if eid not in again))
    leads = {
        **choice,
        "before": fields.get("next"),
        "handled": fields.get("after"),
        "done": " ".join(str(eid) for is_done, eid in became if is_done),
        "refused": " ".join(str(eid) for is_done, eid in became if not is_done),
    }
    return Redirect(visit.url(f"/runs/all/{what}", **leads))


def _what(visit: Visit) -> str:
    what = str(visit.path["what"])
    if what not in VERBS:
        raise RequestError(f"there is no act {what!r:.40} on runs; there are cancel and retry")
    return what


def _numbers(fields: Fields, name: str) -> list[int]:
    texts = " ".join(fields.all(name)).split()
    return [eid for text in texts if (eid := whole_number(text)) is not None]


def _choice(fields: Fields) -> dict[str, str]:
    """The choice of runs in an address or a form: those of an incident, or all that filters show.

    Nothing where it is those that were ticked.
    """
    if incident := fields.get("incident"):
        return {"incident": incident}
    if fields.get("which") != "all":
        return {}
    return {"which": "all", **filters({name: fields.get(name) for name in FILTERS})}


async def _chosen(visit: Visit, fields: Fields) -> list[int]:
    """The runs that are chosen, the newest first, from `before` on; `MOST` at most."""
    choice, before = _choice(fields), whole_number(fields.get("before"))
    if "incident" in choice:
        [row] = await visit.ask("incidents", incident=choice["incident"])
        eids = row["newest"] if row["what"] == "run" and row["state"] == "open" else []
    elif choice:
        rows = await visit.ask("runs", limit=MOST, before=before, **arguments(filters(choice)))
        return [run["eid"] for run in rows]
    else:
        eids = _numbers(fields, "run")[:AT_ONCE]
    return sorted((eid for eid in set(eids) if before is None or eid < before), reverse=True)


async def _tried_again(visit: Visit) -> dict[int, int]:
    """The runs that are being tried again, each with the run that does."""
    active = await visit.ask("runs", state="active", limit=MOST)
    return {run["retry_of"]["run"]: run["eid"] for run in active if run["retry_of"]}


async def _planned(visit: Visit, what: str, again: Mapping[int, int], eid: int) -> dict[str, Any]:
    """The row of a run that would be acted on: what would be done, or why it cannot be."""
    row = {"eid": eid, "name": "", "state": "", "phase": "", "can": False}
    try:
        run = await visit.ask("show", run=eid)
        row |= {name: run[name] for name in ("name", "state", "phase")}
        if eid in again:
            return {**row, "told": f"run {again[eid]} tries it again already"}
        if what == "retry":
            plan = await visit.ask("retry_plan", run=eid)
            return {**row, "can": True, "told": f"begins again from {plan['from']}"}
    except RequestError as error:
        return {**row, "told": str(error)}
    if run["phase"] != "active":
        return {**row, "told": f"it is over: {run['state']}"}
    under_way = [call["step"] for call in run["calls"] if call["gave"] is None]
    effect = f"gives up {', '.join(under_way)}" if under_way else "has no call under way"
    return {**row, "can": True, "told": effect}


async def _done(visit: Visit, what: str, eid: int) -> tuple[bool, int]:
    """Act on a run: True and the run that it is now or that goes on from it; False where it is refused."""
    try:
        return True, int((await visit.act(what, run=eid))["eid"])
    except RequestError:
        return False, eid


async def _became(visit: Visit, eid: int) -> dict[str, Any]:
    """The row of a run that was cancelled, or that goes on from another, as it is now."""
    try:
        run = await visit.ask("show", run=eid)
    except RequestError as error:
        return {"eid": eid, "name": "", "state": "", "phase": "", "told": str(error)}
    before = run["retry_of"]
    origin = f"{before['step']} of run {before['run']}" if before else ""
    return {**{name: run[name] for name in ("eid", "name", "state", "phase")}, "told": origin}
