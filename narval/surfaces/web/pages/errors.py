"""The pages of errors: open incidents, similar ones in one row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from narval.surfaces.http.page import Follows, Redirect, Shown, Visit, act, page, whole_number

LISTED = 200
"""The most rows that are listed."""

SPARK = 26.0
"""The height of the highest bar of a row's days, in pixels."""

INCIDENT_TONES = {"open": "failed", "acknowledged": "cancelled", "settled": "done"}
"""The tones of the states of rows."""


@page("/a/{agent}/errors", command="narval errors", options={"all": "--all!"})
async def errors_page(visit: Visit) -> Shown:
    """List the incidents that are open, or all."""
    every = visit.query.get("all") == "yes"
    rows = await visit.ask("incidents", every=every, limit=LISTED)
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
