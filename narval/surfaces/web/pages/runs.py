"""The pages of many runs: a list of all with filters, the last hour, and acts on many at once.

An act on many runs has a preview, its progress, and the result. The last hour has a bar for each run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from narval.ask.json_forms import moment
from narval.core.errors import NotFoundError, RequestError
from narval.core.kinds import PHASES
from narval.surfaces.http.bulk import GOING_ON, BulkAct, BulkResult
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
    except NotFoundError:
        raise
    except RequestError as error:
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
    """For each filter, the number of runs that match all the others, and the address of their list."""
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


# --- the last hour ------------------------------------------------------------------------------------------


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


# --- acts on many runs --------------------------------------------------------------------------------------


MOST = 1_000
"""The most runs collected for an act on all runs that a filter shows."""

AT_ONCE = 100
"""The most runs of one form."""

PACE = 0.5
"""Seconds after which the page of a running act is always remade."""

VERBS = {"cancel": "Cancel", "retry": "Retry"}


@page("/a/{agent}/runs/all/{what}", roles=OPERATORS)
async def many_runs(visit: Visit) -> Shown:
    """Show what would be done to the next of the chosen runs, and for which it is impossible."""
    what, asked = _what(visit), visit.asked
    choice, eids = _choice(asked), await _chosen(visit, asked)
    rows = await asyncio.gather(*(_planned(visit, what, eid) for eid in eids[:AT_ONCE]))
    values = {
        "what": what,
        "verb": VERBS[what],
        "choice": choice,
        "rows": rows,
        "can": [row["eid"] for row in rows if row["can"]],
        "total": len(eids),
        "rest": len(eids) - len(rows),
        "is_next": bool(asked.get("before")),
        "is_cut": len(eids) >= MOST,
        "incident": asked.get("incident"),
        "here": "/errors" if "incident" in choice else "/runs",
    }
    return Shown("runs_act.html", values, rows)


@act("/a/{agent}/runs/all/{what}")
async def act_on_runs(visit: Visit) -> Redirect:
    """Start the act on the runs in the form, which were shown, after a wait in which it can be undone;
    redirect to the page of its progress.
    """
    what, fields = _what(visit), visit.fields
    choice, eids = _choice(fields), _numbers(fields, "these")
    if len(eids) > AT_ONCE:
        raise RequestError(f"expected {AT_ONCE} runs at a time at most, got {len(eids):,}")
    leads = {**choice, "before": fields.get("next")}
    if not eids:
        return Redirect(visit.url(f"/runs/all/{what}", **leads))
    begin, do = partial(_still, visit, choice), partial(_do, visit, what)
    made = visit.bulk.add(BulkAct(visit.agent, what, eids, visit.visitor.person, begin, do))
    leads |= _known(made)
    return Redirect(visit.url(f"/runs/all/{what}/{made.name}", **leads))


@page("/a/{agent}/runs/all/{what}/{act}", roles=OPERATORS)
async def bulk_page(visit: Visit) -> Shown:
    """Show the progress of an act on many runs, and its result for each.

    The address has the runs and the time when the act was due to start, so that the page still works when the
    program that held the act has ended.
    """
    what, asked, name = _what(visit), visit.asked, str(visit.path["act"])
    choice, made = _choice(asked), visit.bulk.find(visit.agent, name)
    results = made.results if made is not None else []
    left = made.left if made is not None else _numbers(asked, "these")[:AT_ONCE]
    is_going_on = made is not None and made.state == GOING_ON
    done, refused, rows = [
        await asyncio.gather(*listed)
        for listed in (
            [_became(visit, one.became) for one in results if one.became is not None],
            [_refused(visit, one) for one in results if one.became is None],
            [] if is_going_on else [_as_it_is(visit, eid) for eid in left],
        )
    ]
    is_over = made is None or made.is_over
    rest = await _chosen(visit, asked) if is_over and choice and asked.get("before") else []
    values = {
        "what": what,
        "verb": VERBS[what],
        "act": name,
        "state": made.state if made is not None else "gone",
        "begins": moment(made.begins) if made is not None else asked.get("begins"),
        "by": made.by if made is not None else "",
        "never_begun": made is None and _was_never_begun(visit, asked),
        "done": done,
        "refused": refused,
        "left": rows,
        "left_count": len(left),
        "kept": {**choice, "before": asked.get("before")},
        "total": len(results) + len(left),
        "rest": len(rest),
        "goes_on": visit.url(f"/runs/all/{what}", **choice, before=asked.get("before")),
        "look_again": visit.url(f"/runs/all/{what}/{name}", **dict(asked.pairs)),
        "incident": asked.get("incident"),
        "here": "/errors" if "incident" in choice else "/runs",
    }
    answer = {
        **{key: values[key] for key in ("what", "state", "begins", "by", "never_begun", "done", "refused")},
        "left": rows,
    }
    still_active = any(row["phase"] == "active" for row in done)
    return Shown(
        "runs_bulk.html",
        values,
        answer,
        follows=Follows(runs=True),
        again=_until_news(made),
        over=is_over and not still_active,
    )


@act("/a/{agent}/runs/all/{what}/{act}/stop")
async def stop_bulk(visit: Visit) -> Redirect:
    """Undo a waiting act on many runs, or stop a running one after its current run."""
    what, name = _what(visit), str(visit.path["act"])
    made = visit.bulk.find(visit.agent, name)
    if made is None:
        raise NotFoundError(f"there is no act {name!r:.40} on runs here now; its page says what is known")
    made.end()
    leads = {key: visit.fields.get(key) for key in ("which", "incident", *FILTERS, "before")}
    leads |= _known(made)
    return Redirect(visit.url(f"/runs/all/{what}/{name}", **leads))


def _known(made: BulkAct) -> dict[str, str]:
    """The parameters of an act's address, enough for its page without the act."""
    return {"these": " ".join(map(str, made.numbers)), "begins": moment(made.begins) or ""}


def _until_news(made: BulkAct | None) -> float | None:
    """The seconds after which the page of an act changes even if no run does."""
    if made is None or made.is_over:
        return None
    return PACE if made.state == GOING_ON else made.seconds_left + PACE / 5


def _was_never_begun(visit: Visit, asked: Fields) -> bool:
    try:
        begins = datetime.fromisoformat(asked.get("begins")).timestamp()
    except (ValueError, OverflowError):
        return False
    return visit.bulk.was_never_begun(begins)


def _what(visit: Visit) -> str:
    what = str(visit.path["what"])
    if what not in VERBS:
        raise NotFoundError(f"there is no act {what!r:.40} on runs; there are cancel and retry")
    return what


def _numbers(fields: Fields, name: str) -> list[int]:
    texts = " ".join(fields.all(name)).split()
    return list(dict.fromkeys(eid for text in texts if (eid := whole_number(text)) is not None))


def _choice(fields: Fields) -> dict[str, str]:
    """The choice of runs in an address or a form: those of an incident, or all that filters show.

    Empty if the choice is the ticked runs.
    """
    if incident := fields.get("incident"):
        return {"incident": incident}
    if fields.get("which") != "all":
        return {}
    return {"which": "all", **filters({name: fields.get(name) for name in FILTERS})}


async def _chosen(visit: Visit, fields: Fields) -> list[int]:
    """The chosen runs, the newest first, below `before`; at most `MOST`."""
    before = whole_number(fields.get("before"))
    choice = _choice(fields)
    return await _of_choice(visit, choice, before) if choice else _numbers(fields, "run")[:AT_ONCE]


async def _of_choice(visit: Visit, choice: Mapping[str, str], before: int | None) -> list[int]:
    if "incident" in choice:
        [row] = await visit.ask("incidents", incident=choice["incident"])
        eids = row["newest"] if row["what"] == "run" and row["state"] == "open" else []
        return sorted((eid for eid in set(eids) if before is None or eid < before), reverse=True)
    rows = await visit.ask("runs", limit=MOST, before=before, **arguments(filters(choice)))
    return [run["eid"] for run in rows]


# --- what is done -------------------------------------------------------------------------------------------


async def _still(visit: Visit, choice: Mapping[str, str], eids: Sequence[int]) -> list[int]:
    """The runs among `eids` that were not handled since they were shown."""
    if choice:
        chosen = set(await _of_choice(visit, choice, max(eids) + 1))
        eids = [eid for eid in eids if eid in chosen]
    return list(eids)


async def _do(visit: Visit, what: str, eid: int) -> int:
    """Act on a run; returns that run, or the one that continues it."""
    return int((await visit.act(what, run=eid))["eid"])


# --- rows ---------------------------------------------------------------------------------------------------


async def _planned(visit: Visit, what: str, eid: int) -> dict[str, Any]:
    """The row of a run to act on: what would be done, or why it is impossible."""
    row = {"eid": eid, "name": "", "state": "", "phase": "", "can": False}
    try:
        run = await visit.ask("show", run=eid)
        row |= {name: run[name] for name in ("name", "state", "phase")}
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


async def _as_it_is(visit: Visit, eid: int) -> dict[str, Any]:
    """The current row of a run."""
    try:
        run = await visit.ask("show", run=eid)
    except RequestError as error:
        return {"eid": eid, "name": "", "state": "", "phase": "", "told": str(error), "retry_of": None}
    return {**{name: run[name] for name in ("eid", "name", "state", "phase", "retry_of")}, "told": ""}


async def _became(visit: Visit, eid: int) -> dict[str, Any]:
    """The current row of a cancelled run, or of one that continues another."""
    row = await _as_it_is(visit, eid)
    before = row["retry_of"]
    return {**row, "told": f"{before['step']} of run {before['run']}" if before else row["told"]}


async def _refused(visit: Visit, result: BulkResult) -> dict[str, Any]:
    """The row of a run for which the act failed, with the reason."""
    return {**await _as_it_is(visit, result.number), "told": result.why}
