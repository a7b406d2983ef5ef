"""Agents' folders: `agents/NAME/` in a home, each with the files of one more agent (G2)."""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Iterator, Mapping
from pathlib import Path

import msgspec

from narval.core.agent_name import agent_name
from narval.core.definitions.library import Library
from narval.core.errors import Fault, RequestError, SurroundingsError
from narval.core.source.text import Source
from narval.files.agents.collections import AGENTS
from narval.files.agents.followed import read_followed
from narval.files.agents.settings import (
    AGENT_FILE,
    COLLECTIONS,
    HOME_COLLECTION,
    OWN,
    PUBLISHED_MARK,
    AgentSettings,
    CollectionsOf,
    Given,
    parse_agent_file,
    read_agent_file,
)
from narval.files.found_files import MODULES, RECIPES, is_ours, names_in
from narval.files.home import Home
from narval.files.loaded import Loaded
from narval.files.loader import Loader
from narval.files.memory_file import SHOWN as MEMORY
from narval.files.memory_file import read_memory
from narval.files.schemas import SHOWN as SCHEMAS
from narval.files.schemas import Schemas


class AgentFolder(msgspec.Struct, frozen=True):
    """The files of an agent that has a folder.

    `given` is what its `agent.toml` says (None: it never was without faults), `declared` what its
    `data/memory.xml` does (None: it has faults). `collections` are those that it follows, by their paths in
    the home. `faults` are of its own files and of what it follows.
    """

    name: str
    given: Given | None
    collections: tuple[str, ...]
    loaded: Loaded
    schemas: Schemas
    declared: list[bytes] | None
    faults: tuple[Fault, ...] = ()

    @property
    def state(self) -> tuple[object, ...]:
        """Equal for files of equal contents."""
        return self.given, self.loaded.files, self.schemas.digest, self.declared, self.faults


def read_folders(
    home: Home,
    loader: Loader,
    schemas: Schemas,
    own_name: str,
    before: Mapping[str, AgentFolder],
    *,
    starts: bool = False,
) -> tuple[dict[str, AgentFolder], list[Fault]]:
    """The folders of agents by name, and those that cannot be one.

    `loader` has read the home, `schemas` are the home's, `own_name` is its own agent's; `before` are the
    folders as they were, which have the last good versions. With `starts` it is a fault to start what is not
    there.
    """
    folders: dict[str, AgentFolder] = {}
    faults: list[Fault] = []
    for name in folder_names(home.path):
        shown = f"{AGENTS}/{name}"
        try:
            agent_name(name)
        except ValueError as error:
            faults.append(Fault(shown, 1, 1, f"expected {error}, found {name!r:.80}"))
            continue
        if name == own_name:
            message = f"expected another name than that of the home's own agent, found {name!r}"
            faults.append(Fault(shown, 1, 1, message))
        elif not (home.path / shown).resolve().is_relative_to(home.path.resolve()):
            faults.append(Fault(shown, 1, 1, "this link leads out of the home; put a copy here instead"))
        else:
            folders[name] = _read(home, name, loader, schemas, before.get(name), starts=starts)
    return folders, faults


def folder_names(home: Path) -> list[str]:
    """The names of the folders in `agents/`, whether they can be those of agents or not."""
    return [name for name in names_in(home / AGENTS) if is_ours(name) and (home / AGENTS / name).is_dir()]


def make_folder(home: Path, name: str, collections: list[str]) -> None:
    """Make the folder of an agent that follows these collections, and its own definitions.

    Raises RequestError where that cannot be, SurroundingsError where the folder cannot be written.
    """
    text, shown = collections_text(collections), f"{AGENTS}/{name}"
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
    return f"collections = {json.dumps([*collections, OWN])}\n"


def too_many_definitions(library: Library, settings: AgentSettings, shown: str) -> list[Fault]:
    """The fault of an agent that follows more definitions than it may (G16), in the file of its settings."""
    count, most = len(library), settings.definitions
    if count <= most:
        return []
    found = f"over-limit: expected at most {most:,} definitions, found {count:,}"
    return [Fault(shown, 1, 1, f"{found}; follow fewer collections, or set definitions higher")]


def libraries_of(home: Path, loader: Loader, own: Loaded, agents: Iterable[AgentFolder]) -> Iterator[Loaded]:
    """All that the definitions of a home are in: what its own agent follows, its agents, and each collection
    that nobody follows, beside the home's own, but that in the place of the home's by itself.
    """
    yield own
    seen, followed = {id(own)}, set[str]()
    for folder in agents:
        followed.update(folder.collections)
        if id(folder.loaded) not in seen:
            seen.add(id(folder.loaded))
            yield folder.loaded
    for collections in unfollowed(home, followed):
        if all(not file.path.startswith(collections[-1]) for file in own.files):
            yield loader.following(collections)


def unfollowed(home: Path, followed: Container[str]) -> Iterator[tuple[str, ...]]:
    """The collections in `collections/` whose paths are not among those followed, each as it would be: beside
    the home's own, and one in the place of that by itself. Those that are published were checked before.
    """
    for name in names_in(home / COLLECTIONS):
        path = f"{COLLECTIONS}/{name}/"
        is_published = (home / path / PUBLISHED_MARK).is_file()
        if name in CollectionsOf(home) and path not in followed and not is_published:
            yield (path,) if name == HOME_COLLECTION else ("", path)


def paths_of(
    home: Path, settings: AgentSettings, name: str = "", home_collection: str = ""
) -> tuple[str, ...]:
    """The collections that an agent follows, by their paths in the home; without a name the home's own.

    `home_collection` is the path of what it follows as the home's.
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


def _read(
    home: Home,
    name: str,
    loader: Loader,
    schemas: Schemas,
    before: AgentFolder | None,
    *,
    starts: bool,
) -> AgentFolder:
    shown = f"{AGENTS}/{name}"
    path = home.path / shown
    given, faults = read_agent_file(path / AGENT_FILE, f"{shown}/{AGENT_FILE}", CollectionsOf(home.path))
    if given is None and before is not None:
        given = before.given or None  # a file that said nothing, or was not there, is none to go on with
    settings = AgentSettings().with_given(given or {})
    collections = paths_of(home.path, settings, name)
    followed = read_followed(home.path, loader, collections, schemas, settings, starts=starts)
    loaded, schemas = followed.loaded, followed.schemas
    if (path / SCHEMAS).is_dir():
        known = before.schemas if before is not None else None
        schemas = Schemas(path / SCHEMAS, known, beneath=schemas, shown=f"{shown}/{SCHEMAS}")
        faults += schemas.faults()
    declared, wrong = read_memory(
        path / MEMORY, schemas, loaded.library, settings, starts=starts, shown=f"{shown}/{MEMORY}"
    )
    if declared is not None and followed.declared:
        declared = [*followed.declared, *declared]
    elif followed.declared is None:
        declared = None
    faults += too_many_definitions(loaded.library, settings, f"{shown}/{AGENT_FILE}")
    all_faults = tuple(sorted({*faults, *wrong, *followed.faults}))
    return AgentFolder(name, given, collections, loaded, schemas, declared, all_faults)
