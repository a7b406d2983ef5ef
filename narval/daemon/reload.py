"""Reload: what the files of a home say counts for an agent at work, now and after each change (N31)."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Container, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path

import msgspec

from narval.agent.turn import Turn
from narval.core.definitions.library import Definition, Parsed
from narval.core.definitions.people.directory import Directory
from narval.core.engines.registry import import_engines
from narval.core.errors import DefinitionError, Fault, NarvalError
from narval.core.source.text import Source
from narval.daemon.agents.agent_host import AgentHost
from narval.daemon.followers import FilesNow, Followers, known_by, sync, tell_of_people, use_for
from narval.daemon.home_files import AgentFiles, HomeFiles, differences
from narval.daemon.settings_in_force import SettingsInForce
from narval.files.home import Home
from narval.files.loader import Loaded, Loader
from narval.files.schemas import Schemas
from narval.files.settings import Settings
from narval.system.lone_thread import LoneThread
from narval.system.unexpected import unexpected

log = logging.getLogger("narval.daemon")

MOST_LOGGED = 200
"""So many lines of the log tell of one change of the files: many thousands would keep others waiting."""

LONG = 30.0
"""Seconds after which it is told that reading does not end."""


class FilesInForce:
    """The definitions, schemas, settings and people that count, what is wrong with them, and their renewal.

    They count for the agent of `host`, which is the home's own, and for all that follow them; an agent with
    a folder has files of its own besides (G2, G4). `home` is None where there are no files. `files` are those
    of the start; what `load` adds is kept when they are read again.
    """

    def __init__(
        self,
        home: Home | None,
        loader: Loader,
        files: HomeFiles,
        host: AgentHost,
        settings: SettingsInForce,
    ) -> None:
        self.loaded = files.loaded
        self._home, self._loader, self._files = home, loader, files
        self._host, self._settings = host, settings
        self.followers = Followers(lambda: FilesNow(self._files, self.loaded, self.settings, self.people))
        """The other agents, and the files that count for each."""
        self._added: list[str | Path] = []
        self._reading = asyncio.Lock()
        self._unread: tuple[Fault, ...] = ()
        """The reason why the files were not read this time."""
        self._on_change: list[Callable[[], Awaitable[None]]] = []

    @property
    def settings(self) -> Settings:
        """The settings that count now."""
        return self._settings.now

    def message_limit(self, name: str) -> int:
        """The most messages that may wait for an agent."""
        own = self.settings
        return (own.own if name == own.name else self.followers.settings_of(name)).messages

    @property
    def schemas(self) -> Schemas:
        """The schemas that elements must fit (N7)."""
        return self._files.schemas

    @property
    def libraries(self) -> list[Loaded]:
        """All that is loaded: for the home's own agent, and for those that follow something else."""
        return [self.loaded, *self._files.libraries[1:]]

    def own(self, declared: list[bytes] | None) -> AgentFiles:
        """The files that count for the home's own agent, which declare these elements."""
        return AgentFiles(self.loaded, self.schemas, self.settings.own, self._files.faults, declared)

    @property
    def people(self) -> Directory:
        """The directory of people that counts: the last one whose file had no faults (P15)."""
        return self._files.people or self._host.agent.lookup.people

    @property
    def faults(self) -> list[Fault]:
        """All that is wrong with the files of the home."""
        return [*self._files.all_faults, *self._unread]

    def use(self, loaded: Loaded) -> None:
        """Let these definitions count from now on; import their engines before the first run needs one."""
        self.loaded = loaded
        if not self._host.loop.record_only:
            for found in self.libraries:
                import_engines(found.library)
        use_for(self._host, loaded, self.people)

    def hear_of_changes(self, on_change: Callable[[], Awaitable[None]]) -> None:
        """Await `on_change` after each change that was taken over."""
        self._on_change.append(on_change)

    def keep(self, definitions: Iterable[Definition], name: str = "") -> None:
        """Have those modules that ship which runs under way name, though no file may name them now (N31).

        The runs are those of an agent, without a `name` of the home's own.
        """
        references = [reference for definition in definitions for reference in definition.references]
        folder, followed = self._files.agents.get(name), self.followers.followed(name)
        found = folder or followed
        with suppress(DefinitionError):  # a call of what does not load says so
            if found is None or found.loaded is self._files.loaded:
                self._loader.keep(references)
                self.loaded = self.loaded.with_shipped(references)
                return
            self._loader.keep(references, found.collections)
            loaded = found.loaded.with_shipped(references)
            if folder is not None:
                folder = msgspec.structs.replace(folder, loaded=loaded)
                self._files = self._files._replace(agents={**self._files.agents, name: folder})
            elif followed is not None and loaded is not followed.loaded:
                names = self.followers.settings_of(name).collections
                followed = msgspec.structs.replace(followed, loaded=loaded)
                self._files = self._files._replace(followed={**self._files.followed, names: followed})

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
        sync(turn, self.own(declared), again)

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
        self.followers.tell()
        await self._host.submit(lambda turn: self.sync_declared(turn, None))

    async def reload(
        self, is_settled: Callable[[], bool] = lambda: True, first: Callable[[], None] = lambda: None
    ) -> bool:
        """Read the home again, and take over in one turn what has changed; True if anything had.

        What was read is dropped unless `is_settled` says, once all is read, that it counts. `first` is done
        before, in the thread that reads, and while nobody else does.
        """
        if self._home is None:
            return False
        async with self._reading:
            files = await self._read_beside(self._home, first)
            if files.state == self._files.state or not is_settled():
                return False
            await self._host.submit(partial(self._adopt, files))
            for on_change in self._on_change:
                await on_change()
            return True

    async def _read_beside(self, home: Home, first: Callable[[], None]) -> HomeFiles:
        """The files of the home, read in a thread that the end of the daemon does not wait for: what a module
        does when it is imported may never end. Where reading fails, or does not end, that is a fault.
        """
        reading = LoneThread(partial(self._read, home, first), "narval-files")
        timer = asyncio.get_running_loop().call_later(LONG, self._note_hanging, home, reading)
        try:
            files = await reading.done
        except Exception as error:
            where, is_told = str(home.path), isinstance(error, NarvalError)
            self._unread = (Fault(where, 1, 1, str(error)) if is_told else unexpected(where, error),)
            raise
        finally:
            timer.cancel()
        self._unread = ()
        return files

    def _note_hanging(self, home: Home, reading: LoneThread[HomeFiles]) -> None:
        """Note that reading does not end, and the place in a file of the home at which that is."""
        stack = reversed(reading.stack())
        frame = next((frame for frame in stack if Path(frame.filename).is_relative_to(home.path)), None)
        path = os.path.relpath(frame.filename, home.path) if frame is not None else str(home.path)
        line = (frame.lineno or 1) if frame is not None else 1
        message = f"reading has been here for {LONG:g} s, and no file is read again before that ends"
        self._unread = (Fault(path, line, 1, f"{message}; set it right, and start the daemon again"),)
        log.error("%s", self._unread[0])

    def _read(self, home: Home, first: Callable[[], None]) -> HomeFiles:
        first()
        before, now, roaming = self._files, self.settings, self.followers.roaming
        files = HomeFiles.read(home, self._loader, before, now)
        return files if roaming is None else roaming.read(files, self._loader, before, now)

    def _adopt(self, files: HomeFiles, turn: Turn) -> None:
        """Let what was read count from now on."""
        people, before, self._files = known_by(self.people), self._files, files
        known, loaded = [self.loaded, *before.libraries[1:]], files.loaded
        for text in self._added:
            with suppress(DefinitionError):
                loaded = loaded.with_definitions(text)
        self.use(loaded)
        if files.code != before.code:
            self._settings.renew_workers()
        turn.surroundings.use_schemas(files.schemas)
        if files.settings is not None and files.settings != before.settings:
            self._settings.use(files.settings)
            self._host.use_settings(self.settings.own)
        _log(logging.INFO, "%s", differences(known, [loaded, *files.libraries[1:]]))
        now, then = files.all_faults, before.all_faults
        _log(logging.WARNING, "did not load: %s", sorted({*now} - {*then}))
        mended = {fault.path for fault in then} - {fault.path for fault in now}
        _log(logging.INFO, "%s has no faults any more", sorted(mended))
        self.sync_declared(turn, files.declared)
        tell_of_people(turn, people)
        self.followers.tell(before)


def log_start(home: Home | None, runs: int, files: FilesInForce) -> None:
    """Have the log say what a daemon starts on, with so many runs under way, and what it has read."""
    log.info("started on %s, with %d runs under way", home.path if home is not None else "memory", runs)
    _log(logging.INFO, "%s", differences([], files.libraries))
    _log(logging.INFO, "did not load: %s", files.faults)


def _log(level: int, message: str, news: Iterable[object]) -> None:
    """Have the log say what is new about files, a line for each of the first."""
    lines = list(news)
    for line in lines[:MOST_LOGGED]:
        log.log(level, message, line)
    if len(lines) > MOST_LOGGED:
        log.log(level, "and so for %d files more", len(lines) - MOST_LOGGED)
