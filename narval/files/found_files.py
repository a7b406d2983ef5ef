"""The files of a home that may hold definitions, as bytes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import msgspec

from narval.core.definitions.parsing import suffixes
from narval.core.errors import Fault
from narval.core.source import MAX_BYTES
from narval.core.source.text import Source
from narval.files.module_text import FIRST, ModuleText
from narval.system.regular_file import read_file

RECIPES, MODULES = "recipes", "modules"
BACKUPS = ("~", ".bak", ".orig", ".rej", ".swp", ".tmp")

MOST_OF_CODE = 1024 * 1024
"""The most bytes of a Python file: the program is blocked while Python compiles it."""

Reader = Callable[[Path, str], Source | Fault]
"""A function that reads a file, given its name for people."""


class FoundFiles(msgspec.Struct, frozen=True):
    """The texts of a collection: the sources in `recipes/`, the modules in `modules/`, the faults of sources
    that cannot be read. A module has the faults of its files.
    """

    sources: tuple[Source, ...] = ()
    modules: tuple[ModuleText, ...] = ()
    faults: tuple[Fault, ...] = ()


def find_files(home: Path, within: str = "") -> FoundFiles:
    """The files of a home; with `within`, the path of a folder in it with a trailing slash, the folder's."""
    inside, folder, endings = home.resolve(), home / within / RECIPES, tuple(suffixes())

    def read(path: Path, shown: str) -> Source | Fault:
        if not Path(os.path.realpath(path)).is_relative_to(inside):
            return Fault(shown, 1, 1, "this link leads out of the home; put a copy here instead")
        return read_file(path, shown, MOST_OF_CODE if path.suffix == ".py" else MAX_BYTES)

    paths = sorted(_walk(folder, lambda name: is_ours(name) and name.endswith(endings)))
    found = [read(path, path.relative_to(home).as_posix()) for path in paths]
    modules = modules_in(home / within / MODULES, f"{within}{MODULES}")
    return FoundFiles(
        tuple(one for one in found if isinstance(one, Source)),
        tuple(read_module(path, shown, read) for path, shown in modules),
        tuple(one for one in found if isinstance(one, Fault)),
    )


def modules_in(folder: Path, shown: str) -> Iterator[tuple[Path, str]]:
    """The modules in a folder, and their names for people: Python files, and folders that contain any."""
    for name in names_in(folder):
        path = folder / name
        if is_ours(name) and is_module(path):
            yield path, f"{shown}/{name}"


def is_module(path: Path) -> bool:
    """True of a path named like a Python file, and of a folder that contains one."""
    return path.suffix == ".py" or ("." not in path.name and path.is_dir() and bool(_files_in(path)))


_read_code = partial(read_file, most=MOST_OF_CODE)


def read_module(path: Path, shown: str, read: Reader = _read_code) -> ModuleText:
    """The module in a file or a folder, with the faults of what cannot be read."""
    if path.suffix == ".py":
        found = {"": read(path, shown)}
    else:
        names = [file.relative_to(path).as_posix() for file in _files_in(path)]
        found = {name: read(path / name, f"{shown}/{name}") for name in names}
    faults = tuple(fault for fault in found.values() if isinstance(fault, Fault))
    return ModuleText(shown, {name: file for name, file in found.items() if isinstance(file, Source)}, faults)


def names_in(folder: Path) -> list[str]:
    """The names of all entries of a folder, sorted; none if it cannot be read."""
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def files_of(path: Path) -> list[Path]:
    """The files in a folder, sorted, folders of modules as one; for a file, the file itself."""
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
    """All entries whose name is wanted; a folder with such a name is not searched."""
    for at, folders, names in os.walk(folder):
        yield from (Path(at, name) for name in (*folders, *names) if is_wanted(name))
        folders[:] = [name for name in folders if is_ours(name) and not is_wanted(name)]
