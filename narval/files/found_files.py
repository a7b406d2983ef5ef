"""The files of a home that may hold definitions, as bytes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path

from narval.core.definitions.parsing import suffixes
from narval.core.errors import Fault
from narval.core.source.text import MAX_BYTES, Source
from narval.files.module_text import FIRST, ModuleText
from narval.system.regular_file import read_file

RECIPES, MODULES = "recipes", "modules"
BACKUPS = ("~", ".bak", ".orig", ".rej", ".swp", ".tmp")

MOST_OF_CODE = 1024 * 1024
"""The most bytes of a Python file: while Python compiles one, nothing else goes on in the program."""

Reader = Callable[[Path, str], Source | Fault]
"""Reads a file that is shown to people under a name."""


class FoundFiles:
    """The modules in `modules/` of a home, the sources in `recipes/` (`others`), `faults` of unreadable ones.

    With `within`, the path of a folder of the home that ends with a slash, those in that folder. A module has
    the faults of its files.
    """

    def __init__(self, home: Path, within: str = "") -> None:
        self._home, self._inside, self._within = home, home.resolve(), within
        self.faults: list[Fault] = []
        self.others = list(self._others())
        found = modules_in(home / within / MODULES, f"{within}{MODULES}")
        self.modules = [read_module(path, shown, self._read) for path, shown in found]

    @cached_property
    def paths(self) -> frozenset[str]:
        """The paths of all files and modules there are, readable or not."""
        modules = (module.path for module in self.modules)
        faults = (fault.path for fault in self.faults)
        return frozenset((*(source.path for source in self.others), *modules, *faults))

    @property
    def state(self) -> tuple[object, ...]:
        """Equal for files of equal contents."""
        return [(source.path, source.digest) for source in self.others], self.code, self.faults

    @property
    def code(self) -> object:
        """Equal for modules of equal contents."""
        return [(text.path, text.digest, text.faults) for text in self.modules]

    @property
    def groups(self) -> Mapping[str, Sequence[ModuleText]]:
        """The modules by group; of a group there should be but one."""
        found: dict[str, list[ModuleText]] = {}
        for module in self.modules:
            found.setdefault(module.group, []).append(module)
        return found

    def _others(self) -> Iterator[Source]:
        folder, endings = self._home / self._within / RECIPES, tuple(suffixes())
        for path in sorted(_walk(folder, lambda name: is_ours(name) and name.endswith(endings))):
            found = self._read(path, path.relative_to(self._home).as_posix())
            if isinstance(found, Source):
                yield found
            else:
                self.faults.append(found)

    def _read(self, path: Path, shown: str) -> Source | Fault:
        """The file, if it is one of the home."""
        if not Path(os.path.realpath(path)).is_relative_to(self._inside):
            return Fault(shown, 1, 1, "this link leads out of the home; put a copy here instead")
        return read_file(path, shown, MOST_OF_CODE if path.suffix == ".py" else MAX_BYTES)


def modules_in(folder: Path, shown: str) -> Iterator[tuple[Path, str]]:
    """The modules in a folder, and their names for people: files, and folders that hold any."""
    for name in names_in(folder):
        path = folder / name
        if is_ours(name) and is_module(path):
            yield path, f"{shown}/{name}"


def is_module(path: Path) -> bool:
    """True of what is called as a Python file, and of a folder that holds any."""
    return path.suffix == ".py" or ("." not in path.name and path.is_dir() and bool(_files_in(path)))


_read_code = partial(read_file, most=MOST_OF_CODE)


def read_module(path: Path, shown: str, read: Reader = _read_code) -> ModuleText:
    """The module that a file or a folder is, with the faults of what cannot be read."""
    if path.suffix == ".py":
        found = {"": read(path, shown)}
    else:
        names = [file.relative_to(path).as_posix() for file in _files_in(path)]
        found = {name: read(path / name, f"{shown}/{name}") for name in names}
    faults = tuple(fault for fault in found.values() if isinstance(fault, Fault))
    return ModuleText(shown, {name: file for name, file in found.items() if isinstance(file, Source)}, faults)


def names_in(folder: Path) -> list[str]:
    """The names of all that is in a folder, sorted; none where it cannot be read."""
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def files_of(path: Path) -> list[Path]:
    """The files in a folder, sorted, a folder that is a module as such; a file stands for itself."""
    if not path.is_dir() or (path / FIRST).is_file():
        return [path]
    found = sorted(file for file in path.rglob("*") if not file.is_dir())
    modules = {file.parent for file in found if file.name == FIRST}
    whole = [folder for folder in sorted(modules) if modules.isdisjoint(folder.parents)]
    return [*whole, *(file for file in found if modules.isdisjoint(file.parents))]


def is_ours(name: str) -> bool:
    """True unless a file or folder is hidden, a backup, or a program's own."""
    return not name.startswith((".", "#", "__")) and not name.endswith(BACKUPS)


def _files_in(folder: Path) -> list[Path]:
    """The files of a module that is a folder."""
    return sorted(
        _walk(folder, lambda name: name == FIRST or (is_ours(name) and name.endswith(".py"))),
    )


def _walk(folder: Path, is_wanted: Callable[[str], bool]) -> Iterator[Path]:
    """All that is called as what is wanted; a folder that is has nothing else in it to be looked for."""
    for at, folders, names in os.walk(folder):
        yield from (Path(at, name) for name in (*folders, *names) if is_wanted(name))
        folders[:] = [name for name in folders if is_ours(name) and not is_wanted(name)]
