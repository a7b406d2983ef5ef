"""The page of letters: waiting and dead ones, and the acts on them (G32)."""

from __future__ import annotations

from narval.core.errors import RequestError
from narval.surfaces.http.page import Follows, Redirect, Shown, Visit, act, page

LISTED = 50
"""Letters on a page."""

ACTS = {"resend": "resend", "drop": "drop_letter"}
"""The operations on a dead letter, by the last word of the address."""


@page("/a/{agent}/letters", command="narval letters", options={"dead": "--dead!", "before": "--before"})
async def letters_page(visit: Visit) -> Shown:
    """List the letters that are not taken yet, or the dead ones."""
    dead, before = visit.query.get("dead") == "yes", visit.query.get("before") or None
    rows = await visit.ask("letters", dead=dead, limit=LISTED + 1, before=before)
    choice = "yes" if dead else ""
    last = "letter" if dead else "message"
    older = visit.url("/letters", dead=choice, before=rows[LISTED - 1][last]) if len(rows) > LISTED else ""
    others = await visit.ask("letters", dead=not dead, limit=LISTED + 1)
    values = {
        "rows": rows[:LISTED],
        "dead": dead,
        "others": f"more than {LISTED}" if len(others) > LISTED else str(len(others)),
        "older": older,
        "newest": visit.url("/letters", dead=choice) if before is not None else "",
        "here": "/memory",
        "section": "/letters",
    }
    links = {"next": older} if older else {}
    return Shown(
        "letters.html", values, rows[:LISTED], links=links, follows=Follows(runs=True, elements=True)
    )


@act("/a/{agent}/letters/{letter:int}/{what}")
async def act_on_letter(visit: Visit) -> Redirect:
    """Send a dead letter again, or delete it."""
    what = str(visit.path["what"])
    if what not in ACTS:
        raise RequestError(f"there is no act {what!r:.40} on letters; there are resend and drop")
    await visit.act(ACTS[what], letter=visit.path["letter"])
    return Redirect(visit.url("/letters", dead="yes"))
