"""The page of an example that ships, to start from: what it does, its files, and its scenarios."""

from __future__ import annotations

from typing import Any

from narval.core.errors import RequestError, SurroundingsError
from narval.surfaces.http.page import OPERATORS, Redirect, Shown, Visit, act, page, segment
from narval.surfaces.web.pages.proposals import told_definitions


@page("/a/{agent}/examples/{name}", roles=OPERATORS, command="narval take --about {name}")
async def example_page(visit: Visit) -> Shown:
    """Show an example, and the next steps if it was taken."""
    return await _shown(visit)


@act("/a/{agent}/examples/{name}/take")
async def take_example(visit: Visit) -> Redirect | Shown:
    """Take an example into the home under a group, and redirect to the next steps."""
    name, group = visit.path["name"], visit.fields.get("group").strip()
    try:
        await visit.act("take_example", name=name, group=group)
    except (RequestError, SurroundingsError) as error:
        return await _shown(visit, group, str(error))
    return Redirect(visit.url(f"/examples/{segment(name)}", taken=group))


async def _shown(visit: Visit, group: str = "", problem: str = "") -> Shown:
    name = visit.path["name"]
    row = await visit.ask("example", name=name)
    here = f"/examples/{segment(name)}#"
    values = {
        "example": row,
        "definitions": await told_definitions(visit, row["told"], row["drawn"], here),
        "taken": await _taken(visit, visit.query.get("taken", "")),
        "group": group or "mine",
        "problem": problem,
        "here": "/proposals",
    }
    return Shown("example.html", values, row, status=400 if problem else 200)


async def _taken(visit: Visit, group: str) -> dict[str, Any] | None:
    """The definitions and scenarios of the home that are in a group; None without any."""
    if not group:
        return None
    loaded = await visit.ask("definitions")
    rows = [row for row in loaded["definitions"] if row["path"].startswith(f"recipes/{group}/")]
    scenarios = [name for name in await visit.ask("scenarios") if name.startswith(f"{group}/")]
    return {"group": group, "definitions": rows, "scenarios": scenarios} if rows else None
