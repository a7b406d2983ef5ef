"""The settings of an agent, in its `agent.toml`; the home's own has a table in `etc/narval.toml` (G3)."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any

import msgspec

from narval.core.agent_name import AT, CALLER, NAME, agent_address
from narval.core.elements.canonical import MAX_BYTES
from narval.core.errors import Fault
from narval.core.source.text import Source
from narval.files import toml
from narval.system.regular_file import is_folder

EVERYBODY = "*"
"""Any agent, or any element, in lists of rights."""

HOME_COLLECTION, OWN = "home", "own"
"""The collections that are the home's own folders, and those of the agent itself."""

LIMITS = frozenset(
    ("elements", "bytes", "element_bytes", "runs", "moments", "calls", "messages", "definitions")
)
"""The settings that are limits."""


def usable(most: int) -> int:
    """The part of a limit that is available to all; one hundredth is reserved for error elements (G16)."""
    return most - most // 100


Given = Mapping[str, Any]
"""The settings in an agent's file, by name."""

AGENT_FILE = "agent.toml"
"""The settings file in an agent's folder."""

SETTINGS = "settings"
"""The fact of a store about an agent without a folder: the text of its settings, in the form of that file."""

COLLECTIONS = "collections"
"""The folder of a home with its other collections."""

PUBLISHED_MARK = ".published"
"""The file in such a folder that marks it as written by narval from its store, and names the version."""


class CollectionsOf:
    """The collections of a home: a name is a member if a folder of that name exists."""

    def __init__(self, home: Path) -> None:
        self._folder = home / COLLECTIONS

    def __contains__(self, name: object) -> bool:
        """True of the name of a folder in `collections/`."""
        return isinstance(name, str) and bool(NAME.fullmatch(name)) and is_folder(self._folder / name)


class AnyName:
    """The collections, or the callers, of an unknown home: every name is a member."""

    def __contains__(self, name: object) -> bool:
        return True


class Receives(msgspec.Struct, frozen=True):
    """A rule about the elements that an agent may be sent: those of these names from that agent."""

    sender: str
    elements: tuple[str, ...]


class AgentSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings of an agent; the home's apply where its file has none. Durations: seconds."""

    collections: Annotated[tuple[str, ...], _collections(_collection)] = (HOME_COLLECTION, OWN)
    """The sets of definitions that it follows."""
    weight: Annotated[int, toml.count(100)] = 10
    """Its share of the processor, compared with other agents."""
    timezone: Annotated[str | None, toml.or_none(toml.zone)] = None
    """The zone of its calendar; None: that of the machine."""
    forget_after: Annotated[float | None, toml.or_none(toml.duration)] = None
    """The time for which an unused element, or an ended run, is kept; None: for ever."""
    idle_after: Annotated[float, toml.duration] = 60.0
    """The time for which it stays active with nothing to do."""
    always_active: Annotated[bool, toml.flag] = False
    """True if it is never passive."""
    keep: Annotated[float, toml.duration] = 7 * 86_400.0
    """The time for which a message waits."""
    elements: Annotated[int, toml.count()] = 1_000_000
    """The most elements in its memory."""
    bytes: Annotated[int, _bytes] = 1024**3
    """The most bytes that these take."""
    runs: Annotated[int, toml.count()] = 100_000
    """The most active runs."""
    moments: Annotated[int, toml.count()] = 1_000_000
    """The most moments waited for."""
    calls: Annotated[int | None, toml.or_none(toml.count())] = None
    """The most calls under way; None: all places but one."""
    messages: Annotated[int, toml.count()] = 10_000
    """The most messages in its mailbox."""
    element_bytes: Annotated[int, _bytes] = MAX_BYTES
    """The most bytes of one element."""
    definitions: Annotated[int, toml.count()] = 1_000
    """The most definitions that it follows."""
    receives: Annotated[tuple[Receives, ...] | None, _receives] = None
    """The elements that each agent may send it; None: the default rules."""
    offers: Annotated[Mapping[str, tuple[str, ...]], _offers] = MappingProxyType({})
    """The agents that may call each definition; `*` is any of this home, `*@office` any of that peer,
    `http:NAME` a program of `[callers]`."""

    def with_given(self, values: Given) -> AgentSettings:
        """The same settings, with those of a file."""
        return msgspec.structs.replace(self, **values) if values else self


def read_agent_file(
    path: Path, place: str, collections: Container[str], callers: Container[str]
) -> tuple[Given | None, list[Fault]]:
    """The settings in a file, or all its faults; the file may be missing.

    `known` are the existing collections, `callers` the programs that call over HTTP.
    """
    return toml.outcome(toml.TomlFile.of(path, place), partial(_given, collections, callers))


def parse_agent_file(source: Source, collections: Container[str]) -> tuple[Given | None, list[Fault]]:
    """The settings in a text of TOML, or all its faults."""
    return toml.outcome(toml.TomlFile(source), partial(_given, collections, AnyName()))


def parse_stored_settings(text: str) -> tuple[Given | None, list[Fault]]:
    """The settings of an agent that any daemon of a store may have, or all their faults. The named
    collections are checked where the agent is active.
    """
    return toml.outcome(
        toml.TomlFile(Source(AGENT_FILE, text.encode())), partial(_given, AnyName(), AnyName())
    )


def _given(collections: Container[str], callers: Container[str], file: toml.TomlFile) -> Given:
    return file.read(readers_among(collections, callers))


def readers_among(collections: Container[str], callers: Container[str]) -> Mapping[str, toml.Reader]:
    """The readers of the settings of an agent in a home that has these collections and callers."""
    among = {"collections": _collections_among(collections), "offers": _offers_among(callers)}
    return {**AGENT_READERS, **among}


def _collections_among(collections: Container[str]) -> toml.Reader:

    def read(value: str) -> str:
        if _collection(value) not in (HOME_COLLECTION, OWN) and value not in collections:
            raise ValueError(f"a collection that is there (collections/{value}/)")
        return value

    return _collections(read)


def _collections(read: Callable[[str], str]) -> toml.Reader:
    read_all = toml.listed(read, f'collections, such as ["{HOME_COLLECTION}", "{OWN}"]')

    def once(value: object) -> tuple[str, ...]:
        names: tuple[str, ...] = read_all(value)
        for number, name in enumerate(names):
            if name in names[:number]:
                raise toml.InnerError("each collection once", number)
        return names

    return once


_collection = toml.fitting(NAME.fullmatch, "the name of a collection, a lower-case letter and up to 62 more")
_ELEMENTS = toml.listed(toml.text, 'names of elements, such as ["order", "note"]')


def _receives(value: object) -> tuple[Receives, ...]:
    form = '{from = "shop", elements = ["order"]}'
    if not isinstance(value, list):
        raise ValueError(f"a list of who may send what, such as [{form}]")
    rules = []
    for number, rule in enumerate(value):
        if not isinstance(rule, dict) or rule.keys() != {"from", "elements"}:
            raise toml.InnerError(f"an agent and names of elements, such as {form}", number)
        sender = _inside(_agent_or_all, rule["from"], number, "from")
        elements = _inside(_ELEMENTS, rule["elements"], number, "elements")
        rules.append(Receives(sender, elements))
    return tuple(rules)


def _offers(value: object) -> Mapping[str, tuple[str, ...]]:
    if not isinstance(value, dict):
        raise ValueError('a list of agents for each definition, such as "billing.invoice" = ["shop"]')
    return MappingProxyType({name: _inside(_AGENTS, whom, name) for name, whom in value.items()})


def _offers_among(callers: Container[str]) -> toml.Reader:

    def read(value: object) -> Mapping[str, tuple[str, ...]]:
        offers = _offers(value)
        for definition, whom in offers.items():
            for number, name in enumerate(whom):
                if name.startswith(CALLER) and name[len(CALLER) :] not in callers:
                    expected = f"{CALLER} and the name of a caller of etc/narval.toml, [callers.NAME]"
                    raise toml.InnerError(expected, definition, number)
        return offers

    return read


def _agent_or_caller(name: str) -> str:
    return name if name.startswith(CALLER) else _agent_or_all(name)


def _agent_or_all(value: object) -> str:
    """Read the agents of a rule: a name, `*` for any agent of this home, or `*@office` for any of a peer."""
    if value == EVERYBODY:
        return EVERYBODY
    if isinstance(value, str) and value.startswith(f"{EVERYBODY}{AT}"):
        agent_address(f"all{value[len(EVERYBODY) :]}")
        return value
    return agent_address(value)


_AGENTS = toml.listed(_agent_or_caller, 'agents, such as ["shop", "web"], or ["*"] for all')


def _inside(read: toml.Reader, value: object, *at: str | int) -> Any:
    """Read a part of a value; a fault is reported at that part."""
    try:
        return read(value)
    except toml.MisfitsError as error:
        raise toml.MisfitsError(
            [toml.InnerError(str(each), *at, *each.at) for each in error.errors]
        ) from None
    except ValueError as error:
        raise toml.InnerError(str(error), *at) from None


def _bytes(value: object) -> int:
    """Read a number of bytes, or a text with its unit."""
    if isinstance(value, str):
        return toml.size(value)
    try:
        return int(toml.count()(value))
    except ValueError:
        raise ValueError('a number of bytes, or a text such as "512M" or "2G"') from None


AGENT_READERS: Mapping[str, toml.Reader] = toml.readers_of(AgentSettings)
"""The readers of the settings of agents."""
