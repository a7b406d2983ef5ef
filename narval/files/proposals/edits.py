"""Edits: saved alterations of a recipe file, stored with the former text so that they can be undone.

An edit is a proposal that is accepted when it is made: a folder in `var/edits/` with the files that it
altered.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from narval.files.proposals.folder import Form, Proposal

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
