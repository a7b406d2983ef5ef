"""Stage: what a simulation sees of a home, which it only reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import tzinfo
from functools import partial
from pathlib import Path
from zoneinfo import ZoneInfo

import msgspec

from narval.core.errors import RequestError, StoreError
from narval.daemon.home_files import AgentFiles
from narval.files.agents.collections import AGENTS
from narval.files.agents.folders import AgentFolder, paths_of, read_folders
from narval.files.agents.settings import Given
from narval.files.home import Home
from narval.files.loader import Loaded, Loader
from narval.files.memory_file import SHOWN as MEMORY
from narval.files.memory_file import read_memory
from narval.files.schemas import Schemas
from narval.files.settings import Settings
from narval.store.batch import SUSPENDED, AgentRow
from narval.system.zone import machine_zone
from narval.trials.simulate.memory_copy import Remembered, other_agents, remembered
from narval.trials.simulate.names import Known


class OtherAgent(msgspec.Struct, frozen=True):
    """Another agent than the one that is simulated: the files that count for it, its memory as it is now.

    `is_at_work` says that it is at work from the first day, `is_suspended` that it does nothing now.
    """

    folder: AgentFolder
    recall: Callable[[], Remembered] = Remembered
    is_at_work: bool = False
    is_suspended: bool = False


class SimulatedHome(msgspec.Struct, frozen=True):
    """A home as a simulation sees it: its definitions, its settings, its schemas; None stands for no home.

    `memory` is the file that declares elements, `recall` gives the memory as it is now: those of the home's
    own agent, or of another; that one is simulated, and `others` take part.
    """

    home: Home | None
    settings: Settings
    loaded: Loaded
    schemas: Schemas
    zone: tzinfo | None
    recall: Callable[[], Remembered] = Remembered
    memory: Path | None = None
    others: Mapping[str, OtherAgent] = {}

    @property
    def known(self) -> dict[str, Known]:
        """The definitions and schemas of each agent; "" stands for the one that is simulated."""
        own = Known(self.loaded.library, self.schemas)
        folders = ((name, other.folder) for name, other in self.others.items())
        others = {name: Known(folder.loaded.library, folder.schemas) for name, folder in folders}
        return {"": own, self.settings.name: own, **others}


def simulated_home(home: Home | None, agent: str = "") -> SimulatedHome:
    """A home as a simulation sees it, of its own agent, or of another. Raises SettingsError."""
    if home is None:
        return SimulatedHome(None, Settings(), Loaded(), Schemas(None), None)
    settings, loader = Settings.load(home.path), Loader(home.path)
    loaded, schemas = loader.load(paths_of(home.path, settings.own)), Schemas(home.schemas)
    folders, _ = read_folders(home, loader, schemas, settings.name, {})
    others = dict(_others(home, settings, loaded, schemas, folders))
    memory: Path | None = home.memory
    recall = partial(remembered, home, settings, agent if agent != settings.name else "")
    if agent not in ("", settings.name):
        asked = others.pop(agent, None)
        declared, _ = read_memory(home.memory, schemas)
        own = folder_of(settings.name, AgentFiles(loaded, schemas, settings.own, (), declared))
        others[settings.name] = OtherAgent(own, partial(remembered, home, settings), is_at_work=True)
        memory = home.path / AGENTS / agent / MEMORY if agent in folders else None
        if asked is not None:
            loaded, schemas = asked.folder.loaded, asked.folder.schemas
        settings = _as_own(settings, agent, (folders[agent].given or {}) if agent in folders else {})
    zone = ZoneInfo(settings.own.timezone or machine_zone())
    return SimulatedHome(home, settings, loaded, schemas, zone, recall, memory, others)


def _others(
    home: Home, settings: Settings, loaded: Loaded, schemas: Schemas, folders: Mapping[str, AgentFolder]
) -> Iterator[tuple[str, OtherAgent]]:
    """The agents besides the home's own: those with folders, and those that the store has."""
    rows: dict[str, AgentRow] = {}
    with suppress(RequestError, StoreError):  # who begins with the memory as it is will be told
        rows = {row.name: row for row in other_agents(home, settings)}
    for name in sorted({*folders, *rows}):
        folder, recall = folders.get(name), partial(remembered, home, settings, name)
        of = (loaded, schemas) if folder is None else (folder.loaded, folder.schemas)
        own, declared = ({}, None) if folder is None else (folder.given, folder.declared)
        files = AgentFiles(*of, settings.usual.with_given(own or {}), (), declared)
        stopped = own is None or (name in rows and rows[name].state == SUSPENDED)
        yield name, OtherAgent(folder_of(name, files), recall, folder is not None, stopped)


def folder_of(name: str, files: AgentFiles) -> AgentFolder:
    """A folder as an agent would have it for which these files count, and which says all its settings."""
    fields = msgspec.structs.asdict(files.settings)
    return AgentFolder(name, fields, (), files.loaded, files.schemas, files.declared)


def _as_own(settings: Settings, name: str, given: Given) -> Settings:
    """The settings of a home whose own agent is that one."""
    own = settings.usual.with_given(given)
    return msgspec.structs.replace(
        settings, name=name, agent=given, timezone=own.timezone, forget_after=own.forget_after
    )
