"""People: `etc/people.toml` read into a directory; every fault is found at once, with its place (P15).

Without the file the user of the home is the only person, and holds every role (P16). An address at a chat
can be added or removed; all else in the file is left unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import date, datetime
from pathlib import Path
from typing import Any, get_args

from narval.core.agreeing import Role
from narval.core.definitions.people.directory import WAYS, Approval, Away, Directory, Person, chat_key
from narval.core.definitions.suggestions import closest
from narval.core.errors import Fault, NotFoundError, RequestError
from narval.core.source.text import Source
from narval.core.source.toml import TomlText
from narval.files import toml
from narval.files.outside.chats import CHAT_KINDS
from narval.files.toml import quoted
from narval.system.logins import login
from narval.system.regular_file import read_source
from narval.system.whole_files import CurrentFile, write_whole

PEOPLE_FILE = "etc/people.toml"

NAME = re.compile(r"[a-z][a-z0-9-]{0,31}")
"""The names of people and roles."""

_ADDRESS = re.compile(r"[^\s@<>,;\"]+@[^\s@<>,;\"]+")
_CHAT = re.compile(r"[a-z]+:[^\s,;\"<>]{1,500}")
_QUIET = re.compile(r"(?:[01][0-9]|2[0-3]):[0-5][0-9]-(?:[01][0-9]|2[0-3]):[0-5][0-9]")
_NAMED = "of a to z, digits and -, at most 32, that begins with a letter"
_name = toml.fitting(NAME.fullmatch, f"a name {_NAMED}")
_NAMES = toml.listed(_name, f"names {_NAMED}")

_address = toml.fitting(_ADDRESS.fullmatch, "an address, such as ann@example.org")


def _chat(address: str) -> str:
    """Read an address at a known kind of chat."""
    if _CHAT.fullmatch(address) is None or address.partition(":")[0] not in CHAT_KINDS:
        raise ValueError("an address with its kind, such as xmpp:ann@example.org")
    return address


def _hours(value: object) -> str:
    """Read hours whose end differs from their beginning."""
    first, _, last = str(value).partition("-")
    if not isinstance(value, str) or _QUIET.fullmatch(value) is None or first == last:
        raise ValueError('hours, such as "22:00-07:00"')
    return value


def _day(value: object) -> date:
    if not isinstance(value, date) or isinstance(value, datetime):
        raise ValueError("a day, such as 2026-12-20")
    return value


PEOPLE_READERS: Mapping[str, Mapping[str, toml.Reader]] = {
    "": {
        **dict.fromkeys(("people", "roles", "admin", "approval"), toml.as_it_is),
        "mail_trust": toml.text,
        "ways": toml.listed(toml.one_of(*WAYS), f"ways, some of {', '.join(WAYS)}"),
    },
    "people": {
        "name": toml.text,
        "login": toml.text,
        "mail": toml.listed(_address, "addresses, such as ann@example.org"),
        "chat": toml.listed(_chat, "addresses with their kind, such as xmpp:ann@example.org"),
        "roles": _NAMES,
        "web": toml.one_of(*get_args(Role)),
        "away": toml.as_it_is,
        "zone": toml.zone,
        "quiet": _hours,
    },
    "roles": {"above": _NAMES},
    "admin": {"people": _NAMES, "roles": _NAMES},
    "approval": {"action": toml.text, "match": toml.pattern(), "work": toml.text},
    "away": {"from": _day, "to": _day, "instead": toml.text},
}
"""The readers of each table."""


def load_people(home: Path | None) -> Directory:
    """The directory of a home, or of one in memory. Raises SettingsError with all the faults of its file."""
    return toml.required(read_people(home))


def read_people(home: Path | None, *, was_there: bool = False) -> tuple[Directory | None, list[Fault]]:
    """The directory of a home, or all the faults of its file, which must exist if it `was_there`."""
    if home is None:
        return Directory.of_owner(_owner(home)), []
    file = toml.TomlFile.of(home / PEOPLE_FILE, PEOPLE_FILE, was_there=was_there)
    if file.is_missing and not was_there:
        return Directory.of_owner(_owner(home)), []
    return toml.outcome(file, _directory)


class PeopleNow(CurrentFile[Directory | None]):
    """The directory of a home, as its file has it now."""

    def __init__(self, home: Path) -> None:
        super().__init__(home / PEOPLE_FILE, lambda: read_people(home)[0])

    def by_chat(self, address: str) -> Person | None:
        """The person with an address at a chat service; None while the file has faults."""
        directory = self.get()
        return directory.by_chat(address) if directory is not None else None


def parse_people(source: Source) -> tuple[Directory | None, list[Fault]]:
    """The directory in a text of TOML, or all its faults."""
    return toml.outcome(toml.TomlFile(source), _directory)


def place_of_rule(home: Path, position: int) -> tuple[int, int]:
    """The line and column of the rule of a home at a position in its file."""
    return TomlText(read_source(home / PEOPLE_FILE, PEOPLE_FILE)).key("approval", position)


def _owner(home: Path | None) -> str:
    """The login of the home's user."""
    from os import getuid

    return login(home.stat().st_uid if home is not None else getuid())


def _directory(file: toml.TomlFile) -> Directory:
    """The directory in a file; faults are noted there."""
    top = file.read(PEOPLE_READERS[""])
    people = [
        _person(file, name, values)
        for name, values in file.named("people", PEOPLE_READERS["people"], "ann", _name)
    ]
    roles = file.named("roles", PEOPLE_READERS["roles"], "approver", _name)
    above = {role: values.get("above", ()) for role, values in roles}
    admin = file.read(PEOPLE_READERS["admin"], "admin")
    names = top["people"].keys() if isinstance(top.get("people"), dict) else ()
    _check_people(file, people, names)
    _check_circle(file, above, "roles", "above")
    for number, name in enumerate(admin.get("people", ())):
        if name not in names:
            file.note(
                ("admin", "people", number),
                f"no person is called {name!r}{closest(name, names)}",
                of_value=True,
            )
    return Directory(
        people=tuple(people),
        above=above,
        admin_people=admin.get("people", ()),
        admin_roles=admin.get("roles", ()),
        approvals=tuple(_approvals(file)),
        mail_trust=top.get("mail_trust", ""),
        ways=top.get("ways", ()),
    )


def _person(file: toml.TomlFile, name: str, values: dict[str, Any]) -> Person:
    full_name, is_away = values.pop("name", ""), values.pop("away", None) is not None
    return Person(name, full_name=full_name, away=_away(file, name) if is_away else None, **values)


def _away(file: toml.TomlFile, name: str) -> Away:
    path = "people", name, "away"
    away = file.read(PEOPLE_READERS["away"], *path)
    first, last = away.get("from"), away.get("to")
    if first is not None and last is not None and last < first:
        file.note((*path, "to"), f"expected a day not before {first}, found {last}", of_value=True)
    return Away(first, last, away.get("instead", ""))


def _approvals(file: toml.TomlFile) -> Iterator[Approval]:
    for number, values in file.each("approval", PEOPLE_READERS["approval"]):
        for key, example in (("action", "mail.send"), ("work", "home.approve")):
            if key not in file.table["approval"][number]:
                file.note(("approval", number), f'approval needs {key}, such as {key} = "{example}"')
        match = values["match"].text if "match" in values else ""
        yield Approval(values.get("action", ""), values.get("work", ""), match)


# --- checks of the whole ------------------------------------------------------------------------------------


def _check_people(file: toml.TomlFile, people: list[Person], names: Collection[str]) -> None:
    instead: dict[str, tuple[str, ...]] = {}
    taken: dict[tuple[str, str], str] = {}

    def once(key: str, value: str, person: str, *path: str | int) -> None:
        """Note a fault unless only one person has a login or an address."""
        other = taken.setdefault((key, value), person)
        if other != person:
            message = f"{value} is that of {other} already; two people cannot share it"
            file.note(("people", person, key, *path), message, of_value=True)

    for person in people:
        if person.login:
            once("login", person.login, person.name)
        for number, address in enumerate(person.mail):
            once("mail", address.casefold(), person.name, number)
        for number, address in enumerate(person.chat):
            once("chat", chat_key(address), person.name, number)
        if person.away is not None and (meanwhile := person.away.instead):
            if meanwhile not in names:
                message = f"no person is called {meanwhile!r}{closest(meanwhile, names)}"
                file.note(("people", person.name, "away", "instead"), message, of_value=True)
            instead[person.name] = (meanwhile,)
    _check_circle(file, instead, "people", "away", "instead")


def _check_circle(file: toml.TomlFile, after: Mapping[str, Iterable[str]], table: str, *keys: str) -> None:
    for way in _circles(after):
        file.note((table, way[0], *keys), f"goes in a circle: {' → '.join(way)}", of_value=True)


def _circles(after: Mapping[str, Iterable[str]]) -> Iterator[list[str]]:
    """A shortest cycle from each name that leads back to itself."""
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


KEY = "chat"


def line_of(addresses: list[str]) -> str:
    """The line of a person with these addresses."""
    return f"{KEY} = [{', '.join(map(quoted, addresses))}]"


def with_address(text: str, person: str, address: str) -> str:
    """The text of the file with an address of a person added. Raises RequestError, DefinitionError."""
    return _altered(text, person, lambda addresses: [*addresses, address])


def without_addresses(text: str, person: str, address: str = "") -> tuple[str, list[str]]:
    """The text of the file without an address of a person, or without any; and the addresses removed.

    Raises RequestError, DefinitionError.
    """
    gone = list[str]()

    def without(addresses: list[str]) -> list[str]:
        gone.extend(one for one in addresses if not address or chat_key(one) == chat_key(address))
        return [one for one in addresses if one not in gone]

    altered = _altered(text, person, without)
    if not gone:
        what = f"the address {address!r:.80}" if address else "an address at a chat"
        raise RequestError(f"{person} does not have {what} in {PEOPLE_FILE}")
    return altered, gone


def read_people_text(home: Path) -> str:
    """The text of the file of a home. Raises RequestError if there is none."""
    try:
        return (home / PEOPLE_FILE).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise RequestError(f"there is no {PEOPLE_FILE}: write one (docs/reference/people.md)") from None


def write_people_text(home: Path, text: str) -> None:
    """Write the text of the file of a home. Raises OSError."""
    write_whole(home / PEOPLE_FILE, text)


def _altered(text: str, person: str, alter: Callable[[list[str]], list[str]]) -> str:
    """The text with other addresses of a person; it is valid."""
    toml = TomlText(Source(PEOPLE_FILE, text.encode()))
    text = toml.source.text
    tables = toml.table.get("people", {})
    table = tables.get(person) if isinstance(tables, dict) else None
    if not isinstance(table, dict):
        hint = closest(person, tables) if isinstance(tables, dict) else ""
        raise NotFoundError(f"there is no [people.{person}] in {PEOPLE_FILE}{hint}")
    addresses = [str(one) for one in table.get(KEY, [])]
    line = line_of(alter(addresses))
    if KEY in table:
        _, value, end = toml.place("people", person, KEY)
        altered = text[:value] + line.partition(" = ")[2] + text[end:]
    else:
        header = toml.place("people", person).key
        end = text.find("\n", header)
        end = len(text) if end < 0 else end
        if not text[text.rfind("\n", 0, header) + 1 : end].lstrip().startswith("["):
            raise RequestError(f"{person} is in a line of {PEOPLE_FILE} already: add there {line}")
        altered = f"{text[:end]}\n{line}{text[end:]}"
    directory, faults = parse_people(Source(PEOPLE_FILE, altered.encode()))
    if directory is None:
        raise RequestError("\n".join(map(str, faults)))
    return altered
