"""The pages of trials on the past: start one, follow it, end it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from narval.core.errors import DefinitionError, RequestError
from narval.surfaces.http.page import OPERATORS, Follows, Redirect, Shown, Visit, act, page, segment
from narval.surfaces.web.pages.definitions import JOB_TONES, shown_definition


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
