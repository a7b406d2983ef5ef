"""Settings: `etc/narval.toml`, frozen. Every fault is found at once, with its line and column."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Literal
from urllib.parse import urlsplit

import msgspec

from narval.core.agent_name import agent_name
from narval.core.definitions.action.tool import action_name
from narval.core.definitions.suggestions import closest
from narval.core.errors import Fault
from narval.core.memory.labels import HOOK, MODEL, SERVER
from narval.core.source.text import Source
from narval.files import toml
from narval.files.agents.senders import CALLERS, HOOKS, Caller, Webhook, read_callers, read_hooks
from narval.files.agents.settings import AgentSettings, CollectionsOf, Given, readers_among
from narval.files.outside.chats import CHATS, ChatSettings, read_chats
from narval.files.outside.cluster import CERTIFICATES, CLUSTER_KEYS, LOCAL_CLUSTER, ClusterSettings
from narval.files.outside.mcp_servers import MCP, McpServer, read_mcp_servers
from narval.files.outside.services import (
    KINDS_OF_SERVICES,
    AnyService,
    LanguageModel,
    read_services,
    services_of,
)
from narval.files.outside.sources import DATAFLOWS, SOURCES, FlowLimits, FlowSource, read_sources
from narval.files.web_settings import LINK, WEB, LinkSettings, WebSettings, read_link, read_web

FILE = "etc/narval.toml"

AGENT = "agent"
"""The table with the settings of the home's own agent."""

MAIL = "mail"
"""The table with the server for mails to people."""

PROPOSE = "propose"
"""The table with the model that drafts definitions."""

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
"""The attributes of shipped elements that tables show, unless the settings say otherwise."""


def _is_url(text: str) -> bool:
    try:
        port = urlsplit(text).port
    except ValueError:
        return False
    return port != 0 and re.fullmatch(r"(?:sqlite|postgresql)(?:\+\w+)?://\S*", text) is not None


_url = toml.fitting(_is_url, "the URL of a database, such as postgresql://user@host/narval, or none at all")


def _columns(value: object) -> Mapping[str, tuple[str, ...]]:
    """The attributes by root name; the shipped ones for elements that are not named."""
    if not isinstance(value, dict) or not all(
        isinstance(names, list) and all(isinstance(name, str) for name in names) for names in value.values()
    ):
        raise ValueError('a list of attributes for each name, such as email = ["from", "subject"]')
    return MappingProxyType({**COLUMNS, **{name: tuple(names) for name, names in value.items()}})


class CallLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of concurrent calls, their times, their memory, and the places that they may use."""

    threads: Annotated[int, toml.count(1_000_000)] = min(32, 4 + (os.cpu_count() or 1))
    """The most calls at once in threads, and in programs of their own."""
    workers: Annotated[int, toml.count(1_000_000)] = max(2, os.cpu_count() or 1)
    """The most workers: programs for calls of actions that run apart."""
    worker_memory: Annotated[int | None, toml.or_none(toml.size)] = None
    """The bytes by which a worker may grow after its start; None: no limit."""
    xslt_folders: Annotated[tuple[str, ...], toml.listed(toml.text, "folders")] = ()
    """The folders that transforms may read."""
    fetch_allow: Annotated[tuple[str, ...], toml.places] = ()
    """The places of this machine and its networks that actions may fetch."""
    services: tuple[AnyService, ...] = ()
    """The places outside that actions may use by name, from all tables of services."""
    mcp: tuple[McpServer, ...] = ()
    """The MCP servers whose tools are actions."""
    cluster: ClusterSettings = ClusterSettings()
    """The place for heavy calls."""
    worker_start: float = 60.0
    """The seconds that a worker has to start."""
    worker_idle: float = 120.0
    """The seconds after which an unused worker ends."""
    patience: float = 1.0
    """The seconds that a cancelled coroutine has to end before it is abandoned."""
    transform_memory: int = 1024 * 1024 * 1024
    """The bytes that a transform may add to its worker."""


class ProposeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of `narval propose`."""

    model: Annotated[str | None, toml.or_none(toml.text)] = None
    """The name of the model of `[models]` that drafts definitions; None: none does."""


class Settings(CallLimits, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings of a home, each with its reader, and its tables. Durations: seconds."""

    name: Annotated[str, agent_name] = "narval"
    """The name of the home's own agent."""
    timezone: Annotated[str | None, toml.or_none(toml.zone), toml.AT_START] = None
    """The zone of the calendar (IANA); None: that of the machine."""
    durability: Annotated[Literal["crash", "power"], toml.one_of("crash", "power"), toml.AT_START] = "crash"
    """The fault that committed work survives."""
    store: Annotated[str | None, toml.or_none(_url), toml.AT_START] = None
    """The URL of the database; None: SQLite in `var/store.db`."""
    store_patience: Annotated[float | None, toml.or_none(toml.duration), toml.AT_START] = None
    """The time for which a daemon waits for a server that does not answer; None: for ever."""
    listen: Annotated[bool, toml.flag, toml.AT_START] = True
    """True if daemons of one database notify one another of messages at once; else within a heartbeat."""
    fleet_weight: Annotated[int, toml.count(100), toml.AT_START] = 10
    """Its share of the agents that any daemon of one database may have, compared with the other daemons."""
    call_timeout: Annotated[float, toml.duration] = 300.0
    """The time that a call without a time limit of its own may take."""
    stop_grace: Annotated[float, toml.duration] = 10.0
    """The time that calls have when the daemon stops."""
    idle_after: Annotated[float, toml.duration] = 60.0
    """The time for which an agent besides the home's own stays in memory with nothing to do."""
    active_memory: Annotated[int | None, toml.or_none(toml.size)] = None
    """The bytes that all active agents may take; None: half of the machine's."""
    forget_after: Annotated[float | None, toml.or_none(toml.duration), toml.AT_START] = None
    """The time for which an unused element, or an ended run, is kept; None: for ever."""
    work_kept: Annotated[float, toml.duration, toml.AT_START] = 365 * 86400.0
    """The least time for which an ended work item is kept."""
    turn_limit: Annotated[int, toml.count(1_000_000)] = 1000
    """The most events of a turn."""
    history_entries: Annotated[int, toml.count(1_000_000)] = 10_000
    """The most entries of its history that a long run keeps."""
    run_depth: Annotated[int, toml.count(1_000_000)] = 100
    """The depth to which runs may call one another."""
    run_family: Annotated[int, toml.count(1_000_000)] = 10_000
    """The most active runs that one outermost run has called, directly or not."""
    run_chain: Annotated[int, toml.count(1_000_000)] = 100
    """The most runs of a definition that may follow one another, each caused only by the one before, until
    their starts are delayed more and more.
    """
    traces: Annotated[bool, toml.flag, toml.AT_START] = False
    """True if traces are exported by OpenTelemetry, as the variables OTEL_* of the environment say."""
    log_level: Annotated[str, toml.one_of("debug", "info", "warning", "error")] = "info"
    """The lowest level that is logged."""
    grants: Annotated[Literal["ask", "trust"], toml.one_of("ask", "trust")] = "trust"
    """The word that says whether a definition needs a grant to reach outside the home."""
    columns: Annotated[Mapping[str, tuple[str, ...]], _columns] = COLUMNS
    """The attributes of elements that tables show, by root name."""
    mail: Mapping[str, str] | None = None
    """The server and the address for mails to people; None: no mails."""
    dataflows: FlowLimits = FlowLimits()
    """The limits of the sessions of dataflows."""
    sources: Mapping[str, FlowSource] = MappingProxyType({})
    """The sources that dataflows may read, by name."""
    hooks: Mapping[str, Webhook] = MappingProxyType({})
    """The webhooks, by name."""
    callers: Mapping[str, Caller] = MappingProxyType({})
    """The programs that call over HTTP, by name."""
    chats: tuple[ChatSettings, ...] = ()
    """The accounts with which people write to the home."""
    web: WebSettings = WebSettings()
    """The settings of what `narval web` serves besides the pages."""
    link: LinkSettings = LinkSettings()
    """The settings for peers that ask this home."""
    propose: ProposeSettings = ProposeSettings()
    """The settings of the model that drafts definitions."""
    agent: Given = MappingProxyType({})
    """The settings of the home's own agent only."""

    @classmethod
    def load(cls, home: Path) -> Settings:
        """The settings of a home; all have defaults, so the file is optional.

        Raises SettingsError with all the faults of the file.
        """
        return toml.required(read_settings(home))

    @classmethod
    def for_query(cls, home: Path) -> Settings:
        """The settings of a home, in which those with faults have their defaults.

        Raises SettingsError if the faults leave open where its store is, or which agent is its own.
        """
        file = toml.TomlFile.of(home / FILE, FILE)
        try:
            settings = _settings(home, file)
        except Exception:
            return cls.load(home)  # raises what is wrong
        read = ((file.table.get(key), getattr(settings, key)) for key in ("store", "name"))
        is_placed = all(text in (None, "", value) for text, value in read)
        return settings if file.table and is_placed else cls.load(home)

    @property
    def usual(self) -> AgentSettings:
        """The settings of an agent without settings of its own."""
        return AgentSettings(
            timezone=self.timezone, forget_after=self.forget_after, idle_after=self.idle_after
        )

    @property
    def own(self) -> AgentSettings:
        """The settings of the home's own agent."""
        return self.usual.with_given(self.agent)

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of data from webhooks, callers, language models and MCP servers in the settings."""
        models = (f"{MODEL}{model.name}" for model in services_of(self.services, LanguageModel))
        servers = (f"{SERVER}{server.name}" for server in self.mcp)
        callers = (caller.person for caller in self.callers.values())
        return (*(f"{HOOK}{name}" for name in self.hooks), *callers, *models, *servers)

    @property
    def trusted_models(self) -> list[str]:
        """The language models whose answers may lead outside without asking a person."""
        return [model.name for model in services_of(self.services, LanguageModel) if not model.asks]

    @property
    def approved_tools(self) -> list[str]:
        """The destructive tools, by the names of their actions, that are called without asking first."""
        return [f"{server.name}.{action_name(tool)}" for server in self.mcp for tool in server.approved]

    @property
    def idempotent_tools(self) -> list[str]:
        """The tools that may be called twice, by the names of their actions."""
        return [f"{server.name}.{action_name(tool)}" for server in self.mcp for tool in server.idempotent]


class CurrentSettings:
    """The settings of a home as they are `now`: users read them there when needed."""

    def __init__(self, settings: Settings | None = None) -> None:
        self.now = settings or Settings()

    def use(self, settings: Settings) -> None:
        """Use other settings from now on."""
        self.now = settings


def read_settings(home: Path, *, was_there: bool = False) -> tuple[Settings | None, list[Fault]]:
    """The settings of a home, or all the faults of their file, which must exist if it `was_there`."""
    return toml.outcome(toml.TomlFile.of(home / FILE, FILE, was_there=was_there), partial(_settings, home))


def parse_settings(source: Source, home: Path = Path()) -> tuple[Settings | None, list[Fault]]:
    """The settings in a text of TOML, or all its faults. Folders are relative to the home."""
    return toml.outcome(toml.TomlFile(source), partial(_settings, home))


def _settings(home: Path, file: toml.TomlFile) -> Settings:
    """The settings of a file; faults are noted there."""
    values = file.read(READERS)
    callers = read_callers(file) if CALLERS in values else {}
    mail = _mail(file) if MAIL in values else None
    services = read_services(file)
    cluster = {name: values.pop(key) for name, key in CLUSTER_KEYS.items() if key in values}
    if cluster.get("address", LOCAL_CLUSTER) not in ("", LOCAL_CLUSTER) and not cluster.get("certificates"):
        needed = f"cluster_certificates beside it, a folder of {', '.join(CERTIFICATES)}"
        file.note(("cluster",), f"cluster: expected {needed}, found none")
    folders = values.get("xslt_folders", ())
    values["xslt_folders"] = tuple(os.path.normpath(home / folder) for folder in folders)
    if certificates := cluster.get("certificates"):
        cluster["certificates"] = os.path.normpath(home / certificates)
    plain = {name: value for name, value in values.items() if name not in KINDS_OF_SERVICES}
    tables = {
        AGENT: file.read(readers_among(CollectionsOf(home), callers), AGENT) if AGENT in values else {},
        MAIL: mail,
        DATAFLOWS: FlowLimits(**file.read(FlowLimits, DATAFLOWS)) if DATAFLOWS in values else FlowLimits(),
        SOURCES: read_sources(file) if SOURCES in values else {},
        HOOKS: read_hooks(file) if HOOKS in values else {},
        CALLERS: callers,
        WEB: read_web(file) if WEB in values else WebSettings(),
        LINK: read_link(file) if LINK in values else LinkSettings(),
        PROPOSE: _propose(file, services) if PROPOSE in values else ProposeSettings(),
        "services": services,
        MCP: read_mcp_servers(file) if MCP in values else (),
        CHATS: read_chats(file, services) if CHATS in values else (),
    }
    return Settings(**{**plain, **tables, "cluster": ClusterSettings(**cluster)})


def _mail(file: toml.TomlFile) -> Mapping[str, str]:
    """The account of `[mail]`: the values of an outbox, and the sender of its mails."""
    values = file.read(MAIL_READERS, MAIL)
    if not file.faults and not ("from" in values and ("host" in values) != ("path" in values)):
        needed = 'from = "narval@example.org", and host = "smtp.example.org" or the path of a Maildir'
        file.note((MAIL,), f"expected {needed}, found {', '.join(values) or 'nothing'}")
    return MappingProxyType(values)


def _propose(file: toml.TomlFile, services: tuple[AnyService, ...]) -> ProposeSettings:
    """The table `[propose]`, whose model is one of `[models]`."""
    settings = ProposeSettings(**file.read(ProposeSettings, PROPOSE))
    names = [model.name for model in services_of(services, LanguageModel)]
    if settings.model and settings.model not in names and not file.faults:
        there = closest(settings.model, names) or f"; write a table [models.{settings.model}]"
        message = f"propose.model: there is no model {settings.model!r:.80}{there}"
        file.note((PROPOSE, "model"), message, of_value=True)
    return settings


def _port(value: object) -> str:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value < 65536:
        raise ValueError("the number of a port")
    return str(value)


MAIL_READERS: Mapping[str, toml.Reader] = {
    "from": toml.fitting(
        re.compile(r"[!-?A-~]+@[A-Za-z0-9.-]+").fullmatch, 'an address, such as "narval@example.org"'
    ),
    "name": toml.text,
    "host": toml.text,
    "port": _port,
    "tls": toml.one_of("implicit", "starttls", "none"),
    "user": toml.text,
    "secret": toml.text,
    "path": toml.text,
}
"""The readers of `[mail]`, by the names of the attributes of an `outbox` (docs/reference/modules/mail.md)."""

TABLES = (AGENT, MAIL, DATAFLOWS, SOURCES, HOOKS, CALLERS, WEB, LINK, PROPOSE, MCP, CHATS, *KINDS_OF_SERVICES)
"""The tables of the file, which are read separately."""

READERS: Mapping[str, toml.Reader] = {
    **toml.readers_of(Settings),
    **{CLUSTER_KEYS[name]: read for name, read in toml.readers_of(ClusterSettings).items()},
    **dict.fromkeys(TABLES, toml.as_it_is),
}
"""The readers of the keys of the file."""
