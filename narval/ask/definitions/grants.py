"""Operations on grants: the needs of definitions, their grants, and the acts that change these."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import PurePosixPath

from narval.ask.asker import PROGRAM, Asker
from narval.ask.definitions.definition import differences
from narval.ask.home_state import unconfined_in, withheld_of_others
from narval.ask.lookup import command, files_of, no_definition
from narval.ask.registry import Form, operation
from narval.ask.text import article
from narval.core.definitions.library import Library
from narval.core.definitions.wall import in_utc
from narval.core.errors import RequestError
from narval.core.trust.covering import is_covered
from narval.core.trust.grants import Grant, digest_of, told_of
from narval.daemon.daemon import Daemon
from narval.files.grants import ASK, GRANTS, WAITING, Standing, grants_of, standings, write_grants
from narval.files.shipped import unloaded
from narval.system.confinement import confinement


@operation("read")
async def grants(daemon: Daemon, name: str | None = None) -> Form:
    """The needs and grants of all definitions that can be run, or of one.

    `{"name", "asks", "confined_by", "not_confined", "of_others", "definitions": [{"definition", "kind",
    "file", "standing", "foreign", "by", "at", "needs", "lacking", "changed", "told"}]}`, those that are
    `asked` for first. A standing is `asked` (it starts nothing until it is granted), `rejected` (the same,
    and nobody is asked again), `granted`, `ships`, `inside` (it reaches nothing outside the home) or
    `trusted` (the home asks nothing). Of each need: `{"need", "outside", "change", "part", "code", "file",
    "line"}`; a change is `added` or `taken away` since the grant. `told` are the sentences that differ.
    `not_confined` are the names of unconfined definitions from collections, by where they run. `of_others`
    are the definitions that wait for a grant and that other agents here follow: `{"agent", "others",
    "withheld"}`, once for all agents that follow the same ones.
    """
    snapshot, files = daemon.files.snapshot, files_of(daemon)
    rows = list(standings(files, snapshot, name))
    if name is not None and not rows:
        raise _not_run(daemon, name)
    rows.sort(key=lambda one: (one.decision.standing != "asked", one.definition.full_name))
    return {
        "name": name,
        "asks": snapshot.settings.grants == ASK,
        "confined_by": confinement(),
        "not_confined": unconfined_in(daemon),
        "of_others": withheld_of_others(daemon) if name is None else [],
        "definitions": [_form(one, files.loaded.library) for one in rows],
    }


@operation("write")
async def grant(
    daemon: Daemon,
    name: str | None = None,
    *,
    folder: str | None = None,
    all: bool = False,
    asker: Asker = PROGRAM,
) -> list[str]:
    """Grant what a definition needs now; with `all`, the needs of each that waits; with a `folder` of the
    home, the needs of those in it, now and later. Returns the names of those that may now start.

    It is for the home's owner, root, and those who may alter the home in the monitor. Raises RequestError.
    """
    _check_home(daemon)
    if (name is not None) + (folder is not None) + all != 1:
        why = "expected one of: the name of a definition, a folder of the home, all"
        raise RequestError(f"{why}; `{command(daemon, 'grants')}` lists what is asked for")
    files, snapshot = files_of(daemon), daemon.files.snapshot
    rows = list(standings(files, snapshot, name))
    if name is not None and not rows:
        raise _not_run(daemon, name)
    by, at = asker.person or "a program", time.time()
    new: dict[str, Grant] = {}
    if folder is not None:
        path = f"{PurePosixPath(folder)}/"
        rows = [one for one in rows if one.definition.path.startswith(path)]
        if not rows:
            raise RequestError(f"no definition is in {path}; `{command(daemon, 'grants')}` lists them")
        new[path] = Grant(by, in_utc(at), everything=True)
    for one in rows if folder is None else ():
        if name is not None or one.decision.standing == "asked":
            new[one.table] = one.grant(files.loaded.library, by, at)
    waiting = [one.definition.full_name for one in rows if one.decision.standing in WAITING]
    await _alter(daemon, lambda before: {**before, **new})
    return waiting if name is None else [name]


@operation("write")
async def revoke(
    daemon: Daemon, name: str | None = None, *, folder: str | None = None, asker: Asker = PROGRAM
) -> list[str]:
    """Revoke the grant of a definition or a folder: active runs keep it, and no new run starts. Returns the
    names of the removed tables. Raises RequestError if nothing was granted.
    """
    _check_home(daemon)
    if (name is None) == (folder is None):
        why = "expected the name of a definition, or a folder of the home"
        raise RequestError(f"{why}; `{command(daemon, 'grants')}` lists what is granted")
    if folder is not None:
        gone = {f"{PurePosixPath(folder)}/"}
    else:
        gone = {one.table for one in standings(files_of(daemon), daemon.files.snapshot, name)}
    grants = daemon.files.snapshot.grants
    if not (gone := gone & grants.keys()):
        listed = f"`{command(daemon, 'grants')}` lists what is"
        raise RequestError(f"nothing was granted to {name or folder}; {listed}")
    await _alter(daemon, lambda before: {key: one for key, one in before.items() if key not in gone})
    return sorted(gone)


# --- acts ---------------------------------------------------------------------------------------------------


def _not_run(daemon: Daemon, name: str) -> RequestError:
    """The error for a name that cannot be granted anything: an action's, a file's, or an unknown one."""
    listed = f"`{command(daemon, 'grants')}` lists the definitions, with what they need"
    other = daemon.agent.library.find(name)
    if other is not None or name in unloaded("action"):
        kind = other.kind if other is not None else "action"
        why = f"{name} is {article(kind)} {kind}: what it needs is granted to the definitions that call it"
        return RequestError(f"{why}; {listed}")
    if "/" in name:
        folder = f"a folder is granted by `{command(daemon, 'grant --folder DIR')}`"
        return RequestError(f"expected the name of a definition, got {name}; {listed}; {folder}")
    return no_definition(daemon, name)


def _check_home(daemon: Daemon) -> None:
    if daemon.home is None:
        raise RequestError("a home in memory grants nothing: whoever has opened it says what it loads")


async def _alter(daemon: Daemon, change: Callable[[Mapping[str, Grant]], Mapping[str, Grant]]) -> None:
    """Write other grants, and activate them."""
    assert daemon.home is not None
    path = daemon.home.path
    await daemon.reloader.alter(daemon.home, GRANTS, lambda: write_grants(path, change(grants_of(path))))


# --- forms --------------------------------------------------------------------------------------------------


def _form(one: Standing, library: Library) -> Form:
    definition, decision = one.definition, one.decision
    grant = decision.grant
    looked_at = grant is not None and not grant.everything
    return {
        "definition": definition.full_name,
        "kind": definition.kind,
        "file": definition.path,
        "standing": decision.standing,
        "foreign": decision.is_foreign,
        "by": grant.by if grant is not None else None,
        "at": grant.at if grant is not None else None,
        "needs": list(_needs(one, grant if looked_at else None)),
        "lacking": list(decision.lacking),
        "changed": bool(looked_at and grant and grant.digest != digest_of(definition, library)),
        "told": list(_told(grant.sentences, told_of(definition, library))) if looked_at and grant else [],
    }


def _needs(one: Standing, grant: Grant | None) -> Iterator[Form]:
    for need in one.needs:
        is_new = need.is_outside and grant is not None and not is_covered(need.text, grant.needs)
        yield {
            "need": need.text,
            "outside": need.is_outside,
            "change": "added" if is_new else None,
            "part": need.part,
            "code": need.by or None,
            "file": need.path,
            "line": need.line,
        }
    now = [need.text for need in one.needs]
    for text in grant.needs if grant is not None else ():
        if not any(is_covered(need, (text,)) for need in now):
            nothing = {"part": "", "code": None, "file": one.definition.path, "line": one.definition.line}
            yield {"need": text, "outside": True, "change": "taken away", **nothing}


def _told(before: Iterable[str], now: Iterable[str]) -> Iterator[Form]:
    old, new = ([{"text": text} for text in texts] for texts in (before, now))
    return differences(old, new, "text")
