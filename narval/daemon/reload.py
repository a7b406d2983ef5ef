"""Reload: makes the files of a home count for an agent at work, now and after each change (N31)."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec

from narval.agent.loop import Request
from narval.agent.run import Run
from narval.agent.turn import Turn
from narval.core.definitions.library import Definition, Parsed
from narval.core.definitions.people.directory import Directory
from narval.core.definitions.telling.words import counted
from narval.core.engines.registry import import_engines
from narval.core.errors import DefinitionError, Fault, NarvalError, RequestError
from narval.core.source.text import Source
from narval.daemon.agents.agent_host import AgentHost, apart
from narval.daemon.followers import Followers, known_by, sync, tell_of_people, use_for
from narval.daemon.grant_items import RequestAnswer, answer_of, write_answer
from narval.daemon.settings_in_force import SettingsInForce
from narval.files.home import Home
from narval.files.loaded import Loaded
from narval.files.people_file import read_people
from narval.files.proposals.altering import altering
from narval.files.reading import Reading
from narval.files.settings import Settings, read_settings
from narval.files.shipped import shipped_modules
from narval.files.snapshot import AgentFiles, Snapshot, changes, first_loaded
from narval.files.trust_file import read_trust
from narval.system.lone_thread import LoneThread
from narval.system.unexpected import unexpected

log = logging.getLogger("narval.daemon")

Answer = TypeVar("Answer")

MOST_LOGGED = 200
"""The most lines of the log about one change of the files: many thousands would hold up other work."""

LONG = 30.0
"""Seconds after which it is reported that reading does not end."""


class ReadingBeside:
    """Reads the files of a home in a thread that the end of the daemon does not wait for: a module that is
    imported may never end.
    """

    def __init__(self) -> None:
        self.alone = asyncio.Lock()
        """Held while something is read, or is taken over."""
        self.hangs = asyncio.Event()
        """Set while reading does not end."""
        self.faults: tuple[Fault, ...] = ()
        """The reason why the files were not read this time, or are not read yet."""

    async def read(self, home: Home, work: Callable[[], Snapshot]) -> Snapshot:
        """The files that `work` reads. Where it fails, or does not end, that is a fault."""
        reading = LoneThread(work, "narval-files")
        timer = asyncio.get_running_loop().call_later(LONG, self._note_hanging, home, reading)
        try:
            files = await reading.done
        except Exception as error:
            where, is_told = str(home.path), isinstance(error, NarvalError)
            self.faults = (Fault(where, 1, 1, str(error)) if is_told else unexpected(where, error),)
            raise
        finally:
            timer.cancel()
            self.hangs.clear()
        self.faults = ()
        return files

    def _note_hanging(self, home: Home, reading: LoneThread[Snapshot]) -> None:
        """Note that reading does not end, and at which place in a file of the home."""
        stack = reversed(reading.stack())
        frame = next((frame for frame in stack if Path(frame.filename).is_relative_to(home.path)), None)
        path = os.path.relpath(frame.filename, home.path) if frame is not None else str(home.path)
        line = (frame.lineno or 1) if frame is not None else 1
        message = f"reading has been here for {LONG:g} s, and no file is read again before that ends"
        self.faults = (Fault(path, line, 1, f"{message}; set it right, and start the daemon again"),)
        log.error("%s", self.faults[0])
        self.hangs.set()


class FilesInForce:
    """The definitions, schemas, settings and people that count, their faults, and their renewal.

    They count for the agent of `host`, which is the home's own, and for all that follow them; an agent with a
    folder also has files of its own (G2, G4). `home` is None where there are no files. `snapshot` is that of
    the start; what `load` adds is kept when the files are read again.
    """

    def __init__(
        self, home: Home | None, snapshot: Snapshot, host: AgentHost, settings: SettingsInForce
    ) -> None:
        self._home, self._host, self._settings = home, host, settings
        self.followers = Followers(snapshot, settings)
        """The other agents, and the files that count for each."""
        self._added: list[str | Path] = []
        self._reading = ReadingBeside()
        self._left: set[asyncio.Task[bool]] = set()
        """The readings that nobody waits for any more."""
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
    def own(self) -> AgentFiles:
        """The files that count for the home's own agent."""
        return self.followers.snapshot.own

    def of(self, host: AgentHost) -> AgentFiles:
        """The files that count for an agent."""
        return self.own if host.agent.store.is_own else self.followers.of(host.name)

    @property
    def loaded(self) -> Loaded:
        """All that is loaded for the home's own agent."""
        return self.own.loaded

    @property
    def people(self) -> Directory:
        """The directory of people that counts: the last one whose file had no faults (P15)."""
        return self.followers.snapshot.people

    @property
    def faults(self) -> list[Fault]:
        """All that is wrong with the files of the home."""
        return [*self.followers.snapshot.faults, *self._reading.faults]

    def use(self) -> None:
        """Use the definitions there are from now on; import their engines before the first run needs one."""
        if not self._host.loop.record_only:
            for found in self.followers.snapshot.libraries:
                import_engines(found.library)
        use_for(self._host, self.loaded, self.followers.snapshot)

    def hear_of_changes(self, on_change: Callable[[], Awaitable[None]]) -> None:
        """Await `on_change` after each change that was taken over."""
        self._on_change.append(on_change)

    def keep(self, definitions: Iterable[Definition], name: str = "") -> None:
        """Keep the shipped modules that runs under way name, even if no file names them any more (N31).

        The runs are those of an agent, without a `name` those of the home's own.
        """
        references = (reference for definition in definitions for reference in definition.references)
        groups = shipped_modules().named(references)
        loaded = (self.followers.of(name) if name else self.own).loaded
        self._replace(loaded, loaded.keeping(groups))

    def sync_declared(self, turn: Turn, declared: list[bytes] | None) -> None:
        """Bring memory in line with the library, its faults, and these declared elements; with None the
        declared elements stay unchanged.
        """
        sync(turn, msgspec.structs.replace(self.own, declared=declared))

    async def load(self, text: str | Path) -> None:
        """Add the definitions of a file, or of a text, to the library. Raises DefinitionError."""
        loaded = self.loaded.with_definitions(text)
        self._added.append(text)
        await self._add(loaded)

    async def load_parsed(self, source: Source, parsed: Parsed) -> tuple[Definition, ...]:
        """Add the parsed definitions of a text to the library; the definitions. Raises DefinitionError."""
        await self._add(self.loaded.with_parsed(source, parsed))
        return parsed.definitions

    async def _add(self, loaded: Loaded) -> None:
        self._replace(self.loaded, loaded)
        self.use()
        self.followers.tell()
        await self._host.submit(lambda turn: self.sync_declared(turn, None))

    def _replace(self, old: Loaded, new: Loaded) -> None:
        """Replace a library for all agents that follow it."""
        if new is not old:
            now = self.followers.snapshot
            self.followers.use(now.with_libraries(lambda loaded: new if loaded is old else loaded))

    async def reload(
        self, is_settled: Callable[[], bool] = lambda: True, first: Callable[[], None] = lambda: None
    ) -> bool:
        """Read the home again, and take over in one turn what has changed; True if anything had.

        What was read is dropped unless `is_settled` says, once all is read, that it counts. `first` runs
        before that, in the thread that reads, while nothing else does.
        """
        if self._home is None:
            return False
        async with self._reading.alone:
            before = self.followers.snapshot
            read = partial(self._read, self._home, before, first)
            files = await self._reading.read(self._home, read)
            if files.state == before.state or not is_settled():
                return False
            with apart():
                await self._host.submit(partial(self._adopt, before, files))
                for on_change in self._on_change:
                    await on_change()
            return True

    async def take_over(self) -> None:
        """Let what was written take effect. Raises RequestError where reading fails, or does not end: then it
        takes effect once that has ended.
        """
        reading = asyncio.create_task(self.reload())
        hanging = asyncio.create_task(self._reading.hangs.wait())
        try:
            await asyncio.wait((reading, hanging), return_when=asyncio.FIRST_COMPLETED)
            if reading.done():
                reading.result()
                return
            self._left.add(reading)
            reading.add_done_callback(self._leave)
        except (OSError, NarvalError) as error:
            raise RequestError(f"it is written, and does not count yet: {error}") from error
        except asyncio.CancelledError:
            reading.cancel()
            raise
        finally:
            hanging.cancel()
        why = next(iter(self._reading.faults), "the files are still being read")
        raise RequestError(f"it is written, and does not count yet: {why}")

    def _leave(self, reading: asyncio.Task[bool]) -> None:
        """Log why a reading that nobody waited for has failed, if it has."""
        self._left.discard(reading)
        if not reading.cancelled() and (error := reading.exception()) is not None:
            log.error("what was read does not count: %s", error)

    def _read(self, home: Home, before: Snapshot, first: Callable[[], None]) -> Snapshot:
        first()
        settings, faults = read_settings(home.path)
        people, of_people = read_people(home.path)
        reading, roaming = Reading(home.path, before), self.followers.roaming
        trust, of_trust = read_trust(home.path)
        trust = before.trust if of_trust else trust
        faults += (*of_people, *of_trust)
        files = reading.snapshot(settings or before.settings, people or before.people, trust, faults)
        return files if roaming is None else roaming.read(files, reading, before)

    def _adopt(self, before: Snapshot, files: Snapshot, turn: Turn) -> None:
        """Make what was read count from now on."""
        people, kept = (
            known_by(self.people),
            {loaded.follows: loaded.kept for loaded in self.followers.snapshot.libraries},
        )
        files = files.with_libraries(lambda loaded: loaded.keeping(kept.get(loaded.follows, frozenset())))
        self.followers.use(files)
        used = loaded = self.followers.snapshot.own.loaded
        for text in self._added:
            with suppress(DefinitionError):
                loaded = loaded.with_definitions(text)
        self._replace(used, loaded)
        self.use()
        changed = changes(before, self.followers.snapshot)
        if changed.code:
            self._settings.renew_workers()
        turn.host_api.use_schemas(self.own.schemas)
        if changed.settings:
            self._settings.use(files.settings)
            self._host.use_settings(self.settings.own)
        _log(logging.INFO, "%s", changed.files)
        _log(logging.WARNING, "did not load: %s", changed.faults)
        _log(logging.INFO, "%s has no faults any more", changed.mended)
        sync(turn, self.own)
        tell_of_people(turn, people)
        self.followers.tell(changed)


async def altered(home: Home, alter: Callable[[], Answer]) -> Answer:
    """Alter files of a home in a thread, alone; the answer. Raises what `alter` raises."""

    def alone() -> Answer:
        with altering(home.path):
            return alter()

    return await asyncio.to_thread(alone)


class GrantAnswers:
    """Writes the answers to items that asked for what definitions need, and makes them count. Where writing
    fails, an error element says so.
    """

    def __init__(self, home: Home | None, files: FilesInForce) -> None:
        self._home, self._files = home, files
        self._writing: dict[tuple[AgentHost, int], asyncio.Task[str]] = {}
        """The writing of each answer, by agent and item; it gives the reason why it failed, or ""."""

    def is_busy(self) -> bool:
        """True while an answer is being written, or does not count yet."""
        return bool(self._writing)

    async def written(self, host: AgentHost, item: int) -> None:
        """Wait until the answer of an item is written, and counts. Raises RequestError where it cannot be, or
        where the files are not read after it.
        """
        writing = self._writing.get((host, item))
        if writing is not None and (why := await asyncio.shield(writing)):
            raise RequestError(why)

    def take(self, host: AgentHost, run: Run) -> None:
        """Take the answer of an ended run, if it is an item that asked."""
        answer = answer_of(host.agent, run)
        if answer is not None and self._home is not None:
            work = self._write(self._home, host, answer, run)
            task = asyncio.get_running_loop().create_task(work, name="narval-grants")
            self._writing[host, run.eid] = task

    async def close(self) -> None:
        """Stop waiting for answers: one that is not written is asked for again."""
        tasks = [*self._writing.values()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _write(self, home: Home, host: AgentHost, answer: RequestAnswer, run: Run) -> str:
        of_agent, now, at = self._files.of(host), self._files.followers.snapshot, run.ended or 0.0
        decided = f"what {answer.name} needs is decided by {answer.by}"
        try:
            try:
                await altered(home, lambda: write_answer(home.path, of_agent, now, answer, at))
            except (OSError, NarvalError) as error:
                why = f"{decided}, and cannot be written: {error}"
                host.post(Request(lambda turn: turn.transaction.add_error("grant-not-written", why)))
                return why
            try:
                await self._files.take_over()
            except RequestError as error:
                return f"{decided}; {error}"
        finally:
            self._writing.pop((host, run.eid), None)
            host.wake()
        return ""


def log_start(home: Home | None, runs: int, files: FilesInForce) -> None:
    """Log what a daemon starts on, with the number of runs under way, and what it has read."""
    place = home.path if home is not None else "memory"
    log.info("started on %s, with %s under way", place, counted(runs, "run"))
    _log(logging.INFO, "%s", first_loaded(files.followers.snapshot.libraries))
    _log(logging.INFO, "did not load: %s", files.faults)


def _log(level: int, message: str, news: Iterable[object]) -> None:
    """Log what is new about files, one line for each of the first entries."""
    lines = list(news)
    for line in lines[:MOST_LOGGED]:
        log.log(level, message, line)
    if len(lines) > MOST_LOGGED:
        log.log(level, "and so for %d files more", len(lines) - MOST_LOGGED)
