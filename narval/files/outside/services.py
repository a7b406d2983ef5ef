"""Services: the places outside that settings name, and so grant, with the data for requests.

An element names a service, never an address with a secret. Only the settings say where a secret goes, so a
stranger's text cannot send it elsewhere.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import urlsplit

import msgspec

from narval.core.definitions.action.needs import ServicePlace
from narval.core.errors import ActionError
from narval.files import toml
from narval.system.secret import secret_named


def address(value: object) -> str:
    """Read an address of http or https, without a password."""
    if not isinstance(value, str) or not value.startswith(("http://", "https://")) or "@" in value:
        raise ValueError("an address of http or https, without a password")
    try:
        if urlsplit(value).hostname and urlsplit(value).port != 0:
            return value
    except ValueError:
        pass
    raise ValueError("an address of http or https, with a host")


def _money(value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < 1e9:
        raise ValueError("a number of 0 or more, in whatever currency you count in")
    return float(value)


def _words(value: object) -> tuple[str, ...]:
    words = value if isinstance(value, list) else []
    if not words or not all(isinstance(word, str) and word.count("{}") <= 1 for word in words):
        raise ValueError('a list of words, such as ["lp", "-d", "laser"], each with one {} at most')
    if not words[0] or "{}" in words[0]:
        raise ValueError("a list of words whose first is the program itself")
    return tuple(words)


def read_variables(value: object) -> tuple[tuple[str, str], ...]:
    """Read the variables of a program, each with its text."""
    if not isinstance(value, dict) or not all(
        isinstance(said, str) and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name)
        for name, said in value.items()
    ):
        raise ValueError('variables and their texts, such as { LANG = "C" }')
    return tuple(value.items())


def _statuses(value: object) -> tuple[int, ...]:
    statuses = value if isinstance(value, list) else []
    if not statuses or not all(type(status) is int and 0 <= status < 256 for status in statuses):
        raise ValueError("a list of statuses from 0 to 255, such as [0, 1]")
    return tuple(statuses)


class Service(msgspec.Struct, frozen=True, kw_only=True, tag_field="table"):
    """A place outside, as in `[TABLE.NAME]` of the settings.

    Its other fields are the keys of the table.
    """

    name: str
    """The name with which elements refer to it."""

    @property
    def table(self) -> str:
        """The table of the settings that has it."""
        return _table(type(self))

    def __str__(self) -> str:
        return f"[{self.table}.{self.name}]"


def _table(kind: type[Service]) -> str:
    """The table of the settings that has the services of a kind."""
    return str(kind.__struct_config__.tag)


class WebService(Service, frozen=True, kw_only=True, tag="services"):
    """A place for requests over HTTP."""

    url: Annotated[str, address] = ""
    """Its address."""
    user: Annotated[str, toml.text] = ""
    """The user for requests."""
    secret: Annotated[str, toml.text] = ""
    """The name of the secret for requests: a variable, or a file in `etc/`."""
    auth: Annotated[Literal["", "basic", "bearer", "header"], toml.one_of("basic", "bearer", "header")] = ""
    """The way to send the secret; "": basic with a user, and bearer without."""
    header: Annotated[str, toml.text] = ""
    """The header of HTTP with the secret, for the way `header`."""

    def password(self, home: Path | None) -> str:
        """The secret itself. Raises ActionError (`no-secret`, final) with the remedy."""
        try:
            return secret_named(self.secret, home)
        except ValueError as error:
            raise ActionError(f"{self} in etc/narval.toml: {error}", "no-secret", final=True) from None

    def credentials(self, home: Path | None) -> dict[str, str]:
        """The headers of HTTP that authenticate a request; none without a secret. Raises ActionError."""
        if not self.secret:
            return {}
        password = self.password(home)
        way = self.auth or ("basic" if self.user else "bearer")
        if way == "header":
            return {self.header: password}
        if way == "bearer":
            return {"Authorization": f"Bearer {password}"}
        pair = base64.b64encode(f"{self.user}:{password}".encode()).decode("ascii")
        return {"Authorization": f"Basic {pair}"}


class Calendar(WebService, frozen=True, kw_only=True, tag="calendars"):
    """A calendar on a CalDAV server, or of files."""

    path: Annotated[str, toml.text] = ""
    """The file or folder of a calendar without an address; a relative path starts at the home."""
    write: Annotated[bool, toml.flag] = False
    """True if appointments may be written there."""
    every: Annotated[float | None, toml.duration] = None
    """The time between two checks of it; None: the usual time of the module."""


class LanguageModel(WebService, frozen=True, kw_only=True, tag="models"):
    """A language model behind an API like OpenAI's."""

    model: Annotated[str, toml.text] = ""
    """Its name there."""
    tokens: Annotated[int | None, toml.count()] = None
    """The most tokens in a day; None: no limit."""
    money: Annotated[float | None, _money] = None
    """The most money that a day may cost; None: no limit."""
    input_price: Annotated[float, _money] = 0.0
    """The price of a million tokens that it reads."""
    output_price: Annotated[float, _money] = 0.0
    """The price of a million tokens that it writes."""
    seconds: Annotated[float | None, toml.duration] = None
    """The time that one answer may take; None: the usual time of the module."""
    asks: Annotated[bool, toml.flag] = True
    """False if its answers may lead to calls outside without a person's agreement."""


class Mailbox(Service, frozen=True, kw_only=True, tag="mailboxes"):
    """A mailbox; its element in memory says where it is."""

    write: Annotated[bool, toml.flag] = False
    """True if mails may be marked, moved and deleted there."""


class Command(Service, frozen=True, kw_only=True, tag="commands"):
    """A program that actions may run by name."""

    run: Annotated[tuple[str, ...], _words] = ()
    """The program and its words, in which `{}` is the place of an argument."""
    folder: Annotated[str, toml.text] = ""
    """The folder in which it runs; a relative path starts at the home."""
    seconds: Annotated[float | None, toml.duration] = None
    """The time that it may take; None: the usual time of the module."""
    environment: Annotated[tuple[tuple[str, str], ...], read_variables] = ()
    """The variables that it gets besides the usual ones."""
    dashes: Annotated[bool, toml.flag] = False
    """True if an argument may begin with a dash."""
    statuses: Annotated[tuple[int, ...], _statuses] = (0,)
    """The statuses of success."""
    bytes: Annotated[int, toml.size] = 64 * 1024
    """The most bytes of its output that are used."""
    output: Annotated[Literal["text", "xml"], toml.one_of("text", "xml")] = "text"
    """The form of its output."""


AnyService = WebService | Calendar | LanguageModel | Mailbox | Command
"""A service of any table, as passed to a worker."""

_KINDS: tuple[type[AnyService], ...] = (WebService, Calendar, LanguageModel, Mailbox, Command)

KINDS_OF_SERVICES: Mapping[str, type[AnyService]] = MappingProxyType({_table(kind): kind for kind in _KINDS})
"""The kind of service that each table has."""

Kind = TypeVar("Kind", bound=AnyService)


def services_of(services: Iterable[Service], kind: type[Kind]) -> list[Kind]:
    """The services of one table."""
    return [service for service in services if type(service) is kind]


def service_named(services: Iterable[Service], kind: type[Kind], name: str) -> Kind:
    """Find a service. Raises ActionError (`no-such-service`, final) with the lines to write."""
    there = services_of(services, kind)
    for service in there:
        if service.name == name:
            return service
    table = _table(kind)
    others = f", where there is {', '.join(service.name for service in there)}" if there else ""
    raise ActionError(
        f"expected a table [{table}.{name}] in etc/narval.toml{others}; write one: {_SAMPLES[table]}",
        "no-such-service",
        final=True,
    )


def service_at(services: Iterable[Service], table: str, name: str) -> Service:
    """Find the service of `[TABLE.NAME]`. Raises ActionError (`no-such-service`, final)."""
    if (kind := KINDS_OF_SERVICES.get(table)) is None:
        there = f"there is no table of services {table!r:.80}, only {', '.join(KINDS_OF_SERVICES)}"
        raise ActionError(there, "no-such-service", final=True)
    return service_named(services, kind, name)


def places_by_table(services: Iterable[Service]) -> dict[str, tuple[ServicePlace, ...]]:
    """The places of services, by their tables."""
    places: dict[str, tuple[ServicePlace, ...]] = {}
    for service in services:
        places[service.table] = (*places.get(service.table, ()), _place(service))
    return places


def _place(service: Service) -> ServicePlace:
    match service:
        case Calendar():
            return ServicePlace(service.url, service.path, service.secret)
        case WebService():
            return ServicePlace(service.url, secret=service.secret)
        case Command():
            return ServicePlace(program=service.run[0])
    return ServicePlace()


def is_in_the_clear(url: str) -> bool:
    """True if data sent to a URL leaves this machine unencrypted."""
    return url.startswith("http://") and urlsplit(url).hostname not in ("localhost", "127.0.0.1", "::1")


_SAMPLES: Mapping[str, str] = {
    "services": 'url = "https://api.example.org", secret = "NAME"',
    "calendars": 'path = "calendars/home.ics", or url = "https://dav.example.org/you/home/", user, secret',
    "models": 'url = "http://127.0.0.1:11434/v1", model = "NAME"',
    "mailboxes": "write = true",
    "commands": 'run = ["program", "word"]',
}


def read_services(file: toml.TomlFile) -> tuple[AnyService, ...]:
    """The services of a file of settings; faults are noted there."""
    services: list[AnyService] = []
    for table, kind in KINDS_OF_SERVICES.items():
        for name, values in file.named(table, kind, "home"):
            if lacking := _lacking(table, values):
                file.note((table, name), f"{table}.{name}: expected {lacking}, found {', '.join(values)}")
            else:
                services.append(kind(name=name, **values))
    return tuple(services)


def _lacking(table: str, values: Mapping[str, Any]) -> str:
    """The missing keys of a table, or its keys that exclude each other."""
    if table == "mailboxes":
        return ""
    if table == "commands":
        return "" if "run" in values else _SAMPLES[table]
    places = [key for key in ("url", "path") if key in values]
    if len(places) != 1 or (table == "models" and "model" not in values):
        return _SAMPLES[table]
    if ("header" in values) != (values.get("auth") == "header"):
        return 'auth = "header" and header = "X-Name" together'
    if "secret" in values and is_in_the_clear(values.get("url", "")):
        return "https, since it is asked with a secret, which would go through the net in the clear"
    if "auth" in values and "secret" not in values:
        return 'secret = "NAME", since there is an auth'
    return (
        'user = "NAME", since auth is "basic"'
        if values.get("auth") == "basic" and "user" not in values
        else ""
    )
