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
    """The sources in `recipes/` and `modules/` of a home by path, and the faults of unreadable ones."""

    def __init__(self, home: Path) -> None:
        self._home, self._inside = home, home.resolve()
        self.sources: list[Source] = []
        self.faults: list[Fault] = []
        for folder, endings in ((RECIPES, tuple(suffixes())), (MODULES, (".py",))):
            for path in sorted(self._files(home / folder)):
                if path.name.endswith(endings):
                    self._read(path)

    @property
    def modules(self) -> list[Source]:
        """Sources in `modules/`."""
        return [source for source in self.sources if source.path.startswith(MODULES + "/")]

    @property
    def others(self) -> list[Source]:
        """Sources in `recipes/`."""
        return [source for source in self.sources if not source.path.startswith(MODULES + "/")]

    @property
    def paths(self) -> frozenset[str]:
        """The paths of all files there are, readable or not."""
        return frozenset((*(source.path for source in self.sources), *(fault.path for fault in self.faults)))

    def _files(self, folder: Path) -> Iterator[Path]:
        for at, folders, names in os.walk(folder):
            folders[:] = [] if folder.name == MODULES else [name for name in folders if _is_ours(name)]
            yield from (Path(at, name) for name in names if _is_ours(name))

    def _read(self, path: Path) -> None:
        relative = path.relative_to(self._home).as_posix()
        if not Path(os.path.realpath(path)).is_relative_to(self._inside):
            self.faults.append(
                Fault(relative, 1, 1, "this link leads out of the home; put a copy here instead")
            )
            return
        try:
            if path.stat().st_size > MAX_BYTES:
                wanted = f"expected at most {MAX_BYTES:,} bytes, found {path.stat().st_size:,}"
                self.faults.append(Fault(relative, 1, 1, wanted))
            else:
                self.sources.append(Source(relative, path.read_bytes()))
        except OSError as error:
            self.faults.append(Fault(relative, 1, 1, f"cannot be read: {error.strerror}"))


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
