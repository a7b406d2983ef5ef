"""The agents of a simulation: the simulated one, and the others of its home (G25, G33)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import msgspec

from narval.agent.agent import AgentState
from narval.agent.declared import MEMORY
from narval.core.elements.element import parse
from narval.core.elements.names import ACTED, STARTING
from narval.core.errors import RequestError
from narval.daemon.agents.agent_host import AgentHost
from narval.daemon.daemon import Daemon
from narval.files.snapshot import AgentFiles
from narval.store.batch import ACTIVE, HOME_AGENT, PASSIVE, SUSPENDED, AgentRow, MarkRow
from narval.trials.simulate.memory_copy import Remembered, simulated_row, with_declared
from narval.trials.simulate.names import Known
from narval.trials.simulate.scenario import Memory
from narval.trials.simulate.simulated_home import OtherAgent, SimulatedHome


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
