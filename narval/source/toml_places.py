"""The places of keys and values in a text of TOML, which the parser of Python does not tell."""

from __future__ import annotations

import re
import tomllib
from typing import NamedTuple

Key = tuple[str | int, ...]
"""The way from the outermost table to a value: names of keys, numbers within arrays."""

_BETWEEN = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_STRING = re.compile(
    r'"""(?:\\.|[^\\])*?"""(?:"{0,2})'
    r"|'''.*?'''(?:'{0,2})"
    r'|"(?:\\.|[^"\\\n])*"'
    r"|'[^'\n]*'",
    re.DOTALL,
)
_PLAIN = re.compile(r"[^,\]}#\r\n]*")
_KEY = re.compile(r"""[A-Za-z0-9_-]+|"(?:\\.|[^"\\\n])*"|'[^'\n]*'""")
_DOT = re.compile(r"[ \t]*\.[ \t]*")
_EQUALS = re.compile(r"[ \t]*=[ \t]*")


class TomlPlace(NamedTuple):
    """The characters before a key, and before its value; those before a value without a key are both."""

    key: int
    value: int


def places_in(text: str) -> dict[Key, TomlPlace]:
    """The places of all keys and values of a text that is good TOML."""
    return _Scan(text).places


class _Scan:
    """One reading of a text of TOML, from its beginning to its end."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        self.places: dict[Key, TomlPlace] = {}
        self._lengths: dict[Key, int] = {}
        """The arrays of tables, with how many tables they have so far."""
        table: Key = ()
        while self._skip() < len(text):
            if text[self._at] == "[":
                table = self._header()
            else:
                self._pair(table)

    def _skip(self) -> int:
        self._at = self._end(_BETWEEN)
        return self._at

    def _end(self, form: re.Pattern[str]) -> int:
        found = form.match(self._text, self._at)
        return found.end() if found is not None else self._at

    def _header(self) -> Key:
        is_array = self._text.startswith("[[", self._at)
        self._at += 2 if is_array else 1
        begin = self._skip()
        table: Key = ()
        for word in self._words():
            table = (*table, word)
            if table in self._lengths and not (is_array and self._text[self._skip()] == "]"):
                table = (*table, self._lengths[table] - 1)
            self.places.setdefault(table, TomlPlace(begin, begin))
        if is_array:
            self._lengths[table] = self._lengths.get(table, 0) + 1
            table = (*table, self._lengths[table] - 1)
            self.places[table] = TomlPlace(begin, begin)
        self._at = self._text.index("]", self._at) + (2 if is_array else 1)
        return table

    def _words(self) -> list[str]:
        words = []
        while True:
            end = self._end(_KEY)
            word = self._text[self._at : end]
            words.append(str(tomllib.loads(f"x = {word}")["x"]) if word[0] in "\"'" else word)
            self._at = end
            if (after := self._end(_DOT)) == end:
                return words
            self._at = after

    def _pair(self, table: Key) -> None:
        begin = self._at
        words = self._words()
        self._at = self._end(_EQUALS)
        for length in range(1, len(words) + 1):
            self.places.setdefault((*table, *words[:length]), TomlPlace(begin, self._at))
        self._value((*table, *words))

    def _value(self, key: Key) -> None:
        first = self._text[self._at : self._at + 1]
        if first == "[":
            self._items(key, "]")
        elif first == "{":
            self._items(key, "}")
        else:
            self._at = self._end(_STRING if first in ('"', "'") else _PLAIN)

    def _items(self, key: Key, close: str) -> None:
        """Read an array, or a table within braces."""
        self._at += 1
        number = 0
        while self._text[self._skip()] != close:
            if close == "}":
                self._pair(key)
            else:
                self.places[*key, number] = TomlPlace(self._at, self._at)
                self._value((*key, number))
                number += 1
            if self._text[self._skip()] == ",":
                self._at += 1
        self._at += 1
