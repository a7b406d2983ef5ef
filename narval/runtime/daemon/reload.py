"""Reload: what the files of a home say counts for an agent at work, now and after each change (N31)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Container, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from narval.definitions.library import Definition, Parsed
from narval.definitions.people.directory import Directory
from narval.engines.engine import HeedsPeople
from narval.engines.events import PersonsAct, Signalled
from narval.engines.registry import import_engines
from narval.errors import DefinitionError, Fault
from narval.runtime.agent.declared import declare_library, declare_memory, start_declared
from narval.runtime.agent.loop import Request
from narval.runtime.agent.turn import Turn
from narval.runtime.calls.targets import LoadedModules
from narval.runtime.daemon.agents.agent_host import AgentHost
from narval.runtime.daemon.home_files import HomeFiles, differences
from narval.runtime.daemon.settings_in_force import SettingsInForce
from narval.runtime.home.agents.settings import AgentSettings
from narval.runtime.home.home import Home
from narval.runtime.home.loader import Loaded, Loader
from narval.runtime.home.schemas import Schemas
from narval.runtime.home.settings import Settings
from narval.source.text import Source

log = logging.getLogger("narval.daemon")


class FilesInForce:
    """The definitions, schemas, settings and people that count, what is wrong with them, and their renewal.

    They count for the agent of `host`, which is the home's own, and for all that follow them (G4). `home` is
    None where there are no files. `files` are those of the start; what `load` adds is kept when
    they are read again. `renew_workers` is called when modules have changed.
    """

    def __init__(
        self,
        home: Home | None,
        loader: Loader,
        files: HomeFiles,
        host: AgentHost,
        settings: SettingsInForce,
        renew_workers: Callable[[], None],
    ) -> None:
        self.loaded = files.loaded
        self._home, self._loader, self._files = home, loader, files
        self._host, self._settings, self._renew_workers = host, settings, renew_workers
        self._followers: dict[AgentHost, None] = {}
        self._added: list[str | Path] = []
        self._reading = asyncio.Lock()

    @property
    def settings(self) -> Settings:
        """The settings that count now."""
        return self._settings.now

    @property
    def schemas(self) -> Schemas:
        """The schemas that elements must fit (N7)."""
        return self._files.schemas

    def settings_of(self, name: str) -> AgentSettings:
        """The settings of an agent besides the home's own, as they count now."""
        folder = self._files.agents.get(name)
        return self.settings.usual.with_given(folder.given or {} if folder is not None else {})

    @property
    def always_active(self) -> frozenset[str]:
        """The agents that are never to be passive."""
        given = ((name, folder.given or {}) for name, folder in self._files.agents.items())
        return frozenset(name for name, said in given if said.get("always_active"))

    @property
    def people(self) -> Directory:
        """The directory of people that counts: the last one whose file had no faults (P15)."""
        return self._files.people or self._host.agent.lookup.people

    @property
    def faults(self) -> list[Fault]:
        """All that is wrong with the files of the home."""
        return list(self._files.faults)

    def use(self, loaded: Loaded) -> None:
        """Let these definitions count from now on; import their engines before the first run needs one."""
        self.loaded = loaded
        if not self._host.loop.record_only:
            import_engines(loaded.library)
        self._use_for(self._host)

    def follow(self, host: AgentHost) -> None:
        """Let the definitions count for one more agent, now and after each change."""
        self._use_for(host)
        self._followers[host] = None

    def leave(self, host: AgentHost) -> None:
        """Let no further change count for an agent."""
        self._followers.pop(host, None)

    def _use_for(self, host: AgentHost) -> None:
        loaded = self.loaded
        host.agent.use(loaded.library)
        host.agent.lookup.use_people(self.people)
        modules = LoadedModules(loaded.functions, loaded.texts, loaded.leases)
        host.dispatcher.targets.use(loaded.library, modules)

    def _tell_followers(self) -> None:
        """Have all that follow take over at their next turn what counts now."""
        for host in self._followers:
            host.post(Request(partial(self._take_over, host), _ignore))

    def _take_over(self, host: AgentHost, turn: Turn) -> None:
        before = host.agent.lookup.people
        self._use_for(host)
        host.use_settings(self.settings_of(host.name))
        turn.surroundings.use_schemas(self.schemas)
        self.sync_declared(turn, None)
        _tell_of_people(turn, before)

    def keep(self, definitions: Iterable[Definition]) -> None:
        """Have those modules that ship which runs under way name, though no file may name them now (N31)."""
        references = [reference for definition in definitions for reference in definition.references]
        self._loader.keep(references)
        with suppress(DefinitionError):  # a call of what does not load says so
            self.loaded = self.loaded.with_shipped(references)

    def declared(self) -> list[bytes] | None:
        """Read what `data/memory.xml` declares; None if it has faults, which are noted."""
        if self._home is None:
            return []
        self._files = self._files.with_memory(self._home)
        return self._files.declared

    def sync_declared(self, turn: Turn, declared: list[bytes] | None, again: Container[int] = ()) -> None:
        """Bring memory in line with the library, its faults, and what `data/memory.xml` declares.

        With `declared` None the latter stays as it is. The `start-plan` elements of `again` act once more.
        """
        declare_library(turn, self.loaded.library, self.loaded.sources, self.faults)
        if declared is not None:
            declare_memory(turn, declared)
        start_declared(turn, again)

    async def load(self, text: str | Path) -> None:
        """Add the definitions of a file, or of a text, to the library. Raises DefinitionError."""
        loaded = self.loaded.with_definitions(text)
        self._added.append(text)
        await self._add(loaded)

    async def load_parsed(self, source: Source, parsed: Parsed) -> tuple[Definition, ...]:
        """Add what was made of a text to the library; the definitions. Raises DefinitionError."""
        await self._add(self.loaded.with_parsed(source, parsed))
        return parsed.definitions

    async def _add(self, loaded: Loaded) -> None:
        self.use(loaded)
        self._tell_followers()
        await self._host.submit(lambda turn: self.sync_declared(turn, None))

    async def reload(self, is_settled: Callable[[], bool] = lambda: True) -> bool:
        """Read the home again, and take over in one turn what has changed; True if anything had.

        What was read is dropped unless `is_settled` says, once all is read, that it counts.
        """
        if self._home is None:
            return False
        async with self._reading:
            files = await asyncio.to_thread(HomeFiles.read, self._home, self._loader, self._files)
            if files.state == self._files.state or not is_settled():
                return False
            await self._host.submit(partial(self._adopt, files))
            return True

    def _adopt(self, files: HomeFiles, turn: Turn) -> None:
        """Let what was read count from now on."""
        people, before, self._files = self.people, self._files, files
        known, loaded = self.loaded, files.loaded
        for text in self._added:
            with suppress(DefinitionError):
                loaded = loaded.with_definitions(text)
        self.use(loaded)
        if files.loaded.sources != before.loaded.sources:
            self._renew_workers()
        turn.surroundings.use_schemas(files.schemas)
        if files.settings is not None and files.settings != before.settings:
            self._settings.use(files.settings)
            self._host.use_settings(self.settings.own)
        for line in differences(known, loaded):
            log.info("%s", line)
        for fault in sorted({*files.faults} - {*before.faults}):
            log.warning("did not load: %s", fault)
        for path in sorted({fault.path for fault in before.faults} - {fault.path for fault in files.faults}):
            log.info("%s has no faults any more", path)
        self.sync_declared(turn, files.declared)
        _tell_of_people(turn, people)
        self._tell_followers()


def _tell_of_people(turn: Turn, before: Directory) -> None:
    """Tell the runs that rest on it that the directory of people is another than before (P18)."""
    agent = turn.agent
    if agent.lookup.people == before:
        return
    for run in list(agent.runs.active.values()):
        engine: object = run.engine
        name = engine.heeds_people(run.state) if isinstance(engine, HeedsPeople) and run.state else ""
        if name:
            turn.tell(run.eid, Signalled(0, 0.0, "", name, act=PersonsAct("")))


def _ignore(value: Any, error: Any) -> None:
    """Do nothing: nobody waits for this answer."""
