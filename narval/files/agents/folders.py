"""Agents' folders: `agents/NAME/` in a home, each with the files of one more agent (G2)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from narval.core.agent_name import agent_name
from narval.core.definitions.library import Library
from narval.core.errors import Fault, RequestError, SurroundingsError
from narval.core.source.text import Source
from narval.files.agents.collections import AGENTS
from narval.files.agents.settings import (
    AGENT_FILE,
    COLLECTIONS,
    HOME_COLLECTION,
    OWN,
    AgentSettings,
    CollectionsOf,
    parse_agent_file,
    parse_stored_settings,
)
from narval.files.found_files import MODULES, RECIPES, is_ours, names_in
from narval.files.toml import quoted


def folder_names(home: Path) -> list[str]:
    """The names of the folders in `agents/`, including invalid names of agents."""
    return [name for name in names_in(home / AGENTS) if is_ours(name) and (home / AGENTS / name).is_dir()]


def make_folder(home: Path, name: str, text: str) -> None:
    """Make the folder of an agent with these settings.

    Raises RequestError if that is not allowed, SurroundingsError if the folder cannot be written.
    """
    shown = f"{AGENTS}/{name}"
    try:
        agent_name(name)
    except ValueError as error:
        raise RequestError(f"expected {error}, got {name!r:.80}") from None
    _, faults = parse_agent_file(Source(AGENT_FILE, text.encode()), CollectionsOf(home))
    if faults:
        raise RequestError(faults[0].message)
    try:
        (home / shown).mkdir(parents=True)
        (home / shown / AGENT_FILE).write_text(text, "utf-8")
    except FileExistsError:
        raise RequestError(f"there is a folder {shown} already") from None
    except OSError as error:
        raise SurroundingsError(f"expected to make the folder {shown}: {error}") from error


def collections_text(collections: list[str]) -> str:
    """The settings of an agent that follows these collections, and its own definitions."""
    return f"collections = [{', '.join(map(quoted, [*collections, OWN]))}]\n"


def settings_without_effect(home: Path, stored: Mapping[str, str]) -> list[Fault]:
    """The faults of settings, given as texts by name, that the store has for agents without a folder while no
    other daemon shares the store: they have no effect there, and what they name may be missing.
    """
    faults = []
    for name in sorted(stored.keys() - {*folder_names(home)}):
        given, _ = parse_stored_settings(stored[name])
        names = (given or {}).get("collections", ())
        folders = CollectionsOf(home)
        missing = [one for one in names if one not in (HOME_COLLECTION, OWN) and one not in folders]
        text = f"{name} has settings that count only in a store on PostgreSQL ({stored[name].strip()})"
        copy = ", ".join(f"{COLLECTIONS}/{one}/" for one in missing)
        missed = f", and copy {copy} from a home that has it" if missing else ""
        shown = f"{AGENTS}/{name}/{AGENT_FILE}"
        faults.append(Fault(shown, 1, 1, f"{text}: write them into this file{missed}"))
    return faults


def too_many_definitions(library: Library, settings: AgentSettings, shown: str) -> list[Fault]:
    """The fault of an agent that follows more definitions than allowed (G16), in its settings file."""
    count, most = len(library), settings.definitions
    if count <= most:
        return []
    found = (
        f"over-limit: expected at most {most:,} definitions, found {count:,}, which are loaded all the same"
    )
    where = "definitions" if shown.endswith(AGENT_FILE) else "definitions below [agent]"
    return [Fault(shown, 1, 1, f"{found}; follow fewer collections, or set {where} higher")]


def paths_of(
    home: Path, settings: AgentSettings, name: str = "", home_collection: str = ""
) -> tuple[str, ...]:
    """The collections that an agent follows, by their paths in the home; without a name, those of the home's
    own agent.

    `home_collection` is the path of the collection that replaces the home's.
    """
    return tuple(_paths(home, settings, f"{AGENTS}/{name}/" if name else "", home_collection))


def _paths(home: Path, settings: AgentSettings, own: str, home_collection: str) -> Iterator[str]:
    for collection in settings.collections:
        if collection == HOME_COLLECTION:
            yield home_collection
        elif collection != OWN:
            yield f"{COLLECTIONS}/{collection}/"
        elif own and any((home / own / part).is_dir() for part in (RECIPES, MODULES)):
            yield own
