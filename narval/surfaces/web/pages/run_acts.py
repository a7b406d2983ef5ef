"""The acts on one run: start it with elements, cancel it, signal it, move its tokens, migrate it.

The elements that a form gives to a run are chosen for its inputs, named by their numbers, or pasted. A run
migrates to the loaded version, and back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from narval.core.elements.canonical import text_bytes
from narval.core.errors import ElementError, NarvalError, NotFoundError, RequestError
from narval.core.source.secrets import hide_secrets
from narval.surfaces.http.page import OPERATORS, Follows, Redirect, Shown, Visit, act, page, whole_number
from narval.surfaces.web.pages.run import drawing_of, drawing_with

TOKEN_TONES = {
    "active": "active", "delayed": "waiting", "complete": "done", "discarded": "cancelled",
    "skipped": "cancelled", "cancelled": "cancelled", "backtracked": "cancelled", "failed": "failed",
    "held": "waiting",
}  # fmt: skip
"""The tones of the states of tokens."""

TOLD = 500
"""The most characters shown of each answer to a signal."""


@page("/a/{agent}/runs/{run:int}/cancel", roles=OPERATORS, command="narval cancel {run}")
async def cancel_page(visit: Visit) -> Shown:
    """Ask for the reason of a cancellation, and show which calls and runs will be given up."""
    run = await visit.ask("show", run=visit.path["run"])
    why = await visit.ask("why", run=visit.path["run"])
    called = [eid for wait in why["waiting"] for eid in wait.get("runs", ())]
    given_up = [call for call in run["calls"] if call["gave"] is None]
    values = {"run": run, "given_up": given_up, "called": called, "here": "/runs"}
    return Shown("cancel.html", values, run)


@act("/a/{agent}/runs/{run:int}/cancel")
async def cancel_run(visit: Visit) -> Redirect:
    """Cancel a run for a reason."""
    eid = visit.path["run"]
    await visit.act("cancel", run=eid, reason=visit.fields.get("reason"))
    return Redirect(visit.url(f"/runs/{eid}"))


@page("/a/{agent}/runs/{run:int}/signal", roles=OPERATORS, command="narval signal {run} NAME")
async def signal_page(visit: Visit) -> Shown:
    """Show the form for sending a signal to a run."""
    return await _signal(visit, {}, "")


async def _signal(visit: Visit, typed: dict[str, str], problem: str) -> Shown:
    run, answer = await visit.ask("show", run=visit.path["run"]), dict(visit.query)
    fields = {name: typed.get(name, "") for name in ("name", "arguments", "xml")}
    values = {"run": run, "given": fields, "problem": problem, "answer": answer, "here": "/runs"}
    return Shown("signal.html", values, answer or None, status=400 if problem else 200)


@act("/a/{agent}/runs/{run:int}/signal")
async def signal_run(visit: Visit) -> Redirect | Shown:
    """Send a signal to a run, and redirect to its answer, which is in the address."""
    values = {name: visit.fields.get(name) for name in ("name", "arguments", "xml")}
    try:
        answer = await visit.act(
            "signal",
            run=visit.path["run"],
            name=values["name"],
            elements=[text_bytes(values["xml"])] if values["xml"].strip() else None,
            arguments=pairs(values["arguments"]),
        )
    except (RequestError, ElementError) as error:
        return await _signal(visit, values, str(error))
    summary = {name: str(value)[:TOLD] for name, value in answer.items() if name != "run"}
    return Redirect(visit.url(f"/runs/{visit.path['run']}/signal", **summary))


def pairs(text: str) -> dict[str, str]:
    """The attributes in a text, one `NAME=VALUE` for each line. Raises RequestError."""
    named: dict[str, str] = {}
    for number, line in enumerate(filter(str.strip, text.splitlines()), 1):
        name, sign, value = line.partition("=")
        if not sign or not name.strip():
            raise RequestError(f"line {number}: expected NAME=VALUE, got {line!r:.80}")
        named[name.strip()] = value
    return named


@page(
    "/a/{agent}/runs/{run:int}/retry",
    roles=OPERATORS,
    command="narval retry {run} --dry",
    options={"step": "--from", "done": "--done"},
)
async def retry_page(visit: Visit) -> Shown:
    """Show what would be kept, repeated and reused, and which version is followed (M37)."""
    eid, step, done = visit.path["run"], visit.query.get("step") or None, bool(visit.query.get("done"))
    run = await visit.ask("show", run=eid)
    planned, problem = None, ""
    failed = bool(run["error"] and run["error"]["step"])
    try:
        planned = await visit.ask("retry_plan", run=eid, step=step, done=done)
    except RequestError as error:
        problem = str(error)
    drawn = await visit.ask("drawn", run=eid)
    values = {"run": run, "planned": planned, "problem": problem, "step": step or "", "here": "/runs"}
    values["done"] = done
    values["failed"] = failed
    values["parts"] = [part["id"] for part in drawn["parts"] if part["target"]]
    return Shown("retry.html", values, planned, status=400 if problem and (step or failed) else 200)


@act("/a/{agent}/runs/{run:int}/retry")
async def retry_run(visit: Visit) -> Redirect:
    """Begin a run again from a part."""
    step, done = visit.fields.get("step") or None, bool(visit.fields.get("done"))
    begun = await visit.act("retry", run=visit.path["run"], step=step, done=done)
    return Redirect(visit.url(f"/runs/{begun['eid']}"))


@page("/a/{agent}/start/{name}", roles=OPERATORS, command="narval start {name}")
async def start_page(visit: Visit) -> Shown:
    """Show the form for starting a definition (M39)."""
    return await _start(visit, {"xml": visit.query.get("xml", "")}, "")


async def _start(visit: Visit, typed: dict[str, str], problem: str) -> Shown:
    values = {
        "name": visit.path["name"],
        "given": {name: typed.get(name, "") for name in ("xml", "environment", "elements")},
        "problem": problem,
        "here": "/definitions",
        **await form_of(visit, visit.path["name"]),
    }
    return Shown("start.html", values, None, status=400 if problem else 200)


@act("/a/{agent}/start/{name}")
async def start_run(visit: Visit) -> Redirect | Shown:
    """Start a definition with elements that are chosen for its inputs, pasted, or copied from memory."""
    values = {name: visit.fields.get(name) for name in ("xml", "environment", "elements")}
    try:
        run = await visit.act(
            "start",
            name=visit.path["name"],
            elements=await elements_given(visit, values),
            environment=pairs(values["environment"]) or None,
        )
    except (RequestError, ElementError) as error:
        return await _start(visit, values, str(error))
    return Redirect(visit.url(f"/runs/{run['eid']}"))


@page("/a/{agent}/runs/{run:int}/tokens", command="narval tokens {run}", options={"at": "--at"})
async def tokens_page(visit: Visit) -> Shown:
    """Show the tokens of a run that moves tokens, the possible acts on each, and its environment."""
    return await _tokens(visit, "")


async def _tokens(visit: Visit, problem: str) -> Shown:
    eid = visit.path["run"]
    run, tokens = await visit.ask("show", run=eid), await visit.ask("tokens", run=eid, at=visit.number("at"))
    environment = await visit.ask("environment", run=eid)
    drawn = await visit.ask("drawn", run=eid)
    named: dict[str, list[str]] = {}
    for arc in drawn["arcs"]:
        if arc["text"]:
            named.setdefault(arc["from"], []).append(arc["text"])
    values = {
        "run": run,
        "arcs": {node: list(dict.fromkeys(names)) for node, names in named.items()},
        "tokens": hide_secrets(tokens["tokens"]),
        "token_tones": TOKEN_TONES,
        "environment": hide_secrets(environment["environment"]),
        "problem": problem,
        "here": "/runs",
    }
    return Shown(
        "tokens.html",
        values,
        tokens,
        status=400 if problem else 200,
        follows=Follows(run=eid) if "at" not in visit.query else None,
        over=run["phase"] != "active",
    )


@act("/a/{agent}/runs/{run:int}/tokens/{token:int}/{what}")
async def token_act(visit: Visit) -> Redirect | Shown:
    """Complete a token, go back to it, or run its node again; a refusal has the words of the command."""
    eid, what = visit.path["run"], visit.path["what"]
    arguments: dict[str, Any] = {"run": eid, "token": visit.path["token"]}
    arcs = list(filter(None, map(str.strip, visit.fields.get("arcs").split(","))))
    if what == "complete" and arcs:
        arguments["arcs"] = arcs
    if what not in ("complete", "backtrack", "rerun"):
        raise NotFoundError(
            f"there is no act {what!r:.40} on tokens; there are complete, backtrack and rerun"
        )
    try:
        await visit.act(what, **arguments)
    except RequestError as error:
        return await _tokens(visit, str(error))
    return Redirect(visit.url(f"/runs/{eid}/tokens"))


@act("/a/{agent}/runs/{run:int}/environment")
async def set_environment(visit: Visit) -> Redirect | Shown:
    """Set an attribute in the environment of a run."""
    eid, name = visit.path["run"], visit.fields.get("name")
    try:
        await visit.act("set_environment", run=eid, values={name: visit.fields.get("value")})
    except RequestError as error:
        return await _tokens(visit, str(error))
    return Redirect(visit.url(f"/runs/{eid}/tokens"))


# --- what is given to a run ---------------------------------------------------------------------------------


OFFERED = 20
"""The most elements offered for an input, the newest that match."""

CHOSEN = "chosen"
"""The field of the form for each element that is chosen for an input."""


async def form_of(visit: Visit, name: str) -> dict[str, Any]:
    """The inputs of a definition, each with the elements that may be chosen for it; `has_environment` says
    that a run of it may be given attributes. Raises RequestError for an unknown definition.
    """
    definition = await visit.ask("definition", name=name)
    return {
        "inputs": [
            {**row, "offered": await offered(visit, row["match"], OFFERED)} for row in definition["takes"]
        ],
        "has_environment": definition["has_environment"],
        "chosen": frozenset(visit.fields.all(CHOSEN)),
    }


async def offered(visit: Visit, match: list[str], limit: int) -> list[dict[str, Any]]:
    """The newest elements that match the first two patterns (most inputs have no more), with their titles."""
    request = {"xpath": match[0], "among": match[1:2] or None, "current": True, "limit": limit}
    try:
        page = await visit.ask("elements", **request)
    except NarvalError:  # a prefix of the definition, or a variable
        return []
    return [{"eid": row["eid"], "name": row["name"], "title": row["title"]} for row in page["elements"]]


async def elements_given(visit: Visit, values: Mapping[str, str]) -> list[bytes]:
    """The chosen elements, then those that a form names by numbers, then those pasted into it.

    Each is given once. Raises RequestError.
    """
    words = [*filter(None, visit.fields.all(CHOSEN)), *values["elements"].replace(",", " ").split()]
    texts = []
    for word in dict.fromkeys(words):
        eid = whole_number(word)
        if eid is None:
            raise RequestError(f"expected numbers of elements, such as 12 15, got {word!r:.40}")
        texts.append((await visit.ask("element", eid=eid))["xml"])
    texts += [values["xml"]] if values["xml"].strip() else []
    return [text_bytes(text) for text in texts]


# --- migration ----------------------------------------------------------------------------------------------


NAMED = "name "
"""The prefix of the fields with the new name of a part; the rest is its old name."""

DURATIONS = ("7d", "30d", "90d", "365d")
"""The periods for which it can be simulated."""


@page("/a/{agent}/runs/{run:int}/migrate", roles=OPERATORS, command="narval migrate {run} --dry-run")
async def migrate_page(visit: Visit) -> Shown:
    """Show the fate of each part in the loaded version, with both graphs side by side."""
    names = {key.removeprefix(NAMED): to for key, to in visit.query.items() if key.startswith(NAMED) and to}
    simulated, duration = None, DURATIONS[1]
    if trial := visit.query.get("trial"):
        result = await visit.ask("trial", trial=trial)
        asked = result["asked"]
        if asked.get("migrated") != [visit.path["run"]]:
            raise RequestError(f"the result {trial!r:.40} is of something else than this run")
        simulated, names, duration = result["report"].get("simulated"), asked["names"], asked["duration"]
    return await _plan(visit, names, simulated=simulated, duration=duration)


async def _plan(
    visit: Visit,
    names: dict[str, str],
    problem: str = "",
    simulated: dict[str, Any] | None = None,
    duration: str = DURATIONS[1],
) -> Shown:
    """The page, with a problem or the result of a simulation."""
    eid = visit.path["run"]
    run, answer = await asyncio.gather(
        visit.ask("show", run=eid), visit.ask("migration_plan", run=eid, names=names)
    )
    before, after, plan = answer["before"], answer["after"], answer["planned"]
    drawings: list[Any] = [None, None]
    left: list[str] = []
    places: list[str] = []
    if plan is not None:
        drawings = [
            await drawing_of(visit, before, f"/runs/{eid}/parts/"),
            await drawing_with(visit, after, lambda part: "#after-table"),  # its parts have no pages yet
        ]
        ids, ids_now = ([one["id"] for one in graph["parts"]] for graph in (before, after))
        keeping = {part["part"] for part in plan["kept"]}
        left = [id for id in ids if id not in ids_now]
        left += [place["part"] for place in plan["refused"] if place["part"] not in (*left, "")]
        left += [old for old in names if old not in left]
        places = [id for id in ids_now if id not in ids]
        places += [id for id in (*plan["new"], *names.values()) if id not in places]
        left = [id for id in left if id not in keeping or id in names]
    values = {
        "run": run,
        "answer": answer,
        "planned": plan,
        "names_text": "\n".join(f"{old}={new}" for old, new in names.items()),
        "sentences": [(row["change"], row["depth"], row["text"]) for row in answer["differences"]],
        "names": names,
        "drawings": drawings,
        "left": left,
        "places": places,
        "named": NAMED,
        "problem": problem,
        "simulated": simulated,
        "durations": DURATIONS,
        "duration": duration,
        "here": "/runs",
    }
    return Shown("migrate.html", values, answer, status=400 if problem else 200)


def _names(visit: Visit) -> dict[str, str]:
    """The names in a form, one OLD=NEW for each line."""
    lines = (line.partition("=") for line in visit.fields.get("names").splitlines() if line.strip())
    return {old: new for old, _, new in lines}


@act("/a/{agent}/runs/{run:int}/migrate")
async def migrate_run(visit: Visit) -> Redirect | Shown:
    """Migrate a run to the version that was shown."""
    eid, names = visit.path["run"], _names(visit)
    if not (version := visit.fields.get("version")):
        raise RequestError("expected the version that was shown")
    answer = await visit.act("migrate", runs=[str(eid)], names=names, version=version)
    (row,) = answer["runs"]
    if row["outcome"] not in ("migrated", "failed"):
        why = "; ".join(place["why"] for place in row.get("refused", ())) or "the run has moved meanwhile"
        return await _plan(visit, names, f"{why}; this is what would happen now")
    return Redirect(visit.url(f"/runs/{eid}"))


@act("/a/{agent}/runs/{run:int}/migrate/undo")
async def undo_migration(visit: Visit) -> Redirect | Shown:
    """Return a run to the version and the state before its migration."""
    eid = visit.path["run"]
    answer = await visit.act("migrate", runs=[str(eid)], undo=True)
    (row,) = answer["runs"]
    if row["outcome"] == "refused":
        raise RequestError("; ".join(place["why"] for place in row["refused"]))
    return Redirect(visit.url(f"/runs/{eid}"))


@act("/a/{agent}/runs/{run:int}/migrate/simulate")
async def simulate_migration(visit: Visit) -> Redirect | Shown:
    """Simulate both versions, and redirect to the result."""
    eid, names, duration = visit.path["run"], _names(visit), visit.fields.get("duration", DURATIONS[1])
    try:
        answer = await visit.act("simulate_migration", runs=[eid], names=names, duration=duration)
    except RequestError as error:
        return await _plan(visit, names, str(error))
    return Redirect(visit.url(f"/runs/{eid}/migrate", trial=answer["trial"]) + "#future-title")
