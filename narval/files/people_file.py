"""People: `etc/people.toml` read into a directory; every fault is found at once, with its place (P15).

Without the file the user of the home is the only person, and holds every role (P16).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import date, datetime
from pathlib import Path
from typing import Any, get_args

from narval.core.definitions.people.directory import (
    WAYS,
    Approval,
    Away,
    Directory,
    Person,
    WebRole,
    chat_key,
)
from narval.core.definitions.suggestions import closest
from narval.core.errors import DefinitionError, Fault, PatternError, SettingsError
from narval.core.patterns.pattern import compile_pattern
from narval.core.source.text import Source
from narval.core.source.toml import TomlText
from narval.files.outside.chats import CHAT_KINDS
from narval.files.toml import zone
from narval.system.logins import login
from narval.system.regular_file import read_source
from narval.system.unexpected import unexpected

PEOPLE_FILE = "etc/people.toml"

NAME = re.compile(r"[a-z][a-z0-9-]{0,31}")
"""The names of people and roles."""

_ADDRESS = re.compile(r"[^\s@<>,;\"]+@[^\s@<>,;\"]+")
_CHAT = re.compile(r"[a-z]+:[^\s,;\"<>]{1,500}")
_QUIET = re.compile(r"(?:[01][0-9]|2[0-3]):[0-5][0-9]-(?:[01][0-9]|2[0-3]):[0-5][0-9]")
_NAMED = "of a to z, digits and -, at most 32, that begins with a letter"

PEOPLE_KEYS: Mapping[str, tuple[str, ...]] = {
    "": ("people", "roles", "admin", "approval", "mail_trust", "ways"),
    "people": ("name", "login", "mail", "chat", "roles", "web", "away", "zone", "quiet"),
    "roles": ("above",),
    "admin": ("people", "roles"),
    "approval": ("action", "match", "work"),
    "away": ("from", "to", "instead"),
}
"""The keys that each table may have."""


def _is_hours(text: str) -> bool:
    """True of hours that end at another time than they begin."""
    first, _, last = text.partition("-")
    return _QUIET.fullmatch(text) is not None and first != last


def load_people(home: Path | None) -> Directory:
    """The directory of a home, or of one in memory. Raises SettingsError with all the faults of its file."""
    directory, faults = read_people(home)
    if directory is None:
        raise SettingsError("\n".join(map(str, faults)))
    return directory


def read_people(home: Path | None) -> tuple[Directory | None, list[Fault]]:
    """The directory of a home, or all that is wrong with its file."""
    try:
        source = read_source(home / PEOPLE_FILE, PEOPLE_FILE) if home is not None else None
    except FileNotFoundError:
        source = None
    except DefinitionError as error:
        return None, list(error.faults)
    return (Directory.of_owner(_owner(home)), []) if source is None else parse_people(source)


class PeopleNow:
    """The directory of a home as its file says now, which is read where it has changed."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._version: tuple[int, ...] | None = None
        self._directory: Directory | None = None

    def by_chat(self, address: str) -> Person | None:
        """The person who writes from an address at a chat service; None while the file has faults."""
        version: tuple[int, ...] = ()
        with suppress(OSError):
            status = (self._home / PEOPLE_FILE).stat()
            version = status.st_mtime_ns, status.st_size, status.st_ino
        if version != self._version:
            self._directory, self._version = read_people(self._home)[0], version
        return self._directory.by_chat(address) if self._directory is not None else None


def parse_people(source: Source) -> tuple[Directory | None, list[Fault]]:
    """The directory that a text of TOML holds, or all that is wrong with it."""
    try:
        reading = _Reading(TomlText(source))
        directory = reading.directory()
    except DefinitionError as error:
        return None, list(error.faults)
    except Exception as error:
        return None, [unexpected(source.path, error)]
    return (None, sorted(set(reading.faults))) if reading.faults else (directory, [])


def place_of_rule(home: Path, position: int) -> tuple[int, int]:
    """The line and column of the rule of a home at a position in its file."""
    return TomlText(read_source(home / PEOPLE_FILE, PEOPLE_FILE)).key("approval", position)


def _owner(home: Path | None) -> str:
    """The login of the user whose home it is."""
    from os import getuid

    return login(home.stat().st_uid if home is not None else getuid())


class _Values:
    """The values of one text by their paths; `faults` are those found so far."""

    def __init__(self, text: TomlText) -> None:
        self._text = text
        self.faults: list[Fault] = []

    def _at(self, *path: str | int) -> Any:
        """The value at a path; None where there is none."""
        found: Any = self._text.table
        for key in path:
            if isinstance(found, list) and isinstance(key, int):
                found = found[key]
            else:
                found = found.get(key) if isinstance(found, dict) else None
        return found

    def _table(self, word: str, *path: str) -> bool:
        """True if a table stands there; its keys are checked by what `PEOPLE_KEYS` says of the word."""
        found = self._at(*path)
        if found is not None and not isinstance(found, dict):
            self._expected("a table", *path)
            return False
        self._check_keys(word, *path)
        return found is not None

    def _tables(self, word: str) -> Iterator[str]:
        """The names of the tables within one at the top."""
        found = self._at(word)
        if found is not None and not isinstance(found, dict):
            self._expected(f"tables, such as [{word}.ann]", word)
            return
        for name in found or ():
            if not NAME.fullmatch(name):
                self._fault(f"expected a name {_NAMED}, found {name!r}", word, name)
            if self._table(word, word, name):
                yield name

    def _check_keys(self, word: str, *path: str | int) -> None:
        """Note a fault for each key that a table cannot have."""
        for key in self._at(*path) or ():
            if key not in PEOPLE_KEYS[word]:
                self._fault(f"unknown key {key!r}{closest(key, PEOPLE_KEYS[word])}", *path, key)

    def _value(self, fits: Callable[[Any], object], wanted: str, *path: str | int) -> Any:
        """The value at a path that fits; None where there is none, or another, which is noted."""
        found = self._at(*path)
        if found is None or fits(found):
            return found
        self._expected(wanted, *path)
        return None

    def _word(self, *path: str | int) -> str:
        return self._value(lambda value: isinstance(value, str) and value.strip(), "a text", *path) or ""

    def _one_of(self, *path: str | int) -> WebRole:
        words: tuple[WebRole, ...] = get_args(WebRole)
        wanted = f"{', '.join(words[:-1])} or {words[-1]}"
        found: WebRole | None = self._value(lambda value: value in words, wanted, *path)
        return found or "person"

    def _zone(self, *path: str | int) -> str:
        value = self._word(*path)
        try:
            return zone(value) if value else ""
        except ValueError as error:
            self._expected(str(error), *path)
            return ""

    def _day(self, *path: str | int) -> date | None:
        fits = lambda value: isinstance(value, date) and not isinstance(value, datetime)  # noqa: E731
        found = self._value(fits, "a day, such as 2026-12-20", *path)
        return found if isinstance(found, date) else None

    def _names(self, *path: str | int) -> tuple[str, ...]:
        return self._list(*path, fits=NAME.fullmatch, wanted=f"names {_NAMED}")

    def _list(self, *path: str | int, fits: Callable[[str], object], wanted: str) -> tuple[str, ...]:
        """The texts of a list; those that do not fit are noted."""
        found = self._value(lambda value: isinstance(value, list), f"a list of {wanted}", *path) or []
        for number, item in enumerate(found):
            if not isinstance(item, str) or not fits(item):
                self._fault_of_value(f"expected {wanted}, found {_shown(item)}", *path, number)
        return tuple(item for item in found if isinstance(item, str))

    # --- faults -----------------------------------------------------------------------------------------

    def _expected(self, wanted: str, *path: str | int) -> None:
        self._fault_of_value(f"{path[-1]}: expected {wanted}, found {_shown(self._at(*path))}", *path)

    def _fault(self, message: str, *path: str | int) -> None:
        self.faults.append(self._text.source.fault(message, *self._text.key(*path)))

    def _fault_of_value(self, message: str, *path: str | int) -> None:
        self.faults.append(self._text.source.fault(message, *self._text.value(*path)))


class _Reading(_Values):
    """The reading of one file into a directory."""

    def directory(self) -> Directory:
        """The directory that the file describes, as far as it can be understood."""
        top = self._text.table
        self._check_keys("")
        persons = [self._person(name) for name in self._tables("people")]
        above = {role: self._names("roles", role, "above") for role in self._tables("roles")}
        self._table("admin", "admin")
        self._check_persons(persons)
        self._check_circle({role: list(lower) for role, lower in above.items()}, "roles", "above")
        trust = self._word("mail_trust") if "mail_trust" in top else ""
        return Directory(
            people=tuple(persons),
            above=above,
            admin_people=self._known(self._names("admin", "people"), persons, "admin", "people"),
            admin_roles=self._names("admin", "roles"),
            approvals=tuple(self._approvals()),
            mail_trust=trust,
            ways=self._list("ways", fits=WAYS.__contains__, wanted=f"ways, some of {', '.join(WAYS)}"),
        )

    def _person(self, name: str) -> Person:
        path = "people", name
        return Person(
            name,
            full_name=self._word(*path, "name"),
            login=self._word(*path, "login"),
            mail=self._list(
                *path, "mail", fits=_ADDRESS.fullmatch, wanted="addresses, such as ann@example.org"
            ),
            chat=self._list(
                *path,
                "chat",
                fits=_is_at_a_chat,
                wanted="addresses with their kind, such as xmpp:ann@example.org",
            ),
            zone=self._zone(*path, "zone"),
            quiet=self._value(
                lambda value: isinstance(value, str) and _is_hours(value),
                'hours, such as "22:00-07:00"',
                *path,
                "quiet",
            )
            or "",
            roles=self._names(*path, "roles"),
            web=self._one_of(*path, "web"),
            away=self._away(*path, "away"),
        )

    def _away(self, *path: str) -> Away | None:
        if not self._table("away", *path):
            return None
        first, last = self._day(*path, "from"), self._day(*path, "to")
        if first is not None and last is not None and last < first:
            self._fault_of_value(f"expected a day not before {first}, found {last}", *path, "to")
        return Away(first, last, self._word(*path, "instead"))

    def _approvals(self) -> Iterator[Approval]:
        rules = self._text.table.get("approval", [])
        if not isinstance(rules, list) or not all(isinstance(rule, dict) for rule in rules):
            self._fault("approval: expected tables, each begun by [[approval]]", "approval")
            return
        for number in range(len(rules)):
            path = "approval", number
            self._check_keys("approval", *path)
            for key in ("action", "work"):
                if key not in rules[number]:
                    example = {"action": "mail.send", "work": "home.approve"}[key]
                    self._fault(f'approval needs {key}, such as {key} = "{example}"', *path)
            match = self._word(*path, "match")
            try:
                if match:
                    self._refuse_variables(compile_pattern(match).variables, *path)
            except PatternError as error:
                self._fault_of_value(f"no XPath that narval can try: {error.message}", *path, "match")
            yield Approval(self._word(*path, "action"), self._word(*path, "work"), match)

    def _refuse_variables(self, variables: Collection[str], *path: str | int) -> None:
        if variables:
            told = ", ".join(f"${name}" for name in sorted(variables))
            self._fault_of_value(f"expected no variable, found {told}", *path, "match")

    # --- checks of the whole ----------------------------------------------------------------------------

    def _check_persons(self, persons: list[Person]) -> None:
        names = [person.name for person in persons]
        instead: dict[str, list[str]] = {}
        logins: dict[str, str] = {}
        addresses: dict[str, str] = {}
        chats: dict[str, str] = {}
        for person in persons:
            path = "people", person.name
            if person.login:
                self._once(logins, person.login, person.name, *path, "login")
            for number, address in enumerate(person.mail):
                self._once(addresses, address.casefold(), person.name, *path, "mail", number)
            for number, address in enumerate(person.chat):
                self._once(chats, chat_key(address), person.name, *path, "chat", number)
            if person.away is not None and (meanwhile := person.away.instead):
                if meanwhile not in names:
                    message = f"nobody is called {meanwhile!r}{closest(meanwhile, names)}"
                    self._fault_of_value(message, *path, "away", "instead")
                instead[person.name] = [meanwhile]
        self._check_circle(instead, "people", "away", "instead")

    def _once(self, known: dict[str, str], value: str, person: str, *path: str | int) -> None:
        """Note a fault unless one person alone has a login or an address."""
        other = known.setdefault(value, person)
        if other != person:
            self._fault_of_value(f"{value} is that of {other} already; two people cannot share it", *path)

    def _check_circle(self, after: Mapping[str, list[str]], table: str, *keys: str) -> None:
        for way in _circles(after):
            self._fault_of_value(f"goes in a circle: {' → '.join(way)}", table, way[0], *keys)

    def _known(self, names: tuple[str, ...], persons: Iterable[Person], *path: str) -> tuple[str, ...]:
        known = [person.name for person in persons]
        for number, name in enumerate(names):
            if name not in known:
                self._fault_of_value(f"nobody is called {name!r}{closest(name, known)}", *path, number)
        return names


def _circles(after: Mapping[str, list[str]]) -> Iterator[list[str]]:
    """A shortest way from each name that leads back to itself."""
    for name in after:
        reached, came_from = [name], {name: ""}
        for current in reached:
            for follower in after.get(current, ()):
                if follower == name:
                    way = [name, current]
                    while came_from[way[-1]]:
                        way.append(came_from[way[-1]])
                    yield way[::-1]
                if follower not in came_from:
                    came_from[follower] = current
                    reached.append(follower)


def _is_at_a_chat(address: str) -> bool:
    """True of an address at a kind of chat that there is."""
    return _CHAT.fullmatch(address) is not None and address.partition(":")[0] in CHAT_KINDS


def _shown(value: object) -> str:
    """A value as a message shows it."""
    return f"{value!r:.80}" if isinstance(value, str) else f"{value!s:.80}"
