"""Files that an element may name: those of a home, except for the ones that control it, or those of a folder
that the element names. This is what `[home]` and `{NAME/@folder}` mean in the needs of an action.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from unicodedata import normalize

from narval.core.errors import ActionError

CLOSED = ("agents", "etc", "inbox", "modules", "proposals", "recipes", "work")
"""The folders of a home that an element reaches only by naming them: a file there controls narval, or answers
for a person.
"""

RECORDS = ("calendars", "edits", "feeds", "files", "link-codes", "listen", "mcp", "trials", "web")
"""The folders of `var` that are closed: records of sources and files, edits, logins and codes."""

DOCUMENTS = (".html", ".xml", ".txt", ".md", ".csv", ".json")
"""The suffixes of files that are open directly in `var`; the daemon's own files there have others."""

OUTSIDE = "outside"


def reachable(attributes: Mapping[str, str], home: Path | None) -> Path:
    """The file of the attributes `path` and `folder` of an element, with links in its folders followed.

    For a home in memory, inside is the working folder of the program. Raises ActionError for a file outside.
    """
    base = home or Path.cwd()
    path, root = (_absolute(attributes.get(name, ""), base) for name in ("path", "folder"))
    file = _followed(path)
    _check(attributes, file, Path(os.path.realpath(root)), Path(os.path.realpath(base)))
    return file


def resolved(path: str, home: Path) -> Path:
    """The file of a path in a home, with links in its folders followed, whether or not it is reachable. A `~`
    of an unknown user is a name like any other.
    """
    try:
        return _followed(_absolute(path, home))
    except ActionError:
        return _followed(home / path)


def check_words(attributes: Mapping[str, str], home: Path | None) -> None:
    """Refuse a path whose words alone lead out of the home; one with a `folder` is not judged. Raises
    ActionError.

    Links in it are not followed, because a disk that an element names may not answer.
    """
    if attributes.get("folder"):
        return
    base = home or Path.cwd()
    path, real = Path(os.path.abspath(_absolute(attributes["path"], base))), Path(os.path.realpath(base))
    root = real if path.is_relative_to(real) else Path(os.path.abspath(base))
    _check(attributes, path, root, root)


def _check(attributes: Mapping[str, str], path: Path, root: Path, home: Path) -> None:
    """Refuse a path outside of its root, or in a closed part of the home. Raises ActionError."""
    written, folder = attributes["path"], attributes.get("folder", "")
    if path.name in ("", "..") or path == root or not path.is_relative_to(root):
        within = f"the folder {folder}" if folder else "the home"
        how = "a relative path begins at the home" if folder else "to reach further, name the folder"
        message = f"expected a path inside {within}, got {written!r:.80}; {how}"
        raise ActionError(message, OUTSIDE)
    closed = _closed_part(path, home)
    if closed and _within(root, home)[:1] != (closed,):
        message = f'{written!r:.80} is in {closed} of the home; to reach it, write folder="{closed}"'
        raise ActionError(message, OUTSIDE)


def _absolute(path: str, home: Path) -> Path:
    try:
        return home / Path(path).expanduser()
    except RuntimeError:
        raise ActionError(f"expected a path, got {path!r:.80}: there is no such user here", OUTSIDE) from None


def _followed(path: Path) -> Path:
    return Path(os.path.realpath(path.parent)) / path.name


def closed_part(path: str, home: Path) -> str:
    """The closed folder of a home in which a file lies, links in its folders followed; "" if a definition
    may write there. Of `data` only `memory.xml` is closed. The path of the home itself has no links.
    """
    return _closed_part(resolved(path, home), home)


def _closed_part(path: Path, home: Path) -> str:
    parts = _within(path, home) or ("",)
    folder, *below = map(_folded, parts)
    if folder == "var":
        is_closed = below[0] in RECORDS if below[1:] else not below or not below[0].endswith(DOCUMENTS)
    else:
        is_closed = folder in CLOSED or (folder, *below) == ("data", "memory.xml")
    return parts[0] if is_closed else ""


def _within(path: Path, home: Path) -> tuple[str, ...]:
    """The parts of a path below the home, without regard to case: on some disks `Etc` is `etc`."""
    depth = len(home.parts)
    is_within = [*map(str.casefold, path.parts[:depth])] == [*map(str.casefold, home.parts)]
    return path.parts[depth:] if is_within else ()


def _folded(name: str) -> str:
    """A name reduced to its ASCII letters: a disk may ignore case, accents, and invisible characters."""
    return normalize("NFKD", name).casefold().encode("ascii", "ignore").decode()
