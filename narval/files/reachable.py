"""Files that an element may name: those of a home, but for the ones that say what it does, or of a folder
that the element names. This is what `[home]` and `{NAME/@folder}` mean in the needs of an action.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from narval.core.errors import ActionError

GUARDED = ("agents", "etc", "modules", "recipes")
"""Folders of the home that an element reaches only by naming them: their files decide what runs."""

LOGINS = ("mcp", "web")
"""The folders of `var` with the tokens of logins at MCP servers, and the sessions of the pages."""

DOCUMENTS = (".html", ".xml", ".txt", ".md", ".csv", ".json")
"""The endings of files allowed beside the store, directly in `var`; the daemon's own files have others."""

OUTSIDE = "outside"


def reachable(attributes: Mapping[str, str], home: Path | None) -> Path:
    """The file of the attributes `path` and `folder` of an element, links in its folders followed.

    For a home in memory, inside is the working folder of the program. Raises ActionError for a file outside.
    """
    written, folder = attributes["path"], attributes.get("folder", "")
    base = home or Path.cwd()
    path, root = _absolute(written, base), Path(os.path.realpath(_absolute(folder, base)))
    resolved = Path(os.path.realpath(path.parent)) / path.name
    if path.name in ("", "..") or resolved == root or not resolved.is_relative_to(root):
        within = f"the folder {folder}" if folder else "the home"
        message = f"expected a path inside {within}, got {written!r:.80}; to reach further, name the folder"
        raise ActionError(message, OUTSIDE)
    guarded = _guarded(resolved, base)
    if guarded and _within(root, base)[:1] != (guarded,):
        message = f'{written!r:.80} is in {guarded} of the home; to reach it, write folder="{guarded}"'
        raise ActionError(message, OUTSIDE)
    return resolved


def _absolute(path: str, home: Path) -> Path:
    try:
        return home / Path(path).expanduser()
    except RuntimeError:
        raise ActionError(f"expected a path, got {path!r:.80}: there is no such user here", OUTSIDE) from None


def _guarded(path: Path, home: Path) -> str:
    """The guarded folder of the home in which a path lies, if any."""
    top, *deeper = _within(path, home) or ("",)
    if (top, *deeper) == ("data", "memory.xml"):
        return top
    beside_the_store = top == "var" and len(deeper) == 1 and path.suffix not in DOCUMENTS
    is_login = top == "var" and bool({*deeper[:1]} & {*LOGINS})
    return top if top in GUARDED or beside_the_store or is_login else ""


def _within(path: Path, home: Path) -> tuple[str, ...]:
    real = Path(os.path.realpath(home))
    return path.relative_to(real).parts if path.is_relative_to(real) else ()
