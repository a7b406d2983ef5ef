"""Hot files: what is dropped into a home, changed or removed takes effect while the daemon runs (N31).

    a notice -> 200 ms of quiet -> read and check, in a thread -> swap, in one turn

Whoever reads gets a whole: the library, the schemas, the settings, and all that is wrong with them, as they
are at one moment. Nothing happens when the contents are what they were.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from narval.errors import Fault, NarvalError
from narval.runtime.daemon.inbox import FOLDER, Inbox
from narval.runtime.home.home import Home
from narval.runtime.home.loader import Loaded, Loader
from narval.runtime.home.schemas import Schemas
from narval.runtime.home.settings import Settings, read_settings
from narval.runtime.system.file_events import Debounce, FileEvents

log = logging.getLogger("narval.files")

SETTLE = 0.2
"""Seconds of quiet before files are read: most programs write in several strokes."""

MOST = 5.0
"""Seconds after which they are read although they never rest."""

RESCAN = 30.0
"""Seconds between two looks where the system has no room to watch."""

PARTS = {"recipes": True, "modules": False, "etc": True, FOLDER: False}
"""The folders that are watched; True: with all that is below them."""


class Seen(NamedTuple):
    """What a home has at one moment; `settings` are None when they have faults."""

    loaded: Loaded
    schemas: Schemas
    settings: Settings | None
    faults: tuple[Fault, ...]

    def same(self, other: Seen) -> bool:
        """Whether nothing of it has changed."""
        return (
            self.loaded.files == other.loaded.files
            and self.schemas.digest == other.schemas.digest
            and self.settings == other.settings
            and self.faults == other.faults
        )


def look(home: Home, loader: Loader, before: Schemas) -> Seen:
    """Read and check all of a home's files that take effect while it is at work."""
    loaded = loader.load()
    schemas = Schemas(home.schemas, before)
    settings, faults = read_settings(home.path)
    return Seen(loaded, schemas, settings, tuple(sorted({*loaded.faults, *schemas.faults(), *faults})))


def differences(before: Loaded, after: Loaded) -> Iterator[str]:
    """What has changed between two libraries, a line for each file, for people."""
    old, new = ({each.path: each for each in loaded.files} for loaded in (before, after))
    for path, state in new.items():
        known = old.get(path)
        if known == state or state.error is not None:
            continue
        names = [f"{each.kind} {each.full_name}" for each in after.library if each.path == path]
        yield f"loaded {path}: {', '.join(names) or 'no definitions'}"
    for path in old:
        if path not in new:
            yield f"{path} is gone, and so are its definitions; runs that began with them keep them"


class FileWatcher:
    """Watches the files of a home, and has them read when they have been left alone for a moment."""

    def __init__(
        self,
        home: Path,
        read: Callable[[Callable[[], bool]], Awaitable[object]],
        rest: Callable[[], None],
        inbox: Inbox,
    ) -> None:
        self._read, self._rest, self._inbox = read, rest, inbox
        self._settling = Debounce(SETTLE, MOST)
        self._notices = FileEvents(home, PARTS, self._hear)
        self._degraded = False
        self._unread = True
        self._task = asyncio.get_running_loop().create_task(self._follow(), name="narval-hot-files")

    @property
    def busy(self) -> bool:
        """Whether something has changed, or may have, that has not been read or taken yet."""
        return self._unread or self._inbox.busy

    async def close(self) -> None:
        """Watch no more."""
        self._task.cancel()
        await asyncio.wait([self._task])
        await self._inbox.close()
        self._notices.close()

    def _hear(self, part: str) -> None:
        if part == FOLDER:
            self._inbox.hear()
        if part != FOLDER or self._notices.stale:
            self._unread = True
            self._settling.hear()

    async def _follow(self) -> None:
        at_rest = True
        while True:
            await self._look(at_rest)
            at_rest = await self._settling.quiet(RESCAN if self._degraded else None)
            self._unread = True

    async def _look(self, at_rest: bool) -> None:
        """First listen, then read: so nothing that changes in between is missed. What was read while files
        changed may be half of something: it counts only where they never rest.
        """
        try:
            await asyncio.to_thread(self._notices.arm)
            self._degraded = False
        except Exception as error:
            self._cannot_watch(error)
        self._inbox.hear()
        try:
            await self._read(lambda: not at_rest or self._settling.settled)
        except NarvalError as error:
            log.error("the files of the home were not read again: %s", error)
        except Exception:
            log.exception("the files of the home were not read again")
        self._unread = not self._settling.settled
        self._rest()

    def _cannot_watch(self, error: Exception) -> None:
        if not self._degraded:
            log.warning(
                "the files of the home cannot be watched (%s); they are looked through every %g s instead. "
                "Raise fs.inotify.max_user_watches or fs.inotify.max_user_instances to have changes at once",
                getattr(error, "strerror", None) or error,
                RESCAN,
            )
        self._degraded = True
