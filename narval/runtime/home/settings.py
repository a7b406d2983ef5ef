"""Settings: `etc/narval.toml`, frozen. Every fault is found at once, with its line and column."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import msgspec

from narval.definitions.reading.durations import read_duration
from narval.definitions.suggestions import closest
from narval.errors import DefinitionError, Fault, SettingsError
from narval.source.text import Source

FILE = "etc/narval.toml"

AT_START = ("timezone", "durability", "store", "forget_after")
"""Settings that a running daemon does not take over when the file is changed: its next start does."""


COLUMNS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "email": ("from", "to", "subject"),
        "triage": ("verdict", "why", "mail"),
        "sent": ("to", "at"),
        "item": ("feed", "title"),
        "failure": ("name", "step", "type"),
        "notice": ("subject", "run"),
        "told": ("way", "run", "at"),
    }
)
"""The attributes that tables show of the elements that ship, unless the settings say otherwise."""


class CallLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The number of calls that go on at once, and the times and memory they have.

    `patience` is how long a cancelled coroutine has to end before it is given up; a worker that nobody needed
    for `worker_idle` seconds ends; `folders` are those that transforms may read (N32), and `transform_memory`
    is how many bytes one may add to its worker; `fetch_allow` are the places inside that actions may fetch;
    `worker_memory` is how many a worker may add to what it has when it starts (None: as many as there are).
    """

    threads: int = min(32, 4 + (os.cpu_count() or 1))
    workers: int = max(2, os.cpu_count() or 1)
    worker_start: float = 60.0
    worker_idle: float = 120.0
    patience: float = 1.0
    folders: tuple[str, ...] = ()
    fetch_allow: tuple[str, ...] = ()
    transform_memory: int = 1024 * 1024 * 1024
    worker_memory: int | None = None


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings of a home. Durations are in seconds.

    `name`: how the agent is called. `timezone`: the zone of its calendar (IANA; None: that of the machine).
    `durability`: what confirmed work survives, a `crash` of the daemon or a loss of `power`. `store`: the URL
    of its database (None: SQLite in `var/store.db`). `call_timeout`: how long a call may take that says
    nothing of its own. `threads`, `workers`: how many calls run at once there (as the machine has processors,
    unless told). `idle_after`: how long an agent besides the home's own stays in memory with nothing to do.
    `worker_memory`: how many bytes a worker may take beyond what it starts with (None: all
    there are). `stop_grace`: how long calls may go on when the daemon stops. `forget_after`: how long an
    element that nobody used, or a run that is over, is kept (None: for ever). `turn_limit`: how many events a
    turn takes. `history_entries`: how many entries a run that goes on for long keeps of its history.
    `run_depth`: how deep runs may call one another; `run_family`: how many runs that one top-level run has
    called, directly or not, may be under way with it. `xslt_folders`: what transforms may
    read (N32). `fetch_allow`: the places of this machine and its networks that actions may fetch.
    `log_level`: what the log holds. `columns`: the attributes that tables show of elements, by root name.
    """

    name: str = "narval"
    timezone: str | None = None
    durability: Literal["crash", "power"] = "crash"
    store: str | None = None
    call_timeout: float = 300.0
    threads: int = CallLimits().threads
    workers: int = CallLimits().workers
    worker_memory: int | None = None
    stop_grace: float = 10.0
    idle_after: float = 60.0
    forget_after: float | None = None
    turn_limit: int = 1000
    history_entries: int = 10_000
    run_depth: int = 100
    run_family: int = 10_000
    xslt_folders: tuple[str, ...] = ()
    fetch_allow: tuple[str, ...] = ()
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    columns: Mapping[str, tuple[str, ...]] = COLUMNS

    @classmethod
    def load(cls, home: Path) -> Settings:
        """The settings of a home; all have defaults, so there need be no file.

        Raises SettingsError with all the faults of the file.
        """
        settings, faults = read_settings(home)
        if settings is None:
            raise SettingsError("\n".join(map(str, faults)))
        return settings

    @property
    def limits(self) -> CallLimits:
        """The limits of the executor."""
        return CallLimits(
            threads=self.threads,
            workers=self.workers,
            worker_memory=self.worker_memory,
            folders=self.xslt_folders,
            fetch_allow=self.fetch_allow,
        )


def read_settings(home: Path) -> tuple[Settings | None, list[Fault]]:
    """The settings of a home, or all that is wrong with them."""
    try:
        source = Source(FILE, (home / FILE).read_bytes())
    except FileNotFoundError:
        return Settings(), []
    except OSError as error:
        return None, [Fault(FILE, 1, 1, f"cannot be read: {error.strerror}")]
    return parse_settings(source, home)


def parse_settings(source: Source, home: Path = Path()) -> tuple[Settings | None, list[Fault]]:
    """The settings that a text of TOML holds, or all that is wrong. Folders are relative to the home."""
    try:
        table = tomllib.loads(source.text)
    except DefinitionError as error:
        return None, list(error.faults)
    except tomllib.TOMLDecodeError as error:
        return None, [_syntax_fault(source, str(error))]
    except RecursionError:
        return None, [source.fault("values are nested too deep")]
    values: dict[str, Any] = {}
    faults: list[Fault] = []
    for key, value in table.items():
        read = READERS.get(key)
        if read is None:
            faults.append(_fault(source, key, f"unknown setting {key!r}{closest(key, READERS)}"))
            continue
        try:
            values[key] = read(value)
        except ValueError as error:
            faults.append(_fault(source, key, f"{key}: expected {error}, found {value!r:.80}", of_value=True))
    if faults:
        return None, sorted(faults)
    folders = values.get("xslt_folders", ())
    values["xslt_folders"] = tuple(os.path.normpath(home / folder) for folder in folders)
    return Settings(**values), []


def duration(value: object) -> float:
    """Read a length of time in seconds: a number, or a text such as "5m", "2h", "1d 12h"."""
    if isinstance(value, str):
        return read_duration(value)
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e12:
        return float(value)
    raise ValueError('a number of seconds or a text such as "30s", "5m", "2h", "1d"')


def _or_none(read: Callable[[object], Any]) -> Callable[[object], Any]:
    """TOML has no null: an empty text stands for it."""
    return lambda value: None if value == "" else read(value)


def _text(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("a text")
    return value


def _one_of(*words: str) -> Callable[[object], str]:
    def read(value: object) -> str:
        if value not in words:
            raise ValueError(" or ".join(words))
        return str(value)

    return read


def _count(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= 1_000_000:
        raise ValueError("a whole number of 1 or more")
    return value


def _size(value: object) -> int:
    """A number of bytes: a text such as "512M" or "2G"."""
    found = re.fullmatch(r"([1-9][0-9]{0,5})([KMG])", value) if isinstance(value, str) else None
    if found is None:
        raise ValueError('a text such as "512M" or "2G"')
    return int(found[1]) << 10 * (1 + "KMG".index(found[2]))


def _folders(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(folder, str) and folder for folder in value):
        raise ValueError("a list of folders")
    return tuple(value)


def _places(value: object) -> tuple[str, ...]:
    from narval.runtime.system.fetch import Grant  # here: most homes grant nothing, and start without it

    if not isinstance(value, list) or not all(isinstance(place, str) for place in value):
        raise ValueError("a list of hosts, addresses or networks")
    for place in value:
        Grant.of(place)
    return tuple(value)


def _zone(value: object) -> str:
    from zoneinfo import ZoneInfo  # here: most homes name no zone, and start without it

    try:
        return ZoneInfo(_text(value)).key
    except (OSError, ValueError, LookupError):
        raise ValueError("the name of a time zone, such as Europe/Paris or UTC") from None


def _url(value: object) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"(?:sqlite|postgresql)(?:\+\w+)?://\S*", value):
        raise ValueError(
            "the URL of a database, such as postgresql+psycopg://user@host/narval, or none at all"
        )
    return value


def _columns(value: object) -> Mapping[str, tuple[str, ...]]:
    """The attributes by root name; those of elements that are not named are as shipped."""
    if not isinstance(value, dict) or not all(
        isinstance(names, list) and all(isinstance(name, str) for name in names) for names in value.values()
    ):
        raise ValueError('a list of attributes for each name, such as email = ["from", "subject"]')
    return MappingProxyType({**COLUMNS, **{name: tuple(names) for name, names in value.items()}})


READERS: Mapping[str, Callable[[object], Any]] = {
    "name": _text,
    "timezone": _or_none(_zone),
    "durability": _one_of("crash", "power"),
    "store": _or_none(_url),
    "call_timeout": duration,
    "threads": _count,
    "workers": _count,
    "worker_memory": _or_none(_size),
    "stop_grace": duration,
    "idle_after": duration,
    "forget_after": _or_none(duration),
    "turn_limit": _count,
    "history_entries": _count,
    "run_depth": _count,
    "run_family": _count,
    "xslt_folders": _folders,
    "fetch_allow": _places,
    "log_level": _one_of("debug", "info", "warning", "error"),
    "columns": _columns,
}
"""The readers of settings; a reader raises ValueError with what was expected."""


def _syntax_fault(source: Source, message: str) -> Fault:
    place = re.search(r"\s*\(at (?:line (\d+), column (\d+)|end of document)\)$", message)
    if place is None:
        return source.fault(f"not TOML: {message}")
    at = source.place(len(source.text)) if place[1] is None else (int(place[1]), int(place[2]))
    return source.fault(f"not TOML: {message[: place.start()]}", *at)


def _fault(source: Source, key: str, message: str, *, of_value: bool = False) -> Fault:
    """A fault at a key, or at its value. Tables and dotted keys have the place of their first word."""
    word = re.escape(key)
    form = rf"""^[ \t]*\[?\[?[ \t]*(?P<key>{word}|"{word}"|'{word}')(?=[ \t]*[.=\]])[^=\n\]]*(?:=[ \t]*|\])"""
    found = re.search(form, source.text, re.MULTILINE)
    if found is None:
        return source.fault(message)
    return source.fault(message, *source.place(found.end() if of_value else found.start("key")))
