"""Search: where a number or a name leads (M12)."""

from __future__ import annotations

from narval.core.errors import NarvalError
from narval.surfaces.http.page import Redirect, Shown, Visit, page, segment, whole_number


@page("/a/{agent}/search")
async def search_page(visit: Visit) -> Shown | Redirect:
    """Lead to the run or element of a number, to the definition of a name, else to what contains it."""
    words = visit.query.get("q", "").strip()
    if (eid := whole_number(words)) is not None:
        return Redirect(visit.url(f"/{await _sort(visit, eid)}/{eid}"))
    loaded = await visit.ask("definitions")
    named = [row for row in loaded["definitions"] if words and words.casefold() in row["name"].casefold()]
    exact = [row for row in named if row["name"] == words]
    if len(exact) == 1 or len(named) == 1:
        [row] = exact or named
        return Redirect(visit.url(f"/definitions/{segment(row['name'])}", kind=row["kind"]))
    return Shown("search.html", {"words": words, "named": named}, named)


async def _sort(visit: Visit, eid: int) -> str:
    """The pages on which an eid is looked up: those of runs, or those of memory."""
    try:
        await visit.ask("show", run=eid)
    except NarvalError:
        return "memory"
    return "runs"
