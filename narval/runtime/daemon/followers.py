"""Followers: the agents besides the home's own, and the files that count for each (G2, G4)."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from functools import partial
from typing import NamedTuple

from narval.definitions.people.directory import Directory
from narval.engines.engine import HeedsPeople
from narval.engines.events import PersonsAct, Signalled
from narval.runtime.agent.declared import declare_library, declare_memory, start_declared
from narval.runtime.agent.loop import Request
from narval.runtime.agent.turn import Turn
from narval.runtime.calls.targets import LoadedModules
from narval.runtime.daemon.agents.agent_host import AgentHost
from narval.runtime.daemon.home_files import AgentFiles, HomeFiles
from narval.runtime.daemon.standing_runs import keep_standing
from narval.runtime.home.agents.folders import AgentFolder
from narval.runtime.home.loaded import Loaded
from narval.runtime.home.settings import Settings

PEOPLE = "people"
"""The fact of the store that says by which directory of people an agent went last."""


class FilesNow(NamedTuple):
    """The files of a home as they count now; `loaded` is what its own agent follows, with what was added."""

    files: HomeFiles
    loaded: Loaded
    settings: Settings
    people: Directory


class Followers:
    """The agents besides the home's own; `now` gives what counts at present."""

    def __init__(self, now: Callable[[], FilesNow]) -> None:
        self._now = now
        self._hosts: dict[AgentHost, None] = {}

    @property
    def folders(self) -> Mapping[str, AgentFolder]:
        """The folders of agents by name."""
        return self._now().files.agents

    @property
    def always_active(self) -> frozenset[str]:
        """The agents that are never to be passive."""
        given = ((name, folder.given or {}) for name, folder in self.folders.items())
        return frozenset(name for name, said in given if said.get("always_active"))

    def of(self, name: str) -> AgentFiles:
        """The files that count for an agent: without a folder those of the home's own."""
        now = self._now()
        folder, usual = now.files.agents.get(name), now.settings.usual
        if folder is None:
            return AgentFiles(now.loaded, now.files.schemas, usual, now.files.faults, None)
        loaded = now.loaded if folder.loaded is now.files.loaded else folder.loaded
        settings = usual.with_given(folder.given or {})
        return AgentFiles(loaded, folder.schemas, settings, folder.faults, folder.declared)

    def follow(self, host: AgentHost) -> None:
        """Let files count for one more agent, now and after each change."""
        use_for(host, self.of(host.name).loaded, self._now().people)
        self._hosts[host] = None

    def leave(self, host: AgentHost) -> None:
        """Let no further change count for an agent."""
        self._hosts.pop(host, None)

    def tell(self, before: HomeFiles | None = None) -> None:
        """Have all take over at their next turn what counts now; all for whom it differs from `before`."""
        files = self._now().files
        alike = before is not None and before.own_state == files.own_state
        for host in self._hosts:
            old, new = ((found or files).agents.get(host.name) for found in (before, files))
            if not alike or (old is not new and (old is None or new is None or old.state != new.state)):
                host.post(Request(partial(self._take_over, host)))

    def _take_over(self, host: AgentHost, turn: Turn) -> None:
        files, people = self.of(host.name), known_by(host.agent.lookup.people)
        use_for(host, files.loaded, self._now().people)
        host.use_settings(files.settings)
        turn.surroundings.use_schemas(files.schemas)
        sync(turn, files)
        tell_of_people(turn, people)


def sync(turn: Turn, files: AgentFiles, again: Container[int] = ()) -> None:
    """Bring the memory of an agent in line with its library, its faults, and what its `memory.xml` declares,
    and its standing runs with its library.

    The `start-plan` elements of `again` act once more.
    """
    declare_library(turn, files.loaded.library, files.loaded.sources, files.faults)
    if files.declared is not None:
        declare_memory(turn, files.declared)
    if not turn.transaction.record_only:
        keep_standing(turn)
    start_declared(turn, again)


def use_for(host: AgentHost, loaded: Loaded, people: Directory) -> None:
    """Let definitions and people count for an agent; whoever follows it hears of it."""
    host.waiters.news.use_files()
    host.agent.use(loaded.library)
    host.agent.lookup.use_people(people)
    modules = LoadedModules(loaded.functions, loaded.texts, loaded.leases)
    host.dispatcher.targets.use(loaded.library, modules)


def tell_of_people(turn: Turn, before: str) -> None:
    """Tell the runs that rest on it that the directory of people is another than `before` (P18).

    What counts now is recorded, for the next start.
    """
    agent = turn.agent
    now = known_by(agent.lookup.people)
    if now == before:
        return
    turn.transaction.batch.meta.append((PEOPLE, now))
    for run in list(agent.runs.active.values()):
        engine: object = run.engine
        name = engine.heeds_people(run.state) if isinstance(engine, HeedsPeople) and run.state else ""
        if name:
            turn.tell(run.eid, Signalled(0, 0.0, "", name, act=PersonsAct("")))


def known_by(people: Directory) -> str:
    """The digest by which a directory is known again; "" where there is no file."""
    return "" if people.owner or not people.people else people.digest
