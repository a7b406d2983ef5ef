"""The files of a home as they are at one moment, read and checked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from narval.core.definitions.people.directory import Directory
from narval.core.errors import Fault
from narval.files.agents.folders import AgentFolder, paths_of, read_folders, too_many_definitions
from narval.files.agents.followed import FollowedFiles
from narval.files.agents.settings import AgentSettings
from narval.files.home import Home
from narval.files.loader import Loaded, Loader
from narval.files.memory_file import read_memory
from narval.files.people_file import read_people
from narval.files.schemas import Schemas
from narval.files.settings import FILE, Settings, read_settings


class AgentFiles(NamedTuple):
    """The files that count for one agent; `declared` is None where its memory is to stay as it is (N4)."""

    loaded: Loaded
    schemas: Schemas
    settings: AgentSettings
    faults: tuple[Fault, ...]
    declared: list[bytes] | None


class HomeFiles(NamedTuple):
    """All that takes effect while a home is at work.

    `settings`, `people`, and what `data/memory.xml` has `declared`, are None when they have faults. `agents`
    are the folders of agents by name; their faults are their own. `published` are the digests of published
    collections as they stand in their folders, `followed` what agents without a folder follow.
    """

    loaded: Loaded
    schemas: Schemas
    settings: Settings | None
    people: Directory | None
    faults: tuple[Fault, ...]
    declared: list[bytes] | None = None
    agents: Mapping[str, AgentFolder] = {}
    published: Mapping[str, str] = {}
    followed: Mapping[tuple[str, ...], FollowedFiles] = {}

    @classmethod
    def of(
        cls,
        loaded: Loaded,
        schemas: Schemas,
        settings: Settings | None,
        people: Directory | None,
        *others: Fault,
    ) -> HomeFiles:
        """Parts read before, with the faults of all of them; `others` are those of settings and people."""
        own = (settings or Settings()).own
        wrong = too_many_definitions(loaded.library, own, FILE)
        faults = tuple(sorted({*loaded.faults, *schemas.faults(), *wrong, *others}))
        return cls(loaded, schemas, settings, people, faults)

    @classmethod
    def read(cls, home: Home, loader: Loader, before: HomeFiles, current: Settings) -> HomeFiles:
        """Read and check the files of `home`; `before` has the last good versions, `current` the settings."""
        settings, faults = read_settings(home.path)
        people, of_people = read_people(home.path)
        schemas = Schemas(home.schemas, before.schemas)
        now = settings or current
        loaded = loader.load(paths_of(home.path, now.own))
        read = cls.of(loaded, schemas, settings, people, *faults, *of_people)
        return read.with_agents(home, loader, now.name, before.agents).with_memory(home)

    def with_agents(
        self, home: Home, loader: Loader, own_name: str, before: Mapping[str, AgentFolder]
    ) -> HomeFiles:
        """The same, with the folders of agents; `before` has the last good versions."""
        agents, faults = read_folders(home, loader, self.schemas, own_name, before)
        return self._replace(faults=tuple(sorted({*self.faults, *faults})), agents=agents)

    def with_memory(self, home: Home) -> HomeFiles:
        """The same, with what `data/memory.xml` declares, and its faults."""
        limits = (self.settings or Settings()).own
        declared, faults = read_memory(home.memory, self.schemas, self.loaded.library, limits, starts=False)
        return self._replace(faults=tuple(sorted({*self.faults, *faults})), declared=declared)

    @property
    def state(self) -> tuple[object, ...]:
        """Equal for files of equal contents."""
        folders = {name: folder.state for name, folder in self.agents.items()}
        followed = {names: found.state for names, found in self.followed.items()}
        return *self.own_state, folders, self.published, followed

    @property
    def own_state(self) -> tuple[object, ...]:
        """Equal for equal contents of what counts for the home's own agent."""
        parts = self.loaded.files, self.schemas.digest, self.settings, self.people
        return *parts, self.faults, self.declared

    @property
    def all_faults(self) -> list[Fault]:
        """The faults of the home and of all agents."""
        found: list[AgentFolder | FollowedFiles] = [*self.agents.values(), *self.followed.values()]
        return sorted({*self.faults, *(fault for folder in found for fault in folder.faults)})

    @property
    def libraries(self) -> list[Loaded]:
        """All that is loaded: for the home's own agent, and for those that follow something else."""
        folders: list[AgentFolder | FollowedFiles] = [*self.agents.values(), *self.followed.values()]
        found = {id(folder.loaded): folder.loaded for folder in folders}
        return [self.loaded, *(loaded for loaded in found.values() if loaded is not self.loaded)]

    @property
    def code(self) -> set[tuple[str, str]]:
        """The modules that are loaded: paths and digests."""
        return {(text.path, text.digest) for loaded in self.libraries for text in loaded.texts.values()}


def differences(before: Iterable[Loaded], after: Iterable[Loaded]) -> Iterator[str]:
    """Describe for people what has changed between libraries, a line for each file."""
    after = list(after)
    old, new = ({file.path: file for loaded in all for file in loaded.files} for all in (before, after))
    changed = [path for path, state in new.items() if old.get(path) != state and state.error is None]
    names: dict[str, dict[str, None]] = {path: {} for path in changed}
    for definition in (found for loaded in after for found in loaded.library if found.path in names):
        names[definition.path][f"{definition.kind} {definition.full_name}"] = None
    for path in changed:
        yield f"loaded {path}: {', '.join(names[path]) or 'no definitions'}"
    for path in old:
        if path not in new:
            yield f"{path} is gone, and so are its definitions; runs that began with them keep them"
