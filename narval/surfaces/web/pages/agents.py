"""The page of agents: a line each; where there is one alone it leads to that (M58)."""

from __future__ import annotations

from narval.surfaces.http.page import EVERYBODY, Follows, Redirect, Shown, Visit, page, with_query

LISTED = 100
"""So many agents are on a page."""

AGENT_TONES = {"active": "active", "passive": "idle", "suspended": "failed"}
"""The tones of the states of agents."""


@page("/", roles=EVERYBODY, command="narval agents")
async def agents_page(visit: Visit) -> Shown | Redirect:
    """List the agents, a hundred a page; with one alone lead to its status, a person to their work."""
    after = visit.query.get("after")
    found = await visit.ask("agents", limit=LISTED + 1, after=after or None)
    rest = "/work" if visit.visitor.role == "person" else "/"
    if len(found) == 1 and not after:
        return Redirect(Visit.address(found[0]["name"], rest))
    listed = found[:LISTED]
    older = f"/{with_query({'after': listed[-1]['name']})}" if len(found) > LISTED else ""
    rows = [{**row, "url": Visit.address(row["name"], rest)} for row in listed]
    values = {"agents": rows, "agent_tones": AGENT_TONES, "older": older, "newest": "/" if after else ""}
    return Shown(
        "agents.html", values, listed, links={"next": older} if older else {}, follows=Follows(runs=True)
    )
