"""The pages of memory: a list with filters, an element with its provenance, adding, outdating, and search.

A search leads to the page for a number or a name, or lists everything that contains the words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from lxml import etree

from narval.ask.text import person
from narval.core.elements.canonical import text_bytes
from narval.core.elements.element import parse
from narval.core.errors import ElementError, NarvalError, PatternError, RequestError
from narval.core.patterns.xpath1 import literal
from narval.core.source.secrets import hide_secrets
from narval.surfaces.http.page import (
    OPERATORS,
    Follows,
    Redirect,
    Shown,
    Visit,
    act,
    page,
    segment,
    whole_number,
)
from narval.surfaces.web.drawing.derived import provenance, trail
from narval.surfaces.web.pages.run import drawing_of, drawing_with
from narval.surfaces.web.pages.run_acts import offered

LISTED = 50
"""Elements on a page."""

NAMES = 40
"""The most names that are offered as filters, the most frequent."""

CUT = 240
"""The most characters of an element in a list."""

TRAIL = 200
"""The most elements on the page of an origin, or of uses."""

FOLDED = 200
"""The lines above which an element is shown folded."""

_PLACE = re.compile(r",? ?\(?line \d+, column \d+\)?")
"""The pattern of the place of a fault in its sentence."""

FILTERS = ("xpath", "context", "current", "since", "definition")

MEMORY_OPTIONS = {
    "xpath": "", "context": "--context", "current": "--current!", "since": "--since",
    "definition": "--made-by", "before": "--before",
}  # fmt: skip
"""The options of the command for the parameters of the list."""


@page("/a/{agent}/memory", command="narval memory", options=MEMORY_OPTIONS)
async def memory_list(visit: Visit) -> Shown:
    """List the elements that match a pattern and filters, the newest first."""
    query = {name: visit.query[name] for name in FILTERS if visit.query.get(name)}
    request: dict[str, Any] = {**query, "limit": LISTED, "before": visit.number("before")}
    if "context" in request:
        request["context"] = visit.number("context")
    request["current"] = "current" in query
    problem: PatternError | RequestError | None = None
    answer: dict[str, Any] = {"elements": [], "tried": 0, "older": None}
    try:
        answer = await visit.ask("elements", **request)
    except (PatternError, RequestError) as error:
        problem = error
    whose = {"agent": answer["agent"]} if "agent" in answer else {}  # as a listing of another agent has it
    facets = [] if visit.live else await visit.ask("facets", limit=NAMES)
    url = partial(visit.url, "/memory")
    older = url(**query, before=answer["older"]) if answer["older"] else ""
    values = {
        "elements": answer["elements"],
        "tried": answer["tried"],
        "facets": facets,
        "query": {name: query.get(name, "") for name in FILTERS},
        "problem": str(problem) if problem is not None else "",
        "column": problem.column if isinstance(problem, PatternError) else 0,
        "older": older,
        "newest": url(**query) if "before" in visit.query else "",
        "listed": LISTED,
        "cut": CUT,
        "came_from": came_from,
        "here": "/memory",
        "section": "/memory",
    }
    return Shown(
        "memory.html",
        values,
        [{**row, **whose} for row in answer["elements"]],
        status=400 if problem is not None else 200,
        links={"next": older} if older else {},
        follows=Follows(elements=True) if "before" not in visit.query else None,
    )


def came_from(origin: Mapping[str, Any] | None) -> str:
    """The origin of an element in words, without its run."""
    if origin is None:
        return ""
    people = [
        f"by {person(origin)}" if origin.get("by") else "",
        f"from {origin['from']}" if origin.get("from") else "",
    ]
    made = f"endorsed: {origin['endorsed']}" if "endorsed" in origin else str(origin.get("file") or "")
    return ", ".join(filter(None, [made, *people]))


@page("/a/{agent}/memory/{eid:int}", command="narval element {eid}")
async def element_page(visit: Visit) -> Shown | Redirect:
    """Show one element: its XML, the runs that hold it, its versions, and its provenance both ways."""
    eid = visit.path["eid"]
    try:
        element = await visit.ask("element", eid=eid)
    except RequestError as error:
        if "is a run" in str(error):
            return Redirect(visit.url(f"/runs/{eid}"))
        raise
    graph = provenance(element)
    lines = indented(element["xml"]).splitlines()
    values = {
        "element": element,
        "attributes": hide_secrets(element["attributes"]),
        "lines": lines,
        "folded": FOLDED,
        "drawn": graph,
        "drawing": None if visit.live else await drawing_of(visit, graph, "/memory/"),
        "came_from": came_from,
        "here": "/memory",
    }
    return Shown("element.html", values, element, follows=Follows(elements=True))


@page("/a/{agent}/memory/{eid:int}/origin", command="narval why {eid} --origin")
async def origin_page(visit: Visit) -> Shown:
    """Show everything that an element was made from, back to the sources outside."""
    return await _trail(visit, "origin", "Origin", "uses", "Everything made from it")


@page("/a/{agent}/memory/{eid:int}/uses", command="narval why {eid} --uses")
async def uses_page(visit: Visit) -> Shown:
    """Show everything that was made from an element, and who used it."""
    return await _trail(visit, "uses", "Uses", "origin", "All the way back")


async def _trail(visit: Visit, way: str, title: str, other: str, other_title: str) -> Shown:
    answer = await visit.ask(way, eid=visit.path["eid"], limit=TRAIL, titled=True)
    graph = trail(answer)
    agents = {row["id"]: f"/a/{row['agent']}/memory/{row['eid']}/{way}" for row in answer["elements"]}
    values = {
        "trail": answer,
        "title": title,
        "other": other,
        "other_title": other_title,
        "here_way": way,
        "drawn": graph,
        "drawing": await drawing_with(visit, graph, lambda part: agents.get(part, "")),
        "here": "/memory",
    }
    return Shown("trail.html", values, answer)


def indented(xml: str) -> str:
    """An element with its children on separate lines, if that adds no text to it."""
    root = parse(xml.encode("utf-8", "surrogatepass"))
    if not any((element.text or "").strip() and len(element) for element in root.iter()):
        etree.indent(root)
    return etree.tostring(root, encoding="unicode")


@page("/a/{agent}/memory/add", roles=OPERATORS, command="narval add FILE")
async def add_page(visit: Visit) -> Shown:
    """Show the form for an element, which may replace another."""
    replace = visit.number("replace")
    text = ""
    if replace is not None:
        text = indented((await visit.ask("element", eid=replace))["xml"])
    return _form(text, replace, "")


def _form(text: str, replace: int | None, problem: str) -> Shown:
    values = {"text": text, "replace": replace, "problem": problem, "here": "/memory"}
    return Shown("add.html", values, None, status=400 if problem else 200)


@act("/a/{agent}/memory/add")
async def add_element(visit: Visit) -> Redirect | Shown:
    """Add the elements of a text, or replace one."""
    text, number = visit.fields.get("xml"), whole_number(visit.fields.get("replace"))
    try:
        added = await visit.act("add", elements=[text_bytes(text)], replace=number)
    except ElementError as error:
        sentence = _PLACE.sub("", str(error)).removeprefix(f"{error.line}:{error.column}: ")
        return _form(text, number, f"line {error.line}, column {error.column}: {sentence}")
    except RequestError as error:
        return _form(text, number, str(error))
    return Redirect(visit.url(f"/memory/{added['eids'][0]}" if len(added["eids"]) == 1 else "/memory"))


@act("/a/{agent}/memory/{eid:int}/outdate")
async def outdate_element(visit: Visit) -> Redirect:
    """Outdate an element, for a reason that is recorded."""
    eid = visit.path["eid"]
    await visit.act("outdate", eids=[eid], reason=visit.fields.get("reason"))
    return Redirect(visit.url(f"/memory/{eid}"))


FOUND = 12
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
    return Shown("search.html", {"words": words, "listed": FOUND, **answer}, answer)


async def _having(visit: Visit, words: str, loaded: list[dict[str, Any]]) -> dict[str, Any]:
    """The first of each sort that contain the words, ignoring case except in elements; and the elements of
    that name, with their number.
    """
    begun = words.casefold()
    items = await visit.ask("worklist", every=True, limit=ITEMS)
    text = literal(words)
    having = f"*[contains(., {text}) or @*[contains(., {text})]]"
    count = next((one["count"] for one in await visit.ask("facets") if one["name"] == words), 0)
    named = await offered(visit, [words], FOUND) if count else []
    others = await offered(visit, [having], FOUND + len(named))
    return {
        "definitions": [row for row in loaded if begun in f"{row['name']} {row['description']}".casefold()],
        "items": [row for row in items if any(begun in text.casefold() for text in _texts(row))],
        "runs": await visit.ask("runs", text=words, limit=FOUND),
        "named": named,
        "count": count,
        "elements": [one for one in others if one not in named][:FOUND],
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
