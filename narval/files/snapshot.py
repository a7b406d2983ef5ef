"""Snapshot: the files of a home at one moment, and the agents to which each applies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import PurePath

import msgspec

from narval.core.definitions.people.directory import Directory
from narval.core.errors import Fault
from narval.core.source.text import SHIPPED
from narval.core.trust.grants import Grant
from narval.core.trust.rules import Rules
from narval.files.agents.settings import Given
from narval.files.loaded import Loaded
from narval.files.outside.peers import NO_PEERS, Peers
from narval.files.schemas import Schemas
from narval.files.settings import Settings


class AgentFiles(msgspec.Struct, frozen=True, eq=False):
    """The files that apply to an agent, or to all followers of some collections.

    `given` are the settings in the agent's file (None: it was never without faults). `declared` are the
    elements to be in memory (None: memory stays unchanged, N4), `owned` those that were declared last.
    `faults` are those of its own files and of what it follows.
    """

    loaded: Loaded = Loaded()
    schemas: Schemas = Schemas(None)
    given: Given | None = None
    declared: list[bytes] | None = None
    faults: tuple[Fault, ...] = ()
    owned: Sequence[bytes] = ()

    def after(self, before: AgentFiles | None) -> AgentFiles:
        """The same; if what it declares has faults, what it owns is as `before`."""
        earlier = before.owned if before is not None else ()
        return msgspec.structs.replace(self, owned=earlier if self.declared is None else self.declared)

    @property
    def state(self) -> tuple[object, ...]:
        """Equal for files of equal contents."""
        return (
            self.given,
            self.loaded.follows,
            self.loaded.files,
            self.schemas.digest,
            self.declared,
            self.faults,
        )


class Snapshot(msgspec.Struct, frozen=True, eq=False):
    """All effective files of an active home; settings and people are the last faultless ones."""

    own: AgentFiles = AgentFiles()
    """The files that apply to the home's own agent, and to those that follow nothing else; the faults of the
    home."""
    settings: Settings = Settings()
    """The settings of the home."""
    people: Directory = Directory()
    """The directory of people."""
    agents: Mapping[str, AgentFiles] = {}
    """The files of the agents that have a folder, by name."""
    followed: Mapping[tuple[str, ...], AgentFiles] = {}
    """The files of published collections that agents without a folder follow, by their names."""
    published: Mapping[str, str] = {}
    """The digests of published collections in their folders, by name."""
    schemas: Mapping[str, Schemas] = {}
    """The schemas of the home, of collections and of agents, by their paths in the home."""
    protecting: frozenset[str] = frozenset()
    """The files that say what must be asked and have existed since the home started."""
    trust: Rules | None = None
    """The rules about what may go where; None for a home without rules."""
    grants: Mapping[str, Grant] = {}
    """The grants, by the names of the tables of `etc/grants.toml`."""
    peers: Peers = NO_PEERS
    """The peers of the home, by name."""

    @property
    def all(self) -> Iterator[AgentFiles]:
        """The files that apply to any agent, those of the home's own agent first."""
        yield from (self.own, *self.agents.values(), *self.followed.values())

    @property
    def libraries(self) -> list[Loaded]:
        """All libraries, once each, that of the home's own agent first."""
        return list({id(files.loaded): files.loaded for files in self.all}.values())

    def of(self, name: str) -> AgentFiles:
        """The files that apply to an agent that follows no published collections."""
        return self.agents.get(name) or msgspec.structs.replace(self.own, given={}, declared=None)

    @property
    def faults(self) -> list[Fault]:
        """The faults of the home and of all agents."""
        return sorted({fault for files in self.all for fault in files.faults})

    @property
    def code(self) -> set[tuple[str, str]]:
        """The modules that are loaded: paths and digests."""
        return {(text.path, text.digest) for loaded in self.libraries for text in loaded.texts.values()}

    @property
    def state(self) -> tuple[object, ...]:
        """Equal for files of equal contents."""
        agents = {name: files.state for name, files in self.agents.items()}
        followed = {names: files.state for names, files in self.followed.items()}
        return *self.own_state, agents, followed, self.published, self.peers

    @property
    def own_state(self) -> tuple[object, ...]:
        """Equal for equal contents of what applies to the home's own agent."""
        return self.own.state, self.settings, self.people, self.trust, self.grants

    def with_libraries(self, change: Callable[[Loaded], Loaded]) -> Snapshot:
        """The same with every library replaced by a changed one."""
        made = {id(loaded): change(loaded) for loaded in self.libraries}

        def changed(files: AgentFiles) -> AgentFiles:
            loaded = made[id(files.loaded)]
            return files if loaded is files.loaded else msgspec.structs.replace(files, loaded=loaded)

        return msgspec.structs.replace(
            self,
            own=changed(self.own),
            agents={name: changed(files) for name, files in self.agents.items()},
            followed={names: changed(files) for names, files in self.followed.items()},
        )


class Changes(msgspec.Struct, frozen=True):
    """The differences of two snapshots: whether they concern all agents, else which `agents`; the code of
    modules; the settings; for people, a line for each file; the new faults, and the files that no longer have
    faults.
    """

    concerns_all: bool
    agents: frozenset[str]
    code: bool
    settings: bool
    files: tuple[str, ...]
    faults: tuple[Fault, ...]
    mended: tuple[str, ...]


def changes(old: Snapshot, new: Snapshot) -> Changes:
    """The changes between two snapshots, and the agents to which they apply."""
    names = old.agents.keys() | new.agents.keys()
    before, now = old.faults, new.faults
    return Changes(
        concerns_all=old.own_state != new.own_state,
        agents=frozenset(name for name in names if _state(old, name) != _state(new, name)),
        code=old.code != new.code,
        settings=old.settings != new.settings,
        files=tuple(differences(old.libraries, new.libraries)),
        faults=tuple(sorted({*now} - {*before})),
        mended=tuple(sorted({fault.path for fault in before} - {fault.path for fault in now})),
    )


def _state(snapshot: Snapshot, name: str) -> object:
    return snapshot.agents[name].state if name in snapshot.agents else None


def differences(before: Iterable[Loaded], after: Iterable[Loaded]) -> Iterator[str]:
    """Describe for people what has changed between libraries, a line for each file."""
    after = list(after)
    old, new = ({file.path: file for loaded in all for file in loaded.files} for all in (before, after))
    changed = [path for path, state in new.items() if old.get(path) != state and state.error is None]
    yield from _loaded(after, changed)
    for path in old:
        if path not in new:
            yield f"{path} is gone, and so are its definitions; runs that began with them keep them"


def first_loaded(libraries: Iterable[Loaded]) -> Iterator[str]:
    """Describe the content of libraries for people, a line for each file, and one for what ships."""
    libraries = list(libraries)
    paths = dict.fromkeys(file.path for loaded in libraries for file in loaded.files if file.error is None)
    ships = [path for path in paths if path.startswith(SHIPPED)]
    yield from _loaded(libraries, [path for path in paths if path not in ships])
    if modules := {PurePath(PurePath(path).relative_to(SHIPPED).parts[1]).stem for path in ships}:
        yield f"loaded modules that ship with narval: {', '.join(sorted(modules))}"


def _loaded(libraries: list[Loaded], paths: list[str]) -> Iterator[str]:
    names: dict[str, dict[str, None]] = {path: {} for path in paths}
    for definition in (each for loaded in libraries for each in loaded.library if each.path in names):
        names[definition.path][f"{definition.kind} {definition.full_name}"] = None
    for path in paths:
        yield f"loaded {path}: {', '.join(names[path]) or 'no definitions'}"
