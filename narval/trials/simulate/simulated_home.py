"""SimulatedHome: a simulation's read-only view of a home, and the agents in it.

These are the simulated agent, and the others of its home.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import tzinfo
from functools import partial
from pathlib import Path
from zoneinfo import ZoneInfo

import msgspec

from narval.agent.agent import AgentState
from narval.agent.declared import MEMORY
from narval.core.elements.element import parse
from narval.core.elements.names import ACTED, STARTING
from narval.core.errors import RequestError, StoreError
from narval.daemon.agents.agent_host import AgentHost
from narval.daemon.daemon import Daemon
from narval.files.agents.collections import AGENTS
from narval.files.agents.settings import AgentSettings, Given
from narval.files.home import Home
from narval.files.loaded import Loaded
from narval.files.memory_file import SHOWN
from narval.files.reading import Reading
from narval.files.schemas import Schemas
from narval.files.settings import Settings
from narval.files.snapshot import AgentFiles, Snapshot
from narval.store.batch import ACTIVE, HOME_AGENT, PASSIVE, SUSPENDED, AgentRow, MarkRow
from narval.system.clock import machine_zone
from narval.trials.simulate.memory_copy import (
    Remembered,
    other_agents,
    remembered,
    simulated_row,
    with_declared,
)
from narval.trials.simulate.names import Known
from narval.trials.simulate.scenario import Memory


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
        memory = home.path / AGENTS / agent / SHOWN if agent in folders else None
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


def _as_own(settings: Settings, name: str, values: Given) -> Settings:
    """The settings of a home as if that agent were its own."""
    own = settings.usual.with_given(values)
    return msgspec.structs.replace(
        settings, name=name, agent=values, timezone=own.timezone, forget_after=own.forget_after
    )


# --- the agents ---------------------------------------------------------------------------------------------


class AgentsAtPlay:
    """The agents of an in-memory daemon, by name; "" is the simulated one. `known`: their definitions."""

    def __init__(self, daemon: Daemon, own_name: str, agents: Mapping[str, Known]) -> None:
        self.daemon, self.own_name, self.known = daemon, own_name, agents

    def __contains__(self, name: str) -> bool:
        return name == self.own_name or name in self.daemon.agents.rows

    def host(self, name: str = "") -> AgentHost:
        """The host of an agent, activated if passive. Raises RequestError."""
        if name in ("", self.own_name):
            return self.daemon.host
        self.daemon.agents.supervisor.need(name, at_once=True)
        host = self.daemon.agents.supervisor.host(name)
        if host is None:
            raise RequestError(f"agent {name} could not be activated; the log says why")
        return host

    def host_of(self, agent: AgentState) -> AgentHost:
        """The host of an active agent."""
        return next(host for host in self.hosts() if host.agent is agent)

    def hosts(self) -> Iterator[AgentHost]:
        """The hosts of the active agents, the simulated one's first."""
        yield self.daemon.host
        rows = self.daemon.agents.rows
        others = sorted(row for row in rows.in_full() if row.name not in rows.peers())
        hosts = (self.daemon.agents.supervisor.host(row.name) for row in others)
        yield from (host for host in hosts if host is not None)

    def next_moment(self) -> float | None:
        """The next moment that a run of any agent waits for."""
        moments = (host.agent.clockwork.next_moment() for host in self.hosts())
        return min((moment for moment in moments if moment is not None), default=None)


def agents_to_begin_with(
    home: SimulatedHome, memory: Memory, start: float, recalled: Remembered
) -> tuple[dict[AgentRow, Callable[[], Remembered]], dict[str, AgentFiles]]:
    """The agents with their memories (`recalled` is the simulated one's), and the files of the others."""
    rows: dict[AgentRow, Callable[[], Remembered]] = {
        simulated_row(HOME_AGENT, home.settings.name): lambda: recalled
    }
    files: dict[str, AgentFiles] = {}
    for number, (name, other) in enumerate(home.others.items(), HOME_AGENT + 1):
        counts = other.files
        if memory == "empty":
            counts = msgspec.structs.replace(counts, declared=None)
        recall = partial(_recalled, other, start) if memory == "now" else Remembered
        rows[simulated_row(number, name, _state(other, memory))] = recall
        files[name] = counts
    return rows, files


def snapshot_now(recalled: Remembered, declared: Sequence[bytes] | None, start: float) -> Remembered:
    """A current memory in which no `start-plan` and no `task-object` acts: a simulation starts only what it
    is told to.

    `declared` are the elements that the file declares (N4); new ones among them must not act either.
    """
    starts = [xml for xml in declared or () if parse(xml).tag in STARTING]
    recalled = with_declared(
        recalled, [(f"{MEMORY}:{hashlib.sha256(xml).hexdigest()}", xml) for xml in starts], start
    )
    obeyed = [MarkRow(*ACTED, row.element.eid) for row in recalled.elements if row.element.name in STARTING]
    return msgspec.structs.replace(recalled, marks=[*recalled.marks, *obeyed])


def _recalled(other: OtherAgent, start: float) -> Remembered:
    return snapshot_now(other.recall(), other.files.declared, start)


def _state(other: OtherAgent, memory: Memory) -> str:
    if memory == "now":
        return SUSPENDED if other.is_suspended else PASSIVE
    return ACTIVE if other.is_at_work and memory == "new" else PASSIVE
