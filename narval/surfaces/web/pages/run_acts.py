"""The acts on one run: cancel, signal, and those on the tokens of runs that move tokens (M38)."""

from __future__ import annotations

from typing import Any

from narval.core.errors import ElementError, RequestError
from narval.core.source.secrets import hide_secrets
from narval.surfaces.http.page import OPERATORS, Follows, Redirect, Shown, Visit, act, page
from narval.surfaces.web.pages.given import elements_given, form_of

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
            elements=[values["xml"].encode("utf-8", "surrogatepass")] if values["xml"].strip() else None,
            arguments=pairs(values["arguments"]),
        )
    except RequestError as error:
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
    values = {
        "run": run,
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
    if what == "complete" and (arcs := visit.fields.get("arcs").split()):
        arguments["arcs"] = arcs
    if what not in ("complete", "backtrack", "rerun"):
        raise RequestError(f"there is no act {what!r:.40} on tokens; there are complete, backtrack and rerun")
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
