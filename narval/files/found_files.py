"""The files of a home that may hold definitions, as bytes; a module is a file, or a folder of files (N30)."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path, PurePosixPath

import msgspec

from narval.core.definitions.parsing import suffixes
from narval.core.errors import Fault
from narval.core.source import MAX_BYTES
from narval.core.source.text import Source
from narval.system.regular_file import is_folder, read_file, unreadable

FIRST = "__init__.py"
"""The file of a folder that is read first; it is optional."""

_files = msgspec.msgpack.Decoder(dict[str, bytes])
_RELATIVE = re.compile(
    r"(?:^|;)[ \t]*from[ \t]+(\.+)[ \t]*([\w.]*)[ \t]+import[ \t]*(\([^)]*\)|[^\n#;]*)", re.MULTILINE
)
_COMMENT = re.compile(r"#[^\n]*")


@dataclass(frozen=True)
class ModuleText:
    """A module as text: its path, and its files by their names within it, "" if it is one file.

    `path` is the one shown in faults: `modules/mail.py`, or `modules/mail` for a folder. `faults` are those
    of files that could not be read.
    """

    path: str
    files: Mapping[str, Source]
    faults: tuple[Fault, ...] = ()

    @classmethod
    def of(cls, path: str, data: bytes) -> ModuleText:
        """The module stored as these bytes. Raises ValueError for other bytes."""
        if path.endswith(".py"):
            return cls(path, {"": Source(path, data)})
        files = _files.decode(data)
        return cls(path, {name: Source(f"{path}/{name}", text) for name, text in files.items()})

    @property
    def is_folder(self) -> bool:
        """True if it consists of several files."""
        return not self.path.endswith(".py")

    @cached_property
    def group(self) -> str:
        """The group of its definitions: the stem of the file, or the name of the folder."""
        path = PurePosixPath(self.path)
        return path.name if self.is_folder else path.stem

    @cached_property
    def data(self) -> bytes:
        """The bytes to store; for one file, its own."""
        if not self.is_folder:
            return self._only.data
        return msgspec.msgpack.encode({name: self.files[name].data for name in sorted(self.files)})

    @property
    def _only(self) -> Source:
        """The only file of a module; an empty text if it could not be read, which is a fault."""
        return self.files.get("", Source(self.path, b""))

    def place_of(self, function: str) -> str:
        """The file and line of a function of that name, as `modules/a.py:3`; "" if there is none."""
        written = re.compile(rf"^(?:async[ \t]+)?def[ \t]+{re.escape(function)}\b", re.MULTILINE)
        for source in self.files.values():
            if (match := written.search(source.text)) is not None:
                return f"{source.path}:{len(source.text[: match.start()].splitlines()) + 1}"
        return ""

    def place_before(self, path: str, line: int, text: str) -> tuple[int, int]:
        """The line and column of a text in one of its files, the last one up to a line; that line itself if
        the text is not there.
        """
        source = next((source for source in self.files.values() if source.path == path), None)
        lines = source.text.splitlines()[:line] if source is not None else []
        for number in range(len(lines), 0, -1):
            if (at := lines[number - 1].rfind(text)) >= 0:
                return number, at + 1
        return line, 1

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of all of it, in hexadecimal."""
        return hashlib.sha256(self.data).hexdigest()

    @cached_property
    def parts(self) -> Mapping[str, Source]:
        """Its files by the names under which they are imported, the package first: `mail`, `mail.reading`.

        A folder is a package with or without a first file, and so are folders in it.
        """
        if not self.is_folder:
            return {self.group: self._only}
        sources: dict[str, Source] = {}
        for name in sorted(self.files):
            folder, _, file = f"{self.group}/{name}".rpartition("/")
            stem = file.removesuffix(".py")
            if file != FIRST:
                sources[f"{folder}/{stem}".replace("/", ".")] = self.files[name]
            while folder:
                inner = folder.removeprefix(self.group).lstrip("/")
                first = f"{inner}/{FIRST}".lstrip("/")
                empty = Source(f"{self.path}/{first}", b"")
                sources.setdefault(folder.replace("/", "."), self.files.get(first, empty))
                folder = folder.rpartition("/")[0]
        return dict(sorted(sources.items()))

    @cached_property
    def siblings(self) -> frozenset[str]:
        """The groups of the modules beside it that it may import, in functions too; some may not exist."""
        return frozenset(self._siblings())

    def _siblings(self) -> Iterator[str]:
        for part, source in self.parts.items():
            if b"from" not in source.data or b"." not in source.data:
                continue
            # a sibling of `mail.py` is one dot away, one of the folder `mail` two dots from a file in it
            dots = part.count(".") + (2 if is_package(source) else 1)
            for match in _RELATIVE.finditer(source.data.decode("utf-8", "replace")):
                if len(match[1]) == dots:
                    names = _COMMENT.sub("", match[3]).strip("() \t\n").split(",")
                    whole = match[2].partition(".")[0]
                    yield from [whole] if whole else [name.split()[0] for name in names if name.strip()]


def is_package(source: Source) -> bool:
    """True if a file is the first of a folder."""
    return source.path.endswith(f"/{FIRST}")


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


NO_TEXTS = FoundFiles()
"""The texts of a collection without files."""


class UnreadFolders:
    """The folders of a home that cannot be read, by their paths there, with the fault of each."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self.faults: dict[str, Fault] = {}

    def note(self, error: OSError) -> None:
        """Note the folder that an error is about, unless there is none."""
        if not isinstance(error, (FileNotFoundError, NotADirectoryError)):
            path = Path(error.filename).relative_to(self._home).as_posix()
            self.faults[path] = unreadable(path, error)

    def touching(self, path: str) -> tuple[Fault, ...]:
        """The faults of those that contain a path, or are in it."""
        at = f"{path}/"
        return tuple(
            fault
            for one, fault in self.faults.items()
            if f"{one}/".startswith(at) or at.startswith(f"{one}/")
        )


def find_files(home: Path, within: str = "", before: FoundFiles = NO_TEXTS) -> FoundFiles:
    """The files of a home; with `within`, the path of a folder in it with a trailing slash, the folder's.

    A folder that cannot be read is a fault, and what `before` has from it stays.
    """
    inside, folder, endings = home.resolve(), home / within / RECIPES, tuple(suffixes())
    unread = UnreadFolders(home)

    def read(path: Path, shown: str) -> Source | Fault:
        if not Path(os.path.realpath(path)).is_relative_to(inside):
            return Fault(shown, 1, 1, "this link leads out of the home; put a copy here instead")
        return read_file(path, shown, MOST_OF_CODE if path.suffix == ".py" else MAX_BYTES)

    paths = sorted(_walk(folder, lambda name: is_ours(name) and name.endswith(endings), unread.note))
    read_files = [read(path, path.relative_to(home).as_posix()) for path in paths]
    there = [*modules_in(home / within / MODULES, f"{within}{MODULES}", unread.note)]
    modules = [read_module(path, shown, read) for path, shown in there]
    if not unread.faults:
        return FoundFiles(
            tuple(one for one in read_files if isinstance(one, Source)),
            tuple(modules),
            tuple(one for one in read_files if isinstance(one, Fault)),
        )
    whole = {text.path: replace(text, faults=text.faults + unread.touching(text.path)) for text in modules}
    whole |= {text.path: text for text in before.modules if unread.touching(text.path)}
    files: dict[str, Source | Fault] = {one.path: one for one in before.sources if unread.touching(one.path)}
    files |= {one.path: one for one in read_files} | unread.faults
    return FoundFiles(
        tuple(one for _, one in sorted(files.items()) if isinstance(one, Source)),
        tuple(text for _, text in sorted(whole.items())),
        tuple(one for _, one in sorted(files.items()) if isinstance(one, Fault)),
    )


Note = Callable[[OSError], object]
"""A function that notes why a folder cannot be read."""


def ignored(error: OSError) -> None:
    """Take a folder that cannot be read for an empty one."""


def modules_in(folder: Path, shown: str, note: Note = ignored) -> Iterator[tuple[Path, str]]:
    """The modules in a folder, and their names for people: Python files, and folders that contain any."""
    for name in names_in(folder, note):
        path = folder / name
        if is_ours(name) and is_module(path, note):
            yield path, f"{shown}/{name}"


def is_module(path: Path, note: Note = ignored) -> bool:
    """True of a path named like a Python file, and of a folder that contains one."""
    if path.suffix == ".py" or "." in path.name:
        return path.suffix == ".py"
    return is_folder(path) and bool(_files_in(path, note))


_read_code = partial(read_file, most=MOST_OF_CODE)


def read_module(path: Path, shown: str, read: Reader = _read_code) -> ModuleText:
    """The module in a file or a folder, with the faults of what cannot be read."""
    if path.suffix == ".py":
        texts = {"": read(path, shown)}
    else:
        names = [file.relative_to(path).as_posix() for file in _files_in(path)]
        texts = {name: read(path / name, f"{shown}/{name}") for name in names}
    faults = tuple(fault for fault in texts.values() if isinstance(fault, Fault))
    return ModuleText(shown, {name: file for name, file in texts.items() if isinstance(file, Source)}, faults)


def names_in(folder: Path, note: Note = ignored) -> list[str]:
    """The names of all entries of a folder, sorted; none if it cannot be read."""
    try:
        return sorted(os.listdir(folder))
    except OSError as error:
        note(error)
        return []


def files_of(path: Path) -> list[Path]:
    """The files in a folder, sorted, folders of modules as one; for a file, the file itself."""
    if not path.is_dir() or (path / FIRST).is_file():
        return [path]
    files = sorted(file for file in path.rglob("*") if not file.is_dir())
    modules = {file.parent for file in files if file.name == FIRST}
    whole = [folder for folder in sorted(modules) if modules.isdisjoint(folder.parents)]
    return [*whole, *(file for file in files if modules.isdisjoint(file.parents))]


def is_ours(name: str) -> bool:
    """True unless a file or folder is hidden, a backup, or a program's own."""
    return not name.startswith((".", "#", "__")) and not name.endswith(BACKUPS)


def _files_in(folder: Path, note: Note = ignored) -> list[Path]:
    """The files of a module that is a folder."""
    return sorted(
        _walk(folder, lambda name: name == FIRST or (is_ours(name) and name.endswith(".py")), note),
    )


def _walk(folder: Path, is_wanted: Callable[[str], bool], note: Note) -> Iterator[Path]:
    """All entries whose name is wanted; a folder with such a name is not searched."""
    for at, folders, names in os.walk(folder, onerror=note):
        yield from (Path(at, name) for name in (*folders, *names) if is_wanted(name))
        folders[:] = [name for name in folders if is_ours(name) and not is_wanted(name)]
