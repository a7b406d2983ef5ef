"""ModuleText: a module as text, of one file or of a folder of them (N30)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath

import msgspec

from narval.core.errors import Fault
from narval.core.source.text import Source

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
        found: dict[str, Source] = {}
        for name in sorted(self.files):
            folder, _, file = f"{self.group}/{name}".rpartition("/")
            stem = file.removesuffix(".py")
            if file != FIRST:
                found[f"{folder}/{stem}".replace("/", ".")] = self.files[name]
            while folder:
                inner = folder.removeprefix(self.group).lstrip("/")
                first = f"{inner}/{FIRST}".lstrip("/")
                empty = Source(f"{self.path}/{first}", b"")
                found.setdefault(folder.replace("/", "."), self.files.get(first, empty))
                folder = folder.rpartition("/")[0]
        return dict(sorted(found.items()))

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
            for found in _RELATIVE.finditer(source.data.decode("utf-8", "replace")):
                if len(found[1]) == dots:
                    names = _COMMENT.sub("", found[3]).strip("() \t\n").split(",")
                    whole = found[2].partition(".")[0]
                    yield from [whole] if whole else [name.split()[0] for name in names if name.strip()]


def is_package(source: Source) -> bool:
    """True if a file is the first of a folder."""
    return source.path.endswith(f"/{FIRST}")
