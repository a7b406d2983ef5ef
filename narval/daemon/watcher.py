"""The watcher: added, changed and removed files of a home take effect while the daemon runs (N31).

    file event -> 200 ms of quiet -> read and check, in a thread -> swap, in one turn

The files are read as a whole: the library, the schemas, the settings, and all their faults, as of one moment.
Nothing happens when the contents are unchanged.
"""

from __future__ import annotations

import asyncio
import logging
import os
from contextlib import suppress
from itertools import chain
from pathlib import Path

from narval.core.errors import NarvalError
from narval.daemon.agents.agent_host import AgentHost
from narval.daemon.agents.agents import Agents
from narval.daemon.dropped.drop_folder import FOLDER
from narval.daemon.dropped.inbox import Inboxes
from narval.daemon.dropped.work_folders import WorkFolders
from narval.daemon.reload import Reloader
from narval.files.agents.collections import AGENTS
from narval.files.agents.settings import COLLECTIONS
from narval.files.memory_file import SHOWN as MEMORY
from narval.people.files import WORK_FOLDER
from narval.system.clock import Clock
from narval.system.file_events import Debounce, FileEvents

log = logging.getLogger("narval.files")

SETTLE = 0.2
"""Seconds of quiet before files are read: most programs write in several steps."""

MOST = 5.0
"""Seconds after which files are read even if they keep changing."""

RESCAN = 30.0
"""Seconds between two scans if the system has no room to watch."""

DATA = "data"
"""The folder of which only one file is read, while runs may write others."""

PARTS = {
    "recipes": True,
    "modules": True,
    "etc": True,
    DATA: False,
    AGENTS: True,
    COLLECTIONS: True,
    FOLDER: True,
    WORK_FOLDER: True,
}
"""The watched folders; True: with all folders below them."""


class FileWatcher:
    """Watches the files of a home, and has them read after a moment without changes.

    `host` is woken when nothing is left to read.
    """

    def __init__(self, home: Path, host: AgentHost, reloader: Reloader, agents: Agents, clock: Clock) -> None:
        self._host, self._reloader, files = host, reloader, reloader.files
        self._inboxes = Inboxes(home, host, files, agents)
        self._work = WorkFolders(home, host, clock, durable=files.settings.durability == "power")
        self._settling = Debounce(SETTLE, MOST)
        self._events = FileEvents(home, PARTS, self._on_change)
        self._degraded = False
        self._memory_file = home / MEMORY
        self._memory_version = _version(self._memory_file)
        self._is_read = asyncio.Event()
        """Set while no file has changed since the last reading."""
        self._task = asyncio.get_running_loop().create_task(self._follow(), name="narval-files")

    def is_busy(self) -> bool:
        """True if a change, or a possible one, has not been read or added yet."""
        return not self._is_read.is_set() or self._inboxes.is_busy or self._work.is_busy

    async def read(self, within: float) -> None:
        """Wait until changed files are read, at most `within` seconds."""
        if not self._is_read.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(within):
                    await self._is_read.wait()

    @property
    def untaken(self) -> list[str]:
        """The reasons why dropped files cannot be taken at present, one sentence each."""
        return list(chain(*self._inboxes.untaken.values(), *self._work.untaken.values()))

    async def close(self) -> None:
        """Stop watching."""
        self._task.cancel()
        await asyncio.wait([self._task])
        await self._inboxes.close()
        await self._work.close()
        self._events.close()

    def _on_change(self, part: str) -> None:
        if part in (FOLDER, AGENTS):
            self._inboxes.look()
        if part == WORK_FOLDER:
            self._work.look()
        if self._may_be_read(part) or self._events.stale:
            self._is_read.clear()
            self._settling.notice()

    def _may_be_read(self, part: str) -> bool:
        """True if a change in a part of the home may concern a file that is read."""
        if part != DATA:
            return part not in (FOLDER, WORK_FOLDER)
        before, self._memory_version = self._memory_version, _version(self._memory_file)
        return self._memory_version != before

    async def _follow(self) -> None:
        at_rest = True
        while True:
            await self._look(at_rest)
            at_rest = await self._settling.quiet(RESCAN if self._degraded else None)
            self._is_read.clear()

    async def _look(self, at_rest: bool) -> None:
        """Watch first, then read, so that no change in between is missed. Files read while they changed may
        be incomplete; they are used only if the files never stop changing.
        """
        try:
            await asyncio.to_thread(self._events.arm)
            self._degraded = False
        except Exception as error:
            self._cannot_watch(error)
        self._inboxes.look()
        self._work.look()
        try:
            if await self._reloader.reload(lambda: not at_rest or self._settling.settled):
                self._inboxes.look()  # for the inbox of an agent that was just added
        except NarvalError as error:
            log.error("the files of the home were not read again: %s", error)
        except Exception:
            log.exception("the files of the home were not read again")
        if self._settling.settled:
            self._is_read.set()
        self._host.wake()

    def _cannot_watch(self, error: Exception) -> None:
        if not self._degraded:
            log.warning(
                "the files of the home cannot be watched (%s); they are looked through every %g s instead. "
                "Raise fs.inotify.max_user_watches or fs.inotify.max_user_instances to have changes at once",
                getattr(error, "strerror", None) or error,
                RESCAN,
            )
        self._degraded = True


def _version(path: Path) -> tuple[int, ...] | None:
    """The version of a file, which differs after each change; None if it cannot be found."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
