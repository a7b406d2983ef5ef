"""The pages for trying things out: simulations with their changes, explorations, and trials on the past."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from itertools import groupby
from typing import Any

from narval.core.errors import DefinitionError, ElementError, NarvalError, RequestError
from narval.surfaces.http.page import OPERATORS, Follows, Redirect, Shown, Visit, act, page, segment
from narval.surfaces.web.pages.definitions import JOB_TONES, shown_definition
from narval.surfaces.web.pages.run_acts import elements_given, form_of

FIELDS = (
    "definition", "scenario", "name", "xml", "elements", "start", "duration", "memory", "edits", "edited",
)  # fmt: skip

LINES = 1_000
"""The most lines of a story on its page; `.json` has all."""

LISTED = 100
"""The most elements, calls and items listed of those that a simulation would make."""


@page("/a/{agent}/simulate", roles=OPERATORS, command="narval simulate")
async def simulate_page(visit: Visit) -> Shown:
    """Show the form of a simulation: a definition or a scenario, its start and its duration."""
    fields = {"definition": visit.query.get("definition", ""), "name": visit.query.get("scenario", "")}
    return await _form(visit, fields, "")


@page("/a/{agent}/simulate/{trial}", roles=OPERATORS, command="narval simulate")
async def trial_page(visit: Visit) -> Shown:
    """Show the result of a simulation: what would change, and the story."""
    answer = await visit.ask("trial", trial=visit.path["trial"])
    asked, report = answer["asked"], answer["report"]
    if "migrated" in asked:
        raise RequestError("this is of runs that would migrate: the page of the run shows it")
    lines = report["happened"][:LINES]
    fields = {name: asked[name] or "" for name in ("definition", "start", "duration", "memory")}
    scenario = asked["scenario"] or ""
    fields["scenario" if scenario.lstrip().startswith("<") else "name"] = scenario
    fields["xml"] = "\n".join(asked["elements"])
    if asked["edited"]:
        fields |= {"edits": asked["definition"], "edited": next(iter(asked["edited"].values()))}
    values = {
        "trial": answer["trial"],
        "asked": asked,
        "report": report,
        "changes": report["changes"],
        "days": [(day, list(of_day)) for day, of_day in groupby(lines, lambda line: line["at"][:10])],
        "left_out": len(report["happened"]) - len(lines),
        "given": {name: fields.get(name, "") for name in FIELDS},
        "names": await visit.ask("scenarios"),
        "listed": LISTED,
        "here": "/definitions",
    }
    return Shown("trial.html", values, report)


@act("/a/{agent}/definitions/{name}/explore")
async def explore(visit: Visit) -> Redirect | Shown:
    """Explore a definition, and redirect to its page, which shows the findings."""
    kind, name = visit.fields.get("kind"), visit.path["name"]
    try:
        await visit.act("explore", kind=kind, name=name)
    except RequestError as error:
        return await shown_definition(visit, name, kind, str(error))
    return Redirect(visit.url(f"/definitions/{segment(name)}", kind=kind))


@act("/a/{agent}/simulate")
async def simulate(visit: Visit) -> Redirect | Shown:
    """Simulate, within the time limit of a simulation, and redirect to the result."""
    values = {name: visit.fields.get(name) for name in FIELDS}
    try:
        done = await visit.act("simulate", **await _asked(visit, values))
    except (RequestError, ElementError) as error:
        return await _form(visit, values, str(error))
    return Redirect(visit.url(f"/simulate/{done['trial']}"))


async def _asked(visit: Visit, values: Mapping[str, str]) -> dict[str, Any]:
    """The arguments of the operation, from the fields of the form. Raises NarvalError."""
    asked: dict[str, Any] = {name: values[name].strip() or None for name in ("start", "duration")}
    scenario = values["scenario"].strip() or values["name"].strip()
    if values["definition"].strip():
        asked["definition"] = values["definition"].strip()
        asked["elements"] = await elements_given(visit, values)
        asked["memory"] = values["memory"] or "now"
    if scenario:
        asked["scenario"] = scenario
    if values["edits"]:
        path, text = await _file(visit, values["edits"])
        if path and values["edited"].splitlines() != text.splitlines():
            asked["edited"] = {path: "\n".join(values["edited"].splitlines()) + "\n"}
    return asked


async def _form(visit: Visit, filled: dict[str, str], problem: str) -> Shown:
    """The form as it was filled in."""
    fields = {name: filled.get(name, "") for name in FIELDS}
    if fields["definition"] and not fields["edits"]:
        path, fields["edited"] = await _file(visit, fields["definition"])
        fields["edits"] = fields["definition"] if path else ""
    names = await visit.ask("scenarios")
    values = {"given": fields, "names": names, "problem": problem, "here": "/definitions"}
    if fields["definition"]:
        with suppress(NarvalError):  # the simulation reports it
            values |= await form_of(visit, fields["definition"])
    return Shown("simulate.html", values, names, status=400 if problem else 200)


async def _file(visit: Visit, name: str) -> tuple[str, str]:
    """The path and text of the file of a definition; empty if there is none to edit."""
    try:
        definition = await visit.ask("definition", name=name)
    except NarvalError:
        return "", ""
    if (
        not definition["path"].endswith(".xml")
        or "modules" in definition["path"].split("/")
        or not definition["file"]
    ):
        return "", ""
    return definition["path"], definition["file"]["text"]


# --- trials on the past -------------------------------------------------------------------------------------


@act("/a/{agent}/definitions/{name}/past")
async def try_on_past(visit: Visit) -> Redirect | Shown:
    """Start to play a definition on what came since a day, and redirect to the page of its progress."""
    kind, name = visit.fields.get("kind"), visit.path["name"]
    since, everything = visit.fields.get("since"), visit.fields.get("all")
    try:
        job = await visit.act("try_on_past", definition=name, since=since, everything=bool(everything))
    except (RequestError, DefinitionError) as error:
        tried = {"since": since, "all": everything, "problem": str(error)}
        return await shown_definition(visit, name, kind, tried=tried)
    return Redirect(visit.url(f"/past/{job['job']}"))


@page("/a/{agent}/past/{job}", roles=OPERATORS, command="narval simulate NAME --since WHEN")
async def job_page(visit: Visit) -> Shown:
    """Show a trial on the past: its progress, and what the definition would have done so far."""
    job = await visit.ask("job", job=visit.path["job"])
    is_over = job["state"] != "running"
    values = {
        "job": job,
        "is_over": is_over,
        "tone": JOB_TONES[job["state"]],
        "share": _share(job),
        "report": _report(job["report"]) if job["report"] else None,
        "command": f"narval simulate {job['asked']['definition'] or 'FILE'} --since {job['asked']['since']}",
        "here": "/definitions",
    }
    return Shown("past.html", values, job["report"], follows=Follows(jobs=True), over=is_over)


@act("/a/{agent}/past/{job}/end")
async def end_job(visit: Visit) -> Redirect:
    """End a trial on the past, and redirect to its page, which has the report so far."""
    job = await visit.act("end_job", job=visit.path["job"])
    return Redirect(visit.url(f"/past/{segment(job['job'])}"))


def _share(job: dict[str, Any]) -> float | None:
    """The finished share of a trial, 0 to 1, by time and by arrivals; None while the past is read."""
    if not job["reached"]:
        return None
    since, reached, until = (datetime.fromisoformat(job[name]) for name in ("since", "reached", "until"))
    of_time = (reached - since) / (until - since)
    of_arrivals = job["played"] / job["arrivals"] if job["arrivals"] else of_time
    return round((of_time + of_arrivals) / 2, 4)


def _report(form: dict[str, Any]) -> dict[str, Any]:
    """The sentences of a report, as on the terminal, by subject."""
    from narval.surfaces.cli.render import past as sentences  # here: it imports the simulation

    return {
        "known": list(map(_capital, sentences.known(form))),
        "begun": _capital(sentences.begun(form)),
        "failures": list(map(_capital, sentences.failures(form))),
        "done": _capital(sentences.done(form)),
        "newest": _capital(sentences.newest(form)),
        "deeds": [{**deed, "text": sentences.deed_text(deed)} for deed in reversed(form["deeds"])],
        "waiting": _capital(sentences.waiting(form)) if form["under_way"] else "",
        "waits": list(sentences.waits(form)),
        "others": _capital(sentences.others(form)),
        "differences": list(sentences.differences(form)),
        "stopped": _capital(sentences.stopped(form)) if form["stopped"] else "",
    }


def _capital(sentence: str) -> str:
    """A sentence with a capital and without a final colon, as a heading of a page."""
    return sentence[:1].upper() + sentence[1:].removesuffix(":")
