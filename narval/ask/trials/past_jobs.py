"""Jobs: trials on the past, which child programs of the daemon run, with visible progress.

A job ends with the daemon. Its report is kept for a day, like other results.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import tempfile
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from narval.agent.agent import AgentState
from narval.ask import json_forms
from narval.ask.asker import PROGRAM, Asker
from narval.ask.lookup import no_definition
from narval.ask.registry import Form, operation
from narval.ask.trials import child_program
from narval.ask.trials.trials import files_of, home_options
from narval.core.definitions.parsing import suffix_of
from narval.core.engines.registry import runnable
from narval.core.errors import NotFoundError, RequestError
from narval.core.source.text import Source
from narval.core.source.xml import read_xml
from narval.daemon.daemon import Daemon

log = logging.getLogger("narval.daemon")

AT_ONCE, IN_ALL = 2, 4
"""The most jobs under way at once for an agent, and for all agents of a home."""

LISTED = 20
"""The most ended jobs of an agent that are listed."""

SECONDS = 1800.0
"""The longest time of a job, in seconds."""

PATIENCE = 60.0
"""Seconds within which a child reports that it begins, or what is wrong."""

LONGEST_SINCE = 64
"""The most characters of the moment `since`."""


class PastJob(child_program.Followed):
    """A trial on the past of an agent: the request, the child that plays it, and its output so far."""

    def __init__(self, agent: str, asked: Form, by: str, child: Process, now: float) -> None:
        super().__init__(child)
        self.agent = agent
        self.is_kept = False
        """True once its result is in a file."""
        self.form: Form = {
            "job": secrets.token_hex(8),
            "definitions": [],
            "asked": asked,
            "by": by or None,
            "state": "running",
            "why": None,
            "began": json_forms.moment(now),
            "over": None,
            "pid": child.pid,
            "since": None,
            "until": None,
            "read": 0,
            "reached": None,
            "played": 0,
            "arrivals": None,
            "report": None,
        }

    @property
    def id(self) -> str:
        """The identifier."""
        return str(self.form["job"])

    @property
    def key(self) -> str:
        """The key of its stored result."""
        return _key(self.agent, self.id)

    @property
    def is_over(self) -> bool:
        """True once it has ended in any way."""
        return bool(self.form["state"] != "running")

    def finish(self, state: str, why: str | None, now: float) -> None:
        """Record its end; a partial report says why it is incomplete."""
        report = self.form["report"]
        if report is not None and why:
            report["stopped"] = why
        self.form |= {"state": state, "why": why, "over": json_forms.moment(now), "pid": None}


class PastJobs(child_program.FollowedChildren[PastJob]):
    """The trials on the past of a daemon, the oldest first."""

    def __init__(self, agent: AgentState) -> None:
        super().__init__(agent)
        self.beginning: list[str] = []
        """The agents of jobs that are about to begin."""

    def raise_if_full(self, agent: str) -> None:
        """Raise RequestError if an agent, or all of them together, have the most active jobs already."""
        under_way = [job.agent for job in self.by_name.values() if not job.is_over] + self.beginning
        for number, most, whose in (
            (under_way.count(agent), AT_ONCE, f"of {agent} "),
            (len(under_way), IN_ALL, ""),
        ):
            if number >= most:
                raise RequestError(
                    f"{number} trials on the past {whose}are under way, the limit: "
                    "end one of them, or wait for its end"
                )

    def add(self, job: PastJob) -> None:
        """List a job, and forget the oldest ended ones of its agent."""
        self.by_name[job.id] = job
        over = [id for id, other in self.by_name.items() if other.agent == job.agent and other.is_over]
        for id in over[:-LISTED]:
            del self.by_name[id]

    def find(self, agent: str, id: str) -> PastJob | None:
        """A job of an agent; None if it does not exist, or no longer."""
        job = self.by_name.get(id)
        return job if job is not None and job.agent == agent else None


@operation("write")
async def try_on_past(
    daemon: Daemon,
    since: str,
    definition: str | None = None,
    text: str | None = None,
    everything: bool = False,
    proposal: str | None = None,
    *,
    asker: Asker = PROGRAM,
) -> dict[str, Any]:
    """Start a job that replays what came since a day against a definition, by its name or as the text of a
    file, or against a proposal.

    A child program runs it like `narval simulate --since`. An agent may have two active at once, each for
    half an hour and with 512 MB at most. `everything` keeps a line for each deed, not only for the newest
    fifty. The answer is that of `job`. An invalid moment or text is refused at once.
    """
    if proposal is None and (definition is None) == (text is None):
        raise RequestError("expected a definition or the text of one, one of the two")
    if proposal is not None and (definition, text) != (None, None):
        raise RequestError("expected a proposal, or a definition or the text of one, found several")
    if definition is not None and runnable(daemon.agent.library, definition) is None:
        raise no_definition(daemon, definition)
    if not since.strip() or not since.isprintable() or len(since) > LONGEST_SINCE:
        raise RequestError("expected a duration such as 90d, or a date such as 2026-09-01, to begin with")
    files_of(daemon)
    jobs, agent = _jobs(daemon), daemon.name
    jobs.raise_if_full(agent)
    jobs.beginning.append(agent)
    try:
        asked = {"definition": definition, "since": since.strip(), "everything": everything}
        asked |= {"proposal": proposal} if proposal is not None else {}
        job = await _begun(daemon, asked, text, asker.person)
        jobs.add(job)
    finally:
        jobs.beginning.remove(agent)
    log.info("trial on the past %s of %s began", job.id, ", ".join(job.form["definitions"]))
    return dict(job.form)


async def _begun(daemon: Daemon, asked: Form, text: str | None, person: str) -> PastJob:
    """A job whose child has reported what it plays. Raises RequestError if it reports what is wrong."""
    options = [f"--since={asked['since']}", "--progress", *(["--all"] if asked["everything"] else [])]
    with tempfile.TemporaryDirectory(prefix="narval-trial-") as folder:
        name = asked["definition"]
        if text is not None:
            path = Path(folder) / f"text{await asyncio.to_thread(_suffix, text)}"
            await asyncio.to_thread(path.write_text, text, encoding="utf-8")
            name = str(path)
        proposal = asked.get("proposal")
        played = ["proposals", "try"] if proposal else ["simulate"]
        arguments = [*home_options(daemon), *played, *options, "--", proposal or str(name)]
        child = await child_program.begin(arguments, SECONDS, longest=child_program.LONGEST)
        assert child.stderr is not None
        complaint = asyncio.create_task(child_program.last_of(child.stderr))
        job = PastJob(daemon.name, asked, person, child, daemon.rounds.clock.now())
        try:
            async with asyncio.timeout(PATIENCE):
                first = await _line(child)
            if first is None:
                await child_program.end(child)
                why = child_program.why_ended(await complaint, child.returncode, SECONDS)
                raise RequestError(why.replace(f"{folder}/", ""))
            job.form |= first
            keep = partial(files_of(daemon).keep, job.key, None)
            await asyncio.to_thread(keep, {**job.form, **_ABANDONED}, daemon.rounds.clock.now())
        except BaseException as error:
            await child_program.end(child)
            if isinstance(error, TimeoutError):
                raise RequestError(f"it did not begin within {PATIENCE:.0f} s: try again later") from None
            if isinstance(error, OSError):
                raise RequestError(f"its report could not be kept: {error}") from None
            raise
    job.follow(_play(daemon, job, complaint))
    return job


_ABANDONED: Form = {"state": "stopped", "why": "the daemon ended, and the trial with it", "pid": None}
"""The ending stored while a job is active, in case the daemon is killed."""


def _suffix(text: str) -> str:
    """The suffix for a file with a text. Raises DefinitionError."""
    if not text.lstrip().startswith("<"):
        return ".task"
    return suffix_of(read_xml(Source.of_text("text.xml", text)).tag)


async def _line(child: Process) -> Form | None:
    """The next line of a child; None at its end. Raises RequestError if it is too long."""
    assert child.stdout is not None
    try:
        line = await child.stdout.readline()
    except ValueError:
        most = f"{child_program.LONGEST // 1_000_000} MB"
        raise RequestError(f"its report is longer than {most}: ask for the newest deeds alone") from None
    try:
        form: Form | None = msgspec.json.decode(line) if line else None
    except msgspec.DecodeError:  # it ended within the line
        return None
    return form


async def _lines(child: Process) -> AsyncIterator[Form]:
    while (form := await _line(child)) is not None:
        yield form


async def _play(daemon: Daemon, job: PastJob, complaint: asyncio.Task[str]) -> None:
    """Follow a child until it has ended, then keep the result."""
    state, why = "failed", ""
    is_whole = False
    try:
        async with asyncio.timeout(SECONDS):
            async for form in _lines(job.child):
                is_whole = form.pop("last", False)
                job.form |= form
                _tell(daemon, job)
    except TimeoutError:
        state, why = "stopped", f"it was ended after {SECONDS / 60:.0f} minutes"
    except RequestError as error:
        why = str(error)
    finally:
        await child_program.end(job.child)
    if is_whole:
        stopped = job.form["report"]["stopped"]
        state, why = ("stopped", job.ending or stopped) if stopped else ("ended", "")
    elif job.ending:
        state, why = "stopped", job.ending
    elif not why:
        why = child_program.why_ended(await complaint, job.child.returncode, SECONDS)
    job.finish(state, why or None, daemon.rounds.clock.now())
    log.info("trial on the past %s: %s%s", job.id, state, f", {why}" if why else "")
    await _keep(daemon, job)
    _tell(daemon, job)


async def _keep(daemon: Daemon, job: PastJob) -> None:
    """Move the report of an ended job from memory into a file."""
    try:
        keep = partial(files_of(daemon).keep, job.key, None, dict(job.form))
        await asyncio.to_thread(keep, daemon.rounds.clock.now())
    except OSError as error:
        log.warning("the report of trial on the past %s could not be kept: %s", job.id, error)
    else:
        job.form["report"], job.is_kept = None, True


def _tell(daemon: Daemon, job: PastJob) -> None:
    """Notify followers of the agent that a job has made progress."""
    agents = daemon.agents
    own = job.agent == daemon.files.settings.name
    host = agents.own if own else agents.supervisor.host(job.agent)
    if host is not None:  # otherwise nothing follows it
        host.waiters.news.note_jobs(daemon.rounds.clock.now())


@operation("read")
async def job(daemon: Daemon, job: str) -> dict[str, Any]:
    """A trial on the past: its state, its progress, and the report, even a partial one.

    `state` is `running`, `ended`, `stopped` (by a person or the daemon: `why`) or `failed`. `reached` is a
    moment of the past; `played` of `arrivals` were played; `report` has the form of `narval simulate --since
    --json`. It is kept for a day after the end.
    """
    return await form_of(daemon, job)


async def form_of(daemon: Daemon, job: str) -> Form:
    """The form of a job. Raises RequestError if there is none."""
    current = _jobs(daemon).find(daemon.name, job)
    if current is not None and not current.is_kept:
        return dict(current.form)
    key, now = _key(daemon.name, job), daemon.rounds.clock.now()
    form = await asyncio.to_thread(files_of(daemon).get, key, None, now)
    if form is None:
        raise NotFoundError(f"there is no job {job!r:.40}: a report is kept for a day")
    return form


@operation("read")
async def jobs(daemon: Daemon, definition: str | None = None) -> list[dict[str, Any]]:
    """The trials on the past since the daemon began, the newest first, without their reports; all, or those
    of one definition.
    """
    rows = [job.form for job in _jobs(daemon).by_name.values() if job.agent == daemon.name]
    return [
        {name: value for name, value in form.items() if name != "report"}
        for form in reversed(rows)
        if definition is None or definition in form["definitions"]
    ]


@operation("write")
async def end_job(daemon: Daemon, job: str, *, asker: Asker = PROGRAM) -> dict[str, Any]:
    """End a trial on the past, with the report so far; an ended one stays unchanged.

    The answer is that of `job`.
    """
    if (current := _jobs(daemon).find(daemon.name, job)) is not None:
        await current.end(asker.person)
    return await form_of(daemon, job)


def _jobs(daemon: Daemon) -> PastJobs:
    return child_program.children_of(daemon, PastJobs)


def _key(agent: str, id: str) -> str:
    return f"job {agent} {id}"
