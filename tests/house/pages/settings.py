"""The page of all settings, from their readers, their defaults, and the sample file that ships."""

from __future__ import annotations

import ast
import inspect
import json
import re
import textwrap
import tomllib
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import msgspec

from narval.files.agents.senders import CALLERS, HOOKS, Caller, Webhook
from narval.files.agents.settings import AgentSettings
from narval.files.outside.chats import CHATS, ChatSettings
from narval.files.outside.cluster import CLUSTER_KEYS, ClusterSettings
from narval.files.outside.mcp_servers import MCP, McpServer
from narval.files.outside.peers import PeerSettings
from narval.files.outside.services import KINDS_OF_SERVICES
from narval.files.outside.sources import DATAFLOWS, SOURCES, FlowLimits, FlowSource
from narval.files.people_file import PEOPLE_READERS
from narval.files.settings import (
    AGENT,
    FILE,
    MAIL,
    MAIL_READERS,
    PROPOSE,
    READERS,
    TABLES,
    ProposeSettings,
    Settings,
)
from narval.files.toml import Reader, readers_of, taken_at_start
from narval.files.web_settings import LINK, WEB, LinkSettings, WebSettings
from tests.house.pages.tables import BAD_VALUES, code, codes, expected, table
from tests.places import ROOT

PATH = "reference/settings.md"
SAMPLE = ROOT / FILE

HEAD = f"""\
# Settings

Made from the readers of settings by `python -m tests.house.pages`; a test compares. The settings are in
`{FILE}` of a home. The file that `narval init` makes has each setting with its default; without a file these
defaults apply. A change takes effect at once, except for {codes(taken_at_start(Settings))}: these take effect
at the next
start. `narval check` reports every fault with its line and column. Lengths of time are seconds, or texts such
as `"30s"`, `"5m"`, `"2h"`, `"1d 12h"`.
"""


_WITHOUT = re.compile(r'(?:None|""): ')

UNITS = {"G": 1 << 30, "M": 1 << 20, "K": 1 << 10}


class SettingsTable(NamedTuple):
    """A table of settings: the page that explains it, the struct that has its readers and defaults, or its
    readers.
    """

    title: str
    where: str
    defaults: type[msgspec.Struct] | None
    readers: Mapping[str, Reader] = {}


SERVICES = "[services](services.md)"
PAGES = {"mailboxes": "[mail](modules/mail.md)"}
"""The pages that explain the tables of services, where these have one of their own."""

INNER = (
    SettingsTable(f"[{MAIL}]", "[work by mail](work-by-mail.md)", None, MAIL_READERS),
    *(
        SettingsTable(f"[{name}.NAME]", PAGES.get(name, SERVICES), kind)
        for name, kind in KINDS_OF_SERVICES.items()
    ),
    SettingsTable(f"[{MCP}.NAME]", "[MCP servers](mcp-servers.md)", McpServer),
    SettingsTable(f"[{CHATS}.NAME]", "[chat](chat.md)", ChatSettings),
    SettingsTable(f"[{DATAFLOWS}]", "[dataflows](dataflows.md)", FlowLimits),
    SettingsTable(f"[{SOURCES}.NAME]", "[dataflows](dataflows.md)", FlowSource),
    SettingsTable(f"[{WEB}]", "[narval as an MCP server](mcp-server.md)", WebSettings),
    SettingsTable(f"[{LINK}]", "[links](links.md)", LinkSettings),
    SettingsTable(f"[{PROPOSE}]", "[proposals](proposals.md)", ProposeSettings),
    SettingsTable(f"[{HOOKS}.NAME]", "[webhooks](webhooks.md)", Webhook),
    SettingsTable(f"[{CALLERS}.NAME]", "[calls by HTTP](calls-by-http.md)", Caller),
    SettingsTable(
        f"[{AGENT}]` and `agents/NAME/agent.toml",
        "[several agents](agents.md#settings-of-an-agent)",
        AgentSettings,
    ),
)
"""The tables within the settings, and the file of an agent."""


def lines() -> Iterator[str]:
    """The lines of the page."""
    yield HEAD
    samples = dict(sampled(SAMPLE.read_text(encoding="utf-8")))
    told = {name: samples.get(name, ("", "")) for name in (*samples, *READERS) if name not in TABLES}
    rows = (
        (code(name), expected(READERS[name], BAD_VALUES), default_at_top(name, sample), text)
        for name, (text, sample) in told.items()
    )
    yield from table(("setting", "takes", "default", "is"), rows)
    for found in INNER:
        yield f"\n## `{found.title}`\n\nExplained under {found.where}.\n"
        fields = explained(found.defaults) if found.defaults is not None else {}
        columns = 4 if fields else 3
        rows = (
            (code(name), expected(read, BAD_VALUES), default(found.defaults, name), fields.get(name, ""))
            for name, read in (found.readers or readers_of(found.defaults)).items()
        )
        yield from table(("setting", "takes", "default", "is")[:columns], (row[:columns] for row in rows))
    yield "\n## `etc/peers.toml`\n\nA table for each peer, `[NAME]`. Explained under [links](links.md).\n"
    fields = explained(PeerSettings)
    yield from table(
        ("setting", "takes", "default", "is"),
        (
            (code(name), expected(read, BAD_VALUES), default(PeerSettings, name), fields.get(name, ""))
            for name, read in readers_of(PeerSettings).items()
        ),
    )
    yield "\n## `etc/people.toml`\n\nExplained under [people](people.md#who-is-who).\n"
    yield from table(
        ("table", "keys"),
        ((code(f"[{name}]") if name else "at the top", codes(keys)) for name, keys in PEOPLE_READERS.items()),
    )


def explained(settings: type[msgspec.Struct]) -> dict[str, str]:
    """What the line below each field of a struct says, without its full stop, as of a file without None."""
    lines: dict[str, str] = {}
    for kind in reversed([kind for kind in settings.__mro__ if kind.__module__.startswith("narval.")]):
        body = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0].body
        for field, below in pairwise(body):
            if isinstance(field, ast.AnnAssign) and isinstance(below, ast.Expr):
                lines[field.target.id] = _WITHOUT.sub("without it: ", below.value.value.rstrip("."))
    return lines


def sampled(text: str) -> Iterator[tuple[str, tuple[str, str]]]:
    """Of each setting that a sample file shows: the comment above it, and the value as it is written."""
    for part in re.split(r"\n\s*\n", text):
        comment = " ".join(line[2:] for line in part.splitlines() if line.startswith("# "))
        tables = re.findall(r"^#\[(\w+)\]$", part, re.MULTILINE)
        for name, value in re.findall(r"^#(\w+) = (.*)$", part, re.MULTILINE) if not tables else ():
            yield name, (comment, value)
        for name in tables:
            yield name, (comment, "")


def default_at_top(name: str, sample: str) -> str:
    """The default of a setting outside tables, which may be one of the cluster."""
    of_cluster = {key: field for field, key in CLUSTER_KEYS.items()}
    if name in of_cluster:
        return default(ClusterSettings, of_cluster[name], sample, READERS[name])
    return default(Settings, name, sample, READERS[name])


def default(
    defaults: type[msgspec.Struct] | None, name: str, sample: str = "", read: Reader | None = None
) -> str:
    """The default of a setting, as the sample writes it where that is the same."""
    fields: Mapping[str, Any] = {field.name: field for field in msgspec.structs.fields(defaults or Webhook)}
    if defaults is None or name not in fields or name in ("threads", "workers"):
        return ""
    value = fields[name].default
    if sample and read is not None and read(tomllib.loads(f"a = {sample}")["a"]) == value:
        return code(sample)
    return shown(value)


def shown(value: object) -> str:
    """A default as TOML writes it; nothing for none."""
    match value:
        case bool():
            return code(str(value).lower())
        case str() if value:
            return code(f'"{value}"')
        case float() if value:
            return code(f'"{value / 86400:g}d"' if value % 86400 == 0 else f'"{value:g}s"')
        case int() if value % 1024 == 0:
            unit = next(sign for sign, size in UNITS.items() if value % size == 0)
            return code(f'"{value // UNITS[unit]}{unit}"')
        case int() | float():
            return code(f"{value:g}" if isinstance(value, float) else value)
        case tuple() if value:
            return code(json.dumps(value))
    return ""
