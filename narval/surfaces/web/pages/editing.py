"""The page that edits the file of a definition: preview a text, save it, restore a version."""

from __future__ import annotations

from contextlib import suppress
from itertools import groupby
from typing import Any

from narval.core.errors import NarvalError, RequestError
from narval.surfaces.http.page import OPERATORS, Redirect, Shown, Visit, act, page, segment
from narval.surfaces.web.pages.definitions import line_look, nested
from narval.surfaces.web.pages.run_acts import form_of


@page(
    "/a/{agent}/definitions/{name}/edit",
    roles=OPERATORS,
    command="narval edit {name}",
    options={"kind": "--kind"},
)
async def edit_page(visit: Visit) -> Shown:
    """Show the file of a definition in a form, what it does, and its versions."""
    return await _editor(visit, visit.query.get("kind") or None)


@act("/a/{agent}/definitions/{name}/edit", looks=True)
async def check_edit(visit: Visit) -> Shown:
    """Show the effect of the form's text: faults, changes of what it does, needs, difference."""
    return await _editor(visit, visit.fields.get("kind") or None, is_typed=True)


@act("/a/{agent}/definitions/{name}/edit/save")
async def save_edit(visit: Visit) -> Redirect | Shown:
    """Save the text of the form, which grants what it needs; or show why not, with what was typed."""
    kind, fields = visit.fields.get("kind") or None, visit.fields
    digest = fields.get("over") or fields.get("digest")
    try:
        done = await visit.act(
            "save_edit", name=visit.path["name"], kind=kind, text=visit.fields.get("edited"), digest=digest
        )
    except RequestError as error:
        return await _editor(visit, kind, problem=str(error), is_typed=True)
    return _saved(visit, kind, done)


@act("/a/{agent}/definitions/{name}/edit/take-back")
async def take_back_edit(visit: Visit) -> Redirect | Shown:
    """Restore the text of a version, which grants what it needs; or show why not."""
    kind, fields = visit.fields.get("kind") or None, visit.fields
    which = {"version": fields.get("version"), "digest": fields.get("digest") or None}
    try:
        done = await visit.act("take_back_edit", name=visit.path["name"], kind=kind, **which)
    except RequestError as error:
        return await _editor(visit, kind, problem=str(error))
    return _saved(visit, kind, done)


def _saved(visit: Visit, kind: str | None, done: dict[str, Any]) -> Redirect:
    address = f"/definitions/{segment(visit.path['name'])}/edit"
    return Redirect(visit.url(address, kind=kind, saved=done["version"], asked=" ".join(done["asked"])))


async def _editor(visit: Visit, kind: str | None, *, problem: str = "", is_typed: bool = False) -> Shown:
    """The page, with the typed text, or that of the file."""
    name = visit.path["name"]
    row = await visit.ask("edit", name=name, kind=kind)
    text = visit.fields.get("edited") if is_typed else row["text"]
    try:
        judged = await visit.ask("check_edit", name=name, kind=kind, text=text)
    except NarvalError as error:
        problem, judged = problem or str(error), None
    opened = visit.fields.get("digest") if is_typed else row["digest"]
    lines = text.splitlines()
    faults = judged["faults"] if judged else []
    values = {
        "edited": {**row, "text": text, "digest": opened},
        "is_altered": opened != row["digest"],
        "digest_now": row["digest"],
        "judged": judged,
        "faults": [{**one, "text": _line(lines, one["line"])} for one in faults],
        "is_sound": judged is not None and all(fault["warning"] for fault in faults),
        "told": _by_definition(judged["told"]) if judged else [],
        "diff": [(line_look(line), line) for line in judged["diff"].splitlines()] if judged else [],
        "saved": next((one for one in row["versions"] if one["version"] == visit.query.get("saved")), None),
        "asked": visit.query.get("asked", "").split(),
        "can_simulate": row["path"].endswith(".xml"),
        "given": {field: visit.fields.get(field) for field in ("xml", "elements")},
        "problem": problem,
        "here": "/definitions",
    }
    if not visit.live:
        with suppress(NarvalError):  # a file that did not load has no inputs yet
            values |= await form_of(visit, name)
    return Shown("edit.html", values, row, status=400 if problem else 200)


def _by_definition(rows: list[dict[str, Any]]) -> list[tuple[str, Any]]:
    """The sentences of each definition of the file, with its kind and name."""
    grouped = groupby(rows, key=lambda row: f"{row['kind']} {row['definition']}")
    return [(named, nested(list(of_it))) for named, of_it in grouped]


def _line(lines: list[str], number: int) -> str:
    """The text of a line of the form, by its number from 1."""
    return lines[number - 1].strip() if 0 < number <= len(lines) else ""
