"""The status page: first what needs attention, then the activity (M13, M14)."""

from __future__ import annotations

import asyncio
from operator import itemgetter
from typing import Any

from narval.surfaces.http.page import Follows, Shown, Visit, page, segment

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
