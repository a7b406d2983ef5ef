"""Stage: what a simulation sees of a home, which it only reads."""

from __future__ import annotations

from collections.abc import Callable
from datetime import tzinfo
from functools import partial
from pathlib import Path
from zoneinfo import ZoneInfo

import msgspec

from narval.runtime.home.agents.collections import AGENTS
from narval.runtime.home.agents.folders import paths_of, read_folders
from narval.runtime.home.agents.settings import Given
from narval.runtime.home.home import Home
from narval.runtime.home.loader import Loaded, Loader
from narval.runtime.home.memory_file import SHOWN as MEMORY
from narval.runtime.home.schemas import Schemas
from narval.runtime.home.settings import Settings
from narval.runtime.system.zone import machine_zone
from narval.simulation.memory_copy import Remembered, remembered


class SimulatedHome(msgspec.Struct, frozen=True):
    """A home as a simulation sees it: its definitions, its settings, its schemas; None stands for no home.

    `memory` is the file that declares elements, `recall` gives the memory as it is now: those of the home's
    own agent, or of another.
    """

    home: Home | None
    settings: Settings
    loaded: Loaded
    schemas: Schemas
    zone: tzinfo | None
    recall: Callable[[], Remembered] = Remembered
    memory: Path | None = None


def simulated_home(home: Home | None, agent: str = "") -> SimulatedHome:
    """A home as a simulation sees it, of its own agent, or of another. Raises SettingsError."""
    if home is None:
        return SimulatedHome(None, Settings(), Loaded(), Schemas(None), None)
    settings, loader = Settings.load(home.path), Loader(home.path)
    loaded, schemas = loader.load(paths_of(home.path, settings.own)), Schemas(home.schemas)
    memory: Path | None = home.memory
    recall = partial(remembered, home, settings, agent if agent != settings.name else "")
    if agent not in ("", settings.name):
        folders, _ = read_folders(home, loader, schemas, settings.name, {})
        memory, folder = None, folders.get(agent)
        if folder is not None:
            loaded, schemas = folder.loaded, folder.schemas
            memory = home.path / AGENTS / agent / MEMORY
        settings = _as_own(settings, agent, folder.given or {} if folder is not None else {})
    zone = ZoneInfo(settings.own.timezone or machine_zone())
    return SimulatedHome(home, settings, loaded, schemas, zone, recall, memory)


def _as_own(settings: Settings, name: str, given: Given) -> Settings:
    """The settings of a home whose own agent is that one."""
    own = settings.usual.with_given(given)
    return msgspec.structs.replace(
        settings, name=name, agent=given, timezone=own.timezone, forget_after=own.forget_after
    )
