"""The files of a home that may hold definitions, as bytes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from narval.definitions.kinds import suffixes
from narval.errors import Fault
from narval.source.text import MAX_BYTES, Source

RECIPES, MODULES = "recipes", "modules"
BACKUPS = ("~", ".bak", ".orig", ".rej", ".swp", ".tmp")


class FoundFiles:
    """The sources in `modules/` of a home, those in `recipes/` (`others`), and faults of unreadable ones."""

    def __init__(self, home: Path) -> None:
        self._home, self._inside = home, home.resolve()
        self.faults: list[Fault] = []
        self.others = list(self._read(RECIPES, tuple(suffixes())))
        self.modules = list(self._read(MODULES, (".py",)))
        self.sources = [*self.others, *self.modules]

    @property
    def paths(self) -> frozenset[str]:
        """The paths of all files there are, readable or not."""
        return frozenset((*(source.path for source in self.sources), *(fault.path for fault in self.faults)))

    def _files(self, folder: Path, endings: tuple[str, ...]) -> Iterator[Path]:
        for at, folders, names in os.walk(folder):
            folders[:] = [] if folder.name == MODULES else [name for name in folders if _is_ours(name)]
            yield from (Path(at, name) for name in names if _is_ours(name) and name.endswith(endings))

    def _read(self, folder: str, endings: tuple[str, ...]) -> Iterator[Source]:
        for path in sorted(self._files(self._home / folder, endings)):
            relative = path.relative_to(self._home).as_posix()
            try:
                if not Path(os.path.realpath(path)).is_relative_to(self._inside):
                    message = "this link leads out of the home; put a copy here instead"
                elif (size := path.stat().st_size) > MAX_BYTES:
                    message = f"expected at most {MAX_BYTES:,} bytes, found {size:,}"
                else:
                    yield Source(relative, path.read_bytes())
                    continue
            except OSError as error:
                message = f"cannot be read: {error.strerror}"
            self.faults.append(Fault(relative, 1, 1, message))


def names_in(folder: Path) -> list[str]:
    """The names of all that is in a folder, sorted; none where it cannot be read."""
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def files_of(path: Path) -> list[Path]:
    """The files in a folder, sorted; a file stands for itself."""
    return sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]


def _is_ours(name: str) -> bool:
    return not name.startswith((".", "#", "__")) and not name.endswith(BACKUPS)
