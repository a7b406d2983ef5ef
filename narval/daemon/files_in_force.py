"""Files in force: the active files of a home for each of its agents, and the active settings of the daemon,
now and after each change (G2, G4).
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Container
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from narval.agent.declared import (
    declare_library,
    declare_memory,
    declare_requests,
    follow_newest,
    keep_standing,
    start_declared,
)
from narval.agent.effects import start_what_changed, start_what_may
from narval.agent.labelling import label_secrets
from narval.agent.loop import Request
from narval.agent.turn import Turn
from narval.calls.book import CallBook
from narval.calls.targets import LoadedModules
from narval.core.agent_name import stands_for_peer
from narval.core.definitions.people.directory import Directory
from narval.core.engines.engine import HeedsPeople
from narval.core.engines.events import PersonsAct, Signalled
from narval.core.engines.registry import import_engines
from narval.core.errors import Fault
from narval.daemon.agents.agent_host import AgentHost
from narval.daemon.grant_items import offer_items, settle_errors
from narval.daemon.start_and_stop import Stop
from narval.files.agents.settings import AgentSettings
from narval.files.grants import granted
from narval.files.loaded import Loaded
from narval.files.settings import FILE, CurrentSettings, Settings
from narval.files.shipped import shipped_modules
from narval.files.snapshot import AgentFiles, Changes, Snapshot, changes
from narval.files.toml import taken_at_start
from narval.system.log import Logbook

if TYPE_CHECKING:
    from narval.daemon.fleet.shared_files import StoredSettings

log = logging.getLogger("narval.daemon")

_NOTHING = AgentFiles()
"""The files of a row that represents a peer: it follows none."""

PEOPLE = "people"
"""The fact of the store that records which directory of people an agent used last."""


class FilesInForce:
    """The active definitions, schemas, settings and people for the agents of a home: those of `snapshot`.

    Agents with a folder have their own files. Those without one follow what the home's own agent follows, or
    published collections, as their `stored` settings say; None if only one daemon may use the store. With
    `record_only` no agent advances anything.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        settings: SettingsInForce,
        stored: StoredSettings | None,
        *,
        record_only: bool,
    ) -> None:
        self._settings, self._stored, self._record_only = settings, stored, record_only
        self._hosts: dict[AgentHost, AgentFiles | None] = {}
        """The hosts of agents besides the home's own, each with the published collections that it follows, as
        they were last applied.
        """
        self.snapshot = snapshot
        self._use(snapshot)
        self.unread: tuple[Fault, ...] = ()
        """The reasons why files were not read the last time, or are not read yet."""
        self.on_change: list[Callable[[], Awaitable[None]]] = []
        """The functions that are awaited after each change that was applied."""

    @property
    def settings(self) -> Settings:
        """The active settings."""
        return self._settings.now

    @property
    def loaded(self) -> Loaded:
        """Everything loaded for the home's own agent."""
        return self.snapshot.own.loaded

    @property
    def faults(self) -> list[Fault]:
        """All faults of the home's files."""
        return [*self.snapshot.faults, *self.unread]

    @property
    def always_active(self) -> frozenset[str]:
        """The agents that are never made passive."""
        settings_of = ((name, files.given or {}) for name, files in self.snapshot.agents.items())
        return frozenset(name for name, said in settings_of if said.get("always_active"))

    def note_unread(self, *faults: Fault) -> None:
        """Record why files are not read; without a fault, that all are."""
        self.unread = faults

    def of(self, host: AgentHost) -> AgentFiles:
        """The active files of an agent."""
        return self.snapshot.own if host.agent.store.is_own else self.of_other(host.name)

    def of_other(self, name: str) -> AgentFiles:
        """The active files of an agent besides the home's own."""
        if stands_for_peer(name):
            return _NOTHING
        return self.followed(name) or self.snapshot.of(name)

    def settings_of(self, name: str) -> AgentSettings:
        """The active settings of an agent."""
        files, stored, settings = self.snapshot.agents.get(name), self._stored_of(name), self.settings
        if name == settings.name:
            return settings.own
        if files is not None:
            return settings.usual.with_given(files.given or {})
        return settings.usual.with_given(stored.given(name)) if stored is not None else settings.usual

    def followed(self, name: str) -> AgentFiles | None:
        """The collections of the store that an agent follows; None if it follows the home's own files."""
        if not self.roams(name):
            return None
        return self.snapshot.followed.get(self.settings_of(name).collections)

    def roams(self, name: str) -> bool:
        """True for an agent that any daemon of the store may have."""
        return self._stored_of(name) is not None

    def _stored_of(self, name: str) -> StoredSettings | None:
        return None if name in self.snapshot.agents or stands_for_peer(name) else self._stored

    def _use(self, files: Snapshot) -> None:
        """Use these files from now on. Definitions that are not granted are withheld, and engines are
        imported before the first run needs them.
        """
        self.snapshot = granted(files, self.snapshot)
        if not self._record_only:
            for loaded in self.snapshot.libraries:
                import_engines(loaded.library)

    def use(self, loaded: Loaded) -> None:
        """Replace the definitions of the home's own agent for all agents that follow them; the own agent
        applies them itself.
        """
        self._replace(self.loaded, loaded)
        self._tell()

    def _replace(self, old: Loaded, new: Loaded) -> None:
        """Replace a library for all agents that follow it."""
        if new is not old:
            self._use(self.snapshot.with_libraries(lambda loaded: new if loaded is old else loaded))

    def attach(self, host: AgentHost) -> None:
        """Attach an agent to its files: apply them now and after each change. The shipped modules named by
        its active runs are kept, even if no file names them any longer (N31).
        """
        loaded, runs = self.of(host).loaded, host.agent.runs.active.values()
        definitions = (run.definition for run in runs if run.definition is not None)
        named = shipped_modules().named(name for each in definitions for name in each.references)
        self._replace(loaded, loaded.keeping(named))
        self.apply(host)
        if not host.agent.store.is_own:
            self._hosts[host] = self.followed(host.name)

    def apply(self, host: AgentHost) -> None:
        """Apply the present files to an agent."""
        loaded, snapshot = self.of(host).loaded, self.snapshot
        host.waiters.news.use_files()
        grants = snapshot.grants if loaded.is_limited else None
        host.agent.lookup.use(loaded.library, snapshot.people, snapshot.trust, grants)
        modules = LoadedModules(loaded.functions, loaded.texts, loaded.leases)
        host.dispatcher.targets.use(loaded.library, modules)

    def leave(self, host: AgentHost) -> None:
        """Stop following changes for an agent."""
        self._hosts.pop(host, None)

    def replace(self, files: Snapshot, own: AgentHost, turn: Turn) -> Changes:
        """Activate other files, for the home's own agent within this turn of it; return the changes."""
        before = self.snapshot
        self._use(files)
        changed = changes(before, self.snapshot)
        if changed.code:
            self._settings.replace_workers()
        if changed.settings:
            self._settings.use(files.settings)
        self.apply_in_turn(own, turn)
        self._tell(changed)
        return changed

    def _tell(self, changes: Changes | None = None) -> None:
        """Make other agents apply the active files in their next turn, or those that `changes` concern."""
        for host, taken in self._hosts.items():
            is_concerned = changes is None or changes.concerns_all or host.name in changes.agents
            if is_concerned or taken is not self.followed(host.name):
                host.post(Request(partial(self.apply_in_turn, host)))

    def apply_in_turn(self, host: AgentHost, turn: Turn) -> None:
        """Apply to an agent, within a turn of it, its active files."""
        files, people = self.of(host), known_by(host.agent.lookup.people)
        if host in self._hosts:
            self._hosts[host] = self.followed(host.name)
        self.apply(host)
        if host.agent.store.is_own:
            host.mail.outbox.use_name(self.settings.name)
        host.use_settings(self.settings.own if host.agent.store.is_own else self.settings_of(host.name))
        turn.host_api.use_schemas(files.schemas)
        sync(turn, files)
        tell_of_people(turn, people)


def sync(turn: Turn, files: AgentFiles, again: Container[int] = ()) -> None:
    """Update an agent after its files changed: declarations in memory, service runs, untouched runs, and
    starts that waited.

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


def tell_of_people(turn: Turn, before: str) -> None:
    """Notify the runs that depend on the directory of people that it differs from `before` (P18).

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
    """The digest that identifies a directory; "" if there is no file."""
    return "" if people.owner or not people.people else people.digest


class SettingsInForce:
    """The active settings; some take effect only at a start."""

    def __init__(self, current: CurrentSettings, calls: CallBook, stop: Stop, logbook: Logbook) -> None:
        self._current, self._calls, self._stop, self._logbook = current, calls, stop, logbook

    @property
    def now(self) -> Settings:
        """The active settings."""
        return self._current.now

    def replace_workers(self) -> None:
        """Retire the workers, because modules have changed."""
        executor = self._calls.executor
        for workers in (executor.workers, *executor.confined.values()):
            workers.replace()

    def use(self, settings: Settings) -> None:
        """Apply other settings, except those that take effect only at a start."""
        fixed = {name: getattr(self.now, name) for name in taken_at_start(Settings)}
        later = [name for name in fixed if getattr(settings, name) != fixed[name]]
        now, before = msgspec.structs.replace(settings, **fixed), self.now
        changed = [name for name in now.__struct_fields__ if getattr(now, name) != getattr(before, name)]
        self._current.use(now)
        self._calls.limit(now)
        self._stop.set_grace(now.stop_grace)
        self._logbook.set_level(now.log_level)
        if changed:
            log.info("%s: %s took effect", FILE, ", ".join(changed))
        if later:
            log.warning("%s: %s will take effect at the next start", FILE, ", ".join(later))
