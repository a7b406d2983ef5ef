"""Drafting for clients of a daemon: a child has the model draft, and the folder shows the progress."""

from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path

from narval.ask.asker import PROGRAM, Asker
from narval.ask.definitions.proposing import home_of
from narval.ask.lookup import find_definition
from narval.ask.registry import operation
from narval.ask.trials import child_program
from narval.ask.trials.trials import home_options
from narval.core.errors import RequestError, SettingsError
from narval.daemon.daemon import Daemon
from narval.files.outside.services import LanguageModel
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
"""The most proposals that are drafted at once."""

SECONDS = 1800.0
"""The longest time for drafting one, and its processor time, in seconds."""

PACE = 0.5
"""Seconds between two checks of the progress."""


class Drafts(child_program.FollowedChildren[child_program.Followed]):
    """The child programs that draft, by the name of the proposal."""


@operation("write")
async def draft(
    daemon: Daemon, wish: str, change: str | None = None, *, asker: Asker = PROGRAM
) -> dict[str, str]:
    """Have the model of `[propose]` draft what a person wishes, or the `change` of a definition of the home;
    returns `{"name"}`, the proposal, which shows the progress.

    A child program does it, like `narval propose`. Raises RequestError if no model is set up, or two
    proposals are being drafted already.
    """
    home, drafts = home_of(daemon), _drafts(daemon)
    changed = find_definition(daemon, change, None) if change else None
    by = str(asker)

    def prepared() -> tuple[Wish, LanguageModel]:
        try:
            model = model_of(Settings.load(home.path))
        except SettingsError as error:
            raise RequestError(f"etc/narval.toml has faults; correct them first: {error}") from None
        of = change_of(home, changed.full_name, changed.kind, changed.path) if changed is not None else None
        return Wish(text=wish, change=of, by=by), model

    _raise_if_full(drafts)
    to_draft, model = await asyncio.to_thread(prepared)
    await daemon.host.submit(lambda _: None)  # consumes the chat message: it starts one draft
    proposal = await asyncio.to_thread(begin_proposal, home, to_draft, model)
    await _begin(daemon, proposal)
    return {"name": proposal.name}


@operation("write")
async def go_on_drafting(daemon: Daemon, name: str, answers: list[str]) -> dict[str, str]:
    """Continue a proposal that asks questions, with an answer to each, or one that failed.

    Raises RequestError for a proposal in any other state.
    """
    home, drafts = home_of(daemon), _drafts(daemon)
    proposal = await asyncio.to_thread(proposal_named, home.path, name)
    if (before := drafts.by_name.get(name)) is not None and before.task is not None:
        await asyncio.wait([before.task])  # it has written everything, and is about to end
    about = await asyncio.to_thread(proposal.about)
    questions = about.get("questions") or []
    if about.get("state") not in (ASKS, FAILED):
        raise RequestError(f"proposal {name} asks nothing: it is {about.get('state')}")
    if len(answers) != len(questions) or not all(answer.strip() for answer in answers):
        raise RequestError(f"expected {len(questions)} answers, one for each question")
    if sum(map(len, answers)) > LONGEST_WISH:
        raise RequestError(f"expected answers of at most {LONGEST_WISH:,} characters")
    _raise_if_full(drafts)
    answered = [list(pair) for pair in zip(questions, answers, strict=True)] or about.get("answers", [])
    about |= {"state": DRAFTING, "pid": os.getpid(), "why": None, "answers": answered, "questions": []}
    await asyncio.to_thread(proposal.note, about)
    await _begin(daemon, proposal)
    return {"name": name}


@operation("write")
async def end_drafting(daemon: Daemon, name: str, *, asker: Asker = PROGRAM) -> dict[str, str]:
    """End the drafting of a proposal, which keeps the rounds so far and may be continued later; an ended one
    stays unchanged: `{"name", "state"}`.

    Raises RequestError if there is no such proposal, or another program drafts it.
    """
    home, drafts = home_of(daemon), _drafts(daemon)
    proposal = await asyncio.to_thread(proposal_named, home.path, name)
    current = drafts.by_name.get(name)
    if current is not None:
        await current.end(asker.person)
    state = str((await asyncio.to_thread(proposal.about)).get("state"))
    if state == DRAFTING:
        raise RequestError(f"proposal {name} is drafted by another program, such as a terminal: end it there")
    return {"name": name, "state": state}


def _drafts(daemon: Daemon) -> Drafts:
    return child_program.children_of(daemon, Drafts)


def _raise_if_full(drafts: Drafts) -> None:
    if len(drafts.by_name) >= AT_ONCE:
        raise RequestError(
            f"{len(drafts.by_name)} proposals are being drafted, the limit: end one, or wait for its end"
        )


async def _begin(daemon: Daemon, proposal: Proposal) -> None:
    arguments = [*home_options(daemon), "propose", f"--go-on={proposal.name}", "--json"]
    child = await child_program.begin(arguments, SECONDS, longest=child_program.LONGEST)
    drafts, draft = _drafts(daemon), child_program.Followed(child)
    task = draft.follow(_follow(daemon, proposal, draft))
    drafts.by_name[proposal.name] = draft
    task.add_done_callback(lambda done: drafts.by_name.pop(proposal.name, None))


async def _follow(daemon: Daemon, proposal: Proposal, draft: child_program.Followed) -> None:
    """Report the progress of a child to viewers, until it has ended."""
    child = draft.child
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
    is_left = about.get("state") == DRAFTING or (about.get("state") == FAILED and about.get("pid"))
    if is_left or (draft.ending and about.get("state") == FAILED):
        why = draft.ending or child_program.why_ended(complaint, child.returncode, SECONDS)
        log.log(logging.INFO if draft.ending else logging.WARNING, "proposal %s: %s", proposal.name, why)
        await asyncio.to_thread(proposal.note, {**about, "state": FAILED, "why": why, "pid": None})
    _tell(daemon)


def _changed_at(file: Path) -> float:
    try:
        return file.stat().st_mtime
    except OSError:
        return 0.0


def _tell(daemon: Daemon) -> None:
    daemon.agents.own.waiters.news.note_jobs(daemon.rounds.clock.now())
