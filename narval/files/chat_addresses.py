"""Addresses at chats in `etc/people.toml`: add or remove one of a person, and leave all else unchanged."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from narval.core.definitions.people.directory import chat_key
from narval.core.definitions.suggestions import closest
from narval.core.errors import RequestError
from narval.core.source.text import Source
from narval.core.source.toml import TomlText
from narval.files.people_file import PEOPLE_FILE, parse_people
from narval.files.toml import quoted
from narval.system.whole_files import write_whole

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
        raise RequestError(f"there is no [people.{person}] in {PEOPLE_FILE}{hint}")
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
