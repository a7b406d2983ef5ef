"""The page on which a run migrates to the loaded version, and back (issue 42)."""

from __future__ import annotations

import asyncio
from typing import Any

from narval.core.errors import RequestError
from narval.surfaces.http.page import OPERATORS, Redirect, Shown, Visit, act, page
from narval.surfaces.web.pages.run import drawing_of, drawing_with

NAMED = "name "
"""The prefix of the fields with the new name of a part; the rest is its old name."""

DURATIONS = ("7d", "30d", "90d", "365d")
"""The periods for which it can be simulated."""


@page("/a/{agent}/runs/{run:int}/migrate", roles=OPERATORS, command="narval migrate {run} --dry-run")
async def migrate_page(visit: Visit) -> Shown:
    """Show the fate of each part in the loaded version, with both graphs side by side."""
    names = {key.removeprefix(NAMED): to for key, to in visit.query.items() if key.startswith(NAMED) and to}
    simulated, duration = None, DURATIONS[1]
    if trial := visit.query.get("trial"):
        result = await visit.ask("trial", trial=trial)
        asked = result["asked"]
        if asked.get("migrated") != [visit.path["run"]]:
            raise RequestError(f"the result {trial!r:.40} is of something else than this run")
        simulated, names, duration = result["report"].get("simulated"), asked["names"], asked["duration"]
    return await _plan(visit, names, simulated=simulated, duration=duration)


async def _plan(
    visit: Visit,
    names: dict[str, str],
    problem: str = "",
    simulated: dict[str, Any] | None = None,
    duration: str = DURATIONS[1],
) -> Shown:
    """The page, with a problem or the result of a simulation."""
    eid = visit.path["run"]
    run, answer = await asyncio.gather(
        visit.ask("show", run=eid), visit.ask("migration_plan", run=eid, names=names)
    )
    before, after, plan = answer["before"], answer["after"], answer["planned"]
    drawings: list[Any] = [None, None]
    left: list[str] = []
    places: list[str] = []
    if plan is not None:
        drawings = [
            await drawing_of(visit, before, f"/runs/{eid}/parts/"),
            await drawing_with(visit, after, lambda part: "#after-table"),  # its parts have no pages yet
        ]
        ids, ids_now = ([one["id"] for one in graph["parts"]] for graph in (before, after))
        keeping = {part["part"] for part in plan["kept"]}
        left = [id for id in ids if id not in ids_now]
        left += [place["part"] for place in plan["refused"] if place["part"] not in (*left, "")]
        left += [old for old in names if old not in left]
        places = [id for id in ids_now if id not in ids]
        places += [id for id in (*plan["new"], *names.values()) if id not in places]
        left = [id for id in left if id not in keeping or id in names]
    values = {
        "run": run,
        "answer": answer,
        "planned": plan,
        "names_text": "\n".join(f"{old}={new}" for old, new in names.items()),
        "sentences": [(row["change"], row["depth"], row["text"]) for row in answer["differences"]],
        "names": names,
        "drawings": drawings,
        "left": left,
        "places": places,
        "named": NAMED,
        "problem": problem,
        "simulated": simulated,
        "durations": DURATIONS,
        "duration": duration,
        "here": "/runs",
    }
    return Shown("migrate.html", values, answer, status=400 if problem else 200)


def _names(visit: Visit) -> dict[str, str]:
    """The names in a form, one OLD=NEW for each line."""
    lines = (line.partition("=") for line in visit.fields.get("names").splitlines() if line.strip())
    return {old: new for old, _, new in lines}


@act("/a/{agent}/runs/{run:int}/migrate")
async def migrate_run(visit: Visit) -> Redirect | Shown:
    """Migrate a run to the version that was shown."""
    eid, names = visit.path["run"], _names(visit)
    if not (version := visit.fields.get("version")):
        raise RequestError("expected the version that was shown")
    answer = await visit.act("migrate", runs=[str(eid)], names=names, version=version)
    (row,) = answer["runs"]
    if row["outcome"] not in ("migrated", "failed"):
        why = "; ".join(place["why"] for place in row.get("refused", ())) or "the run has moved meanwhile"
        return await _plan(visit, names, f"{why}; this is what would happen now")
    return Redirect(visit.url(f"/runs/{eid}"))


@act("/a/{agent}/runs/{run:int}/migrate/undo")
async def undo_migration(visit: Visit) -> Redirect | Shown:
    """Return a run to the version and the state before its migration."""
    eid = visit.path["run"]
    answer = await visit.act("migrate", runs=[str(eid)], undo=True)
    (row,) = answer["runs"]
    if row["outcome"] == "refused":
        raise RequestError("; ".join(place["why"] for place in row["refused"]))
    return Redirect(visit.url(f"/runs/{eid}"))


@act("/a/{agent}/runs/{run:int}/migrate/simulate")
async def simulate_migration(visit: Visit) -> Redirect | Shown:
    """Simulate both versions, and redirect to the result."""
    eid, names, duration = visit.path["run"], _names(visit), visit.fields.get("duration", DURATIONS[1])
    try:
        answer = await visit.act("simulate_migration", runs=[eid], names=names, duration=duration)
    except RequestError as error:
        return await _plan(visit, names, str(error))
    return Redirect(visit.url(f"/runs/{eid}/migrate", trial=answer["trial"]) + "#future-title")
