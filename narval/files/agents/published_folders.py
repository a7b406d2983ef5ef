"""Folders of published collections: `collections/NAME/` with the store's content, written by the daemon
(G58).

A mark in a folder says that narval has written it. A folder without the mark is the user's own, and is never
touched.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from narval.core.agent_name import NAME
from narval.core.errors import Fault, RequestError, SurroundingsError
from narval.files.agents.packed import pack
from narval.files.agents.settings import COLLECTIONS, OWN, PUBLISHED_MARK
from narval.files.found_files import names_in

_SCRATCH = ".narval-"
"""The prefix of the names of folders that are unfinished or moved aside."""

_NOTE = "written by narval from its store; what is changed here is written over: narval collection publish"


def check_name(name: str) -> None:
    """Refuse the name of a collection that cannot be published. Raises RequestError."""
    if NAME.fullmatch(name) is None or name == OWN:
        wanted = f"expected the name of a collection, a lower-case letter and up to 62 more, not {OWN!r}"
        raise RequestError(f"{wanted}, got {name!r:.80}")


def published_here(home: Path) -> frozenset[str]:
    """The names of the folders that were written from a store."""
    names = (name for name in names_in(home / COLLECTIONS) if NAME.fullmatch(name))
    return frozenset(name for name in names if (home / COLLECTIONS / name / PUBLISHED_MARK).is_file())


def is_own(home: Path, name: str) -> bool:
    """True if a home has a folder of that name that is the user's own."""
    folder = home / COLLECTIONS / name
    return os.path.lexists(folder) and not (folder / PUBLISHED_MARK).is_file()


def digest_here(home: Path, name: str) -> str:
    """The digest of the effective files in a collection's current folder; "" without one."""
    folder = home / COLLECTIONS / name
    return pack(folder)[0].digest if folder.is_dir() and not folder.is_symlink() else ""


def own_folder_faults(home: Path, published: Mapping[str, str], there: Mapping[str, str]) -> Iterator[Fault]:
    """The faults of the user's own folders with the names of published collections, unless they have the same
    files. `published` are the digests of the collections, `there` those of the folders.
    """
    for name, digest in sorted(published.items()):
        if there[name] != digest and is_own(home, name):
            own = f"{COLLECTIONS}/{name} is a folder of this home's own, and a collection {name} is published"
            todo = f"publish it (narval collection publish {COLLECTIONS}/{name}), or move it away"
            yield Fault(f"{COLLECTIONS}/{name}", 1, 1, f"{own} ({digest:.12}): {todo}")


def write_published(home: Path, name: str, digest: str, files: Mapping[str, bytes]) -> bool:
    """Replace the folder of a collection by these files, whole or not at all; False if it is the user's own.

    Raises RequestError for an invalid name, SurroundingsError if it cannot be written.
    """
    check_name(name)
    if is_own(home, name):
        return False
    folder = home / COLLECTIONS
    try:
        folder.mkdir(exist_ok=True)
        _tidy(folder)
        new = Path(tempfile.mkdtemp(prefix=_SCRATCH, dir=folder))
        new.chmod(0o755)
        for path, data in files.items():
            (new / path).parent.mkdir(parents=True, exist_ok=True)
            (new / path).write_bytes(data)
        (new / PUBLISHED_MARK).write_text(f"{digest}\n{_NOTE}\n", "utf-8")
        _withdraw(folder, name)
        new.rename(folder / name)
        _tidy(folder)
    except OSError as error:
        raise SurroundingsError(f"expected to write the folder {COLLECTIONS}/{name}: {error}") from error
    return True


def remove_published(home: Path, name: str) -> None:
    """Remove the folder of a collection that is no longer published, unless it is the user's own.

    Raises SurroundingsError on failure.
    """
    folder = home / COLLECTIONS
    try:
        if (folder / name / PUBLISHED_MARK).is_file():
            _withdraw(folder, name)
            _tidy(folder)
    except OSError as error:
        raise SurroundingsError(f"expected to remove the folder {COLLECTIONS}/{name}: {error}") from error


def _withdraw(folder: Path, name: str) -> None:
    """Move the folder of a collection aside, if it exists."""
    with suppress(FileNotFoundError):
        (folder / name).rename(Path(tempfile.mkdtemp(prefix=_SCRATCH, dir=folder)) / name)


def _tidy(folder: Path) -> None:
    """Remove folders that were moved aside, and those that a killed daemon left unfinished."""
    for left in names_in(folder):
        if left.startswith(_SCRATCH):
            shutil.rmtree(folder / left, ignore_errors=True)
