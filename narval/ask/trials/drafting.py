"""Drafting for those who ask a daemon: a child has the model draft, and the folder says how far it is."""

from __future__ import annotations

import asyncio
import logging
import os
from asyncio.subprocess import Process
from pathlib import Path

from narval.agent.agent import AgentState
from narval.ask.asker import PROGRAM, Asker
from narval.ask.definitions.one import find_definition
from narval.ask.definitions.proposing import home_of
from narval.ask.registry import operation
from narval.ask.trials import child_program
from narval.ask.trials.trials import home_options
from narval.core.errors import RequestError, SettingsError
from narval.daemon.daemon import Daemon
from narval.files.proposals.folder import (
    ABOUT,
    ASKS,
    DRAFTING,
    FAILED,
    LONGEST_WISH,
    Proposal,
    proposal_named,
)
from narval.files.proposals.wish import Wish, begin_proposal, change_of, model_of
from narval.files.settings import Settings

log = logging.getLogger("narval.daemon")

AT_ONCE = 2
"""The proposals that are drafted at once for those who ask."""

SECONDS = 1800.0
"""The time that drafting one may take, and that it may take of the processor."""

PACE = 0.5
"""Seconds between two looks at how far it is."""


class Drafts:
    """The child programs that draft; they end with the daemon."""

    def __init__(self, agent: AgentState) -> None:
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self.ends_with_daemon = False

    async def close(self) -> None:
        """End all that are under way."""
        for task in self.tasks.values():
            task.cancel()
        await asyncio.gather(*self.tasks.values(), return_exceptions=True)


@operation("write")
async def draft(
    daemon: Daemon, wish: str, change: str | None = None, *, asker: Asker = PROGRAM
) -> dict[str, str]:
    """Have the model of `[propose]` draft what somebody wishes, or the `change` of a definition of the home:
    `{"name"}` of the proposal, which says how far it is.

    A child program does it, as `narval propose` does. Raises RequestError where no model is set up, and where
    two are drafted already.
    """
    home, drafts = home_of(daemon), _drafts(daemon)
    changed = find_definition(daemon, change, None) if change else None
    by = str(asker)

    def begun() -> Proposal:
        try:
            model = model_of(Settings.load(home.path))
        except SettingsError as error:
            raise RequestError(f"etc/narval.toml has faults, set them right first: {error}") from None
        of = change_of(home, changed.full_name, changed.kind, changed.path) if changed is not None else None
        return begin_proposal(home, Wish(text=wish, change=of, by=by), model)

    _raise_if_full(drafts)
    proposal = await asyncio.to_thread(begun)
    await _begin(daemon, proposal, [])
    return {"name": proposal.name}


@operation("write")
async def go_on_drafting(daemon: Daemon, name: str, answers: list[str]) -> dict[str, str]:
    """Go on with a proposal that asks something, with an answer to each question, or with one that failed.

    Raises RequestError for a proposal that does neither.
    """
    home, drafts = home_of(daemon), _drafts(daemon)
    proposal = await asyncio.to_thread(proposal_named, home.path, name)
    if (before := drafts.tasks.get(name)) is not None:
        await asyncio.wait([before])  # it has said all, and is about to end
    about = await asyncio.to_thread(proposal.about)
    questions = about.get("questions") or []
    if about.get("state") not in (ASKS, FAILED):
        raise RequestError(f"proposal {name} asks nothing: it is {about.get('state')}")
    if len(answers) != len(questions) or not all(answer.strip() for answer in answers):
        raise RequestError(f"expected {len(questions)} answers, one for each question")
    if sum(map(len, answers)) > LONGEST_WISH:
        raise RequestError(f"expected answers of at most {LONGEST_WISH:,} characters")
    _raise_if_full(drafts)
    await asyncio.to_thread(proposal.note, {**about, "state": DRAFTING, "pid": os.getpid()})
    await _begin(daemon, proposal, answers)
    return {"name": name}


def _drafts(daemon: Daemon) -> Drafts:
    drafts = daemon.agents.own.listings.kept(Drafts)
    if not drafts.ends_with_daemon:
        daemon.end_with(drafts.close)
        drafts.ends_with_daemon = True
    return drafts


def _raise_if_full(drafts: Drafts) -> None:
    if len(drafts.tasks) >= AT_ONCE:
        raise RequestError(f"{len(drafts.tasks)} proposals are drafted, and no more may be: wait for one")


async def _begin(daemon: Daemon, proposal: Proposal, answers: list[str]) -> None:
    options = [f"--answer={answer}" for answer in answers]
    arguments = [*home_options(daemon), "propose", f"--go-on={proposal.name}", *options, "--json"]
    child = await child_program.begin(arguments, SECONDS, longest=child_program.LONGEST)
    drafts = _drafts(daemon)
    task = asyncio.create_task(_follow(daemon, proposal, child))
    drafts.tasks[proposal.name] = task
    task.add_done_callback(lambda done: drafts.tasks.pop(proposal.name, None))


async def _follow(daemon: Daemon, proposal: Proposal, child: Process) -> None:
    """Tell those who look at it how far a child is, until it has ended."""
    assert child.stdout is not None
    assert child.stderr is not None
    said = asyncio.gather(child_program.last_of(child.stdout), child_program.last_of(child.stderr))
    file, before = proposal.folder / ABOUT, 0.0
    try:
        async with asyncio.timeout(SECONDS):
            while child.returncode is None:
                changed = await asyncio.to_thread(_changed_at, file)
                if changed != before:
                    before = changed
                    _tell(daemon)
                await asyncio.wait([asyncio.ensure_future(child.wait())], timeout=PACE)
    except TimeoutError:
        log.warning("proposal %s: its drafting took too long, and was ended", proposal.name)
    finally:
        await child_program.end(child)
    complaint = (await said)[1].strip()
    about = await asyncio.to_thread(proposal.about)
    if about.get("state") == DRAFTING or (about.get("state") == FAILED and about.get("pid")):
        why = child_program.why_ended(complaint, child.returncode, SECONDS)
        log.warning("proposal %s: %s", proposal.name, why)
        await asyncio.to_thread(proposal.note, {**about, "state": FAILED, "why": why, "pid": None})
    _tell(daemon)


def _changed_at(file: Path) -> float:
    try:
        return file.stat().st_mtime
    except OSError:
        return 0.0


def _tell(daemon: Daemon) -> None:
    daemon.agents.own.waiters.news.note_jobs(daemon.rounds.clock.now())
