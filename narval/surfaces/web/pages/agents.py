"""The pages of agents and of what reaches them: the agents, who sends to whom, letters, webhooks.

A single agent is shown directly.
"""

from __future__ import annotations

import re
from typing import Any

from narval.core.errors import NotFoundError
from narval.surfaces.http.page import EVERYBODY, Follows, Redirect, Shown, Visit, act, page, with_query
from narval.surfaces.web.drawing.derived import correspondence
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
    rows = await visit.ask("agents", limit=LISTED + 1, after=after or None, text=text or None)
    to = visit.query.get("to", "/")
    rest = "/work" if visit.visitor.role == "person" else to if PAGE_NAME.fullmatch(to) else "/"
    called_so = [row for row in rows if row["name"] == text]
    if called_so or (len(rows) == 1 and not after):
        return Redirect(Visit.address((called_so or rows)[0]["name"], rest))
    is_shared = any("owner" in row for row in rows)  # else all daemons' agents would be counted
    if not (after or is_shared or len(rows) > LISTED) and any(row["elements"] is None for row in rows):
        rows = await visit.ask("agents", text=text or None)  # few: also count the elements of passive ones
    listed = rows[:LISTED]
    query = {"text": text, "to": to if text else ""}
    older = f"/{with_query({**query, 'after': listed[-1]['name']})}" if len(rows) > LISTED else ""
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


# --- letters ------------------------------------------------------------------------------------------------


LETTERS = 50
"""Letters on a page."""

ACTS = {"resend": "resend", "drop": "drop_letter"}
"""The operations on a dead letter, by the last word of the address."""


@page("/a/{agent}/letters", command="narval letters", options={"dead": "--dead!", "before": "--before"})
async def letters_page(visit: Visit) -> Shown:
    """List the letters that are not taken yet, or the dead ones."""
    dead, before = visit.query.get("dead") == "yes", visit.query.get("before") or None
    rows = await visit.ask("letters", dead=dead, limit=LETTERS + 1, before=before)
    choice = "yes" if dead else ""
    last = "letter" if dead else "message"
    older = visit.url("/letters", dead=choice, before=rows[LETTERS - 1][last]) if len(rows) > LISTED else ""
    others = await visit.ask("letters", dead=not dead, limit=LETTERS + 1)
    values = {
        "rows": rows[:LETTERS],
        "dead": dead,
        "others": f"more than {LETTERS}" if len(others) > LISTED else str(len(others)),
        "older": older,
        "newest": visit.url("/letters", dead=choice) if before is not None else "",
        "here": "/memory",
        "section": "/letters",
    }
    links = {"next": older} if older else {}
    return Shown(
        "letters.html", values, rows[:LETTERS], links=links, follows=Follows(runs=True, elements=True)
    )


@act("/a/{agent}/letters/{letter:int}/{what}")
async def act_on_letter(visit: Visit) -> Redirect:
    """Send a dead letter again, or delete it."""
    what = str(visit.path["what"])
    if what not in ACTS:
        raise NotFoundError(f"there is no act {what!r:.40} on letters; there are resend and drop")
    await visit.act(ACTS[what], letter=visit.path["letter"])
    return Redirect(visit.url("/letters", dead="yes"))


# --- webhooks -----------------------------------------------------------------------------------------------


WHY_REFUSED = {
    "400": "no body of its type", "401": "a wrong token", "408": "too slow", "413": "too long",
    "415": "another type", "422": "refused by its schema", "429": "too many a minute",
}  # fmt: skip
"""The reasons for refusing a call, by status."""


@page("/a/{agent}/hooks", command="narval hooks")
async def hooks_page(visit: Visit) -> Shown:
    """List the webhooks of the home."""
    rows = await visit.ask("hooks")
    values = {"rows": rows, "why_refused": WHY_REFUSED, "here": "/memory", "section": "/hooks"}
    return Shown("hooks.html", values, rows, follows=Follows(elements=True, faults=True))
