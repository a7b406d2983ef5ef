"""The files of a home as they are at one moment, read and checked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from narval.definitions.people.directory import Directory
from narval.errors import Fault
from narval.runtime.home.agents.folders import AgentFolder, read_folders
from narval.runtime.home.home import Home
from narval.runtime.home.loader import Loaded, Loader
from narval.runtime.home.memory_file import read_memory
from narval.runtime.home.people_file import read_people
from narval.runtime.home.schemas import Schemas
from narval.runtime.home.settings import Settings, read_settings


class HomeFiles(NamedTuple):
    """All that takes effect while a home is at work.

    `settings`, `people`, and what `data/memory.xml` has `declared`, are None when they have faults. `agents`
    are the folders of agents by name.
    """

    loaded: Loaded
    schemas: Schemas
    settings: Settings | None
    people: Directory | None
    faults: tuple[Fault, ...]
    declared: list[bytes] | None = None
    agents: Mapping[str, AgentFolder] = {}

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
        faults = tuple(sorted({*loaded.faults, *schemas.faults(), *others}))
        return cls(loaded, schemas, settings, people, faults)

    @classmethod
    def read(cls, home: Home, loader: Loader, before: HomeFiles) -> HomeFiles:
        """Read and check the files of `home`; `before` has the last good versions."""
        settings, faults = read_settings(home.path)
        people, of_people = read_people(home.path)
        schemas = Schemas(home.schemas, before.schemas)
        read = cls.of(loader.load(), schemas, settings, people, *faults, *of_people)
        return read.with_agents(home, before.agents).with_memory(home)

    def with_agents(self, home: Home, before: Mapping[str, AgentFolder]) -> HomeFiles:
        """The same, with the folders of agents, and their faults; `before` has the last good versions."""
        agents, faults = read_folders(home.path, before)
        return self._replace(faults=tuple(sorted({*self.faults, *faults})), agents=agents)

    def with_memory(self, home: Home) -> HomeFiles:
        """The same, with what `data/memory.xml` declares, and its faults."""
        declared, faults = read_memory(home.memory, self.schemas, self.loaded.library, starts=False)
        return self._replace(faults=tuple(sorted({*self.faults, *faults})), declared=declared)

    @property
    def state(self) -> tuple[object, ...]:
        """Equal for files of equal contents."""
        parts = self.loaded.files, self.schemas.digest, self.settings, self.people
        return *parts, self.faults, self.declared, self.agents


def differences(before: Loaded, after: Loaded) -> Iterator[str]:
    """Describe for people what has changed between two libraries, a line for each file."""
    old, new = ({file.path: file for file in loaded.files} for loaded in (before, after))
    for path, state in new.items():
        if old.get(path) == state or state.error is not None:
            continue
        names = [f"{found.kind} {found.full_name}" for found in after.library if found.path == path]
        yield f"loaded {path}: {', '.join(names) or 'no definitions'}"
    for path in old:
        if path not in new:
            yield f"{path} is gone, and so are its definitions; runs that began with them keep them"
