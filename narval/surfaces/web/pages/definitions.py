"""The pages of definitions: the loaded ones, one of them, its versions, its grants, and its editor.

The editor previews a text of the file, saves it, and restores a version.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from itertools import groupby
from typing import Any

from narval.ask.text import ways_in
from narval.core.errors import NarvalError, RequestError
from narval.surfaces.http.page import OPERATORS, Follows, Redirect, Shown, Visit, act, page, segment
from narval.surfaces.web.drawing.figures import days
from narval.surfaces.web.pages.run import drawing_of, is_tabled
from narval.surfaces.web.pages.run_acts import form_of

FOUND: Mapping[str, dict[str, str]] = {
    "error": {"tone": "failed", "state": "cannot be"},
    "note": {"tone": "waiting", "state": "noted"},
}
"""The tones of parts with findings of an exploration, by gravity."""

NOT_TRIED: Mapping[str, str] = {"since": "30d", "all": "", "problem": ""}
"""The empty fields of the form that tries a definition on the past."""

JOB_TONES: Mapping[str, str] = {
    "running": "active", "ended": "done", "stopped": "cancelled", "failed": "failed",
}  # fmt: skip
"""The tones of the states of a trial on the past."""

REACH_TONES: Mapping[str, str] = {
    "asked": "waiting", "rejected": "failed", "granted": "done", "ships": "done", "inside": "idle",
    "trusted": "idle",
}  # fmt: skip
"""The tones of the standings of a definition's grants."""

JOBS = 5
"""The most trials on the past that are listed with a definition."""

DIFFERENCE = {"kind": "--kind", "old": "--diff", "new": "--to"}
"""The options of the command for the parameters of a difference."""


@page("/a/{agent}/definitions", command="narval definitions")
async def definitions_page(visit: Visit) -> Shown:
    """List everything loaded, by kind and group, and the faults of files."""
    answer = await visit.ask("definitions")
    kind, words = visit.query.get("kind", ""), visit.query.get("name", "").casefold()
    rows = [
        row for row in answer["definitions"] if kind in ("", row["kind"]) and words in row["name"].casefold()
    ]
    values = {
        "groups": _grouped(rows),
        "faults": [{**one, "url": _place(visit, one, answer["definitions"])} for one in answer["faults"]],
        "kinds": sorted({row["kind"] for row in answer["definitions"]}),
        "kind": kind,
        "name": visit.query.get("name", ""),
        "left_out": len(answer["definitions"]) - len(rows),
        "here": "/definitions",
    }
    return Shown("definitions.html", values, answer, follows=Follows(faults=True, runs=True))


def _place(visit: Visit, fault: Mapping[str, Any], rows: list[dict[str, Any]]) -> str:
    """The page of the definition that contains a fault: the last that begins before it; "" without one."""
    there = [row for row in rows if row["path"] == fault["path"]]
    if not there:
        return ""
    row = max(there, key=lambda row: (row["line"] <= fault["line"], row["line"]))
    return visit.url(f"/definitions/{segment(row['name'])}", kind=row["kind"])


def _grouped(rows: list[dict[str, Any]]) -> list[tuple[str, list[dict[str, Any]]]]:
    """The rows by kind, those with runs first."""
    by_kind: dict[str, list[dict[str, Any]]] = {}
    for row in sorted(rows, key=lambda row: (row["kind"], row["name"])):
        by_kind.setdefault(row["kind"], []).append(row)
    return sorted(by_kind.items(), key=lambda pair: not any(row["ended"] or row["active"] for row in pair[1]))


@page("/a/{agent}/definitions/{name}", command="narval definitions {name}", options={"kind": "--kind"})
async def definition_page(visit: Visit) -> Shown:
    """Show one definition: graph, source, prototype, calls both ways, runs, dates, versions."""
    return await shown_definition(visit, visit.path["name"], visit.query.get("kind") or None)


async def shown_definition(
    visit: Visit, name: str, kind: str | None, problem: str = "", tried: Mapping[str, str] = NOT_TRIED
) -> Shown:
    """The page of a definition, with an optional problem of the last request; `tried` is the content of the
    form that tries it on the past.
    """
    answer = await visit.ask("definition", name=name, kind=kind)
    versions = [] if visit.live else await visit.ask("versions", name=name, kind=kind)
    explored = None if visit.live else await visit.ask("explored", kind=answer["kind"], name=name)
    findings = explored["findings"] if explored else []
    sentences = [] if visit.live else await visit.ask("tell", name=name, kind=answer["kind"])
    jobs = await visit.ask("jobs", definition=name) if visit.visitor.role == "operator" else []
    reached = [] if visit.live else await visit.ask("reach", name=name, kind=answer["kind"])
    drawn = None if visit.live else await _drawn(visit, answer, findings)
    here = f"/definitions/{segment(name)}?kind={segment(answer['kind'])}#"
    drawing = await drawing_of(visit, drawn, here) if drawn else None
    figures = await visit.ask("figures", name=name, kind=answer["kind"]) if answer["lately"] else None
    faults: dict[int, list[str]] = {}
    for fault in (answer["file"] or {}).get("faults", ()):
        faults.setdefault(fault["line"], []).append(f"column {fault['column']}: {fault['message']}")
    values = {
        "definition": answer,
        "told": nested(sentences),
        "reached": [{**call, "lines": nested(call["lines"][1:])} for call in reached],
        "ways": [ways_in(call) for call in reached],
        "source": (answer["source"] or "").splitlines(),
        "file": (answer["file"] or {}).get("text", "").splitlines() if faults else [],
        "faults": faults,
        "versions": versions,
        "explored": explored,
        "findings": findings,
        "drawn": drawn,
        "tabled": drawn is not None and is_tabled(visit, drawn),
        "drawing": drawing,
        "reach": None if visit.live else await _reach(visit, answer),
        "figures": figures,
        "drawn_days": days(figures["days"]) if figures else None,
        "problem": problem,
        "tried": tried,
        "jobs": [{**job, "tone": JOB_TONES[job["state"]]} for job in jobs[:JOBS]],
        "here": "/definitions",
    }
    return Shown(
        "definition.html",
        values,
        answer,
        status=400 if problem or tried["problem"] else 200,
        follows=Follows(faults=True, runs=True, jobs=True),
    )


async def _reach(visit: Visit, definition: dict[str, Any]) -> dict[str, Any] | None:
    """The needs of a definition and its grants; None for one that cannot be run."""
    try:
        answer = await visit.ask("grants", name=definition["name"])
    except NarvalError:
        return None
    rows = [row for row in answer["definitions"] if row["kind"] == definition["kind"]]
    outside = [need for row in rows for need in row["needs"] if need["outside"]]
    return {**rows[0], "outside": outside, "tone": REACH_TONES[rows[0]["standing"]]} if rows else None


def nested(sentences: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sentences, each with its details as `within`."""
    whole: list[dict[str, Any]] = []
    levels = [whole]
    for sentence in sentences:
        del levels[sentence["depth"] + 1 :]
        within: list[dict[str, Any]] = []
        levels[-1].append({**sentence, "within": within})
        levels.append(within)
    return whole


async def _drawn(
    visit: Visit, definition: dict[str, Any], findings: list[dict[str, Any]]
) -> dict[str, Any] | None:
    """The graph of a definition, with the findings on its parts; None for one that cannot be run."""
    try:
        of = {"definition": definition["name"], "kind": definition["kind"]}
        answer: dict[str, Any] = await visit.ask("drawn", **of)
    except NarvalError:
        return None
    grave = {finding["part"]: "note" for finding in findings}
    grave |= {finding["part"]: "error" for finding in findings if finding["severity"] == "error"}
    for part in answer["parts"]:
        if part["id"] in grave:
            part |= FOUND[grave[part["id"]]]
    return answer


@page("/a/{agent}/definitions/{name}/diff", command="narval definitions {name}", options=DIFFERENCE)
async def difference_page(visit: Visit) -> Shown:
    """Show what has changed between two versions of a definition."""
    kind, name = visit.query.get("kind") or None, visit.path["name"]
    old, new = visit.query.get("old", ""), visit.query.get("new") or None
    answer = await visit.ask("difference", name=name, kind=kind, old=old, new=new)
    values = {
        "name": name,
        "old": answer["old"],
        "new": answer["new"],
        "lines": [(line_look(line), line) for line in answer["diff"].splitlines()],
        "here": "/definitions",
    }
    return Shown("difference.html", values, answer)


def line_look(line: str) -> str:
    """The tone of a line of a difference."""
    if line.startswith(("+++", "---")):
        return "dim"
    return {"+": "add", "-": "gone"}.get(line[:1], "")


# --- grants -------------------------------------------------------------------------------------------------


@act("/a/{agent}/definitions/{name}/grant")
async def grant_definition(visit: Visit) -> Redirect:
    """Grant what a definition needs now, as its page shows it."""
    await visit.act("grant", name=visit.path["name"])
    return Redirect(visit.url(f"/definitions/{segment(visit.path['name'])}"))


@act("/a/{agent}/definitions/{name}/revoke")
async def revoke_definition(visit: Visit) -> Redirect:
    """Take back what was granted to a definition; runs under way keep it."""
    await visit.act("revoke", name=visit.path["name"])
    return Redirect(visit.url(f"/definitions/{segment(visit.path['name'])}"))


# --- the editor ---------------------------------------------------------------------------------------------


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
