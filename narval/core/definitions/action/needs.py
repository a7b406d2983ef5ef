"""Needs: what an action may reach outside memory, as declared by its author.

A value in its four lists is a place, or refers to where the place is written: `{outbox/@host}:{outbox/@port}`
is the host of an `outbox` element, `[models]` are the places of that table of the settings. On a cluster an
action may also need resources of a worker: the amount of each, by name (G65).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

import msgspec

LISTS = ("hosts", "folders", "programs", "secrets")
"""The lists of needs, in display order."""

REFERENCE = re.compile(r"\{([A-Za-z_][\w.-]*(?:/[A-Za-z_][\w.-]*)?)/@([A-Za-z_][\w.-]*)\}")
"""A reference to a value: an attribute of elements with a name, or of their children with a name."""

HOME = "home"
"""The word, in brackets, for the files of a home except those that define what it does."""

_WORD = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
_HOST = re.compile(rf"(?:\*|(?:\*\.)?{_WORD}|\[[0-9A-Fa-f:.]+\])(?::(?P<port>\d{{1,5}}))?")
_HOST_REFERENCE = re.compile(rf"{REFERENCE.pattern}(?::(?:(?P<port>\d{{1,5}})|{REFERENCE.pattern}))?")
_TABLE = re.compile(r"\[([a-z]+(?:\.[^\[\]]+)?)\]")
_FOLDER = re.compile(r"\S(?:.*\S)? rw?")
_NAME = re.compile(r"\S+")

_TABLES_OF_HOSTS = ("services", "calendars", "models", "mail", "chats")
_TABLES_OF_FOLDERS = ("calendars", HOME)
_EXPECTED = {
    "hosts": "a host with a port or without, such as *.example.org:443, {outbox/@host} or [models]",
    "folders": "a folder and how it is used, such as data rw, {mailbox/@path} r or [calendars] rw",
    "programs": "the name of a program, such as dot, or [commands]",
    "secrets": "the name of a secret, such as smtp, {outbox/@secret} or [services]",
}


class ServicePlace(NamedTuple):
    """A place outside, named by settings: an address or a path, a secret, the first word of a command."""

    url: str = ""
    path: str = ""
    secret: str = ""
    program: str = ""


class Needs(msgspec.Struct, frozen=True):
    """The places of each sort that an action may reach, as named by its author; usually none.

    `hosts` as `HOST` or `HOST:PORT`, where a leading `*` matches any prefix; `folders` as `PATH r` or `PATH
    rw`, where a relative path starts at the home; `programs` and `secrets` by name.
    """

    hosts: tuple[str, ...] = ()
    """The hosts it connects to."""
    folders: tuple[str, ...] = ()
    """The folders it reads (r) or reads and writes (rw), with everything below them."""
    programs: tuple[str, ...] = ()
    """The programs it runs."""
    secrets: tuple[str, ...] = ()
    """The secrets it receives."""

    if TYPE_CHECKING:  # authors write lists

        def __init__(
            self,
            hosts: Iterable[str] = (),
            folders: Iterable[str] = (),
            programs: Iterable[str] = (),
            secrets: Iterable[str] = (),
        ) -> None: ...

    @property
    def all(self) -> Iterator[tuple[str, str]]:
        """The values, each with the name of its list."""
        return ((name, value) for name in LISTS for value in getattr(self, name))

    @property
    def files_named_by(self) -> frozenset[str]:
        """The names of the elements whose `path` is a file of the home, or of the `folder` they name."""
        if not any(table_of(folder) == HOME for folder in self.folders):
            return frozenset()
        places = (place for value in self.folders for place in REFERENCE.finditer(value))
        return frozenset(place[1] for place in places if place[2] == "folder")


NOTHING = Needs()
"""The needs of code that reaches nothing outside memory."""


def checked_needs(value: object) -> Needs:
    """Validate the needs of a declaration in Python. Raises ValueError with what was expected."""
    if not isinstance(value, Needs):
        raise ValueError("Needs(hosts=[…], folders=[…], programs=[…], secrets=[…])")
    return needs_of({name: getattr(value, name) for name in LISTS})


def needs_of(lists: Mapping[str, object]) -> Needs:
    """Needs from lists of texts. Raises ValueError with what was expected, after the name of the list."""
    made: dict[str, tuple[str, ...]] = {}
    for name, values in lists.items():
        if isinstance(values, str) or not isinstance(values, Iterable):
            raise ValueError(f"{name} to be a list of texts")
        made[name] = tuple(values)
        wrong = next((text for text in made[name] if not _is_fit(name, text)), None)
        if wrong is not None:
            raise ValueError(f"{name} to have {_EXPECTED[name]} (not {wrong!r:.80})")
    return Needs(**made)


def read_needs(text: str) -> Needs:
    """Parse needs in the form of an attribute: `host HOST; folder PATH rw; program NAME; secret NAME`.

    The text `nothing` stands for code without needs. Raises ValueError.
    """
    lists: dict[str, list[str]] = {name: [] for name in LISTS}
    for part in () if text.strip() == "nothing" else text.split(";"):
        word, _, value = part.strip().partition(" ")
        if f"{word}s" not in lists or not value:
            raise ValueError("nothing, or parts such as host example.org:443; folder data rw; program dot")
        lists[f"{word}s"].append(value.strip())
    return needs_of(lists)


def shown_needs(needs: Needs) -> str:
    """Needs in the form of an attribute."""
    return "; ".join(f"{name.removesuffix('s')} {value}" for name, value in needs.all) or "nothing"


def table_of(value: str) -> str:
    """The table of the settings that a value names, or one table in it; "" for any other value."""
    table = _TABLE.fullmatch(value.removesuffix(" rw").removesuffix(" r"))
    return table[1] if table is not None else ""


def _is_fit(name: str, value: object) -> bool:
    if not isinstance(value, str):
        return False
    table = table_of(value)
    if name == "hosts":
        if table:
            return table in _TABLES_OF_HOSTS
        host = _HOST.fullmatch(value) or _HOST_REFERENCE.fullmatch(value)
        return host is not None and 0 < int(host["port"] or 1) < 65536
    if name == "folders":
        return _FOLDER.fullmatch(value) is not None and (not table or table in _TABLES_OF_FOLDERS)
    if name == "programs":
        return value == "[commands]" or (_NAME.fullmatch(value) is not None and not table)
    if table:
        return table in _TABLES_OF_HOSTS
    return _NAME.fullmatch(value) is not None and ("{" not in value or REFERENCE.fullmatch(value) is not None)


# --- resources of a worker of the cluster -----------------------------------------------------------------

Resources = tuple[tuple[str, float], ...]
"""The amount of each resource, sorted by name."""

_EXPECTED_IN_PYTHON = 'names with numbers, such as {"GPU": 1}'
_EXPECTED_IN_ATTRIBUTE = "names with numbers, such as GPU=1"


def resources_of(value: object, expectation: str = _EXPECTED_IN_PYTHON) -> Resources:
    """Validate the resources of a declaration in Python. Raises ValueError with what was expected."""
    if not isinstance(value, Mapping) or not all(_is_resource(*item) for item in value.items()):
        raise ValueError(expectation)
    return tuple(sorted((name, float(number)) for name, number in value.items()))


def read_resources(text: str) -> Resources:
    """Parse the resources in an attribute, such as `GPU=1 license=0.5`. Raises ValueError."""
    try:
        amounts = {name: float(number) for name, number in (word.split("=") for word in text.split())}
    except ValueError:
        raise ValueError(_EXPECTED_IN_ATTRIBUTE) from None
    return resources_of(amounts, _EXPECTED_IN_ATTRIBUTE)


def shown_resources(resources: Resources) -> str:
    """Resources in the form of an attribute."""
    return " ".join(f"{name}={number:g}" for name, number in resources)


def _is_resource(name: object, number: object) -> bool:
    if not isinstance(name, str) or not re.fullmatch(r"[^\W\d][\w.-]*", name):
        return False
    return isinstance(number, int | float) and not isinstance(number, bool) and 0 < number < math.inf
