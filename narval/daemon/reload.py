"""Reload: reads the files of a home again, and activates them for the active agents (N31)."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from narval.agent.turn import Turn
from narval.core.definitions.library import Definition, Parsed
from narval.core.definitions.telling.sentence import counted
from narval.core.errors import DefinitionError, Fault, NarvalError, RequestError
from narval.core.source.text import Source
from narval.daemon.agents.agent_host import AgentHost, outside_context
from narval.daemon.files_in_force import FilesInForce
from narval.files.found_files import ModuleText
from narval.files.home import Home
from narval.files.loaded import Loaded
from narval.files.proposals.altering import altering
from narval.files.reading import Reading
from narval.files.snapshot import Snapshot, first_loaded
from narval.system.long_work import LoneThread
from narval.system.regular_file import unexpected

if TYPE_CHECKING:  # a store of one daemon has none
    from narval.daemon.fleet.shared_files import WantedFiles

log = logging.getLogger("narval.daemon")

Answer = TypeVar("Answer")

MOST_LOGGED = 200
"""The most log lines about one change of the files: many thousands would delay other work."""

LONG = 30.0
"""Seconds after which a reading that does not end is reported."""


class Reloader:
    """Reloads the files of a home and activates them; `files` are the active ones.

    They are read in a thread that the end of the daemon does not wait for: an imported module may never end.
    `home` is None if there are no files. Definitions added by `load` are kept across reloads.
    """

    def __init__(self, home: Home | None, files: FilesInForce, host: AgentHost) -> None:
        self.files = files
        self._home, self._host = home, host
        self._added: list[str | Path | ModuleText] = []
        self._alone = asyncio.Lock()
        """Held while something is read or activated."""
        self.hangs = asyncio.Event()
        """Set while a reading does not end."""
        self._left: set[asyncio.Task[bool]] = set()
        """The readings that are no longer waited for."""
        self._wanted: WantedFiles | None = None
        """The collections of the store that are read with the files of the home; None if daemons share no
        store.
        """

    def want(self, files: WantedFiles) -> None:
        """Read these collections of the store with the files of the home, from the next reading on."""
        self._wanted = files

    async def load(self, text: str | Path | ModuleText) -> None:
        """Add the definitions of a file, or of a text, to the library. Raises DefinitionError."""
        loaded = self.files.loaded.with_definitions(text)
        self._added.append(text)
        await self._use(loaded)

    async def load_parsed(self, source: Source, parsed: Parsed) -> tuple[Definition, ...]:
        """Add the parsed definitions of a text to the library, and return them. Raises DefinitionError."""
        await self._use(self.files.loaded.with_parsed(source, parsed))
        return parsed.definitions

    async def _use(self, loaded: Loaded) -> None:
        """Activate other definitions for the home's own agent, and for those that follow the same files."""
        self.files.use(loaded)
        await self._host.submit(partial(self.files.apply_in_turn, self._host))

    async def reload(
        self, is_settled: Callable[[], bool] = lambda: True, first: Callable[[], None] = lambda: None
    ) -> bool:
        """Read the home again, and activate in one turn what has changed; True if anything has.

        The result is dropped unless `is_settled` returns True after everything is read. `first` runs before
        that, in the thread that reads, while nothing else does.
        """
        if self._home is None:
            return False
        async with self._alone:
            before = self.files.snapshot
            files = await self._read_beside(self._home, before, first)
            if files.state == before.state or not is_settled():
                return False
            with outside_context():
                await self._host.submit(partial(self._adopt, files))
                for on_change in self.files.on_change:
                    await on_change()
            return True

    async def alter(self, home: Home, what: str, alter: Callable[[], Answer]) -> Answer:
        """Alter files in a thread, one alteration at a time, for `what`, and activate them; return the result
        of `alter`.

        Raises what `alter` raises, and RequestError if a file cannot be written, or is not read afterwards.
        """
        try:
            answer = await altered(home, alter)
        except OSError as error:
            raise RequestError(f"{what} cannot be written: {error.strerror}") from None
        await self.take_over()
        return answer

    async def take_over(self) -> None:
        """Activate what was written. Raises RequestError if reading fails, or does not end; then it is
        activated when that has ended.
        """
        reading = asyncio.create_task(self.reload())
        hanging = asyncio.create_task(self.hangs.wait())
        try:
            await asyncio.wait((reading, hanging), return_when=asyncio.FIRST_COMPLETED)
            if reading.done():
                reading.result()
                return
            self._left.add(reading)
            reading.add_done_callback(self._leave)
        except (OSError, NarvalError) as error:
            raise RequestError(f"it is written, and is not active yet: {error}") from error
        except asyncio.CancelledError:
            reading.cancel()
            raise
        finally:
            hanging.cancel()
        why = next(iter(self.files.unread), "the files are still being read")
        raise RequestError(f"it is written, and is not active yet: {why}")

    def _leave(self, reading: asyncio.Task[bool]) -> None:
        """Log why a reading that was no longer waited for has failed, if it has."""
        self._left.discard(reading)
        if not reading.cancelled() and (error := reading.exception()) is not None:
            log.error("what was read is not active: %s", error)

    async def _read_beside(self, home: Home, before: Snapshot, first: Callable[[], None]) -> Snapshot:
        """The present files. A reading that fails, or does not end, is a fault."""
        reading = LoneThread(partial(self._read, home, before, first), "narval-files")
        timer = asyncio.get_running_loop().call_later(LONG, self._note_hanging, home, reading)
        try:
            files = await reading.done
        except Exception as error:
            where, is_told = str(home.path), isinstance(error, NarvalError)
            self.files.note_unread(Fault(where, 1, 1, str(error)) if is_told else unexpected(where, error))
            raise
        finally:
            timer.cancel()
            self.hangs.clear()
        self.files.note_unread()
        return files

    def _note_hanging(self, home: Home, reading: LoneThread[Snapshot]) -> None:
        """Note that a reading does not end, and its place in a file of the home."""
        stack = reversed(reading.stack())
        frame = next((frame for frame in stack if Path(frame.filename).is_relative_to(home.path)), None)
        waits = "no file is read again before that ends"
        if frame is not None:
            message = (
                f"reading has been here for {LONG:g} s, and {waits}; correct it, and start the daemon again"
            )
            fault = Fault(os.path.relpath(frame.filename, home.path), frame.lineno or 1, 1, message)
        else:
            message = f"reading the files has taken {LONG:g} s so far, and {waits}"
            busy = "the machine, or the daemon, is busy: `narval attention` says with what"
            fault = Fault(str(home.path), 1, 1, f"{message}; {busy}")
        self.files.note_unread(fault)
        log.error("%s", fault)
        self.hangs.set()

    def _read(self, home: Home, before: Snapshot, first: Callable[[], None]) -> Snapshot:
        first()
        reading, files_to_follow = Reading(home.path, before), self._wanted
        files = reading.snapshot()
        if files_to_follow is None:
            return files
        from narval.daemon.fleet.shared_files import with_shared

        return with_shared(home.path, files, reading, before, files_to_follow)

    def _adopt(self, files: Snapshot, turn: Turn) -> None:
        """Activate the files that were read."""
        groups_of = {loaded.follows: loaded.kept for loaded in self.files.snapshot.libraries}
        files = files.with_libraries(
            lambda loaded: loaded.keeping(groups_of.get(loaded.follows, frozenset()))
        )
        own = with_added = files.own.loaded
        for text in self._added:
            with suppress(DefinitionError):
                with_added = with_added.with_definitions(text)
        files = files.with_libraries(lambda loaded: with_added if loaded is own else loaded)
        changed = self.files.replace(files, self._host, turn)
        _log(logging.INFO, "%s", changed.files)
        _log(logging.WARNING, "fault in %s", changed.faults)
        _log(logging.INFO, "%s no longer has faults", changed.mended)


async def altered(home: Home, alter: Callable[[], Answer]) -> Answer:
    """Alter files of a home in a thread, one alteration at a time. Raises what `alter` raises."""

    def alone() -> Answer:
        with altering(home.path):
            return alter()

    return await asyncio.to_thread(alone)


def log_start(home: Home | None, runs: int, files: FilesInForce) -> None:
    """Log the place of a daemon, the number of runs under way, and the files that it has read."""
    place = home.path if home is not None else "memory"
    log.info("started on %s, with %s under way", place, counted(runs, "run"))
    _log(logging.INFO, "%s", first_loaded(files.snapshot.libraries))
    _log(logging.INFO, "fault in %s", files.faults)


def _log(level: int, message: str, news: Iterable[object]) -> None:
    """Log news about files, one line for each of the first entries."""
    lines = list(news)
    for line in lines[:MOST_LOGGED]:
        log.log(level, message, line)
    if len(lines) > MOST_LOGGED:
        log.log(level, "and so for %d files more", len(lines) - MOST_LOGGED)
