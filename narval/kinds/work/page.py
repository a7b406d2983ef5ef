"""The pages of work: what a person is asked, and the form by which they answer (M50, P50–P53)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from narval.core.errors import NotFoundError, RequestError, WorkRefusedError
from narval.kinds.work.cli.tables import said, vote
from narval.kinds.work.engine.table import ACTS_ON_ITEMS, VALUES
from narval.kinds.work.engine.texts import document_of
from narval.surfaces.http.page import EVERYBODY, READERS, WORKERS, Follows, Redirect, Shown, Visit, act, page
from narval.surfaces.web.pages.run import drawing_of

LISTED = 50
"""Items on a page."""

VIEWS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "mine": ("for me", {}),
    "answered": ("answered by me, waits for others", {"answered": True}),
    "all": ("all that I may see", {"every": True}),
    "done": ("done", {"every": True, "state": "done"}),
    "refused": ("refused", {"every": True, "state": "refused"}),
    "expired": ("expired", {"every": True, "state": "expired"}),
    "withdrawn": ("withdrawn", {"every": True, "state": "withdrawn"}),
}
"""The lists: the words for each, and the arguments of its query."""

OPTIONS = {"view=all": "--all!", "view=answered": "--answered!"} | {
    f"view={name}": f"--all --state {name}!" for name, (_, asked) in VIEWS.items() if "state" in asked
}
"""The options of the command for each list except one's own."""

FIELD = "field."
"""The prefix of the names of a form's fields that belong to the answer."""

INPUTS = {"integer": "number", "decimal": "text", "date": "date", "dateTime": "datetime-local"}
"""The types of a browser's inputs by types of fields; `text` for any other one-line type."""

ITEM_TONES = {
    "offered": "waiting", "claimed": "active", "done": "done", "refused": "cancelled", "expired": "failed",
    "withdrawn": "cancelled",
}  # fmt: skip
"""The tones of the states of items."""


@page("/a/{agent}/work", roles=EVERYBODY, command="narval work", options=OPTIONS)
async def work_list(visit: Visit) -> Shown:
    """List the items that are offered to the visitor, or those of another view."""
    view = visit.query.get("view", "mine")
    _, asked = VIEWS.get(view, VIEWS["mine"])
    items = await visit.ask("worklist", limit=LISTED + 1, after=visit.number("after"), **asked)
    older = visit.url("/work", view=view, after=items[LISTED - 1]["item"]) if len(items) > LISTED else ""
    values = {
        "items": items[:LISTED],
        "view": view,
        "views": [(name, words) for name, (words, _) in VIEWS.items()],
        "older": older,
        "acted": await _acted(visit),
        "item_tones": ITEM_TONES,
        "here": "/work",
        "section": "/work",
    }
    links = {"next": older} if older else {}
    return Shown("work.html", values, items[:LISTED], links=links, follows=Follows(work=True))


async def _acted(visit: Visit) -> dict[str, Any] | None:
    """The item that the visitor has just acted on, by the address, with words for its new state."""
    if (number := visit.number("acted")) is None:
        return None
    try:
        item = await visit.ask("work_item", item=number)
    except (RequestError, WorkRefusedError):  # after delegation they may no longer see it
        return {"item": number, "title": f"item {number}", "words": "Left to others"}
    done = {"done": f"Answered {item['outcome']}", "refused": "Refused"}
    words = done.get(item["state"], "Left to others")
    if item["answered"]:
        words = f"Answered {vote(item['answered'])}"
    return {"item": number, "title": item["title"] or item["work"], "words": words}


@page("/a/{agent}/work/{item:int}", roles=EVERYBODY, command="narval work show {item}")
async def work_item(visit: Visit) -> Shown:
    """Show one item: its recorded text, and the form of what the visitor may do."""
    return await _item(visit, {}, None)


async def _item(visit: Visit, typed: Mapping[str, list[str]], refused: WorkRefusedError | None) -> Shown:
    """The page of an item, with what was typed and why it was refused."""
    number = visit.path["item"]
    item = await visit.ask("work_item", item=number)
    log = await visit.ask("work_log", item=number)
    names = [str(field["name"]) for field in item["fields"]]
    values = {
        "item": item,
        "document": document_of(item["text"]) if item["text"] else None,
        "typed": {name: typed.get(name, item["draft"].get(name)) for name in names},
        "problems": _problems(refused),
        "refused": str(refused) if refused is not None else "",
        "log": [{**line, "said": said(line)} for line in log],
        "led": None if visit.live else await _led(visit, item),
        "inputs": INPUTS,
        "field_prefix": FIELD,
        "item_tones": ITEM_TONES,
        "here": "/work",
    }
    return Shown(
        "work_item.html",
        values,
        item,
        status=409 if refused is not None else 200,
        follows=Follows(run=number),
        over=item["phase"] != "active",
    )


async def _led(visit: Visit, item: Mapping[str, Any]) -> dict[str, Any] | None:
    """The causes of an item: the graph of the asking run, and the elements of the item; None for a visitor
    who may not see them.
    """
    if visit.visitor.role not in READERS or not item["run"]:
        return None
    asking = item["run"]["run"]
    try:
        own, run, drawn = await asyncio.gather(
            visit.ask("show", run=item["item"]),
            visit.ask("show", run=asking),
            visit.ask("drawn", run=asking),
        )
    except RequestError:  # it is forgotten
        return None
    drawing = await drawing_of(visit, drawn, f"/runs/{asking}/parts/")
    return {
        "run": run,
        "drawn": drawn,
        "drawing": drawing,
        "elements": own["context"],
        "titles": own["titles"],
    }


def _typed(number: int, typed: Mapping[str, list[str]], refused: WorkRefusedError) -> Shown:
    """The page of an item that the visitor may not see: why the act was refused, and what was typed."""
    values = {"item": number, "typed": typed, "refused": str(refused), "here": "/work"}
    status = 404 if refused.kind == "no-item" else 409
    return Shown("work_typed.html", values, {"item": number, "refused": str(refused)}, status=status)


def _problems(refused: WorkRefusedError | None) -> dict[str, str]:
    """The messages for fields, by name."""
    if refused is None or refused.kind != "bad-field" or not refused.detail:
        return {}
    return {str(problem["field"]): str(problem["message"]) for problem in json.loads(refused.detail)}


@act("/a/{agent}/work/{item:int}/{what}", roles=WORKERS)
async def work_act(visit: Visit) -> Redirect | Shown:
    """Act on an item; if its rules refuse, show again what was typed (P52)."""
    what, number, form = visit.path["what"].replace("_", "-"), visit.path["item"], visit.fields
    if what not in ACTS_ON_ITEMS:
        raise NotFoundError(f"there is no act {what!r:.40} of items")
    typed: dict[str, list[str]] = {}
    for name, value in form.pairs:
        if name.startswith(FIELD) and value:
            typed.setdefault(name.removeprefix(FIELD), []).append(value)
    values: dict[str, Any] = {}
    for field in ACTS_ON_ITEMS[what].fields:
        text = form.get(field.asked_as)
        values[field.name] = typed if field is VALUES else text.split() if field.is_list else text
    try:
        await visit.act(what.replace("-", "_"), item=number, **values)
    except WorkRefusedError as refused:
        if refused.kind == "no-item" and not typed:
            raise
        try:
            return await _item(visit, typed, refused)
        except WorkRefusedError:  # the visitor may not see it any more
            return _typed(number, typed, refused)
    is_done = what in ("answer", "refuse", "delegate")
    return Redirect(visit.url("/work", acted=number) if is_done else visit.url(f"/work/{number}"))
