"""The pages of what dataflows remember: the names, the dataflows, and each item with its time (T49)."""

from __future__ import annotations

import json

from narval.core.agreeing import Role
from narval.surfaces.http.page import READERS, Follows, Redirect, Shown, Visit, act, page, segment

LISTED = 50
"""The names or items on a page."""

OPTIONS = {"skip": "--skip"}


@page("/a/{agent}/remembered", command="narval remembered", options=OPTIONS)
async def remembered_page(visit: Visit) -> Shown:
    """List the names under which dataflows remember what they saw."""
    return await _listing(visit, "/remembered", "")


@page("/a/{agent}/remembered/{name}", command="narval remembered {name}", options=OPTIONS)
async def remembered_items_page(visit: Visit) -> Shown:
    """List what is remembered under a name, latest first."""
    name = visit.path["name"]
    return await _listing(visit, f"/remembered/{segment(name)}", name)


async def _listing(visit: Visit, path: str, name: str) -> Shown:
    skip = visit.number("skip") or 0
    rows = await visit.ask("remembered", name=name, limit=LISTED + 1, skip=skip)
    older = visit.url(path, skip=skip + LISTED) if len(rows) > LISTED else ""
    visible = rows[:LISTED]
    values = {
        "rows": [{**row, "text": json.dumps(row["tuple"], ensure_ascii=False)} for row in visible]
        if name
        else visible,
        "name": name,
        "older": older,
        "newest": visit.url(path) if skip else "",
        "here": "/memory",
        "section": "/remembered",
    }
    links = {"next": older} if older else {}
    template = "remembered_items.html" if name else "remembered.html"
    return Shown(template, values, visible, links=links, follows=Follows(runs=True))


@act("/a/{agent}/remembered/{name}/forget")
async def forget_remembered_act(visit: Visit) -> Redirect:
    """Forget the item with the key in the form, or every item of a name; seen again, it is new."""
    name, key = visit.path["name"], visit.fields.all("key")
    await visit.act("forget_remembered", name=name, key=key or None)
    rest = await visit.ask("remembered")
    is_left = any(row["name"] == name for row in rest)
    return Redirect(visit.url(f"/remembered/{segment(name)}" if is_left else "/remembered"))


SECTIONS: tuple[tuple[str, str, str, tuple[Role, ...]], ...] = (
    ("/memory", "Remembered", "/remembered", READERS),
)
"""The lists beside a page of the navigation: the path of that page, the word, their path, the roles that may
see them.
"""
