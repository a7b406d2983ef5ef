"""Followers: the agents besides the home's own, and the files that count for each (G2, G4)."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from functools import partial
from typing import Protocol

from narval.agent.declared import declare_library, declare_memory, declare_requests, start_declared
from narval.agent.effects import start_what_changed, start_what_may
from narval.agent.first_labels import label_secrets
from narval.agent.loop import Request
from narval.agent.turn import Turn
from narval.calls.targets import LoadedModules
from narval.core.agent_name import stands_for_peer
from narval.core.definitions.people.directory import Directory
from narval.core.engines.engine import HeedsPeople
from narval.core.engines.events import PersonsAct, Signalled
from narval.core.errors import NotFetchedError
from narval.daemon.agents.agent_host import AgentHost
from narval.daemon.grant_items import offer_items, settle_errors
from narval.daemon.settings_in_force import SettingsInForce
from narval.daemon.standing_runs import follow_newest, keep_standing
from narval.files.agents.settings import AgentSettings, Given
from narval.files.grants import granted
from narval.files.loaded import Loaded
from narval.files.reading import Reading
from narval.files.snapshot import AgentFiles, Changes, Snapshot

_NOTHING = AgentFiles()
"""The files of a row that stands for a peer, which follows none."""

PEOPLE = "people"
"""The fact of the store that says which directory of people an agent used last."""


class Roaming(Protocol):
    """The agents that any daemon of a store may have (`fleet/roaming.py`)."""

    def given(self, name: str) -> Given:
        """The settings that the store has of an agent. Raises StoreError."""

    def text(self, name: str) -> str:
        """The text of an agent's settings; "" where it has none. Raises StoreError."""

    async def check(self, text: str) -> None:
        """Check that a text can be the settings of an agent. Raises DefinitionError, RequestError,
        StoreError.
        """

    async def give(self, name: str, text: str) -> None:
        """Give an agent settings from now on. Raises NotFetchedError, RequestError, StoreError."""

    def require(self, name: str) -> None:
        """Check that all that an agent follows has been read as published; else the agent waits until it has.
        Raises NotFetchedError, StoreError.
        """

    def hear(self, published: Iterable[tuple[str, str]]) -> None:
        """Record the digests that a beat tells, and fetch what is not here."""

    async def fetch(self) -> None:
        """Fetch what is not here, if that is possible, and have it read."""

    def read(self, files: Snapshot, reading: Reading, before: Snapshot) -> Snapshot:
        """The files of the home, with the published collections that agents follow."""

    async def close(self) -> None:
        """Stop fetching."""


class Followers:
    """The agents of a home, and the files that count for each of them: those of `snapshot`."""

    def __init__(self, snapshot: Snapshot, settings: SettingsInForce) -> None:
        self.snapshot = granted(snapshot)
        self._settings = settings
        self._hosts: dict[AgentHost, AgentFiles | None] = {}
        """The hosts, each with what it follows of published collections, as it was taken over last."""
        self.roaming: Roaming | None = None
        """The agents that any daemon of a store may have; None where at most one daemon works on it."""

    def use(self, snapshot: Snapshot) -> None:
        """Use these files from now on; definitions that are not granted are withheld."""
        self.snapshot = granted(snapshot, self.snapshot)

    def roam(self, roaming: Roaming) -> None:
        """Let any daemon of the store have the agents without a folder."""
        self.roaming = roaming

    @property
    def folders(self) -> Mapping[str, AgentFiles]:
        """The files of the agents that have a folder, by name."""
        return self.snapshot.agents

    @property
    def always_active(self) -> frozenset[str]:
        """The agents that are never to be passive."""
        given = ((name, files.given or {}) for name, files in self.folders.items())
        return frozenset(name for name, said in given if said.get("always_active"))

    def of(self, name: str) -> AgentFiles:
        """The files that count for an agent besides the home's own; without a folder those of that."""
        if stands_for_peer(name):
            return _NOTHING
        return self.followed(name) or self.snapshot.of(name)

    def settings_of(self, name: str) -> AgentSettings:
        """The settings that count for an agent."""
        files, usual = self.folders.get(name), self._settings.now.usual
        if stands_for_peer(name):
            return usual
        if files is not None:
            return usual.with_given(files.given or {})
        return usual.with_given(self.roaming.given(name)) if self.roaming is not None else usual

    def followed(self, name: str) -> AgentFiles | None:
        """The collections of the store that an agent follows; None where it follows the home's own files."""
        if self.roaming is None or name in self.folders or stands_for_peer(name):
            return None
        return self.snapshot.followed.get(self.settings_of(name).collections)

    def require(self, name: str) -> None:
        """Check that all that an agent follows is here as published. Raises NotFetchedError, and StoreError
        where that cannot be told.
        """
        if self.roaming is not None and name not in self.folders and not stands_for_peer(name):
            self.roaming.require(name)

    async def fetch_for(self, name: str) -> None:
        """Fetch all that an agent follows, if that is possible. Raises StoreError."""
        try:
            self.require(name)
        except NotFetchedError:
            if self.roaming is not None:
                await self.roaming.fetch()

    async def close(self) -> None:
        """Stop fetching."""
        if self.roaming is not None:
            await self.roaming.close()

    def follow(self, host: AgentHost) -> None:
        """Let files count for another agent, now and after each change."""
        self.show(host)
        self._hosts[host] = self.followed(host.name)

    def show(self, host: AgentHost) -> None:
        """Let files count for an agent as they are now."""
        use_for(host, self.of(host.name).loaded, self.snapshot)

    def leave(self, host: AgentHost) -> None:
        """Stop following changes for an agent."""
        self._hosts.pop(host, None)

    def tell(self, changes: Changes | None = None) -> None:
        """Have all agents take over at their next turn what counts now; with `changes` those concerned."""
        for host, taken in self._hosts.items():
            is_concerned = changes is None or changes.concerns_all or host.name in changes.agents
            if is_concerned or taken is not self.followed(host.name):
                host.post(Request(partial(self.take_over, host)))

    def take_over(self, host: AgentHost, turn: Turn) -> None:
        """Take over within a turn of an agent what counts for it now."""
        files, people = self.of(host.name), known_by(host.agent.lookup.people)
        if host in self._hosts:
            self._hosts[host] = self.followed(host.name)
        use_for(host, files.loaded, self.snapshot)
        host.use_settings(self.settings_of(host.name))
        turn.host_api.use_schemas(files.schemas)
        sync(turn, files)
        tell_of_people(turn, people)


def sync(turn: Turn, files: AgentFiles, again: Container[int] = ()) -> None:
    """Bring the memory of an agent in line with its library, its faults, and its `memory.xml`, and with the
    library those runs that follow it.

    The `start-plan` elements of `again` act once more.
    """
    declare_library(turn, files.loaded.library, files.loaded.sources, files.faults)
    is_settled = files.declared is not None and declare_memory(turn, files.declared)
    if not turn.transaction.record_only:
        is_settled |= declare_requests(turn, files.loaded.library)
        offer_items(turn)
        label_secrets(turn.transaction)
        keep_standing(turn)
        follow_newest(turn)
        start_what_changed(turn.transaction)
        start_what_may(turn.transaction)
    is_settled |= start_declared(turn, again)
    if is_settled:
        settle_errors(turn)


def use_for(host: AgentHost, loaded: Loaded, snapshot: Snapshot) -> None:
    """Let definitions, and the people and rules of a snapshot, count for an agent; tell its followers."""
    host.waiters.news.use_files()
    grants = snapshot.grants if loaded.is_limited else None
    host.agent.lookup.use(loaded.library, snapshot.people, snapshot.trust, grants)
    modules = LoadedModules(loaded.functions, loaded.texts, loaded.leases)
    host.dispatcher.targets.use(loaded.library, modules)


def tell_of_people(turn: Turn, before: str) -> None:
    """Tell the runs that depend on the directory of people that it differs from `before` (P18).

    The present directory is recorded, for the next start.
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
    """The digest that identifies a directory; "" where there is no file."""
    return "" if people.owner or not people.people else people.digest
