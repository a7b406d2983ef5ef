"""Settings in TOML: tables read by readers of their keys, each fault at its place."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_origin, get_type_hints

import msgspec

from narval.core.definitions.reading.durations import read_duration
from narval.core.definitions.suggestions import closest
from narval.core.errors import DefinitionError, Fault, PatternError, SettingsError
from narval.core.source.secrets import without_secrets
from narval.core.source.text import Source
from narval.core.source.toml import Path as Inner
from narval.core.source.toml import TomlText
from narval.system.regular_file import read_source, unexpected

if TYPE_CHECKING:
    from narval.core.patterns.pattern import Pattern

Reader = Callable[[object], Any]
"""A function that reads a value. It raises ValueError with what was expected, InnerError with the place
within the value, or MisfitsError with several of these.
"""

Readers = Mapping[str, Reader] | type[msgspec.Struct]
"""The readers of keys, or the struct whose fields have them."""

Value = TypeVar("Value")

_COMMENTED = re.compile(r"#\s*(\[[\w.-]+\]|\[\[[\w.-]+\]\])")
"""A commented-out line that would begin a table."""

AT_START = "at the next start"
"""The mark of a setting whose change a running daemon does not apply."""


@cache
def readers_of(settings: type[msgspec.Struct]) -> Mapping[str, Reader]:
    """The readers of the fields of a struct of settings: each field is `Annotated[type, reader]`."""
    return {name: marks[0] for name, marks in _marks(settings).items()}


def taken_at_start(settings: type[msgspec.Struct]) -> tuple[str, ...]:
    """The fields of a struct of settings that are marked with AT_START."""
    return tuple(name for name, marks in _marks(settings).items() if AT_START in marks)


def _marks(settings: type[msgspec.Struct]) -> Mapping[str, tuple[Any, ...]]:
    hints = get_type_hints(settings, include_extras=True)
    return {name: hint.__metadata__ for name, hint in hints.items() if get_origin(hint) is Annotated}


GONE = (
    "the file is gone; its content stays active until it is back or narval restarts: "
    "put it back, or an empty file in its place to drop its content"
)
"""The fault of a file that is missing now: rules and approvals do not end because a file is gone."""


class InnerError(ValueError):
    """A fault within a value: `at` leads from the value to its place."""

    def __init__(self, expected: str, *at: str | int) -> None:
        super().__init__(expected)
        self.at: Inner = at


class MisfitsError(ValueError):
    """Several faults within a value."""

    def __init__(self, errors: list[InnerError]) -> None:
        super().__init__(str(errors[0]))
        self.errors = errors


class TomlFile:
    """A text of TOML: its `table`, and the faults found in it so far."""

    def __init__(self, source: Source) -> None:
        self.shown, self.is_missing = source.path, False
        self.faults: list[Fault] = []
        self.table: Mapping[str, Any] = {}
        self._text: TomlText | None = None
        try:
            self._text = TomlText(source)
            self.table = self._text.table
        except DefinitionError as error:
            self.faults += error.faults
        except Exception as error:
            self.faults.append(unexpected(source.path, error))

    @classmethod
    def of(cls, path: Path, place: str, *, was_there: bool = False) -> TomlFile:
        """A file, or an empty text if there is none; a fault if it `was_there`."""
        try:
            return cls(read_source(path, place))
        except FileNotFoundError:
            file = cls(Source(place, b""))
            file.is_missing = True
            if was_there:
                file.faults.append(Fault(place, 1, 1, GONE))
            return file
        except DefinitionError as error:
            file = cls(Source(place, b""))
            file.faults += error.faults
            return file

    def read(self, settings: Readers, *within: str | int) -> dict[str, Any]:
        """The values of a table, by default the outermost; faults of keys and values are noted."""
        readers = settings if isinstance(settings, Mapping) else readers_of(settings)
        table = _within(self.table, within)
        if not isinstance(table, dict):
            what = f"{_shown(within)}: expected a table, [{_shown(within)}], found {table!r:.80}"
            self.note(within, what, of_value=True)
            return {}
        values: dict[str, Any] = {}
        for key, value in table.items():
            at = (*within, key)
            if (read := readers.get(key)) is None:
                commented = self._commented_table(*at)
                self.note(at, f"unknown setting {_shown(at)!r}{commented or closest(key, readers)}")
                continue
            try:
                values[key] = read(value)
            except ValueError as error:
                for each in error.errors if isinstance(error, MisfitsError) else [error]:
                    inner = each.at if isinstance(each, InnerError) else ()
                    text = without_secrets(f"{_within(value, inner)!r}")[:80]
                    self.note((*at, *inner), f"{_shown(at)}: expected {each}, found {text}", of_value=True)
        return values

    def named(
        self, table: str, readers: Readers, example: str, name_of: Callable[[str], object] = str
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        """The names and values of the tables `[TABLE.NAME]` without faults; faults are noted.

        `example` is an example of a name, and `name_of` reads a name.
        """
        tables = self.table.get(table, {})
        if not isinstance(tables, dict):
            self.note((table,), f"expected tables, such as [{table}.{example}]", of_value=True)
            return
        for name in tables:
            before = len(self.faults)
            try:
                name_of(name)
            except ValueError as error:
                self.note((table, name), f"{table}.{name:.80}: expected {error}")
            values = self.read(readers, table, name)
            if len(self.faults) == before:
                yield name, values

    def each(self, table: str, readers: Readers) -> Iterator[tuple[int, dict[str, Any]]]:
        """The numbers and values of the tables `[[TABLE]]`; faults are noted."""
        tables = self.table.get(table, [])
        if not isinstance(tables, list) or not all(isinstance(one, dict) for one in tables):
            self.note((table,), f"{table}: expected tables, each begun by [[{table}]]")
            return
        for number in range(len(tables)):
            yield number, self.read(readers, table, number)

    def line(self, *path: str | int) -> int:
        """The line of a key; 1 in an unreadable text."""
        return 1 if self._text is None else self._text.key(*path)[0]

    def _commented_table(self, *key: str | int) -> str:
        """The end of a message on a key below the commented-out head of a table; "" for any other."""
        lines = self._text.source.text.splitlines() if self._text is not None else []
        for number in range(self.line(*key) - 1, 0, -1):
            line = lines[number - 1].strip()
            if (head := _COMMENTED.fullmatch(line)) is not None:
                return f"; if it belongs to {head[1]}, remove the # of line {number} too"
            if line.startswith("["):
                break
        return ""

    def note(self, path: Inner, message: str, *, of_value: bool = False) -> None:
        """Note a fault of the key at a path, or of its value."""
        if self._text is not None:
            place = self._text.value(*path) if of_value else self._text.key(*path)
            self.faults.append(self._text.source.fault(message, *place))


def outcome(file: TomlFile, make: Callable[[TomlFile], Value]) -> tuple[Value | None, list[Fault]]:
    """The value made from a text, or all the faults found."""
    try:
        value = make(file)
    except Exception as error:
        return None, [unexpected(file.shown, error)]
    return (None, sorted(set(file.faults))) if file.faults else (value, [])


def required(made: tuple[Value | None, list[Fault]]) -> Value:
    """The value of an outcome. Raises SettingsError with all its faults."""
    value, faults = made
    if value is None:
        raise SettingsError("\n".join(map(str, faults)))
    return value


def quoted(text: str) -> str:
    """A text in TOML: as in JSON, but without escapes of surrogates, which JSON may have."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


# --- readers ------------------------------------------------------------------------------------------------


def duration(value: object) -> float:
    """Read a length of time in seconds: a number, or a text such as "5m", "2h", "1d 12h"."""
    if isinstance(value, str):
        return read_duration(value)
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e12:
        return float(value)
    raise ValueError('a number of seconds or a text such as "30s", "5m", "2h", "1d"')


def or_none(read: Reader) -> Reader:
    """Read as `read` does, and an empty text as None, which TOML lacks."""
    return lambda value: None if value == "" else read(value)


def text(value: object) -> str:
    """Read a text that is not blank."""
    if not isinstance(value, str) or not value.strip():
        raise ValueError("a text")
    return value


def flag(value: object) -> bool:
    """Read true or false."""
    if not isinstance(value, bool):
        raise ValueError("true or false")
    return value


def one_of(*words: str) -> Reader:
    """Read one of some words."""

    def read(value: object) -> str:
        if value not in words:
            raise ValueError(_either(words))
        return str(value)

    return read


def fitting(fits: Callable[[str], object], expected: str) -> Callable[[object], str]:
    """Read a text that `fits` accepts."""

    def read(value: object) -> str:
        if not isinstance(value, str) or not fits(value):
            raise ValueError(expected)
        return value

    return read


def listed(read: Callable[[str], Any], expected: str, *, or_one: bool = False) -> Reader:
    """Read a list of texts, each by `read`; with `or_one`, a non-empty list, or one text alone."""

    def read_all(value: object) -> tuple[Any, ...]:
        items = [value] if or_one and not isinstance(value, list) else value
        if not isinstance(items, list):
            raise ValueError(f"a list of {expected}")
        if or_one and not items:
            raise ValueError(expected)
        values, misfits = list[Any](), list[InnerError]()
        for number, item in enumerate(items):
            try:
                if not isinstance(item, str):
                    raise ValueError(expected)
                values.append(read(item))
            except ValueError as error:
                misfits.append(InnerError(str(error), *([number] if items is value else [])))
        if misfits:
            raise MisfitsError(misfits)
        return tuple(values)

    return read_all


secret_names = listed(
    fitting(re.compile(r"[a-z][a-z0-9-]{0,31}").fullmatch, "a name of [secret]"), "names of [secret]"
)
"""Read a list of names of `[secret]` in etc/trust.toml."""


def some_of(*words: str) -> Reader:
    """Read some of these words, or one."""
    return listed(one_of(*words), _either(words), or_one=True)


def pattern(*variables: str) -> Reader:
    """Read a pattern, which may have these variables."""

    def read(value: object) -> Pattern:
        from narval.core.patterns.pattern import compile_pattern  # here: most files have no patterns

        try:
            made = compile_pattern(text(value))
        except PatternError as error:
            raise ValueError(f"an XPath that narval can try ({error.message})") from None
        for name in sorted(made.variables.difference(variables)):
            there = f"there are {', '.join(f'${one}' for one in variables)}" if variables else "none is there"
            raise ValueError(f"no variable ${name} ({there})")
        return made

    return read


def as_it_is(value: object) -> object:
    """Read a table that is read separately."""
    return value


def count(most: int | None = None) -> Reader:
    """Read a whole number of 1 or more, and of `most` or less."""

    def read(value: object) -> int:
        highest = most or 1_000_000_000_000
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= highest:
            raise ValueError(f"a whole number from 1 to {most:,}" if most else "a whole number of 1 or more")
        return value

    return read


def size(value: object) -> int:
    """Read a number of bytes: a text such as "512M" or "2G". Raises ValueError."""
    match = re.fullmatch(r"([1-9][0-9]{0,5})([KMG])", value) if isinstance(value, str) else None
    if match is None:
        raise ValueError('a text such as "512M" or "2G"')
    return int(match[1]) << 10 * (1 + "KMG".index(match[2]))


def size_up_to(most: str) -> Reader:
    """Read a number of bytes, as `size` does, of `most` or less."""

    def read(value: object) -> int:
        read_size = size(value)
        if read_size > size(most):
            raise ValueError(f'at most "{most}"')
        return read_size

    return read


def places(value: object) -> tuple[str, ...]:
    """Read places of this machine and its networks: hosts, addresses, networks."""
    from narval.system.fetch import Grant  # here: most homes grant nothing, and start without it

    read: tuple[str, ...] = listed(text, "hosts, addresses or networks")(value)
    for place in read:
        Grant.of(place)
    return read


def zone(value: object) -> str:
    """Read the name of a time zone (IANA)."""
    from zoneinfo import ZoneInfo  # here: most homes name no zone, and start without it

    try:
        return ZoneInfo(text(value)).key
    except (OSError, ValueError, LookupError):
        raise ValueError("the name of a time zone, such as Europe/Paris or UTC") from None


def _within(value: Any, at: Inner) -> Any:
    """The value at a path; an empty table if there is none."""
    for part in at:
        value = value.get(part, {}) if isinstance(value, dict) else value[part]
    return value


def _shown(path: Inner) -> str:
    """The path of a key in the form for messages."""
    return ".".join(part for part in path if isinstance(part, str))


def _either(words: tuple[str, ...]) -> str:
    words = tuple(word or '""' for word in words)
    return f"{', '.join(words[:-1])} or {words[-1]}" if len(words) > 1 else words[0]
