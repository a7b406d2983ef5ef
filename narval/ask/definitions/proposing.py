"""Operations on proposals: definitions that are not accepted yet, kept where nothing runs them."""

from __future__ import annotations

import asyncio
import logging
import shutil
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from narval.agent.agent import AgentState
from narval.ask.asker import PROGRAM, Asker
from narval.ask.definitions.at_once import at_once
from narval.ask.definitions.checking import HomeAsRead, check_texts
from narval.ask.definitions.judging import Judgement, TextsBeside
from narval.ask.json_forms import moment
from narval.ask.registry import operation
from narval.ask.runs.drawing import form, graph_of
from narval.ask.trials.child_program import json_of
from narval.ask.trials.trials import home_options
from narval.core.definitions.library import Definition
from narval.core.engines.registry import engine_of, is_runnable
from narval.core.errors import RequestError, SettingsError
from narval.daemon.daemon import Daemon
from narval.files.home import Home
from narval.files.proposals.altering import altering
from narval.files.proposals.folder import (
    ABOUT,
    DRAFTING,
    FAULTY,
    LISTS,
    PROPOSALS,
    READY,
    TEXTS,
    WISH,
    Form,
    Proposal,
    check_name,
    check_wish,
    digest_of_texts,
    former_of,
    proposal_named,
    proposals_of,
    put_folder,
    text_of_form,
)
from narval.system.whole_files import write_whole

log = logging.getLogger("narval.daemon")

MOST_OF_ONE = 20
"""The most proposals that one asker may have at a time."""

QUICK = 0.05
"""Seconds for which the daemon itself explores a proposal; a child program explores for longer."""

AT_ONCE = 2
"""The most child programs that explore proposals at once."""


@operation("write")
async def propose(
    daemon: Daemon, name: str, texts: dict[str, str], wish: str = "", *, asker: Asker = PROGRAM
) -> dict[str, Any]:
    """Put definitions, texts by the name of their file, into `proposals/NAME/`, with the wish in words. The
    answer has their faults, and the findings of exploring them for at most five seconds.

    Nothing there runs. Python, the tools of MCP servers, and more than 64 kB are refused. An asker may have
    20 proposals at a time, and replace their own.
    """
    home = home_of(daemon)
    check_name(name)
    check_wish(wish)
    check_texts(texts)
    folder, by = home.path / PROPOSALS, str(asker)
    await asyncio.to_thread(_check_place, folder, name, by)
    judgement = await asyncio.to_thread(_judged, home, texts, wish)
    about = {
        "name": name,
        "by": by,
        "at": moment(daemon.rounds.clock.now()),
        "state": READY if judgement.is_sound else FAULTY,
        **msgspec.to_builtins(judgement),
    }
    try:
        await asyncio.to_thread(_write, home.path, name, by, texts, wish, about)
    except OSError as error:
        raise RequestError(f"{PROPOSALS}/{name} cannot be written: {error.strerror}") from None
    if judgement.is_sound and not judgement.is_explored:
        about["findings"] = await _explored(daemon, name, about["findings"])
    row = {key: about[key] for key in ("name", "by", "at", "faults", "findings")}
    return {"path": f"{PROPOSALS}/{name}", **row}


@operation("read")
async def proposals(daemon: Daemon) -> list[dict[str, Any]]:
    """The proposals of the home, by name: `{"name", "by", "at", "state", "why", "wish", "faults", "unnamed",
    "tokens", "money", "accepted"}`, where `faults` and `unnamed` are numbers, and `accepted` is by whom and
    when. A state is `drafting`, `asks`, `ready`, `faulty`, `failed` or `accepted`.
    """
    home = home_of(daemon)
    return await asyncio.to_thread(lambda: [_row(one) for one in proposals_of(home.path)])


@operation("read")
async def proposal(daemon: Daemon, name: str) -> dict[str, Any]:
    """A proposal: all fields of `proposals`, and its `texts`, `told`, `findings`, `needs`, `unnamed`,
    `faults`, `questions`, `rounds`, `labels`, `past`, and the `digest` by which it is accepted in this state.
    `at_once` are the elements already in memory that it would take as soon as it is accepted:
    `[{"definition", "count", "calls", "outside", "text"}]`.

    Raises RequestError if there is none of that name.
    """
    home = home_of(daemon)
    one = proposal_named(home.path, name)
    row = await asyncio.to_thread(_shown, one)
    if row["state"] == READY:
        with suppress(RequestError):  # the settings have faults, so it cannot be accepted anyway
            row["at_once"] = await at_once(daemon, await asyncio.to_thread(home_as_read, home), one)
    return row


@operation("read")
async def drawn_proposal(daemon: Daemon, name: str) -> list[dict[str, Any]]:
    """The graphs of a proposal's runnable definitions, each in the form of `drawn`, with `name` and `kind`;
    none of a faulty one. Raises RequestError if there is none of that name.
    """
    home = home_of(daemon)

    def graphs() -> list[Form]:
        proposal = proposal_named(home.path, name)
        proposed = TextsBeside(home_as_read(home), proposal.texts(), proposal.about().get("change"))
        return drawn_before_runs(proposed.definitions)

    return await asyncio.to_thread(graphs)


@operation("write")
async def drop_proposal(daemon: Daemon, name: str) -> str:
    """Delete a proposal; returns its name. What was accepted stays, but can no longer be undone by that name.

    Raises RequestError if it does not exist, or a model is drafting it.
    """
    one = proposal_named(home_of(daemon).path, name)
    if one.accepted() is not None:
        raise RequestError(
            f"proposal {name} was accepted: `narval accept --undo {name}` takes it back, then drop it"
        )
    if one.about().get("state") == DRAFTING:
        raise RequestError(f"a model is at proposal {name}: end that first, or wait for its end")
    try:
        await asyncio.to_thread(_drop, one)
    except OSError as error:
        raise RequestError(f"{PROPOSALS}/{name} cannot be deleted: {error.strerror}") from None
    return name


def home_of(daemon: Daemon) -> Home:
    """The home of a daemon. Raises RequestError for one in memory."""
    if daemon.home is None:
        raise RequestError("a home in memory has no folders; open one on a disk")
    return daemon.home


def home_as_read(home: Home) -> HomeAsRead:
    """The files of a home, against which proposals are judged. Raises RequestError."""
    try:
        return HomeAsRead.of(home)
    except SettingsError as error:
        raise RequestError(f"etc/narval.toml has faults; correct them first: {error}") from None


def check_proposal(home: Home, proposal: Proposal) -> Form:
    """Judge the texts of a proposal against the current home, and store the result: the proposal, in the form
    of the operation `proposal`. A proposal that is changed during this keeps its earlier results.

    Raises RequestError for one that is being drafted or is accepted.
    """
    about, texts = proposal.about(), proposal.texts()
    if proposal.accepted() is not None or about.get("state") not in (READY, FAULTY):
        raise RequestError(f"only a proposal that is ready or faulty is checked, and not {proposal.name}")
    judgement = TextsBeside(home_as_read(home), texts, about.get("change")).judge(proposal.wish())
    if proposal.texts() == texts:
        state = READY if judgement.is_sound else FAULTY
        proposal.note({**about, "why": None, "state": state, **msgspec.to_builtins(judgement)})
    return _shown(proposal)


class _Places:
    """The semaphore of the child programs that explore proposals."""

    def __init__(self, agent: AgentState) -> None:
        self.free = asyncio.Semaphore(AT_ONCE)


async def _explored(daemon: Daemon, name: str, quick: list[Form]) -> list[Form]:
    """The findings of exploring a proposal, which stores them; the `quick` ones if that fails. A child
    program explores, so that the daemon is not blocked.
    """
    async with daemon.agents.own.listings.once(_Places).free:
        try:
            row = await json_of([*home_options(daemon), "proposals", "check", name])
        except RequestError as error:
            log.warning("proposal %s is not explored: %s", name, error)
            return quick
    findings: list[Form] = row["findings"]
    return findings


def _judged(home: Home, texts: dict[str, str], wish: str) -> Judgement:
    """The judgement of texts as they arrive, with a quick exploration."""
    return TextsBeside(home_as_read(home), texts).judge(wish, seconds=QUICK)


def drawn_before_runs(definitions: Iterable[Definition]) -> list[Form]:
    """The graphs of the definitions that can be run, without a run, in the form of `drawn_proposal`."""
    graphs = []
    for one in definitions:
        if is_runnable(one.kind):
            engine = engine_of(one.kind)
            graph = form(graph_of(engine, one, engine.state_type.blank(0, one)))
            graphs.append({**graph, "name": one.full_name, "kind": one.kind})
    return graphs


def _row(one: Proposal) -> Form:
    about, accepted = one.about(), one.accepted()
    return {
        "name": one.name,
        "by": about.get("by", ""),
        "at": about.get("at"),
        "state": about.get("state", READY) if accepted is None else "accepted",
        "why": about.get("why"),
        "wish": one.wish(),
        "faults": sum(not fault.get("warning") for fault in about.get("faults", ())),
        "unnamed": len(about.get("unnamed", ())),
        "tokens": about.get("tokens", 0),
        "money": about.get("money", 0.0),
        "accepted": None if accepted is None else {"by": accepted["by"], "at": accepted["at"]},
    }


def _shown(one: Proposal) -> Form:
    about, texts = one.about(), one.texts()
    return {
        **_row(one),
        **{key: about.get(key, []) for key in LISTS},
        "model": about.get("model"),
        "change": about.get("change"),
        "texts": texts,
        "digest": digest_of_texts(texts),
        "rounds": one.rounds(),
        "past": one.past(),
        "at_once": [],
    }


# --- proposals of clients -----------------------------------------------------------------------------------


def _check_place(folder: Path, name: str, by: str) -> None:
    """Raise RequestError if there is no room for a proposal of that name."""
    owner = _by(folder / name)
    if owner is not None and owner != by:
        raise RequestError(f"another client has a proposal {name}; choose another name")
    if owner is not None and Proposal(folder.parent, name).accepted() is not None:
        raise RequestError(f"proposal {name} was accepted; choose another name")
    own = [path for path in folder.glob("[!.]*") if path.name != name and _by(path) == by]
    if len(own) >= MOST_OF_ONE:
        raise RequestError(f"{by} has {len(own)} proposals, as many as one may have")


def _by(path: Path) -> str | None:
    """The author of a proposal; "" if it cannot be read, None without a proposal."""
    return str(Proposal(path.parent.parent, path.name).about().get("by", "")) if path.exists() else None


def _write(home: Path, name: str, by: str, texts: dict[str, str], wish: str, about: Form) -> None:
    """Write a proposal whole, replacing one of that name; `finish_altering` restores the old one if this
    program is killed before the end.
    """
    folder = home / PROPOSALS
    folder.mkdir(exist_ok=True)
    with altering(home):
        _check_place(folder, name, by)  # another may have been added since
        made = Path(tempfile.mkdtemp(dir=folder, prefix=f".{name}."))
        try:
            (made / TEXTS).mkdir()
            for file, text in texts.items():
                write_whole(made / TEXTS / file, text.encode("utf-8", "replace"))
            write_whole(made / WISH, wish.encode("utf-8", "replace"))
            write_whole(made / ABOUT, text_of_form(about))
            put_folder(made, folder / name, former_of(folder / name))
        except BaseException:
            shutil.rmtree(made, ignore_errors=True)
            raise


def _drop(proposal: Proposal) -> None:
    """Delete a proposal while no other file is being altered. Raises OSError."""
    with altering(proposal.home):
        proposal.drop()
