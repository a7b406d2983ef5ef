"""The page of agents: a line for each, and who sends to whom; a single agent is shown directly (M58)."""

from __future__ import annotations

import re
from typing import Any

from narval.surfaces.http.page import EVERYBODY, Follows, Redirect, Shown, Visit, page, with_query
from narval.surfaces.web.drawing.provenance import correspondence
from narval.surfaces.web.pages.run import drawing_with

LISTED = 100
"""Agents listed on a page."""

PAIRS, DRAWN = 100, 40
"""The most pairs of agents with messages that are listed, and that are drawn."""

AGENT_TONES = {"active": "active", "passive": "idle", "suspended": "failed", "waits": "waiting"}
"""The tones of the states of agents."""

PAGE_NAME = re.compile("/[a-z]*")
"""The path of a page that every agent has, such as `/runs`."""


@page("/", roles=EVERYBODY, command="narval agents", options={"after": "--after", "text": "--text"})
async def agents_page(visit: Visit) -> Shown | Redirect:
    """List the agents, a hundred on a page; a single one leads to its status, or a person to their work.

    With `text`, only those whose names contain it: one with exactly that name, or the only one, leads to its
    page `to`.
    """
    after, text = visit.query.get("after"), visit.query.get("text", "").strip()
    found = await visit.ask("agents", limit=LISTED + 1, after=after or None, text=text or None)
    to = visit.query.get("to", "/")
    rest = "/work" if visit.visitor.role == "person" else to if PAGE_NAME.fullmatch(to) else "/"
    called_so = [row for row in found if row["name"] == text]
    if called_so or (len(found) == 1 and not after):
        return Redirect(Visit.address((called_so or found)[0]["name"], rest))
    is_shared = any("owner" in row for row in found)  # else all daemons' agents would be counted
    if not (after or is_shared or len(found) > LISTED) and any(row["elements"] is None for row in found):
        found = await visit.ask("agents", text=text or None)  # few: also count the elements of passive ones
    listed = found[:LISTED]
    query = {"text": text, "to": to if text else ""}
    older = f"/{with_query({**query, 'after': listed[-1]['name']})}" if len(found) > LISTED else ""
    values = {
        "agents": [{**row, "url": Visit.address(row["name"], rest)} for row in listed],
        "agent_tones": AGENT_TONES,
        "is_shared": is_shared,
        "text": text,
        "to": to,
        "older": older,
        "newest": f"/{with_query(query)}" if after else "",
        **await _messages(visit, listed),
    }
    return Shown(
        "agents.html", values, listed, links={"next": older} if older else {}, follows=Follows(runs=True)
    )


async def _messages(visit: Visit, listed: list[dict[str, Any]]) -> dict[str, Any]:
    """The pairs with messages, and their drawing, for visitors who may look at everything."""
    if visit.visitor.role == "person":
        return {"messages": None, "drawing": None, "drawn": None}
    answer = await visit.ask("message_counts", limit=PAIRS)
    graph = correspondence(answer["pairs"][:DRAWN], listed)
    is_drawn = graph["parts"] and not visit.live
    drawing = await drawing_with(visit, graph, Visit.address) if is_drawn else None
    return {"messages": answer, "drawn": graph, "drawing": drawing}
