"""Altering several files of a home at once: the alteration is noted first, so that after a kill between two
files the next program can finish it.

A saved alteration of recipes is an edit, a proposal that is accepted when it is made: a folder in
`var/edits/` with the files that it altered, so that it can be undone. The elements that a proposal declares
are a block of lines in `data/memory.xml`, identified by its text.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from narval.core.elements.canonical import elements_of
from narval.core.errors import RequestError
from narval.files.memory_file import SHOWN as DECLARED
from narval.files.proposals.folder import ACCEPTED, Form, Proposal, proposals_of, restore_folders
from narval.system.whole_files import write_whole

log = logging.getLogger("narval.daemon")

EDITS = "var/edits"
"""The folder of a home with a folder for each edit."""

KEPT = 20
"""The most stored edits of one file, the newest."""

_NAME = re.compile(r"e[1-9][0-9]{0,11}")


class Edit(Proposal):
    """The folder of an edit; its name, such as e7, also names the version of the file before it."""

    def __init__(self, home: Path, name: str) -> None:
        super().__init__(home, name)
        self.folder = home / EDITS / name

    @property
    def number(self) -> int:
        """The number in its name; later ones are greater."""
        return int(self.name[1:])


def edits_of(home: Path) -> Iterator[Edit]:
    """The edits of a home, the newest first."""
    try:
        names = [path.name for path in (home / EDITS).iterdir() if not path.is_symlink() and path.is_dir()]
    except OSError:
        return
    edits = [Edit(home, name) for name in names if _NAME.fullmatch(name)]
    yield from sorted(edits, key=lambda edit: edit.number, reverse=True)


def versions_before_edits(home: Path, path: str) -> Iterator[Form]:
    """The texts of a file before each of its edits, the newest first: `{"version", "by", "at", "path",
    "text"}`; `by` and `at` are those of the edit.
    """
    for edit in edits_of(home):
        form = edit.accepted()
        if form is not None and form.get("path") == path:
            about = {key: form[key] for key in ("by", "at", "path")}
            yield {"version": edit.name, **about, "text": form["before"]}


def new_edit(home: Path) -> Edit:
    """A folder for a new edit. Raises OSError."""
    newest = next(edits_of(home), None)
    edit = Edit(home, f"e{newest.number + 1 if newest is not None else 1}")
    edit.folder.mkdir(parents=True)
    return edit


def drop_older(home: Path, path: str) -> None:
    """Delete the oldest edits of a file beyond `KEPT`. Raises OSError."""
    of_file = [edit for edit in edits_of(home) if (edit.accepted() or {}).get("path") == path]
    for edit in of_file[KEPT:]:
        edit.drop()


# --- several files at once ------------------------------------------------------------------------------

NOTE = "altering.json"
"""The file of a proposal with the alteration in progress."""

ONE_AT_A_TIME = threading.Lock()
"""A lock held between checking the files and altering them accordingly."""


class FileChange(msgspec.Struct, frozen=True):
    """The text of a file of the home before and after; None: the file does not exist."""

    path: str
    before: str | None
    after: str | None


class Alteration(msgspec.Struct, frozen=True):
    """All files to be written, in order; then the proposal is `accepted` (with the record of that), or no
    longer accepted (None).
    """

    changes: tuple[FileChange, ...]
    accepted: Form | None


def text_at(home: Path, path: str) -> str | None:
    """The text of a file of the home; None without one. Raises OSError, UnicodeDecodeError."""
    try:
        return (home / path).read_text(encoding="utf-8")
    except FileNotFoundError:
        return None


@contextmanager
def altering(home: Path) -> Iterator[None]:
    """Alter files exclusively in this program within the block, after finishing a killed program's work."""
    with ONE_AT_A_TIME:
        finish_altering(home)
        yield


def alter(proposal: Proposal, alteration: Alteration) -> None:
    """Write all files. After a kill, `finish_altering` finishes it; if a file cannot be written, all are
    restored.

    Raises RequestError if a file has changed since, before anything is written, and OSError.
    """
    for change in alteration.changes:
        if text_at(proposal.home, change.path) != change.before:
            raise RequestError(f"{change.path} was altered meanwhile; look at it again")
    write_whole(proposal.folder / NOTE, msgspec.json.encode(alteration).decode())
    try:
        _finish(proposal, alteration)
    except OSError:
        _take_back(proposal, alteration)
        raise


def _take_back(proposal: Proposal, alteration: Alteration) -> None:
    """Restore the files after a failed write; the remaining ones stay noted, and are finished later."""
    home = proposal.home
    with suppress(OSError):
        for change in reversed(alteration.changes):
            if text_at(home, change.path) == change.after:
                if change.before is None:
                    (home / change.path).unlink()
                    _remove_empty(home, change.path)
                else:
                    write_whole(home / change.path, change.before)
        (proposal.folder / NOTE).unlink()


def finish_altering(home: Path) -> None:
    """Finish the work of a killed program; the log names what could not be finished, which is retried."""
    try:
        restore_folders(home)
    except OSError as error:
        log.warning("a proposal that was being replaced cannot be restored: %s", error)
    for proposal in (*proposals_of(home), *edits_of(home)):
        note = proposal.folder / NOTE
        if not note.exists():
            continue
        try:
            alteration = msgspec.json.decode(note.read_bytes(), type=Alteration)
        except msgspec.DecodeError as error:
            log.warning("%s cannot be read: %s", note.relative_to(home), error)
            continue
        try:
            _finish(proposal, alteration)
        except (OSError, UnicodeDecodeError) as error:
            log.warning("what was begun by %s cannot be finished: %s", proposal.name, error)


def _finish(proposal: Proposal, alteration: Alteration) -> None:
    """Write what is not written yet; files altered by others since are left unchanged."""
    home = proposal.home
    for change in alteration.changes:
        text = text_at(home, change.path)
        if text == change.after:
            continue
        if text != change.before:
            log.warning("%s was altered while %s was being accepted", change.path, proposal.name)
        elif change.after is None:
            (home / change.path).unlink()
            _remove_empty(home, change.path)
        else:
            (home / change.path).parent.mkdir(parents=True, exist_ok=True)
            write_whole(home / change.path, change.after)
    if alteration.accepted is None:
        (proposal.folder / ACCEPTED).unlink(missing_ok=True)
    else:
        write_whole(proposal.folder / ACCEPTED, msgspec.json.encode(alteration.accepted).decode())
    (proposal.folder / NOTE).unlink()


def _remove_empty(home: Path, path: str) -> None:
    """Remove the folder of a removed file, if it was made for a proposal and is empty."""
    folder = (home / path).parent
    if folder.parent.name == "recipes" and not any(folder.iterdir()):
        folder.rmdir()


# --- elements of a proposal -----------------------------------------------------------------------------

EMPTY = '<?xml version="1.0" encoding="utf-8"?>\n<memory>\n</memory>\n'
"""The file of a home that declares nothing."""


def block_of(name: str, memory: str) -> str:
    """The lines that the `memory.xml` of a proposal adds to that of the home."""
    elements = elements_of(memory)
    return f"  <!-- proposal {name} -->\n" + "".join(f"  {xml.decode()}\n" for xml in elements)


def with_elements(home: Path, name: str, memory: str) -> str:
    """The text of `data/memory.xml` with the elements of a proposal. Raises RequestError if it has no end."""
    written = text_at(home, DECLARED)
    head, end, tail = (EMPTY if written is None else written).rpartition("</memory>")
    if not end:
        raise RequestError(f"{DECLARED}: expected </memory> at its end, found none; write it there first")
    return f"{head}{block_of(name, memory)}{end}{tail}"


def without_elements(home: Path, name: str, memory: str) -> str:
    """The text of `data/memory.xml` without them. Raises RequestError if it no longer has them."""
    written = text_at(home, DECLARED) or ""
    block = block_of(name, memory)
    if block not in written:
        raise RequestError(f"{DECLARED} no longer has what {name} added to it; remove that by hand")
    return written.replace(block, "", 1)
