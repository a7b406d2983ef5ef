"""Operations that accept a proposal, and undo that: its files become recipes, and its needs are granted."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Mapping
from functools import partial
from typing import Any

import msgspec

from narval.agent.turn import Turn
from narval.ask.asker import PROGRAM, Asker
from narval.ask.definitions.judging import TextsBeside
from narval.ask.definitions.proposing import home_as_read, home_of
from narval.ask.registry import operation
from narval.core.definitions.wall import in_utc
from narval.core.engines.engine import redefinable
from narval.core.engines.events import Cancelled
from narval.core.errors import RequestError
from narval.core.trust.grants import Grant
from narval.daemon.daemon import Daemon
from narval.files.found_files import RECIPES
from narval.files.grants import GRANTS, grants_of, text_of_grants
from narval.files.home import Home
from narval.files.memory_file import SHOWN as DECLARED
from narval.files.proposals.altering import (
    EMPTY,
    Alteration,
    FileChange,
    alter,
    text_at,
    with_elements,
    without_elements,
)
from narval.files.proposals.folder import MEMORY, Form, Proposal, digest_of_texts, proposal_named

log = logging.getLogger("narval.daemon")


@operation("write")
async def accept(
    daemon: Daemon, name: str, digest: str, untried: bool = False, *, asker: Asker = PROGRAM
) -> dict[str, Any]:
    """Accept a proposal as it was shown, by its `digest`: its files go to `recipes/`, its elements to
    `data/memory.xml`, and its needs outside are granted. All of this is done, or nothing.

    A proposal that was not tried on the past is refused, unless `untried`. Only those who may grant may
    accept. The answer is `{"name", "by", "at", "files", "granted", "digest"}`. Raises RequestError.
    """
    home = home_of(daemon)
    by = asker.person or "a program"
    accepted = await daemon.reloader.alter(
        home, name, partial(_accept, home, name, digest, by, untried=untried)
    )
    log.info("proposal %s was accepted by %s: %s", name, by, ", ".join(accepted["files"]))
    return accepted


@operation("write")
async def unaccept(daemon: Daemon, name: str, *, asker: Asker = PROGRAM) -> dict[str, Any]:
    """Undo the acceptance of a proposal: its files, elements and grants are removed, and what it changed is
    restored. Its runs that have taken nothing yet end; the others continue. The answer is that of `accept`
    with `ended` and `going_on`, both `[{"run", "name"}]`.

    Raises RequestError if it was not accepted, or if one of its files was altered since.
    """
    home = home_of(daemon)
    accepted = await daemon.reloader.alter(home, name, partial(_unaccept, home, name))
    log.info("proposal %s is no longer accepted, by %s", name, asker.person or "a program")
    return {**accepted, **await _end_untouched(daemon, name, accepted["files"], asker)}


async def _end_untouched(daemon: Daemon, name: str, files: Collection[str], asker: Asker) -> Form:
    """End the runs of the home's own agent whose definitions are gone with these files and that have taken
    nothing yet; returns the ended ones and those that continue.

    Whether a run has taken something is checked in the turn that ends it, so none takes an element before its
    end.
    """
    host, ended, going_on = daemon.agents.own, list[Form](), list[Form]()
    agent, why = host.agent, f"proposal {name} was taken back"

    def end(turn: Turn) -> None:
        for run in list(agent.runs.active.values()):
            if run.caller is not None or run.definition is None or run.definition.path not in files:
                continue
            there = agent.library.get(run.engine.definition_kind, run.name)
            if there is not None and there.digest == run.digest:
                continue
            if agent.signals.standing.get(run.name) == run.eid:
                continue
            engine, find = redefinable(run.engine), partial(agent.lookup.definition, run)
            row = {"run": run.eid, "name": run.name}
            if there is None and engine is not None and engine.is_untouched(run.definition, run.state, find):
                turn.tell(run.eid, Cancelled(0, 0.0, why, **asker.recorded))
                ended.append(row)
            else:
                going_on.append(row)

    await host.submit(end)
    return {"ended": ended, "going_on": going_on}


def _accept(home: Home, name: str, digest: str, by: str, *, untried: bool) -> Form:
    proposal = proposal_named(home.path, name)
    about, texts = proposal.about(), proposal.texts()
    if (earlier := proposal.accepted()) is not None:
        raise RequestError(f"proposal {name} was accepted already, by {earlier['by']} at {earlier['at']}")
    if digest != digest_of_texts(texts):
        raise RequestError(f"proposal {name} is no longer what was shown; look at it again")
    if about.get("state") != "ready":
        why = f"it is {about.get('state')}; `narval proposals show {name}` says why"
        raise RequestError(f"only a proposal without faults can be accepted, and {why}")
    if not untried and proposal.past() is None:
        raise RequestError(
            f"proposal {name} has not been tried on the past yet: `narval proposals try {name}` shows what "
            f"it would have done; `narval accept {name} --untried` accepts it anyway"
        )
    alteration = _alteration(home, proposal, about, texts, by)
    alter(proposal, alteration)
    assert alteration.accepted is not None
    return _told(alteration.accepted)


def _alteration(home: Home, proposal: Proposal, about: Form, texts: Mapping[str, str], by: str) -> Alteration:
    """All that accepting alters. Raises RequestError if the texts have faults now, or the needs differ."""
    change = about.get("change")
    proposed = TextsBeside(home_as_read(home), texts, change)
    judgement = proposed.judge(proposal.wish(), seconds=0)
    if not judgement.is_sound:
        raise RequestError(f"it has faults now, as the home is: {judgement.first_fault}")
    if judgement.needs != about.get("needs"):
        raise RequestError("what it needs is not what was shown, for the home has changed; propose it again")
    at = time.time()
    before, new = grants_of(home.path), proposed.grants(by, at)
    changes = list[FileChange]()
    if new:
        grants = text_of_grants({**before, **new})
        changes.append(FileChange(GRANTS, text_at(home.path, GRANTS), grants))
    if MEMORY in texts:
        written = text_at(home.path, DECLARED)
        changes.append(FileChange(DECLARED, written, with_elements(home.path, proposal.name, texts[MEMORY])))
    for file, text in texts.items():
        if file != MEMORY:
            is_changed = change is not None and file == change["path"].rpartition("/")[2]
            path = (
                change["path"] if change is not None and is_changed else f"{RECIPES}/{proposal.name}/{file}"
            )
            written = text_at(home.path, path)
            if change is not None and is_changed and written != change["text"]:
                raise RequestError(f"{path} was altered since its change was drafted; propose it again")
            if written is not None and not is_changed:
                raise RequestError(f"{path} is there already; move it away")
            changes.append(FileChange(path, written, text))
    accepted: Form = {
        "name": proposal.name,
        "by": by,
        "at": in_utc(at),
        "digest": digest_of_texts(texts),
        "changes": msgspec.to_builtins(changes),
        "grants": msgspec.to_builtins(new),
    }
    return Alteration(tuple(changes), accepted)


def _unaccept(home: Home, name: str) -> Form:
    proposal = proposal_named(home.path, name)
    accepted = proposal.accepted()
    if accepted is None:
        raise RequestError(f"proposal {name} was not accepted")
    before = grants_of(home.path)
    granted = msgspec.convert(accepted["grants"], dict[str, Grant])
    changes = list[FileChange]()
    for change in reversed(msgspec.convert(accepted["changes"], list[FileChange])):
        written = text_at(home.path, change.path)
        if change.path == GRANTS:
            left = {table: one for table, one in before.items() if granted.get(table) != one}
            changes.append(FileChange(GRANTS, written, text_of_grants(left)))
        elif change.path == DECLARED:
            after = without_elements(home.path, name, proposal.texts()[MEMORY])
            is_left = change.before is not None or after != EMPTY
            changes.append(FileChange(DECLARED, written, after if is_left else None))
        elif written != change.after:
            raise RequestError(
                f"{change.path} was altered since {name} was accepted; take away or mend it by hand, then "
                f"`narval accept --undo {name}`"
            )
        else:
            changes.append(FileChange(change.path, written, change.before))
    alter(proposal, Alteration(tuple(changes), None))
    return _told(accepted)


def _told(accepted: Form) -> Form:
    return {
        **{key: accepted[key] for key in ("name", "by", "at", "digest")},
        "files": [change["path"] for change in accepted["changes"] if change["path"] != GRANTS],
        "granted": [need for grant in accepted["grants"].values() for need in grant["needs"]],
    }
