"""Search: the page for a number or a name, or everything that contains the words (M12)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from narval.core.errors import NarvalError
from narval.core.patterns.xpath1 import literal
from narval.surfaces.http.page import Redirect, Shown, Visit, page, segment, whole_number
from narval.surfaces.web.pages.run_acts import offered

LISTED = 12
"""The most listed of each sort."""

ITEMS = 500
"""The most items of work searched."""


@page("/a/{agent}/search")
async def search_page(visit: Visit) -> Shown | Redirect:
    """Redirect to the run or element of a number, or to the definition of a name; else list the definitions,
    the work, the errors of runs and the elements that contain the words.
    """
    words = visit.query.get("q", "").strip()
    if (eid := whole_number(words)) is not None:
        return Redirect(visit.url(f"/{await _sort(visit, eid)}/{eid}"))
    loaded = (await visit.ask("definitions"))["definitions"]
    exact = [row for row in loaded if row["name"] == words]
    if len(exact) == 1:
        return Redirect(visit.url(f"/definitions/{segment(words)}", kind=exact[0]["kind"]))
    answer = await _having(visit, words, loaded) if words else {}
    return Shown("search.html", {"words": words, "listed": LISTED, **answer}, answer)


async def _having(visit: Visit, words: str, loaded: list[dict[str, Any]]) -> dict[str, Any]:
    """The first of each sort that contain the words, ignoring case except in elements; and the elements of
    that name, with their number.
    """
    begun = words.casefold()
    items = await visit.ask("worklist", every=True, limit=ITEMS)
    text = literal(words)
    having = f"*[contains(., {text}) or @*[contains(., {text})]]"
    count = next((one["count"] for one in await visit.ask("facets") if one["name"] == words), 0)
    named = await offered(visit, [words], LISTED) if count else []
    others = await offered(visit, [having], LISTED + len(named))
    return {
        "definitions": [row for row in loaded if begun in f"{row['name']} {row['description']}".casefold()],
        "items": [row for row in items if any(begun in text.casefold() for text in _texts(row))],
        "runs": await visit.ask("runs", text=words, limit=LISTED),
        "named": named,
        "count": count,
        "elements": [one for one in others if one not in named][:LISTED],
        "having": having,
    }


def _texts(row: Mapping[str, Any]) -> Iterator[str]:
    return (value for value in row.values() if isinstance(value, str))


async def _sort(visit: Visit, eid: int) -> str:
    """The prefix of the pages for an eid: those of runs, or those of memory."""
    try:
        await visit.ask("show", run=eid)
    except NarvalError:
        return "memory"
    return "runs"
