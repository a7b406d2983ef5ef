"""Alterations: the differences between the files of a home and those that ship, and copying shipped files
into a home.

Settings, schemas, recipes, scenarios and modules are compared. A module of the home replaces the shipped one
as a whole, so it is compared as a whole; without such a module, the home uses the shipped one. An example is
a recipe with the other files of its name, and is taken as a whole; a home need not have any.
"""

from __future__ import annotations

import difflib
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Literal

import msgspec

from narval.core.definitions.library import Library
from narval.core.definitions.suggestions import closest
from narval.core.errors import RequestError, SurroundingsError
from narval.core.source.text import SHIPPED
from narval.files.agents.collections import AGENTS
from narval.files.found_files import FIRST, MODULES, RECIPES, is_ours
from narval.files.home import SCENARIOS, Home
from narval.files.outside.kept_tools import path_of
from narval.files.reading import load
from narval.files.shipped import EXAMPLES, shipped
from narval.system.regular_file import read_regular

HOUSEHOLD = f"{EXAMPLES}/household"
"""The example with several agents that is taken as a whole nevertheless."""

_OF_THE_HOUSEHOLD = tuple(f"{AGENTS}/{name}/" for name in ("mail", "calendar", "purchases"))

PARTS = ("etc", RECIPES, MODULES, SCENARIOS, AGENTS)
"""The folders that are compared; `data` belongs to the user, except in the folders of agents."""

State = Literal["same", "altered", "own", "not there"]

_LISTED = "; `narval take` lists the examples, `narval diff` all else"
"""The end of a message about an unknown name."""

_NO_NEWLINE = "\\ No newline at end of file\n"


class ComparedFile(msgspec.Struct, frozen=True):
    """A file, or a module that the home does not have, compared with what ships.

    `diff` leads from the shipped version to the home's; it is "" if they are equal. A file of the home's own
    is an alteration only within a module that replaces another.
    """

    path: str
    state: State
    diff: str = ""


def compare(home: Home, name: str | None = None) -> list[ComparedFile]:
    """All compared files, by path, except examples that the home does not have; with a name, those of a path,
    a folder, a module or an example.

    Raises RequestError for an unknown name, SurroundingsError if a file cannot be read.
    """
    ours, theirs = _files(home.path), _files(shipped())
    files = sorted(_compared(home.path, ours, theirs), key=lambda file: file.path)
    if name is None:
        return [file for file in files if file.state != "not there" or not _example(file.path)]
    named = _named(name, files)
    return [file for file in files if file.path in named]


def example_files() -> dict[str, list[str]]:
    """The files of each example that ships, by its name."""
    examples: dict[str, list[str]] = {}
    for path in sorted(_files(shipped())):
        if name := _example(path):
            examples.setdefault(name, []).append(path)
    return examples


def takable() -> set[str]:
    """The names of shipped files that may be copied into a home: paths, modules by group, and examples."""
    return _names(map(_unit, _files(shipped())))


def take(home: Home, *names: str, force: bool = False) -> list[str]:
    """Copy shipped modules, files or examples into the home, each file whole or not at all; returns the paths
    of the copies. A recipe is copied with the shipped recipes that it names and the home does not have.

    With `force` it replaces existing ones. Raises RequestError, before anything is copied, SurroundingsError.
    """
    there: dict[str, list[str]] = {}
    copies: dict[str, str] = {}
    for name in names:
        replaced, tools = _to_take(home, name, force=force)
        there |= replaced
        copies |= {path: path for path in replaced} | tools
    return put_copies(home, {path: shipped() / source for path, source in copies.items()}, there)


def _to_take(home: Home, name: str, *, force: bool) -> tuple[dict[str, list[str]], dict[str, str]]:
    """The files of a name, with what each replaces, and the files of tools by the path of the copy."""
    units = sorted({_unit(path) for path in _files(shipped())})
    paths_of_name = (name, f"{MODULES}/{name}", f"{MODULES}/{name}.py")
    named = [path for path in units if path in paths_of_name or _example(path) == name]
    paths = [path for path in named if not is_of_server(path)]
    if not named:
        raise RequestError(f"narval ships nothing called {name!r}{closest(name, takable()) or _LISTED}")
    there = {path: [file for file in _rivals(path) if (home.path / file).exists()] for path in paths}
    present = [file for files in there.values() for file in files]
    if present and not force:
        raise RequestError(
            f"{present[0]} exists already; compare it: narval diff {name}; "
            f"replace it: narval take {name} --force"
        )
    needed = _transforms_of(paths, units) | needed_by(paths)
    there |= {
        path: [] for path in sorted(needed) if not any((home.path / own).exists() for own in _rivals(path))
    }
    return there, tools_to_take(home, named)


def is_of_server(path: str) -> bool:
    """True of a file of accepted tools of an MCP server."""
    return path.endswith(".tools")


def tools_to_take(home: Home, paths: Iterable[str]) -> dict[str, str]:
    """The files of tools among those of an example, by their path in a home. None is taken for a server whose
    tools the home has already: those were accepted.
    """
    places = {path_of(Path(path).stem): path for path in paths if is_of_server(path)}
    return {place: path for place, path in places.items() if not (home.path / place).exists()}


def _transforms_of(paths: Iterable[str], shipped_paths: Iterable[str]) -> set[str]:
    """The files of transforms, among the known ones, that shipped recipe files name as a target."""
    texts = [(shipped() / path).read_text("utf-8") for path in paths if path.endswith(".xml")]
    transforms = {path for path in shipped_paths if path.endswith(".xsl")}
    return {path for path in transforms if any(f'target="{Path(path).stem}"' in text for text in texts)}


def needed_by(paths: Iterable[str]) -> set[str]:
    """The shipped files of recipes, without examples, that define what these shipped files name in quotes,
    and the shipped modules with the code of their processes: a home finds that only in its own modules.
    """
    paths = [path for path in paths if path.startswith((RECIPES, SCENARIOS))]
    texts = "".join((shipped() / path).read_text("utf-8") for path in paths)
    library = shipped_library()
    others = (each for each in library if each.path.startswith(f"{RECIPES}/"))
    named = {each.path for each in others if f'"{each.full_name}"' in texts and not _example(each.path)}
    targets = {(to.kind, to.target) for each in library if each.path in paths for to in each.references}
    code = (each for each in library if (each.kind, each.full_name) in targets and "." not in each.full_name)
    return (named | {_unit(each.path) for each in code if each.path.startswith(f"{MODULES}/")}) - set(paths)


def shipped_library() -> Library:
    """The shipped definitions, read once in a program."""
    return _library_of(shipped())


@cache
def _library_of(root: Path) -> Library:
    return load(root).library


def _files(root: Path) -> Mapping[str, Path]:
    """The files of the parts that are compared, by path."""
    file_at = {}
    for part in PARTS:
        for at, folders, names in os.walk(root / part):
            folders[:] = [name for name in folders if is_ours(name)]
            files = (Path(at, name) for name in names if is_ours(name) or name == FIRST)
            file_at.update({file.relative_to(root).as_posix(): file for file in files})
    return file_at


def _unit(path: str) -> str:
    """The file or folder that is taken as a whole: for a file in a module's folder, that folder."""
    part, name, *inner = path.split("/")
    return f"{part}/{name}" if part == MODULES and inner else path


def _group(path: str) -> str:
    """The group of the module that a file belongs to; "" for any other file."""
    return Path(_unit(path)).stem if path.startswith(f"{MODULES}/") else ""


def _example(path: str) -> str:
    """The name of the example that a file belongs to, such as `examples/invoice`; "" for any other file."""
    if path.startswith(_OF_THE_HOUSEHOLD):
        return HOUSEHOLD
    _, _, name = path.partition("/")
    return name.partition(".")[0] if name.startswith(f"{EXAMPLES}/") else ""


def _rivals(path: str) -> list[str]:
    """The paths of which only one may exist."""
    group = _group(path)
    return [f"{MODULES}/{group}", f"{MODULES}/{group}.py"] if group else [path]


def _compared(root: Path, ours: Mapping[str, Path], theirs: Mapping[str, Path]) -> Iterator[ComparedFile]:
    replaced = {_group(path) for path in ours}
    pairs = {path: path for path in theirs}
    for path in ours:
        first = f"{MODULES}/{_group(path)}/{FIRST}"
        if path not in theirs and path == f"{MODULES}/{_group(path)}.py" and first in theirs:
            del pairs[first]
            pairs[path] = first
    shipped_groups = {_group(path) for path in theirs} - {""}
    absent = {path for path in theirs if _group(path) and _group(path) not in replaced}
    yield from (ComparedFile(path, "not there") for path in {_unit(path) for path in absent})
    for path in (ours.keys() | pairs.keys()) - absent:
        their = theirs.get(pairs.get(path, ""))
        before, after = _lines(their), _lines(ours.get(path))
        state: State = "own" if their is None else "not there" if path not in ours else "altered"
        if state == "altered" and before == after:
            state = "same"
        alters = state == "altered" or (state != "same" and _group(path) in shipped_groups)
        yield ComparedFile(path, state, _diff(pairs.get(path), path, before, after) if alters else "")


def _lines(file: Path | None) -> list[str]:
    try:
        data = b"" if file is None else read_regular(file)
    except OSError as error:
        raise SurroundingsError(f"{file} cannot be read: {error.strerror}") from error
    return [line.decode("utf-8", "backslashreplace") for line in data.splitlines(keepends=True)]


def _diff(their: str | None, our: str, before: list[str], after: list[str]) -> str:
    """The unified diff, in the form for the program `patch`, which finds the file by either name."""
    old = f"{SHIPPED}/{their}" if after else our
    lines = difflib.unified_diff(before, after, old if their else "/dev/null", our if after else "/dev/null")
    return "".join(line if line.endswith("\n") else f"{line}\n{_NO_NEWLINE}" for line in lines)


def _named(name: str, files: list[ComparedFile]) -> set[str]:
    path = name.rstrip("/")
    named = {file.path for file in files if file.path == path or file.path.startswith(f"{path}/")}
    named |= {file.path for file in files if path in (_group(file.path), _example(file.path))}
    if not named:
        names = _names(_unit(file.path) for file in files)
        raise RequestError(
            f"expected a file, a folder or a module, got {name!r}{closest(name, names) or _LISTED}"
        )
    return named


def _names(paths: Iterable[str]) -> set[str]:
    """The names by which files, modules and examples may be requested."""
    return {name for path in paths for name in (path, _group(path), _example(path)) if name}


def put_copies(home: Home, copies: Mapping[str, Path | str], there: Mapping[str, list[str]]) -> list[str]:
    """Put copies of files and folders, or texts, into a home, each in place of what is `there`; returns their
    paths. Raises SurroundingsError.
    """
    for path, source in copies.items():
        try:
            _put_copy(source, home.path / path, [home.path / file for file in there.get(path, ())])
        except OSError as error:
            raise SurroundingsError(f"cannot write {path} in {home.path}: {error}") from error
    return list(copies)


def _put_copy(source: Path | str, target: Path, former: list[Path]) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".narval-take-", dir=target.parent) as scratch:
        copy = Path(scratch) / target.name
        if isinstance(source, str):
            copy.write_text(source, "utf-8")
        elif source.is_dir():
            shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__", "*.pyc", ".*"))
        else:
            shutil.copyfile(source, copy)
        for number, path in enumerate(former):
            path.rename(Path(scratch) / f"former-{number}")
        copy.rename(target)
