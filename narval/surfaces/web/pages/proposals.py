"""The page "New": a wish in words, and the proposals made from wishes, each with what it would do.

An example that ships is another way to begin: its page shows what it does, its files, and its scenarios.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import groupby
from operator import itemgetter
from typing import Any

from narval.core.errors import NarvalError, RequestError, SurroundingsError
from narval.surfaces.http.page import OPERATORS, Follows, Redirect, Shown, Visit, act, page, segment
from narval.surfaces.web.pages.definitions import nested
from narval.surfaces.web.pages.run import drawing_of

TONES = {
    "drafting": "active", "asks": "waiting", "ready": "waiting", "faulty": "failed", "failed": "failed",
    "accepted": "done",
}  # fmt: skip
"""The tone of each state of a proposal."""

MOST_GRAPHS = 12
"""The most graphs drawn for one proposal or example."""


@page("/a/{agent}/proposals", roles=OPERATORS, command="narval proposals")
async def proposals_page(visit: Visit) -> Shown:
    """Show a form for a wish, and the existing proposals."""
    return await _listed(visit)


@act("/a/{agent}/proposals")
async def propose(visit: Visit) -> Redirect | Shown:
    """Have a model draft definitions from a wish, and redirect to the page of its progress."""
    wish, change = visit.fields.get("wish"), visit.fields.get("change")
    try:
        begun = await visit.act("draft", wish=wish, change=change or None)
    except RequestError as error:
        return await _listed(visit, wish, change, str(error))
    return Redirect(visit.url(f"/proposals/{segment(begun['name'])}"))


@page("/a/{agent}/proposals/{name}", roles=OPERATORS, command="narval proposals show {name}")
async def proposal_page(visit: Visit) -> Shown:
    """Show a proposal: unnamed acts outside, what it does, its needs, and findings."""
    name = visit.path["name"]
    row = await visit.ask("proposal", name=name)
    values: dict[str, Any] = {
        "proposal": row,
        "tone": TONES.get(row["state"], "idle"),
        "outside": list(dict.fromkeys(need["need"] for need in row["needs"] if need["outside"])),
        "past": _sentences(row["past"]["report"]) if row["past"] else [],
        "tried": _tried(row["past"]["report"]) if row["past"] else "",
        "here": "/proposals",
    }
    drawn: list[dict[str, Any]] = []
    if row["state"] in ("ready", "accepted"):
        with suppress(NarvalError):  # they can no longer be drawn
            drawn = await visit.ask("drawn_proposal", name=name)
    here = f"/proposals/{segment(name)}#"
    values["definitions"] = await told_definitions(visit, row["told"], drawn, here)
    is_over = row["state"] != "drafting"
    return Shown("proposal.html", values, row, follows=Follows(jobs=True, faults=True), over=is_over)


@act("/a/{agent}/proposals/{name}/accept")
async def accept_proposal(visit: Visit) -> Redirect:
    """Accept a proposal as its page showed it."""
    name, untried = visit.path["name"], bool(visit.fields.get("untried"))
    await visit.act("accept", name=name, digest=visit.fields.get("digest"), untried=untried)
    return Redirect(visit.url(f"/proposals/{segment(name)}"))


@act("/a/{agent}/proposals/{name}/undo")
async def unaccept_proposal(visit: Visit) -> Redirect:
    """Undo the acceptance of a proposal."""
    await visit.act("unaccept", name=visit.path["name"])
    return Redirect(visit.url(f"/proposals/{segment(visit.path['name'])}"))


@act("/a/{agent}/proposals/{name}/drop")
async def drop_proposal(visit: Visit) -> Redirect:
    """Delete a proposal."""
    await visit.act("drop_proposal", name=visit.path["name"])
    return Redirect(visit.url("/proposals"))


@act("/a/{agent}/proposals/{name}/past")
async def try_proposal(visit: Visit) -> Redirect:
    """Start to play a proposal on the past, and redirect to the page of its progress."""
    job = await visit.act("try_on_past", since=visit.fields.get("since"), proposal=visit.path["name"])
    return Redirect(visit.url(f"/past/{job['job']}"))


@act("/a/{agent}/proposals/{name}/end")
async def end_drafting(visit: Visit) -> Redirect:
    """End the drafting of a proposal; the finished rounds are kept."""
    await visit.act("end_drafting", name=visit.path["name"])
    return Redirect(visit.url(f"/proposals/{segment(visit.path['name'])}"))


@act("/a/{agent}/proposals/{name}/answers")
async def answer_proposal(visit: Visit) -> Redirect:
    """Answer the questions of a proposal, or continue a failed one."""
    name = visit.path["name"]
    await visit.act("go_on_drafting", name=name, answers=visit.fields.all("answer"))
    return Redirect(visit.url(f"/proposals/{segment(name)}"))


async def _listed(visit: Visit, wish: str = "", change: str = "", problem: str = "") -> Shown:
    rows = await visit.ask("proposals")
    listed = [] if visit.live else await visit.ask("examples")
    values = {
        "subjects": [(name, list(some)) for name, some in groupby(listed, itemgetter("subject"))],
        "rows": [{**row, "tone": TONES.get(row["state"], "idle")} for row in rows],
        "wish": wish,
        "change": change,
        "problem": problem,
        "here": "/proposals",
    }
    status = 400 if problem else 200
    return Shown("proposals.html", values, rows, status=status, follows=Follows(jobs=True))


async def told_definitions(
    visit: Visit, lines: list[dict[str, Any]], drawn: list[dict[str, Any]], here: str
) -> list[dict[str, Any]]:
    """The definitions of a proposal or an example, each with its sentences, and its graph if it is among
    those drawn; `here` is the address for the parts of graphs.
    """
    graphs = {(one["kind"], one["name"]): one for one in drawn[:MOST_GRAPHS]}
    definitions = []
    for (kind, name), sentences in groupby(lines, itemgetter("kind", "definition")):
        graph = graphs.get((kind, name))
        drawing = None if graph is None else await drawing_of(visit, graph, here)
        about = {"kind": kind, "name": name, "told": nested(list(sentences))}
        definitions.append({**about, "drawn": graph, "drawing": drawing})
    return definitions


def _sentences(report: dict[str, Any]) -> list[str]:
    """The report of a trial on the past, as on the terminal."""
    from narval.surfaces.cli.render.past import told  # here: it imports the simulation

    return list(told(report))


def _tried(report: dict[str, Any]) -> str:
    """The report in a line."""
    from narval.surfaces.cli.render.past import begun, done

    return f"{begun(report)}; {done(report)}"


# --- examples -----------------------------------------------------------------------------------------------


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
