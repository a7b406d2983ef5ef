"""Operations on files of definitions: edit one of the home, or take one from the examples that ship.

An editor shows a file, previews another text, saves it, and restores an earlier one. Saving is for those who
may grant: it grants exactly what the definitions of the file need.
"""

from __future__ import annotations

import asyncio
import difflib
import hashlib
import logging
import time
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any, NamedTuple

import msgspec

from narval.ask.asker import PROGRAM, WEB, Asker
from narval.ask.definitions.checking import HomeAsRead, check_texts
from narval.ask.definitions.definition import changes, told
from narval.ask.definitions.judging import Judgement, TextsBeside
from narval.ask.definitions.proposing import drawn_before_runs, home_of
from narval.ask.home_state import withheld_in
from narval.ask.lookup import find_definition
from narval.ask.registry import Form, operation
from narval.core.definitions.library import Definition
from narval.core.definitions.suggestions import closest
from narval.core.definitions.wall import in_utc
from narval.core.errors import NotFoundError, RequestError
from narval.core.trust.grants import Grant
from narval.daemon.daemon import Daemon
from narval.files.alterations import HOUSEHOLD, example_files, shipped_library
from narval.files.examples import examples as shipped_examples
from narval.files.examples import take_as
from narval.files.found_files import RECIPES
from narval.files.grants import GRANTS, grants_of, table_of, text_of_grants
from narval.files.home import SCENARIOS, Home
from narval.files.proposals.altering import (
    NOTE,
    Alteration,
    FileChange,
    alter,
    drop_older,
    new_edit,
    text_at,
    versions_before_edits,
)
from narval.files.shipped import EXAMPLES, shipped

log = logging.getLogger("narval.daemon")

ALLOW = "write `edit = true` into the table [web] of etc/narval.toml"
"""The hint on how to allow editing in the browser."""


class _Editing(NamedTuple):
    """The definition whose file is edited, and the current home, against which texts are judged."""

    home: Home
    definition: Definition
    read: HomeAsRead

    @property
    def path(self) -> str:
        """The path of the file in the home."""
        return self.definition.path

    @property
    def definitions(self) -> list[Definition]:
        """The definitions of the file that are loaded."""
        return [one for one in self.read.loaded.library if one.path == self.path]

    @property
    def changed(self) -> Form:
        """The fields that name the definition in answers."""
        one = self.definition
        return {"name": one.full_name, "kind": one.kind, "path": one.path}

    def text(self) -> str:
        """The current text of the file. Raises RequestError."""
        return _text_of(self.home, self.path)

    def judge(self, text: str) -> Judgement:
        """Judge a text as if it were that of the file; nothing in it is run. Raises RequestError."""
        check_texts({PurePath(self.path).name: text})
        judgement = self._beside(text).judge(seconds=0)
        faults = [{**fault, "path": self.path} for fault in judgement.faults]
        sentences = [{**row, "file": self.path} for row in judgement.sentences]
        return msgspec.structs.replace(judgement, faults=faults, sentences=sentences)

    def grants(self, text: str, by: str, at: float) -> tuple[Mapping[str, Grant], Mapping[str, Grant]]:
        """The current grants of the home; and the same, with exactly the needs of a text's definitions in
        place of those that the file's definitions had.
        """
        before, edited = grants_of(self.home.path), self._beside(text)
        gone = {table_of(one) for one in (*self.definitions, *edited.definitions)}
        left = {table: grant for table, grant in before.items() if table not in gone}
        return before, {**left, **edited.grants(by, at)}

    def _beside(self, text: str) -> TextsBeside:
        return TextsBeside(self.read, {PurePath(self.path).name: text}, self.changed)


@operation("read")
async def edit(daemon: Daemon, name: str, kind: str | None = None) -> dict[str, Any]:
    """The file of a definition, for editing: `{"name", "kind", "path", "text", "digest", "allowed",
    "versions"}`. `allowed` says whether operators may save in the browser; `versions` are the kept texts from
    before each edit, newest first: `{"version", "by", "at", "path", "text"}`.

    Raises RequestError for a definition that is in no file of `recipes/`.
    """
    editing = _editing(daemon, name, kind)
    text = await asyncio.to_thread(editing.text)
    versions = await asyncio.to_thread(lambda: list(versions_before_edits(editing.home.path, editing.path)))
    return {
        **editing.changed,
        "text": text,
        "digest": digest_of_text(text),
        "allowed": daemon.files.settings.web.edit,
        "versions": versions,
    }


@operation("read")
async def check_edit(daemon: Daemon, name: str, text: str, kind: str | None = None) -> dict[str, Any]:
    """Preview another text for the file of a definition; nothing is stored or run.

    The answer is `{"name", "kind", "path", "faults", "told", "changes", "needs", "diff"}`: the faults and
    warnings; the sentences that say what its definitions do, and those that differ from what is loaded; their
    needs outside, which saving grants; and the difference from the file, a unified diff.
    """
    editing = _editing(daemon, name, kind)

    def judged() -> dict[str, Any]:
        before, judgement = editing.text(), editing.judge(text)
        former = [row for one in editing.definitions for row in told(one, editing.read.loaded.library)]
        lines = difflib.unified_diff(
            before.splitlines(), text.splitlines(), editing.path, f"{editing.path} (edited)", lineterm=""
        )
        return {
            **editing.changed,
            "faults": judgement.faults,
            "told": judgement.sentences,
            "changes": list(changes(former, judgement.sentences)) if judgement.is_sound else [],
            "needs": judgement.outside,
            "diff": "".join(f"{line}\n" for line in lines),
        }

    return await asyncio.to_thread(judged)


@operation("write")
async def save_edit(
    daemon: Daemon, name: str, text: str, digest: str, kind: str | None = None, *, asker: Asker = PROGRAM
) -> dict[str, Any]:
    """Save another text of the file of a definition, whole or not at all, and grant exactly what its
    definitions need; `digest` is that of the edited text, as returned by `edit`.

    It is for those who may grant. The answer is `{"version", "path", "by", "at", "granted", "asked"}`:
    `take_back_edit` restores the `version`; `asked` are definitions of other files that wait for a grant
    because of the edit.

    Raises RequestError if the file was altered since, or the text has faults.
    """
    return await _saved(daemon, name, kind, asker, text=text, digest=digest)


@operation("write")
async def take_back_edit(
    daemon: Daemon,
    name: str,
    version: str,
    kind: str | None = None,
    digest: str | None = None,
    *,
    asker: Asker = PROGRAM,
) -> dict[str, Any]:
    """Restore the text that the file of a definition had before an edit, by the name of that version. This is
    an edit too, answered and refused as `save_edit`. With a `digest`, the file must still have it.
    """
    return await _saved(daemon, name, kind, asker, version=version, digest=digest)


def check_edits_here(daemon: Daemon, asker: Asker) -> None:
    """Raise RequestError for an asker in the browser, unless a setting allows editing there."""
    if asker.way == WEB and not daemon.files.settings.web.edit:
        raise RequestError(f"editing in the browser is off; {ALLOW}")


def digest_of_text(text: str) -> str:
    """The digest of the text of a file."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


# --- saving -------------------------------------------------------------------------------------------------


async def _saved(
    daemon: Daemon,
    name: str,
    kind: str | None,
    asker: Asker,
    *,
    digest: str | None,
    text: str | None = None,
    version: str | None = None,
) -> dict[str, Any]:
    check_edits_here(daemon, asker)
    await daemon.reloader.reload()  # the text is judged against the current files
    editing, by = _editing(daemon, name, kind), asker.person or "a program"
    waiting = {one.full_name for one in withheld_in(daemon)}

    def save() -> dict[str, Any]:
        before = editing.text()
        if digest is not None and digest != digest_of_text(before):
            raise RequestError(f"{editing.path} was altered since it was opened; look at it again")
        return _save(editing, before, text if version is None else _version(editing, version), by)

    answer = await daemon.reloader.alter(editing.home, editing.path, save)
    asked = [one.full_name for one in withheld_in(daemon) if one.full_name not in waiting]
    log.info("%s was edited by %s; version %s is from before", editing.path, by, answer["version"])
    return {**answer, "asked": asked}


def _save(editing: _Editing, before: str, text: str | None, by: str) -> dict[str, Any]:
    assert text is not None
    if text == before:
        raise RequestError(f"{editing.path} has this text already; nothing was saved")
    judgement, home = editing.judge(text), editing.home.path
    if not judgement.is_sound:
        raise RequestError(f"it has faults, and was not saved: {judgement.first_fault}")
    at = time.time()
    file_changes = [FileChange(editing.path, before, text)]
    former, granted = editing.grants(text, by, at)
    if granted != former:
        file_changes.insert(0, FileChange(GRANTS, text_at(home, GRANTS), text_of_grants(granted)))
    edit = new_edit(home)
    accepted = {
        "name": edit.name,
        "path": editing.path,
        "by": by,
        "at": in_utc(at),
        "before": before,
        "changes": msgspec.to_builtins(file_changes),
    }
    try:
        alter(edit, Alteration(tuple(file_changes), accepted))
    except (RequestError, OSError):
        if not (edit.folder / NOTE).exists():
            edit.drop()
        raise
    drop_older(home, editing.path)
    return {
        "version": edit.name,
        **{key: accepted[key] for key in ("path", "by", "at")},
        "granted": judgement.outside,
    }


def _version(editing: _Editing, version: str) -> str:
    """The text of a version of the file. Raises RequestError, which lists the versions."""
    texts = {row["version"]: row["text"] for row in versions_before_edits(editing.home.path, editing.path)}
    if version not in texts:
        there = f"there are {', '.join(texts)}" if texts else "it was not edited"
        raise NotFoundError(f"there is no version {version!r:.80} of {editing.path}; {there}")
    return str(texts[version])


# --- the edited definition ----------------------------------------------------------------------------------


def _editing(daemon: Daemon, name: str, kind: str | None) -> _Editing:
    """The definition to edit, by its name. Raises RequestError if its file cannot be edited."""
    home, definition = home_of(daemon), find_definition(daemon, name, kind)
    if not daemon.agent.store.is_own:
        raise RequestError("the files of other agents are edited by hand; ask the home's own agent")
    if not definition.path.startswith(f"{RECIPES}/"):
        where = f"{definition.kind} {definition.full_name} is in {definition.path or 'no file'}"
        raise RequestError(f"{where}; only files in {RECIPES}/ are edited here")
    check_texts({PurePath(definition.path).name: ""})
    snapshot = daemon.files.snapshot
    read = HomeAsRead(home.path, daemon.files.settings, snapshot, daemon.agent.lookup.people)
    return _Editing(home, definition, read)


def _text_of(home: Home, path: str) -> str:
    try:
        if (home.path / path).resolve() != home.path.resolve() / path:
            raise RequestError(f"{path} is a link; edit the file that it leads to by hand")
        text = text_at(home.path, path)
    except (OSError, UnicodeDecodeError) as error:
        raise RequestError(f"{path} cannot be read: {error}") from None
    if text is None:
        raise RequestError(f"{path} no longer exists; its last version is still active")
    return text


# --- examples -----------------------------------------------------------------------------------------------


@operation("read")
async def examples(daemon: Daemon, about: str = "") -> list[Form]:
    """The examples that ship, by subject: `{"name", "subject", "about"}`, where `about` says in a sentence
    what it does. With words, only those of a subject, or with the words in their line.

    Raises RequestError if there is none.
    """
    rows = await asyncio.to_thread(shipped_examples, about)
    return [msgspec.to_builtins(one) for one in rows if one.name != HOUSEHOLD]


@operation("read")
async def example(daemon: Daemon, name: str) -> Form:
    """An example that ships, in the form of `examples`, with what its definitions do (`told`, in the form of
    `tell`) and their graphs (`drawn`, in the form of `drawn_proposal`), its `files`, scenarios too (`{"path",
    "text"}`), and `allowed`, as in `edit`.

    Raises RequestError if there is none.
    """

    def whole() -> Form:
        (row,) = (one for one in shipped_examples() if one.name == _found(name))
        paths = [path for path in example_files()[row.name] if path.startswith((RECIPES, SCENARIOS))]
        library = shipped_library()
        definitions = [one for one in library if one.path in paths]
        sentences = [line for one in definitions for line in told(one, library)]
        about = {"told": sentences, "drawn": drawn_before_runs(definitions)}
        files = [{"path": path, "text": (shipped() / path).read_text("utf-8", "replace")} for path in paths]
        allowed = daemon.files.settings.web.edit
        return {**msgspec.to_builtins(row), **about, "files": files, "allowed": allowed}

    return await asyncio.to_thread(whole)


@operation("write")
async def take_example(daemon: Daemon, name: str, group: str, *, asker: Asker = PROGRAM) -> Form:
    """Copy an example into recipes and scenarios of the home, with all names in a group: `{"name", "group",
    "paths"}`. This grants nothing. It is for those who may save edits.

    Raises RequestError, also if a file exists already.
    """
    home = home_of(daemon)
    check_edits_here(daemon, asker)
    if not daemon.agent.store.is_own:
        raise RequestError("an example is taken into the home; ask the home's own agent")
    paths = await asyncio.to_thread(lambda: take_as(home, _found(name), group))
    await daemon.reloader.reload()
    return {"name": name, "group": group, "paths": paths}


def _found(name: str) -> str:
    """The full name of an example, whether given with the common prefix or without. Raises RequestError."""
    names = [one for one in example_files() if one != HOUSEHOLD]
    whole = name if name.startswith(f"{EXAMPLES}/") else f"{EXAMPLES}/{name}"
    if whole not in names:
        raise NotFoundError(f"there is no example {name!r:.80}{closest(whole, names)}")
    return whole
