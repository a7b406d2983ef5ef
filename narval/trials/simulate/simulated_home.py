"""SimulatedHome: a simulation's read-only view of a home."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import tzinfo
from functools import partial
from pathlib import Path
from zoneinfo import ZoneInfo

import msgspec

from narval.core.errors import RequestError, StoreError
from narval.files.agents.collections import AGENTS
from narval.files.agents.settings import AgentSettings, Given
from narval.files.home import Home
from narval.files.loaded import Loaded
from narval.files.memory_file import SHOWN as MEMORY
from narval.files.reading import Reading
from narval.files.schemas import Schemas
from narval.files.settings import Settings
from narval.files.snapshot import AgentFiles, Snapshot
from narval.store.batch import SUSPENDED, AgentRow
from narval.system.clock import machine_zone
from narval.trials.simulate.memory_copy import Remembered, other_agents, remembered
from narval.trials.simulate.names import Known


class OtherAgent(msgspec.Struct, frozen=True):
    """An agent other than the simulated one: the files that apply to it, its current memory.

    `is_at_work` says that it is active from the first day, `is_suspended` that it does nothing now.
    """

    files: AgentFiles
    recall: Callable[[], Remembered] = Remembered
    is_at_work: bool = False
    is_suspended: bool = False


class SimulatedHome(msgspec.Struct, frozen=True):
    """A home as a simulation sees it: its definitions, its settings, its schemas; None represents no home.

    `memory` is the file that declares elements, `recall` returns the current memory, both of the simulated
    agent, which is the home's own, or another; `others` take part.
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
        """The definitions and schemas of each agent; "" is the simulated one."""
        own = Known(self.loaded.library, self.schemas)
        all_files = ((name, other.files) for name, other in self.others.items())
        others = {name: Known(files.loaded.library, files.schemas) for name, files in all_files}
        return {"": own, self.settings.name: own, **others}


def simulated_home(home: Home | None, agent: str = "") -> SimulatedHome:
    """A simulation's view of a home, with its own agent, or another. Raises SettingsError."""
    if home is None:
        return SimulatedHome(None, Settings(), Loaded(), Schemas(None), None)
    settings = Settings.load(home.path)
    now = Reading(home.path).snapshot()
    loaded, schemas, folders = now.own.loaded, now.own.schemas, now.agents
    others = dict(_others(home, settings, now))
    memory: Path | None = home.memory
    recall = partial(remembered, home, settings, agent if agent != settings.name else "")
    if agent not in ("", settings.name):
        asked = others.pop(agent, None)
        own = with_all_settings(now.own, settings.own)
        others[settings.name] = OtherAgent(own, partial(remembered, home, settings), is_at_work=True)
        memory = home.path / AGENTS / agent / MEMORY if agent in folders else None
        if asked is not None:
            loaded, schemas = asked.files.loaded, asked.files.schemas
        settings = _as_own(settings, agent, (folders[agent].given or {}) if agent in folders else {})
    zone = ZoneInfo(settings.own.timezone or machine_zone())
    return SimulatedHome(home, settings, loaded, schemas, zone, recall, memory, others)


def _others(home: Home, settings: Settings, now: Snapshot) -> Iterator[tuple[str, OtherAgent]]:
    """The agents besides the home's own: those with folders, and those in the store."""
    rows: dict[str, AgentRow] = {}
    with suppress(RequestError, StoreError):  # a simulation that needs the memory reports it
        rows = {row.name: row for row in other_agents(home, settings)}
    for name in sorted({*now.agents, *rows}):
        files, recall = now.of(name), partial(remembered, home, settings, name)
        stopped = files.given is None or (name in rows and rows[name].state == SUSPENDED)
        files = with_all_settings(files, settings.usual.with_given(files.given or {}))
        yield name, OtherAgent(files, recall, name in now.agents, stopped)


def with_all_settings(files: AgentFiles, settings: AgentSettings) -> AgentFiles:
    """Files that apply to an agent, with all its settings."""
    return msgspec.structs.replace(files, given=msgspec.structs.asdict(settings), faults=())


def _as_own(settings: Settings, name: str, given: Given) -> Settings:
    """The settings of a home as if that agent were its own."""
    own = settings.usual.with_given(given)
    return msgspec.structs.replace(
        settings, name=name, agent=given, timezone=own.timezone, forget_after=own.forget_after
    )
