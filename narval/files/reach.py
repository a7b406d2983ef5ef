"""Reach of a home: which labels can come to which calls, by all that its files say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache

from narval.core.definitions.action.definition import Action
from narval.core.definitions.library import Definition, Library, RunDefinition
from narval.core.definitions.people.directory import Directory
from narval.core.errors import Fault
from narval.core.memory.labels import HOOK
from narval.core.patterns.pattern import condition
from narval.core.trust.landscape import Home as KnownHome
from narval.core.trust.landscape import WayIn
from narval.core.trust.prospects import prospects
from narval.core.trust.reach import Reach
from narval.core.trust.rules import Rules
from narval.core.trust.telling import refused_lines
from narval.files.home import Home
from narval.files.mcp_clients import McpClient, clients_of
from narval.files.reading import Reading
from narval.files.settings import Settings, read_settings
from narval.files.snapshot import Snapshot
from narval.files.trust_file import read_trust


@lru_cache(maxsize=2)
def reach_of(snapshot: Snapshot, clients: tuple[McpClient, ...]) -> Reach:
    """The reach of labels in a home, by a snapshot of its files and its clients of MCP."""
    libraries = [loaded.library for loaded in snapshot.libraries]
    return Reach(home_of(libraries, snapshot.settings, snapshot.trust, clients))


def labels_given(libraries: Iterable[Library], settings: Settings, clients: Iterable[McpClient]) -> set[str]:
    """The labels that webhooks, language models, actions and clients of MCP of a home give."""
    actions = (action for library in libraries for action in library.of(Action.kind).values())
    return {
        *settings.labels,
        *(client.person for client in clients),
        *(action.label for action in actions if isinstance(action, Action) and action.label),
    }


def read_reach(
    home: Home | None,
) -> tuple[list[Library], Settings, Rules | None, tuple[McpClient, ...]]:
    """The definitions, settings, rules and clients of a home, as far as they have no faults."""
    if home is None:
        return [], Settings(), None, ()
    settings, rules = read_settings(home.path)[0] or Settings(), read_trust(home.path)[0]
    reading = Reading(home.path)
    snapshot = reading.snapshot(settings, Directory(), rules)
    libraries = [loaded.library for loaded in reading.libraries(snapshot)]
    return libraries, settings, rules, clients_of(home.path)


def home_of(
    libraries: Iterable[Library],
    settings: Settings,
    rules: Rules | None,
    clients: Iterable[McpClient],
) -> KnownHome:
    """A home as it is known that has these definitions, settings, rules and clients."""
    libraries = tuple(libraries)
    hooks = [
        WayIn(f"what the webhook {hook.name} gives", (f"{HOOK}{hook.name}",), condition(hook.element))
        for hook in settings.hooks.values()
    ]
    added = [
        WayIn(f"what the client {client.name} adds", (client.person,), condition(element))
        for client in clients
        for element in sorted({*client.add, *_given_to_tools(client, libraries)})
    ]
    return KnownHome(
        libraries,
        (*hooks, *added),
        frozenset(service.name for service in settings.services if service.table == "models"),
        frozenset(settings.trusted_models),
        rules.secrets if rules is not None else (),
    )


def _given_to_tools(client: McpClient, libraries: Iterable[Library]) -> Iterator[str]:
    """The names of the elements that are made of the arguments of recipes which a client may start."""
    for library in libraries:
        for definition in library:
            tool = definition.tool if isinstance(definition, RunDefinition) else None
            if tool is not None and definition.full_name in client.recipes:
                yield tool.element


def refusals(
    libraries: Iterable[Library],
    settings: Settings,
    rules: Rules | None,
    clients: Iterable[McpClient],
) -> Iterator[Fault]:
    """Warnings about calls that the rules refuse as soon as a label comes to them that can."""
    if rules is None or not any(rule.then == "refuse" for rule in rules.rules):
        return
    reach = Reach(home_of(libraries, settings, rules, clients))
    for definition in reach.definitions:
        yield from _refused(reach, definition, rules)


def _refused(reach: Reach, definition: Definition, rules: Rules) -> Iterator[Fault]:
    for call in prospects(reach.calls_of(definition), rules):
        for text in refused_lines(call):
            yield Fault(definition.path, call.call.call.line, 1, text, warning=True)
