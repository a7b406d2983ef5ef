"""TOML with the place of each key and value, which `tomllib` does not report."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Mapping
from functools import cached_property
from typing import Any, NamedTuple

from narval.core.errors import DefinitionError
from narval.core.source.text import Source
from narval.core.source.tokens import END, TokenCursor, scan

Path = tuple[str | int, ...]
"""The path to a value: keys of tables, and indexes of items, from the outermost."""


class Place(NamedTuple):
    """The offsets at which a key and its value start (the same for an item), and where the value of a key
    ends.
    """

    key: int
    value: int
    end: int = 0


class TomlText:
    """A TOML text: its `table`, and the places of everything in it.

    Raises DefinitionError with the first syntax fault, after which nothing can be read.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        try:
            self.table: Mapping[str, Any] = tomllib.loads(source.text)
        except tomllib.TOMLDecodeError as error:
            raise _syntax_error(source, str(error)) from None
        except RecursionError:
            raise source.error("values are nested too deep") from None
        except ValueError:
            raise _endless_number(source) from None

    @cached_property
    def _places(self) -> dict[Path, Place]:
        try:
            return _PlaceReader(self.source.text).read()
        except RecursionError:  # Python's parser can only just read this depth
            return {(): Place(0, 0)}

    def key(self, *path: str | int) -> tuple[int, int]:
        """The line and column of a key, or of the innermost one that the text contains."""
        return self.source.place(self.place(*path).key)

    def value(self, *path: str | int) -> tuple[int, int]:
        """The line and column of a value, or of the innermost one around it."""
        return self.source.place(self.place(*path).value)

    def place(self, *path: str | int) -> Place:
        """The place of a key and its value, or of the innermost one that the text contains."""
        while path not in self._places:
            path = path[:-1]
        return self._places[path]


_TOKEN = re.compile(
    r"""(?P<blank>[ \t\r]+|\#[^\n]*)
    |(?P<newline>\n)
    |(?P<text>\"{3}(?:\\.|[^\\])*?\"{3,5}|'{3}.*?'{3,5}|"(?:\\.|[^"\\\n])*"|'[^'\n]*')
    |(?P<mark>[\[\]{}=,.])
    |(?P<word>[^\s\[\]{}=,.\#"']+)""",
    re.DOTALL | re.VERBOSE,
)


class _PlaceReader:
    """A reader of the places in valid TOML, which ignores most values."""

    def __init__(self, text: str) -> None:
        self._places: dict[Path, Place] = {(): Place(0, 0)}
        self._tables: dict[Path, int] = {}
        self._cursor = TokenCursor(scan(_TOKEN, text))
        self.first: tuple[Path, int] | None = None
        """The last key that was given though it had a value, and where it was first given."""

    def read(self) -> dict[Path, Place]:
        """The places by path."""
        cursor = self._cursor
        table: Path = ()
        while cursor.next.kind != END:
            if cursor.accept("["):
                table = self._header()
            elif not cursor.accept("newline"):
                self._pair(table)
        return self._places

    def _header(self) -> Path:
        cursor = self._cursor
        of_list = cursor.accept("[")
        path, at = self._key((), items=True)
        if of_list:
            number = self._tables[path] = self._tables.get(path, -1) + 1
            self._places[*path, number] = Place(at, at)
            path = *path, number
            cursor.advance()
        cursor.advance()
        return path

    def _key(self, path: Path, *, items: bool = False) -> tuple[Path, int]:
        """Read a key, possibly dotted, and return where its last word starts.

        Within a header (`items`), a key that names a list refers to its last item.
        """
        cursor = self._cursor
        while True:
            kind, word, at, _ = cursor.advance()
            path = *path, tomllib.loads(f"key = {word}")["key"] if kind == "text" else word
            if items and cursor.next.kind != "]":
                path = (*path, self._tables[path]) if path in self._tables else path
            self._places.setdefault(path, Place(at, at))
            if not cursor.accept("."):
                return path, at

    def _pair(self, table: Path) -> None:
        path, at = self._key(table)
        if (first := self._places[path].key) != at:
            self.first = path, first
        self._cursor.advance()
        value = self._cursor.next.at
        self._value(path)
        self._places[path] = Place(at, value, self._cursor.last.end)

    def _value(self, path: Path) -> None:
        cursor = self._cursor
        if cursor.accept("["):
            number = 0
            while not self._closes("]"):
                self._places[*path, number] = Place(cursor.next.at, cursor.next.at)
                self._value((*path, number))
                number += 1
        elif cursor.accept("{"):
            while not self._closes("}"):
                self._pair(path)
        else:
            while cursor.next.kind not in (",", "]", "}", "newline", END):
                cursor.advance()

    def _closes(self, mark: str) -> bool:
        """Read separators between items, and the closing mark if it is next."""
        while self._cursor.accept("newline", ","):
            pass
        return self._cursor.accept(mark, END) is not None


def _endless_number(source: Source) -> DefinitionError:
    """The fault of an integer with more digits than Python parses."""
    words = ((match.start(), match["word"]) for match in _TOKEN.finditer(source.text) if match["word"])
    whole = ((at, word.lstrip("+-").replace("_", "")) for at, word in words)
    digits, at = max((len(word), at) for at, word in whole if word.isdecimal())
    return source.error(f"expected a number of fewer digits, found {digits:,}", *source.place(at))


def _syntax_error(source: Source, message: str) -> DefinitionError:
    place = re.search(r"\s*\(at (?:line (\d+), column (\d+)|end of document)\)$", message)
    if place is None:
        return source.error(f"not TOML: {message}")
    at = source.place(len(source.text)) if place[1] is None else (int(place[1]), int(place[2]))
    what = message[: place.start()]
    if what == "Cannot overwrite a value":
        what = _given_before(source, at) or what
    elif twice := _DECLARED_TWICE.fullmatch(what):
        what = _declared_before(source, at[0], ast.literal_eval(twice[1])) or what
    return source.error(f"not TOML: {what}", *at)


_DECLARED_TWICE = re.compile(r"Cannot declare (\(.*\)) twice")


def _declared_before(source: Source, line: int, path: Path) -> str:
    """The message that a line declares a table again, with the line that has it first; "" if none has."""
    before = _PlaceReader("\n".join(source.text.split("\n")[: line - 1])).read()
    if path not in before:
        return ""
    first = source.place(before[path].key)[0]
    return f"[{'.'.join(map(str, path))}] is declared again; it is on line {first} already: go on there"


def _given_before(source: Source, at: tuple[int, int]) -> str:
    """The message that a text gives a key again before a place, with the first line; "" for a table."""
    line, column = at
    lines = source.text.split("\n")
    reader = _PlaceReader("\n".join((*lines[: line - 1], lines[line - 1][: column - 1])))
    reader.read()
    if reader.first is None:
        return ""
    path, first = reader.first
    return f"{'.'.join(map(str, path))} is given again; it is on line {source.place(first)[0]} already"
