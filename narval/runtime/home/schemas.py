"""Schemas: `etc/schemas/NAME.rng` or `NAME.dtd` describes the elements of a name (N7).

The files are read at once, and compiled when the first element of their name comes. Of one that cannot be
used the last good version stays at work; where there is none, elements of its name are refused, and the
reason names the file.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any, Protocol

from lxml import etree

from narval.errors import ElementError, Fault
from narval.memory.elements.canonical import parse_untrusted
from narval.memory.elements.element import parse

SUFFIXES = (".rng", ".dtd")
MAX_BYTES = 1024 * 1024
RNG = "http://relaxng.org/ns/structure/1.0"

Refusal = tuple[str, int, int]
"""The reason for which an element is refused, and the line and column in it."""


class _Schema(Protocol):
    def __call__(self, root: Any, /) -> bool: ...


class Schemas:
    """The schemas of a folder, by the local name of the elements they are for; None: there are none.

    `before` are those that were read the last time: they have the last good version of every file.
    """

    def __init__(self, folder: Path | None, before: Schemas | None = None) -> None:
        self._names = dict(_files(folder)) if folder is not None else {}
        self._texts = {name: _text(path) for name, path in self._names.items()}
        self._good = before._last_good() if before is not None else {}
        self._read: dict[str, _Schema | Fault] = {}
        self._faults: dict[str, Fault] = {}

    @property
    def digest(self) -> str:
        """Equal for equal schemas."""
        digest = hashlib.sha256()
        for name, text in sorted(self._texts.items()):
            content = text if isinstance(text, bytes) else str(text).encode("utf-8", "replace")
            digest.update(hashlib.sha256(os.fsencode(self._names[name].name)).digest())
            digest.update(hashlib.sha256(content).digest())
        return digest.hexdigest()

    def refusal(self, xml: bytes) -> str | None:
        """The reason for which an element is refused, for people; None when it is not."""
        fault = self.fault(xml) if self._names else None
        return None if fault is None else f"line {fault[1]}, column {fault[2]}: {fault[0]}"

    def fault(self, xml: bytes) -> Refusal | None:
        """The reason for which an element is refused, and its place; None when it is not."""
        if not self._names:
            return None
        root = parse(xml)
        name = etree.QName(root).localname
        if name not in self._names:
            return None
        schema = self._schema(name)
        if isinstance(schema, Fault):
            return f"the schema of {name!r} cannot be used ({schema}); correct it, or move it away", 1, 1
        if schema(root):
            return None
        return self._reason(schema, name, xml)

    def faults(self) -> list[Fault]:
        """The faults of the schemas themselves; all of them are compiled."""
        for name in self._names:
            self._schema(name)
        return [self._faults[name] for name in sorted(self._faults)]

    def _last_good(self) -> dict[str, tuple[Path, bytes]]:
        """The versions to fall back on, by name: those at work."""
        for name in self._names:
            self._schema(name)
        good = {name: self._good[name] for name in self._names if name in self._good}
        for name, text in self._texts.items():
            if name not in self._faults and isinstance(text, bytes):
                good[name] = self._names[name], text
        return good

    def _reason(self, schema: Any, name: str, xml: bytes) -> Refusal:
        """The first error of a log; the place of a tag is looked for, as libxml2 knows no columns here."""
        path = f"etc/schemas/{self._names[name].name}"
        for entry in schema.error_log:
            line = max(entry.line, 1)
            return f"<{name}> is not valid by {path}: {entry.message}", line, _column(xml, line)
        return f"<{name}> is not valid by {path}", 1, 1

    def _schema(self, name: str) -> _Schema | Fault:
        if name not in self._read:
            made = _compiled(self._names[name], self._texts[name])
            if isinstance(made, Fault):
                self._faults[name] = made
                if name in self._good:
                    made = _compiled(*self._good[name])
            self._read[name] = made
        return self._read[name]


class _SchemaFault(Exception):  # noqa: N818 - it carries a fault to where it is kept, and no further
    def __init__(self, path: str, message: str, line: int = 1, column: int = 1) -> None:
        self.fault = Fault(path, max(line, 1), max(column, 1), message)


def _files(folder: Path) -> Iterator[tuple[str, Path]]:
    """The schemas by element name; a `.rng` goes before a `.dtd` of the same name."""
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return
    for suffix in reversed(SUFFIXES):
        for name in names:
            if name.endswith(suffix) and not name.startswith("."):
                yield name.removesuffix(suffix), folder / name


def _text(path: Path) -> bytes | Fault:
    """The content of a file of the folder, or the fault that it cannot be read."""
    shown = f"etc/schemas/{path.name}"
    try:
        size = path.stat().st_size
        if size > MAX_BYTES or not path.is_file():
            found = f"{size:,}" if path.is_file() else "no file"
            return Fault(shown, 1, 1, f"expected at most {MAX_BYTES:,} bytes, found {found}")
        return path.read_bytes()
    except OSError as error:
        return Fault(shown, 1, 1, f"cannot be read: {error.strerror}")


def _compiled(path: Path, text: bytes | Fault) -> _Schema | Fault:
    if isinstance(text, Fault):
        return text
    shown = f"etc/schemas/{path.name}"
    try:
        return _relax_ng(text, shown) if path.suffix == ".rng" else _dtd(text, shown)
    except _SchemaFault as error:
        return error.fault


def _relax_ng(data: bytes, shown: str) -> _Schema:
    try:
        root = parse_untrusted(data)
    except ElementError as error:
        raise _SchemaFault(shown, error.message, error.line, error.column) from None
    for outside in root.iter(f"{{{RNG}}}include", f"{{{RNG}}}externalRef"):
        what = etree.QName(outside).localname
        raise _SchemaFault(shown, f"a schema is one file: {what} is not followed", outside.sourceline or 1)
    try:
        return etree.RelaxNG(root)
    except etree.RelaxNGError as error:
        line = next((entry.line for entry in error.error_log if entry.line > 0), 1)
        raise _SchemaFault(shown, f"not a RELAX NG schema: {error}", line) from None


def _dtd(data: bytes, shown: str) -> _Schema:
    # an external entity of a DTD would be a file or an address that is read while the schema is
    outside = re.search(rb"<!ENTITY\s[^>]*\b(?:SYSTEM|PUBLIC)\b", data)
    if outside is not None:
        line = data.count(b"\n", 0, outside.start()) + 1
        raise _SchemaFault(shown, "a schema is one file: external entities are not followed", line)
    try:
        return etree.DTD(BytesIO(data))
    except etree.DTDParseError as error:
        entries = [entry for entry in error.error_log if entry.line > 0]
        place = (entries[0].line, entries[0].column) if entries else (1, 1)
        raise _SchemaFault(shown, f"not a DTD: {error}", *place) from None


def _column(xml: bytes, line: int) -> int:
    lines = xml.split(b"\n")
    text = lines[line - 1].decode("utf-8", "replace") if line <= len(lines) else ""
    return len(text) - len(text.lstrip()) + 1
