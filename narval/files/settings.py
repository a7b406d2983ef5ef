"""Settings: `etc/narval.toml`, frozen. Every fault is found at once, with its line and column."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Literal
from urllib.parse import urlsplit

import msgspec

from narval.core.agent_name import agent_name
from narval.core.errors import Fault, SettingsError
from narval.core.source.text import Source
from narval.files.agents.settings import AgentSettings, CollectionsOf, Given, readers_among
from narval.files.agents.webhooks import HOOKS, Webhook, read_hooks
from narval.files.outside.cluster import CERTIFICATES, LOCAL, ClusterSettings, read_address, read_table
from narval.files.outside.services import SERVICE_TABLES, Service, read_services
from narval.files.outside.sources import SOURCES, FlowSource, read_sources
from narval.files.toml import (
    Reader,
    TomlFile,
    count,
    duration,
    flag,
    one_of,
    or_none,
    size,
    text,
    zone,
)
from narval.system.unexpected import unexpected

FILE = "etc/narval.toml"

AT_START = ("timezone", "durability", "store", "store_patience", "listen", "forget_after", "work_kept")
"""Settings that a running daemon does not take over when the file is changed: its next start does."""


AGENT = "agent"
"""The table with the settings of the home's own agent."""

MAIL = "mail"
"""The table with the server by which people are written to."""

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
    is how many bytes one may add to its worker; `fetch_allow` are the places inside that actions may fetch,
    and `services` those outside that they may ask by name;
    `worker_memory` is how many a worker may add to what it has when it starts (None: as many as there are);
    `cluster` is where heavy calls are answered.
    """

    threads: int = min(32, 4 + (os.cpu_count() or 1))
    workers: int = max(2, os.cpu_count() or 1)
    worker_start: float = 60.0
    worker_idle: float = 120.0
    patience: float = 1.0
    folders: tuple[str, ...] = ()
    fetch_allow: tuple[str, ...] = ()
    services: tuple[Service, ...] = ()
    transform_memory: int = 1024 * 1024 * 1024
    worker_memory: int | None = None
    cluster: ClusterSettings = ClusterSettings()


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings of a home. Durations are in seconds.

    `name`: how the agent is called. `timezone`: the zone of its calendar (IANA; None: that of the machine).
    `durability`: what confirmed work survives, a `crash` of the daemon or a loss of `power`. `store`: the URL
    of its database (None: SQLite in `var/store.db`); `store_patience`: how long a daemon waits for a server
    that does not answer (None: for ever). `listen`: daemons of one database tell one another of
    messages at once; else each finds them within a heartbeat. `call_timeout`: how long a call may take that
    says nothing of its own. `threads`, `workers`: how many calls run at once there (as the machine has them,
    unless told). `idle_after`: how long an agent besides the home's own stays in memory with nothing to do;
    `active_memory`: how many bytes all of them may take (G6; None: half of the machine's).
    `worker_memory`: how many bytes a worker may take beyond what it starts with (None: all
    there are). `cluster`: where heavy calls are answered, a scheduler of dask or `local` (G65);
    `cluster_certificates`: the folder of the certificates for it; `cluster_workers`, `cluster_resources`:
    those of a local one; `cluster_memory`: how many bytes of results may wait to be recorded (G72).
    `stop_grace`: how long calls may go on when the daemon stops. `forget_after`: how long an
    element that nobody used, or a run that is over, is kept (None: for ever);
    `work_kept`: how long at least an item of work that is over (P38). `turn_limit`: how many events a
    turn takes. `history_entries`: how many entries a run that goes on for long keeps of its history.
    `run_depth`: how deep runs may call one another; `run_family`: how many runs that one top-level run has
    called, directly or not, may be under way with it. `xslt_folders`: what transforms may
    read (N32). `fetch_allow`: the places of this machine and its networks that actions may fetch.
    `log_level`: what the log holds. `columns`: the attributes that tables show of elements, by root name.
    `mail`: by which server and from which address people are written to (P60; None: they are not).
    `sources`: what dataflows may read, by name (TA19). `hooks`: the webhooks, by name. `services`: what
    actions may ask outside, by table and name.
    `agent`: what is said of the home's own agent alone.
    """

    name: str = "narval"
    timezone: str | None = None
    durability: Literal["crash", "power"] = "crash"
    store: str | None = None
    store_patience: float | None = None
    listen: bool = True
    call_timeout: float = 300.0
    threads: int = CallLimits().threads
    workers: int = CallLimits().workers
    worker_memory: int | None = None
    cluster: str = ""
    cluster_certificates: str = ClusterSettings().certificates
    cluster_workers: int = ClusterSettings().workers
    cluster_memory: int = ClusterSettings().memory
    cluster_resources: Mapping[str, float] = MappingProxyType({})
    stop_grace: float = 10.0
    idle_after: float = 60.0
    active_memory: int | None = None
    forget_after: float | None = None
    work_kept: float = 365 * 86400.0
    turn_limit: int = 1000
    history_entries: int = 10_000
    run_depth: int = 100
    run_family: int = 10_000
    xslt_folders: tuple[str, ...] = ()
    fetch_allow: tuple[str, ...] = ()
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    columns: Mapping[str, tuple[str, ...]] = COLUMNS
    mail: Mapping[str, str] | None = None
    sources: Mapping[str, FlowSource] = MappingProxyType({})
    hooks: Mapping[str, Webhook] = MappingProxyType({})
    services: tuple[Service, ...] = ()
    agent: Given = MappingProxyType({})

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
    def usual(self) -> AgentSettings:
        """The settings of an agent that says nothing of its own."""
        return AgentSettings(
            timezone=self.timezone, forget_after=self.forget_after, idle_after=self.idle_after
        )

    @property
    def own(self) -> AgentSettings:
        """The settings of the home's own agent."""
        return self.usual.with_given(self.agent)

    @property
    def trusted_models(self) -> list[str]:
        """The language models after whose answers nothing is asked before it goes outside."""
        return [found.name for found in self.services if found.table == "models" and not found.asks]

    @property
    def limits(self) -> CallLimits:
        """The limits of the executor."""
        return CallLimits(
            threads=self.threads,
            workers=self.workers,
            worker_memory=self.worker_memory,
            cluster=ClusterSettings(
                address=self.cluster,
                certificates=self.cluster_certificates,
                workers=self.cluster_workers,
                memory=self.cluster_memory,
                resources=tuple(self.cluster_resources.items()),
            ),
            folders=self.xslt_folders,
            fetch_allow=self.fetch_allow,
            services=self.services,
        )


def read_settings(home: Path) -> tuple[Settings | None, list[Fault]]:
    """The settings of a home, or all that is wrong with them."""
    return _settings(TomlFile.of(home / FILE, FILE), home)


def parse_settings(source: Source, home: Path = Path()) -> tuple[Settings | None, list[Fault]]:
    """The settings that a text of TOML holds, or all that is wrong. Folders are relative to the home."""
    return _settings(TomlFile(source), home)


def _settings(file: TomlFile, home: Path) -> tuple[Settings | None, list[Fault]]:
    try:
        return _checked(file, home)
    except Exception as error:
        return None, [unexpected(FILE, error)]


def _checked(file: TomlFile, home: Path) -> tuple[Settings | None, list[Fault]]:
    values = file.read(READERS)
    own = file.read(readers_among(CollectionsOf(home)), AGENT) if AGENT in values else {}
    mail = _mail(file) if MAIL in values else None
    sources = read_sources(file) if SOURCES in values else {}
    hooks = read_hooks(file) if HOOKS in values else {}
    services = read_services(file)
    if values.get("cluster", LOCAL) not in ("", LOCAL) and not values.get("cluster_certificates"):
        needed = f"cluster_certificates beside it, a folder of {', '.join(CERTIFICATES)}"
        file.note(("cluster",), f"cluster: expected {needed}, found none")
    if file.faults:
        return None, sorted(file.faults)
    folders = values.get("xslt_folders", ())
    values["xslt_folders"] = tuple(os.path.normpath(home / folder) for folder in folders)
    if certificates := values.get("cluster_certificates"):
        values["cluster_certificates"] = os.path.normpath(home / certificates)
    plain = {name: value for name, value in values.items() if name not in SERVICE_TABLES}
    tables = {AGENT: own, MAIL: mail, SOURCES: sources, HOOKS: hooks, "services": services}
    return Settings(**{**plain, **tables}), []


def _mail(file: TomlFile) -> Mapping[str, str]:
    """The account of `[mail]`: the values of an outbox, and from whom its mails are."""
    values = file.read(MAIL_READERS, MAIL)
    if not file.faults and not ("from" in values and ("host" in values) != ("path" in values)):
        needed = 'from = "narval@example.org", and host = "smtp.example.org" or the path of a Maildir'
        file.note((MAIL,), f"expected {needed}, found {', '.join(values) or 'nothing'}")
    return MappingProxyType(values)


def _address(value: object) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"[!-?A-~]+@[A-Za-z0-9.-]+", value):
        raise ValueError('an address, such as "narval@example.org"')
    return value


def _port(value: object) -> str:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value < 65536:
        raise ValueError("the number of a port")
    return str(value)


MAIL_READERS: Mapping[str, Reader] = {
    "from": _address,
    "name": text,
    "host": text,
    "port": _port,
    "tls": one_of("implicit", "starttls", "none"),
    "user": text,
    "secret": text,
    "path": text,
}
"""The readers of `[mail]`, as the attributes of an `outbox` are called (docs/reference/modules/mail.md)."""


def _folders(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(folder, str) and folder for folder in value):
        raise ValueError("a list of folders")
    return tuple(value)


def _folder(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("a folder, or none")
    return value


def _places(value: object) -> tuple[str, ...]:
    from narval.system.fetch import Grant  # here: most homes grant nothing, and start without it

    if not isinstance(value, list) or not all(isinstance(place, str) for place in value):
        raise ValueError("a list of hosts, addresses or networks")
    for place in value:
        Grant.of(place)
    return tuple(value)


def _url(value: object) -> str:
    if not isinstance(value, str) or not _is_url(value):
        raise ValueError("the URL of a database, such as postgresql://user@host/narval, or none at all")
    return value


def _is_url(text: str) -> bool:
    try:
        port = urlsplit(text).port
    except ValueError:
        return False
    return port != 0 and re.fullmatch(r"(?:sqlite|postgresql)(?:\+\w+)?://\S*", text) is not None


def _columns(value: object) -> Mapping[str, tuple[str, ...]]:
    """The attributes by root name; those of elements that are not named are as shipped."""
    if not isinstance(value, dict) or not all(
        isinstance(names, list) and all(isinstance(name, str) for name in names) for names in value.values()
    ):
        raise ValueError('a list of attributes for each name, such as email = ["from", "subject"]')
    return MappingProxyType({**COLUMNS, **{name: tuple(names) for name, names in value.items()}})


READERS: Mapping[str, Reader] = {
    "name": agent_name,
    "timezone": or_none(zone),
    "durability": one_of("crash", "power"),
    "store": or_none(_url),
    "store_patience": or_none(duration),
    "listen": flag,
    "call_timeout": duration,
    "threads": count(1_000_000),
    "workers": count(1_000_000),
    "worker_memory": or_none(size),
    "cluster": read_address,
    "cluster_certificates": _folder,
    "cluster_workers": count(1000),
    "cluster_memory": size,
    "cluster_resources": read_table,
    "stop_grace": duration,
    "idle_after": duration,
    "active_memory": or_none(size),
    "forget_after": or_none(duration),
    "work_kept": duration,
    "turn_limit": count(1_000_000),
    "history_entries": count(1_000_000),
    "run_depth": count(1_000_000),
    "run_family": count(1_000_000),
    "xslt_folders": _folders,
    "fetch_allow": _places,
    "log_level": one_of("debug", "info", "warning", "error"),
    "columns": _columns,
    MAIL: lambda value: value,
    SOURCES: lambda value: value,
    HOOKS: lambda value: value,
    **dict.fromkeys(SERVICE_TABLES, lambda value: value),
    AGENT: lambda value: value,
}
"""The readers of settings; a reader raises ValueError with what was expected."""
