"""The daemon: the parts of a running home, assembled, opened and closed; only this module knows them all."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from narval.agent.agent import AgentState
from narval.agent.recovery import at_once, restore_runs, restoring_memory
from narval.calls.book import CallBook
from narval.calls.executor import Executor
from narval.calls.output_capture import capture_output
from narval.calls.programs.backend import programs_of
from narval.calls.programs.output import IsKnown
from narval.core.errors import RequestError, SettingsError, UnansweredError
from narval.daemon.agents.agent_host import AgentHost, Environment
from narval.daemon.agents.agent_rows import AgentRows
from narval.daemon.agents.agents import Agents
from narval.daemon.agents.follow_home import follow, stored_files
from narval.daemon.agents.resuming import acted_before, resume_fork, resume_own, runs_are_back
from narval.daemon.agents.supervisor import Supervisor
from narval.daemon.files_in_force import FilesInForce, SettingsInForce, sync
from narval.daemon.grant_answers import GrantAnswers
from narval.daemon.main_loop import MainLoop
from narval.daemon.messages.post_office import Addresses, PostOffice
from narval.daemon.messages.room import MailboxRoom
from narval.daemon.reload import Reloader, log_start
from narval.daemon.rounds import Bell, Committer, Rounds
from narval.daemon.start_and_stop import Note, Stop, begin_traces, hold, once_it_answers
from narval.files.home import Home, lost_store, refuse_lost_store
from narval.files.mcp_clients import Clients
from narval.files.people_file import load_people
from narval.files.reading import Reading
from narval.files.settings import FILE, CurrentSettings, Settings
from narval.files.shipped import unloaded
from narval.files.snapshot import AgentFiles, Snapshot
from narval.files.trust_file import load_trust
from narval.store.open import open_store
from narval.store.store import Store
from narval.system.clock import Clock, SystemClock, machine_zone
from narval.system.log import Logbook

if TYPE_CHECKING:
    from narval.daemon.fleet.fleet import Fleet
    from narval.daemon.fleet.holding import LeaseGate
    from narval.daemon.fleet.joining import RenewerClient
    from narval.daemon.fleet.roaming import RoamingAgents
    from narval.daemon.fleet.shared_files import StoredSettings
    from narval.daemon.watcher import FileWatcher
    from narval.store.postgresql.leases import Leases

log = logging.getLogger("narval.daemon")

MakeExecutor = Callable[[Callable[[], None], Callable[[], bool]], Executor]
"""A function that makes an executor from its `changed` and `is_shared`."""


class Daemon:
    """A running home: the host of its own agent, the other agents, the main loop, the active files, the
    store, the log.

    `of` returns the daemon as another agent sees it, with that agent's `host`. `fleet` is its part in the
    fleet of its store. `grant_answers` writes the answers to items that asked for a grant.
    """

    def __init__(
        self,
        home: Home | None,
        store: Store,
        main_loop: MainLoop,
        host: AgentHost,
        reloader: Reloader,
        grant_answers: GrantAnswers,
        logbook: Logbook,
        agents: Agents,
        fleet: Fleet | None,
        closing: ExitStack,
    ) -> None:
        self.home, self.store, self.main_loop = home, store, main_loop
        self.host, self.logbook, self.agents, self.fleet = host, logbook, agents, fleet
        self.reloader, self.files, self.grant_answers = reloader, reloader.files, grant_answers
        self.clients, self._closing = Clients(home.path if home is not None else None), closing
        self.kept: set[int] = set()
        """The process ids of the programs that it keeps running: the pages, and the chats."""
        self.watcher: FileWatcher | None = None
        self._ends: list[Callable[[], Awaitable[None]]] = []

    @classmethod
    async def open(
        cls,
        home: Home | None,
        *,
        record_only: bool = False,
        clock: Clock | None = None,
        as_daemon: bool = False,
        standby: bool = False,
    ) -> Daemon:
        """Open a home, or create one in memory, and resume what was under way.

        With `record_only`, commit requests, and leave everything else to the next daemon. `as_daemon`: it
        stays until it is stopped, and waits if the server of its store is away. With `standby` it also waits
        for the end of a daemon of this home on another machine. Raises NoHomeError, HomeHeldError,
        SettingsError, ElsewhereError, StoreError.
        """
        with ExitStack() as holding:
            note, settings = hold(home, holding, as_daemon=as_daemon)
            how = {"record_only": record_only, "standby": standby}
            start = partial(_started, home, settings, clock or SystemClock(), note, **how)
            waits = as_daemon and settings.store is not None
            daemon = await (once_it_answers(start, settings.store_patience, note) if waits else start())
            holding.push(daemon._closing)
            daemon._closing = holding.pop_all()
            return daemon

    @classmethod
    async def look(cls, home: Home, settings: Settings, store: Store) -> Daemon:
        """Open a home for queries over a store that is only read: nothing is locked, nothing altered. If the
        `store` has several agents, the home's own agent is found by its name.

        Declarations of its files that the store does not have yet are in memory for the time of the query.
        """
        with ExitStack() as closing:
            if store.is_shared:
                from narval.daemon.fleet.joining import find_own

                find_own(store, settings.name)
            daemon = _on_home(home, settings, store, SystemClock(), closing, record_only=True)
        return await daemon._resumed()

    async def simulate(self, declared: list[bytes] | None = None, *, goes_on: bool = False) -> None:
        """Begin to follow the definitions in a separate memory; `close` ends that. `declared` replaces
        `data/memory.xml`; None leaves declared elements unchanged. With `goes_on`, continue the runs of its
        store.
        """
        _collect_log(self, self._closing)
        self._closing.callback(capture_output())
        if goes_on:
            resume_fork(self.host, self.files, self.rounds.clock.now())
        else:
            self.files.attach(self.host)
        own = replace(self.files.snapshot.own, declared=declared)
        await self.host.submit(lambda turn: sync(turn, own))
        self.agents.start(self.rounds)

    def follow_files(self) -> None:
        """Make changes of the home's files take effect automatically from now on (N31)."""
        if self.home is None or self.record_only or self.watcher is not None:
            return
        from narval.daemon.watcher import FileWatcher  # here: a home opened by a program is not watched

        self.watcher = FileWatcher(self.home.path, self.host, self.reloader, self.agents, self.rounds.clock)
        self.main_loop.expect(self.watcher.is_busy)

    @asynccontextmanager
    async def of(self, name: str, *, reads: bool = False) -> AsyncIterator[Daemon]:
        """The daemon as an agent sees it; the agent is activated, and stays active within the `with` block.

        With `reads`, an agent of another daemon is shown too. Raises RequestError if there is no agent of
        that name, ElsewhereError, and StoreError if it cannot be restored.
        """
        seen = copy(self)
        if name == self.files.settings.name:
            seen.host = self.agents.own
            yield seen
            return
        async with self.agents.asked(name, reads=reads) as seen.host:
            yield seen

    @property
    def name(self) -> str:
        """The name of the agent that uses this view of the daemon."""
        return self.files.settings.name if self.agent.store.is_own else self.host.name

    @property
    def agent(self) -> AgentState:
        """The agent that uses this view of the daemon."""
        return self.host.agent

    @property
    def rounds(self) -> Rounds:
        """The rounds of the active agents."""
        return self.main_loop.rounds

    @property
    def calls(self) -> CallBook:
        """The calls of all agents."""
        return self.main_loop.calls

    @property
    def stop(self) -> Stop:
        """The stop of this daemon."""
        return self.main_loop.stop

    @property
    def follows_files(self) -> bool:
        """True if changes of the home's files take effect automatically."""
        return self.watcher is not None

    @property
    def record_only(self) -> bool:
        """True if requests are committed, and nothing else is done."""
        return self.host.loop.record_only

    def stub(self, name: str, function: Callable[..., Any]) -> None:
        """Call a function instead of an action or a type of nodes, for tests and dry runs. A shipped one need
        not be loaded yet. Raises RequestError.
        """
        library = self.agent.library
        definition = library.get("action", name) or library.get("node-type", name)
        if definition is None and name not in unloaded("action"):
            expectation = "the name of an action, or of a type of nodes"
            raise RequestError(f"expected {expectation}, got {name!r}, which is not loaded")
        self.host.dispatcher.targets.stub(name, function)

    def end_with(self, end: Callable[[], Awaitable[None]]) -> None:
        """Call a function when this daemon closes, while the home is still held."""
        self._ends.append(end)

    async def close(self) -> None:
        """Stop at once what still runs, and release the home."""
        if not self.record_only:
            log.info("stopped by %s" if self.stop.by else "stopped", *filter(None, (self.stop.by,)))
        with self._closing:
            await self.grant_answers.close()
            for end in self._ends:
                await end()
            if self.watcher is not None:
                await self.watcher.close()
            if self.fleet is not None:
                await self.fleet.close()
            await self.agents.supervisor.close()
            self.rounds.give_up(UnansweredError("the daemon has ended"))
            self.stop.cancel()
            await self.calls.close()

    async def _resumed(self) -> Daemon:
        """Resume, and return this daemon; close it if that fails."""
        try:
            await self._resume()
        except BaseException:
            await self.close()
            raise
        return self

    async def _resume(self) -> None:
        """Update memory to match its declarations, then resume what was under way."""
        host, runs = self.host, self.agent.runs.active
        _collect_log(self, self._closing)
        if self.fleet is not None:
            await self.fleet.begin()
        runs_are_back(host, restore_runs(host.agent), self.rounds.clock.now())
        self.files.attach(host)
        if self.record_only:
            await host.submit(partial(resume_own, host, self.files, ()))
            have_folders = await follow(self.store, self.files, self.agents)
            if self.fleet is not None:
                self.fleet.start(have_folders)
            return
        begin_traces(self.files.settings, self.rounds.trace, self.end_with)
        self.store.make_room()
        if self.home is not None:
            host.chat_outbox.files.sweep_beside(self.home.path)
        await self.calls.executor.end_former()
        host.dispatcher.resume()
        await host.submit(partial(resume_own, host, self.files, acted_before(host)))
        have_folders = await follow(self.store, self.files, self.agents)
        self.agents.start(self.rounds)
        if self.fleet is not None:
            self.fleet.start(have_folders, listens=self.files.settings.listen)
        log_start(self.home, len(runs), self.files)


async def _started(
    home: Home | None, settings: Settings, clock: Clock, note: Note, *, record_only: bool, standby: bool
) -> Daemon:
    """Return a daemon on a held home, after it has resumed."""
    with ExitStack() as starting, ExitStack() as closing:
        where, renewer = settings.store or home.store if home is not None else None, None
        lost = ""
        if home is not None and not settings.store:
            if record_only:
                refuse_lost_store(home)
            lost = lost_store(home)
        store = closing.enter_context(open_store(where, settings.durability, settings.store_patience))
        if home is not None and store.leases is not None:
            how = {"standby": standby, "is_short": record_only}
            from narval.daemon.fleet.joining import join_store

            renewer = await join_store(home, settings, store, clock, starting, closing, note, **how)
        if home is not None:
            load_people(home.path)  # a file with faults is refused; a query goes on without it
            load_trust(home.path)
        daemon = _on_home(home, settings, store, clock, closing, renewer, record_only=record_only)
        await daemon._resumed()
        if lost:
            log.warning("%s; it begins with an empty memory", lost)
        return daemon


def _collect_log(daemon: Daemon, closing: ExitStack) -> None:
    daemon.logbook.attach()
    closing.callback(daemon.logbook.detach)


def _on_home(
    home: Home | None,
    settings: Settings,
    store: Store,
    clock: Clock,
    closing: ExitStack,
    renewer: RenewerClient | None = None,
    *,
    record_only: bool,
) -> Daemon:
    """Make the daemon of a home, or of one in memory, with its definitions read. `settings` apply where the
    file of the home has faults.
    """
    snapshot = Snapshot(AgentFiles(declared=[]), settings, load_people(None))
    if home is not None:
        before = Snapshot(settings=settings, people=snapshot.people)
        snapshot = Reading(home.path, before, partial(stored_files, store)).snapshot()
    return assemble(home, store, snapshot, clock, closing=closing, record_only=record_only, renewer=renewer)


def assemble(
    home: Home | None,
    store: Store,
    snapshot: Snapshot,
    clock: Clock,
    *,
    closing: ExitStack,
    record_only: bool = False,
    model: Home | None = None,
    make_executor: MakeExecutor | None = None,
    renewer: RenewerClient | None = None,
) -> Daemon:
    """Assemble the parts of a daemon: each is made from those before it. `closing` becomes the daemon's.

    `snapshot` are the active files at the start. `model` is a home that may provide them but is never written
    to; nothing is remembered in it. With `make_executor`, calls are answered in another way. `renewer` renews
    the lease of a daemon that shares its store.
    """
    files, zone, began = home or model, machine_zone(), snapshot.settings
    settings, own = CurrentSettings(began), store.of().identity()._replace(name=began.name)
    rows = AgentRows(own, settings, store, is_thin=not record_only)
    if began.name in rows:
        expectation = "expected a name that no other agent of this home has"
        todo = "rename the home's own, or remove that one"
        raise SettingsError(f"{FILE}: name: {expectation}, found {began.name!r}; {todo}")

    leases = store.leases if store.leases is not None and store.leases.daemon else None
    gate = _gate(clock) if leases is not None else None
    bell = Bell(follows_wall_clock=not (record_only or clock.is_simulated))
    committer = Committer(store, syncs=began.durability == "power")
    for close in (committer.close, bell.close):
        closing.callback(close)
    rounds = Rounds(clock, committer, bell, gate.is_open if gate else None)

    if make_executor is not None:
        executor = make_executor(bell.ring, rows.has_any)
    else:
        programs = programs_of(files, own, partial(_known_runs, rounds, rows), record_only=record_only)
        there = began.timezone or zone
        executor = Executor(began, clock, programs, there, store.mentions, bell.ring, rows.has_any)
    calls = CallBook(executor)
    stop = Stop(calls, began.stop_grace, rounds.perform_no_more, bell.ring, committer.give_up)
    main_loop = MainLoop(rounds, calls, stop, bell)

    logbook = Logbook(home.log if home is not None else None, began.log_level, writes=not record_only)
    in_force = SettingsInForce(settings, calls, stop, logbook)
    stored = _stored_settings(home, store, rows)
    files_in_force = FilesInForce(snapshot, in_force, stored, record_only=record_only)
    office = _office(store, rows, files_in_force)
    folder = files.path if files is not None else None
    environment = Environment(store, folder, main_loop, office, settings, zone, record_only)
    host = AgentHost(
        environment, own, files_in_force.loaded.library, snapshot.own.schemas, began.own, since=clock.now()
    )
    reloader = Reloader(home, files_in_force, host)
    grant_answers = GrantAnswers(home, reloader)

    roaming = _roaming(home, store, stored, reloader)
    supervisor = Supervisor(host, rows, environment, files_in_force, roaming)
    if leases is None or gate is None:
        agents, fleet = Agents(host, rows, supervisor, store, supervisor.begin_all), None
    else:
        agents, fleet = _shared(leases, gate, host, rows, supervisor, environment, renewer)

    main_loop.on_end.append(grant_answers.take)
    main_loop.expect(grant_answers.is_busy)
    main_loop.expect(supervisor.is_restoring)
    at_once(restoring_memory(host.agent))
    rounds.add(host)
    return Daemon(
        home, store, main_loop, host, reloader, grant_answers, logbook, agents, fleet, closing.pop_all()
    )


def _known_runs(rounds: Rounds, rows: AgentRows) -> IsKnown:
    """A test for known runs: those of active agents, and any run of others, which are not asked."""
    at_work = {one.dispatcher.identity.name: one.loop.agent.runs for one in rounds.participants}
    return lambda agent, run: run in at_work[agent] if agent in at_work else agent in rows


def _office(store: Store, rows: AgentRows, files: FilesInForce) -> PostOffice:
    """The post office of a daemon, which also reaches agents of other daemons of its store."""
    elsewhere = None
    if store.leases is not None:
        from narval.daemon.messages.other_daemons import OtherDaemons

        elsewhere = OtherDaemons(store.leases)
    addresses = Addresses(rows.address, lambda: files.snapshot.peers, elsewhere, lambda: rows.own)
    room = MailboxRoom(lambda name: files.settings_of(name).messages)
    return PostOffice(store.letters, addresses, room)


def _stored_settings(home: Home | None, store: Store, rows: AgentRows) -> StoredSettings | None:
    """The settings of agents that any daemon of the store may have; None if only one may use the store."""
    if home is None or store.published is None:
        return None
    from narval.daemon.fleet.shared_files import StoredSettings

    return StoredSettings(store, rows)


def _roaming(
    home: Home | None, store: Store, stored: StoredSettings | None, reloader: Reloader
) -> RoamingAgents | None:
    """The agents that any daemon of the store may have."""
    if home is None or store.published is None or stored is None:
        return None
    from narval.daemon.fleet.roaming import RoamingAgents

    return RoamingAgents(home.path, store.published, stored, reloader)


def _gate(clock: Clock) -> LeaseGate:
    from narval.daemon.fleet.holding import LeaseGate

    return LeaseGate(clock.monotonic)


def _shared(
    leases: Leases,
    gate: LeaseGate,
    host: AgentHost,
    rows: AgentRows,
    supervisor: Supervisor,
    environment: Environment,
    renewer: RenewerClient | None,
) -> tuple[Agents, Fleet]:
    """The agents of a daemon that shares its store, and its fleet."""
    from narval.daemon.fleet.fleet import Fleet
    from narval.daemon.fleet.holding import TakingOver

    store, main_loop = environment.store, environment.main_loop
    taking_over = TakingOver(store, rows, supervisor, gate, main_loop.wake)
    main_loop.expect(taking_over.is_under_way)
    agents = Agents(host, rows, supervisor, store, taking_over.go_on)
    return agents, Fleet(leases, store, gate, agents, taking_over, main_loop, renewer)
