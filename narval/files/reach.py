"""Reach of a home: which labels can get to which calls, according to its files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache

import msgspec

from narval.core.definitions.action.definition import Action
from narval.core.definitions.library import Definition, Library, RunDefinition
from narval.core.definitions.people.directory import CHAT, MAIL, Directory
from narval.core.definitions.telling.sentence import counted
from narval.core.errors import Fault
from narval.core.memory.labels import FIXED, HOOK, SECRET
from narval.core.patterns.pattern import condition
from narval.core.trust.landscape import KnownHome, WayIn
from narval.core.trust.prospects import prospects
from narval.core.trust.reach import Reach
from narval.core.trust.rules import Rules
from narval.core.trust.telling import Refusal, refusals_of
from narval.files.home import Home
from narval.files.loaded import Loaded
from narval.files.mcp_clients import McpClient, clients_of
from narval.files.outside.services import LanguageModel, services_of
from narval.files.reading import Reading
from narval.files.settings import Settings
from narval.files.snapshot import Snapshot


class ReachSources(msgspec.Struct, frozen=True, dict=True):
    """All the files of a home that determine its reach of labels, as far as they have no faults."""

    libraries: tuple[Library, ...] = ()
    settings: Settings = Settings()
    rules: Rules | None = None
    clients: tuple[McpClient, ...] = ()
    loaded: tuple[Loaded, ...] = ()
    """The loaded files, with the faults of the others."""
    has_peers: bool = False
    """True if there are other homes to which its agents may write."""
    offers: Mapping[str, Sequence[str]] = {}
    """The agents that may call definitions of any agent here, by their full names."""
    people: Directory = Directory()
    """The directory of people, which says in which ways all work asks, and what is asked before a call."""

    @property
    def given(self) -> set[str]:
        """The labels from webhooks, callers, language models, actions and MCP clients."""
        actions = (action for library in self.libraries for action in library.of(Action.kind).values())
        return {
            *self.settings.labels,
            *(client.person for client in self.clients),
            *(action.label for action in actions if isinstance(action, Action) and action.label),
        }

    @property
    def writes(self) -> frozenset[str]:
        """The ways in which people can be written to."""
        return frozenset(ways_served(self.settings))

    @property
    def labels(self) -> list[str]:
        """All possible labels, in alphabetical order."""
        secrets = self.rules.secrets if self.rules is not None else ()
        return sorted({*FIXED, *self.given, *(f"{SECRET}{name}" for name, _ in secrets)})

    @cached_property
    def reach(self) -> Reach:
        """The reach of labels, made once."""
        hooks = [
            WayIn(f"what the webhook {hook.name} gives", (f"{HOOK}{hook.name}",), condition(hook.element))
            for hook in self.settings.hooks.values()
        ]
        added = [
            WayIn(f"what the client {client.name} adds", (client.person,), condition(element))
            for client in self.clients
            for element in sorted({*client.add, *_given_to_tools(client, self.libraries)})
        ]
        called = [
            WayIn(f"what the caller {caller.name} gives", (caller.person,), condition("*"))
            for caller in self.settings.callers.values()
        ]
        models = (model.name for model in services_of(self.settings.services, LanguageModel))
        return Reach(
            KnownHome(
                self.libraries,
                (*hooks, *added, *called),
                frozenset(models),
                frozenset(self.settings.trusted_models),
                self.rules.secrets if self.rules is not None else (),
                self.has_peers,
                self.offers,
                tuple((approval.action, approval.work) for approval in self.people.approvals),
                self.writes,
                self.writes & frozenset(self.people.ways),
            )
        )


def ways_served(settings: Settings) -> tuple[str, ...]:
    """The ways in which a home can write to people."""
    served = {MAIL: settings.mail is not None, CHAT: bool(settings.chats)}
    return tuple(way for way, is_served in served.items() if is_served)


@lru_cache(maxsize=2)
def reach_of(snapshot: Snapshot, clients: tuple[McpClient, ...]) -> Reach:
    """The reach of labels in a home, by a snapshot of its files and its MCP clients."""
    libraries = tuple(loaded.library for loaded in snapshot.libraries)
    return sources_of(snapshot, libraries, clients).reach


def read_sources(home: Home | None) -> ReachSources:
    """The definitions, settings, rules and clients of a home, as far as they have no faults."""
    if home is None:
        return ReachSources()
    reading = Reading(home.path)
    snapshot = reading.snapshot()
    loaded = tuple(reading.libraries(snapshot))
    libraries = tuple(one.library for one in loaded)
    return sources_of(snapshot, libraries, clients_of(home.path), loaded)


def sources_of(
    snapshot: Snapshot,
    libraries: tuple[Library, ...],
    clients: tuple[McpClient, ...],
    loaded: tuple[Loaded, ...] = (),
) -> ReachSources:
    """The files that determine the reach of labels, from a snapshot."""
    return ReachSources(
        libraries,
        snapshot.settings,
        snapshot.trust,
        clients,
        loaded,
        has_peers=bool(snapshot.peers),
        offers=_offers(snapshot),
        people=snapshot.people,
    )


def _offers(snapshot: Snapshot) -> dict[str, tuple[str, ...]]:
    """The agents that may call definitions of any agent of a home."""
    settings_of = (files.given or {} for files in snapshot.agents.values())
    offers: dict[str, tuple[str, ...]] = {}
    for each in (snapshot.settings.own.offers, *(one.get("offers", {}) for one in settings_of)):
        for name, whom in each.items():
            offers[name] = (*offers.get(name, ()), *whom)
    return offers


def _given_to_tools(client: McpClient, libraries: Iterable[Library]) -> Iterator[str]:
    """The names of the elements made from the arguments of recipes that a client may start."""
    for library in libraries:
        for definition in library:
            tool = definition.tool if isinstance(definition, RunDefinition) else None
            if tool is not None and definition.full_name in client.recipes:
                yield tool.element


def refusals(sources: ReachSources) -> Iterator[Fault]:
    """Warnings about calls that the rules refuse once a possible label gets to them."""
    rules = sources.rules
    if rules is None or not any(rule.then == "refuse" for rule in rules.rules):
        return
    reach = sources.reach
    for definition in reach.definitions:
        yield from _refused(reach, definition, rules)


def _refused(reach: Reach, definition: Definition, rules: Rules) -> Iterator[Fault]:
    """One warning for each rule, at the first of the places where it refuses a call."""
    places: dict[int, list[Refusal]] = {}
    for call in prospects(reach.calls_of(definition), rules):
        for refusal in refusals_of(call):
            places.setdefault(refusal.rule, []).append(refusal)
    for first, *others in places.values():
        more = f", and at {counted(len(others), 'more place')}" if others else ""
        text = f"{first.text}{more}: narval check --trust {definition.full_name}"
        yield Fault(definition.path, first.line, 1, text, warning=True)
