"""Reading: the current files of a home, from which a snapshot is made (N13, N30, N31).

The definitions of any files can be read too, as far as that is possible, whatever the faults of the names
they use.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Container, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from narval.core.agent_name import agent_name
from narval.core.definitions.library import Definition, Library, Reference
from narval.core.definitions.parsing import compose, suffixes
from narval.core.errors import DefinitionError, Fault
from narval.files.agents.collections import (
    AGENTS,
    NO_FILES,
    Collection,
    Stored,
    nothing_stored,
    parse_file,
    read_collection,
)
from narval.files.agents.folders import folder_names, paths_of, too_many_definitions
from narval.files.agents.settings import (
    AGENT_FILE,
    COLLECTIONS,
    HOME_COLLECTION,
    PUBLISHED_MARK,
    AgentSettings,
    CollectionsOf,
    read_agent_file,
)
from narval.files.found_files import UnreadFolders, files_of, is_module, names_in
from narval.files.grants import read_grants
from narval.files.home import Home
from narval.files.loaded import Loaded
from narval.files.memory_file import SHOWN as MEMORY
from narval.files.memory_file import read_memory
from narval.files.outside.peers import read_peers
from narval.files.people_file import PEOPLE_FILE, read_people
from narval.files.schemas import SHOWN as SCHEMAS
from narval.files.schemas import Schemas
from narval.files.settings import FILE, Settings, read_settings
from narval.files.settle import settle
from narval.files.snapshot import AgentFiles, Snapshot
from narval.files.trust_file import TRUST_FILE, read_trust
from narval.system.regular_file import is_folder, read_file

PROTECTING = (FILE, PEOPLE_FILE, TRUST_FILE)
"""The files that say what must be asked: if one of them is missing for a moment, that permits nothing."""

HOME_ALONE = ("",)
"""The collections of an agent that follows only the home, by their paths in the home."""


class Reading:
    """One reading of a home: each collection is read once, and settled against that in `before`.

    `stored` has earlier versions. With `starts`, starting an unknown definition is a fault.
    """

    def __init__(
        self,
        home: Path,
        before: Snapshot = Snapshot(),  # noqa: B008 - it is immutable
        stored: Stored = nothing_stored,
        *,
        starts: bool = False,
    ) -> None:
        self._home, self._before, self._stored, self._starts = home, before, stored, starts
        self._now, self._servers = time.time(), frozenset[str]()
        self._old = {loaded.follows: loaded for loaded in reversed(before.libraries)}
        self._known = {
            collection.within: collection
            for loaded in self._old.values()
            for collection in loaded.collections
        }
        self._collections: dict[str, Collection] = {}
        self._libraries: dict[tuple[str, ...], Loaded] = {}
        self._schemas: dict[str, Schemas] = {}

    def library(self, follows: tuple[str, ...] = HOME_ALONE) -> Loaded:
        """The library of some collections together, given by their paths in the home."""
        if follows not in self._libraries:
            new = [self._collection(within) for within in follows]
            old = self._old.get(follows, Loaded())
            self._libraries[follows] = settle(old, new, self._now, self._stored, self._servers)
        return self._libraries[follows]

    def followed(self, follows: tuple[str, ...], beneath: Schemas, limits: AgentSettings) -> AgentFiles:
        """The files that apply to followers of some collections, given by their paths in the home. If two
        collections have schemas for elements of one name, the first one's applies; `beneath` are those for
        all other elements.
        """
        loaded, schemas, faults = self.library(follows), beneath, set[Fault]()
        folders = [within for within in follows if within.startswith(f"{COLLECTIONS}/")]
        for within in reversed(folders):
            schemas = self._schemas_over(schemas, within, faults)
        declared: list[bytes] | None = []
        for within in folders:
            read = self._declared(within, schemas, loaded, limits, faults)
            declared = [*declared, *read] if declared is not None and read is not None else None
        return AgentFiles(loaded, schemas, None, declared, tuple(sorted(faults | {*loaded.faults}))).after(
            None
        )

    def snapshot(self) -> Snapshot:
        """All files of the home. If one of those in `etc/` has faults, or one that protects the home is gone,
        its content `before` stays in effect.
        """
        before, wrong = self._before, set[Fault]()
        there = before.protecting.union(path for path in PROTECTING if os.path.exists(self._home / path))

        def kept(read: tuple[Any, list[Fault]], former: Any) -> Any:
            value, faults = read
            wrong.update(faults)
            return former if faults else value

        was_there = before.protecting
        settings: Settings = kept(read_settings(self._home, was_there=FILE in was_there), before.settings)
        people = kept(read_people(self._home, was_there=PEOPLE_FILE in was_there), before.people)
        trust = kept(read_trust(self._home, was_there=TRUST_FILE in was_there), before.trust)
        grants = kept(read_grants(self._home), before.grants)
        peers = kept(read_peers(self._home), before.peers)
        limits = settings.own
        self._servers = frozenset(server.name for server in settings.mcp)
        loaded = self.library(paths_of(self._home, limits))
        schemas = self._schemas_over(Schemas(None), "", wrong)
        agents = {
            name: self._agent(name, schemas, settings.callers)
            for name in self._agent_names(wrong)
            if self._can_be_agent(name, settings.name, wrong)
        }
        declared = self._declared("", schemas, loaded, limits, wrong)
        wrong.update(loaded.faults, too_many_definitions(loaded.library, limits, FILE))
        own = AgentFiles(loaded, schemas, settings.agent, declared, tuple(sorted(wrong)))
        return Snapshot(
            own.after(before.own),
            settings,
            people,
            agents,
            schemas=self._schemas,
            protecting=there,
            trust=trust,
            grants=grants,
            peers=peers,
        )

    def libraries(self, snapshot: Snapshot) -> Iterator[Loaded]:
        """All libraries of the definitions of a home: of its own agent, of its agents, and of each collection
        without followers.
        """
        yield from snapshot.libraries
        for follows in self.unfollowed(snapshot):
            if all(not file.path.startswith(follows[-1]) for file in snapshot.own.loaded.files):
                yield self.library(follows)

    def unfollowed(self, snapshot: Snapshot) -> Iterator[tuple[str, ...]]:
        """The collections in `collections/` that no agent with a folder follows, each as it would be
        followed: together with the home's own, or alone if it replaces that. Published ones were checked
        before.
        """
        followed = {path for files in snapshot.agents.values() for path in files.loaded.follows}
        for name in names_in(self._home / COLLECTIONS):
            path = f"{COLLECTIONS}/{name}/"
            is_published = os.path.isfile(self._home / path / PUBLISHED_MARK)
            if name in CollectionsOf(self._home) and path not in followed and not is_published:
                yield (path,) if name == HOME_COLLECTION else ("", path)

    def _collection(self, within: str) -> Collection:
        if within not in self._collections:
            earlier = self._known.get(within, NO_FILES)
            self._collections[within] = read_collection(self._home, within, earlier, self._stored)
        return self._collections[within]

    def _schemas_over(self, beneath: Schemas, within: str, faults: set[Fault]) -> Schemas:
        """The schemas of a folder, over those for elements for which it has none."""
        if not is_folder(folder := self._home / within / SCHEMAS):
            return beneath
        former, unread = self._before.schemas.get(within), UnreadFolders(self._home)
        names_in(folder, unread.note)
        faults.update(unread.faults.values())
        if within not in self._schemas:
            place = f"{within}{SCHEMAS}"
            stays = former if unread.faults else None
            self._schemas[within] = stays or Schemas(folder, former, shown=place)
        faults.update(self._schemas[within].faults())
        return self._schemas[within].over(beneath)

    def _declared(
        self, within: str, schemas: Schemas, loaded: Loaded, limits: AgentSettings, faults: set[Fault]
    ) -> list[bytes] | None:
        place = f"{within}{MEMORY}"
        path = self._home / place
        declared, wrong = read_memory(
            path, schemas, loaded.library, limits, loaded.broken, starts=self._starts, shown=place
        )
        faults.update(wrong)
        return declared

    def _agent_names(self, faults: set[Fault]) -> list[str]:
        """The names of the folders in `agents/`; those of before if that cannot be read."""
        unread = UnreadFolders(self._home)
        names = folder_names(self._home, unread.note)
        faults.update(unread.faults.values())
        return sorted(self._before.agents) if unread.faults else names

    def _can_be_agent(self, name: str, own_name: str, faults: set[Fault]) -> bool:
        folder, why = f"{AGENTS}/{name}", ""
        try:
            agent_name(name)
        except ValueError as error:
            why = f"expected {error}, found {name!r:.80}"
        if not why and name == own_name:
            why = f"expected another name than that of the home's own agent, found {name!r}"
        if not why and not (self._home / folder).resolve().is_relative_to(self._home.resolve()):
            why = "this link leads out of the home; put a copy here instead"
        faults.update([Fault(folder, 1, 1, why)] if why else ())
        return not why

    def _agent(self, name: str, schemas: Schemas, callers: Container[str]) -> AgentFiles:
        within, before = f"{AGENTS}/{name}/", self._before.agents.get(name)
        place, collections = f"{within}{AGENT_FILE}", CollectionsOf(self._home)
        values, faults = read_agent_file(self._home / place, place, collections, callers)
        if values is None and before is not None:
            values = before.given or None  # an empty or missing file leaves nothing to continue with
        settings = AgentSettings().with_given(values or {})
        followed = self.followed(paths_of(self._home, settings, name), schemas, settings)
        loaded, wrong = followed.loaded, {*faults, *followed.faults}
        schemas = self._schemas_over(followed.schemas, within, wrong)
        declared = self._declared(within, schemas, loaded, settings, wrong)
        if declared is not None:
            declared = [*followed.declared, *declared] if followed.declared is not None else None
        wrong.update(too_many_definitions(loaded.library, settings, place))
        return AgentFiles(loaded, schemas, values, declared, tuple(sorted(wrong))).after(before)


def load(home: Path) -> Loaded:
    """The library of a home, for agents that follow only the home."""
    return Reading(home).library()


class FoundDefinitions(NamedTuple):
    """The definitions of some files, in order; the library that they belong to; the faults of what could not
    be read.
    """

    definitions: list[Definition]
    library: Library
    faults: list[Fault]


def definitions_in(paths: Iterable[Path], home: Home | None) -> FoundDefinitions:
    """The definitions of files and folders, as if they were added to a home, or to the shipped ones alone."""
    endings = (*suffixes(), ".py")
    there = ((file, path) for path in paths for file in files_of(path))
    files = [file for file, path in there if file == path or file.is_dir() or file.name.endswith(endings)]
    if home is not None:
        return _added(load(home.path), files)
    with tempfile.TemporaryDirectory(prefix="narval-tell-") as folder:
        return _added(load(Path(folder)), files)


def _added(loaded: Loaded, files: list[Path]) -> FoundDefinitions:
    added: dict[tuple[str, str], Definition] = {}
    references, faults = list[Reference](), list[Fault]()
    for file in files:
        try:
            if is_module(file):
                before = frozenset(loaded.library)
                loaded = loaded.with_definitions(file)
                new = (each for each in loaded.library if each not in before)
                added.update({(each.kind, each.full_name): each for each in new})
                continue
            read = read_file(file, str(file))
            if isinstance(read, Fault):
                raise DefinitionError([read])
            parsed = parse_file(read)
            added.update({(each.kind, each.full_name): each for each in parsed.definitions})
            references += parsed.references
            faults += parsed.faults
        except DefinitionError as error:
            faults += error.faults
    try:
        loaded = loaded.with_shipped(references)
    except DefinitionError as error:
        faults += error.faults
    library, _ = compose(loaded.library.replace(added.values()))
    whole = (library.get(*key) or definition for key, definition in added.items())
    return FoundDefinitions(list(whole), library, faults)
