"""Services: the places outside that settings name, and so grant, with what they are asked for with.

An element names a service and never an address with a secret: where a secret goes is said in the settings
alone, so no text of a stranger can send it elsewhere.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from narval.core.errors import ActionError
from narval.files.outside.commands import COMMAND_READERS
from narval.files.toml import Reader, TomlFile, count, duration, flag, one_of, text
from narval.system.secret import secret_named


class Service(msgspec.Struct, frozen=True, kw_only=True):
    """A place outside, as `[TABLE.NAME]` of the settings says it.

    `url` is where it is, or `path` (a calendar of files; a relative one begins at the home). `user` and
    `secret` (the name of one) are what it is asked with, as `auth` says: `basic`, `bearer`, or `header`, in
    the `header` of that name; usually basic with a user and bearer without. Only with `write` is anything
    altered there. `every`: how many seconds lie between two looks at it. Of a model: its name there is
    `model`; `tokens` and `money` are what a day may cost (None: as much as it takes), at `input_price` and
    `output_price` for a million tokens; `seconds` is how long one answer may take; unless `asks` is false,
    people agree before anything that its answers lead to goes outside.

    Of a command: `run` are its words, in which `{}` is the place of an argument; it runs in `folder`, with
    `environment` besides, for so many `seconds` at most. An argument may begin with a dash if `dashes`. Its
    `statuses` are those of success; of what it prints so many `bytes` count, as `output`: text or xml.
    """

    table: str
    name: str
    url: str = ""
    path: str = ""
    user: str = ""
    secret: str = ""
    auth: str = ""
    header: str = ""
    write: bool = False
    every: float | None = None
    model: str = ""
    tokens: int | None = None
    money: float | None = None
    input_price: float = 0.0
    output_price: float = 0.0
    seconds: float | None = None
    asks: bool = True
    run: tuple[str, ...] = ()
    folder: str = ""
    environment: tuple[tuple[str, str], ...] = ()
    dashes: bool = False
    statuses: tuple[int, ...] = (0,)
    bytes: int = 64 * 1024
    output: str = "text"

    def __str__(self) -> str:
        return f"[{self.table}.{self.name}]"

    def password(self, home: Path | None) -> str:
        """The secret itself. Raises ActionError (`no-secret`, final) with what to do."""
        try:
            return secret_named(self.secret, home)
        except ValueError as error:
            raise ActionError(f"{self} in etc/narval.toml: {error}", "no-secret", final=True) from None

    def credentials(self, home: Path | None) -> dict[str, str]:
        """The headers of HTTP by which it knows who asks; none without a secret. Raises ActionError."""
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


def service_named(services: Iterable[Service], table: str, name: str) -> Service:
    """Find a service. Raises ActionError (`no-such-service`, final) with the lines to write."""
    known = [service for service in services if service.table == table]
    for service in known:
        if service.name == name:
            return service
    there = f", where there is {', '.join(service.name for service in known)}" if known else ""
    raise ActionError(
        f"expected a table [{table}.{name}] in etc/narval.toml{there}; write one: {_SAMPLES[table]}",
        "no-such-service",
        final=True,
    )


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


_ASKED: Mapping[str, Reader] = {
    "url": address,
    "user": text,
    "secret": text,
    "auth": one_of("basic", "bearer", "header"),
    "header": text,
}

SERVICE_TABLES: Mapping[str, Mapping[str, Reader]] = {
    "services": _ASKED,
    "calendars": {**_ASKED, "path": text, "write": flag, "every": duration},
    "models": {
        **_ASKED,
        "model": text,
        "tokens": count(),
        "money": _money,
        "input_price": _money,
        "output_price": _money,
        "seconds": duration,
        "asks": flag,
    },
    "mailboxes": {"write": flag},
    "commands": COMMAND_READERS,
}
"""The tables of services, and the readers of their keys."""


def is_in_the_clear(url: str) -> bool:
    """True if what is sent to a URL leaves this machine without being encrypted."""
    return url.startswith("http://") and urlsplit(url).hostname not in ("localhost", "127.0.0.1", "::1")


_SAMPLES: Mapping[str, str] = {
    "services": 'url = "https://api.example.org", secret = "NAME"',
    "calendars": 'path = "calendars/home.ics", or url = "https://dav.example.org/you/home/", user, secret',
    "models": 'url = "http://127.0.0.1:11434/v1", model = "NAME"',
    "mailboxes": "write = true",
    "commands": 'run = ["program", "word"]',
}


def read_services(file: TomlFile) -> tuple[Service, ...]:
    """The services of a file of settings; what is wrong is noted there."""
    found = []
    for table, readers in SERVICE_TABLES.items():
        tables = file.table.get(table, {})
        if not isinstance(tables, dict):
            file.note((table,), f"expected tables, such as [{table}.home]", of_value=True)
            continue
        for name in tables:
            before = len(file.faults)
            values = file.read(readers, table, name)
            lacking = _lacking(table, values)
            if len(file.faults) > before:
                continue
            if lacking:
                file.note((table, name), f"{table}.{name}: expected {lacking}, found {', '.join(values)}")
            else:
                found.append(Service(table=table, name=name, **values))
    return tuple(found)


def _lacking(table: str, values: Mapping[str, Any]) -> str:
    """The keys that a table should have and has not, or has though they exclude each other."""
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
