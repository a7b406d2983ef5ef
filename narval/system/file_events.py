"""Events of changed files in the folders of a home, as the system reports them; nothing is polled (N31).

An event only means that the files should be checked. The change is found by reading, so it does not matter in
how many steps, or by which renames, an editor saves. Two facts that no event reports are found in other ways:
the system's queue overflowed (everything may have changed), and a folder was replaced by another (it is
watched again).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

log = logging.getLogger("narval.notices")

_OVERFLOW = "overflow"
_WATCHDOG = "watchdog.observers.inotify_c"

_FILE_EVENTS = (
    "FileCreatedEvent", "FileModifiedEvent", "FileAttribEvent", "FileClosedEvent", "FileMovedEvent",
    "FileDeletedEvent",
)  # fmt: skip
"""The file events that count: not opening a file, nor closing it unwritten, which a read causes."""

_FOLDER_EVENTS = ("DirCreatedEvent", "DirMovedEvent", "DirDeletedEvent", "DirAttribEvent")

_SILENCE = logging.NullHandler()
"""A handler that drops warnings of watchdog, which Python would otherwise write to standard error."""


class FolderWatch:
    """Watches folders until it is closed: `add` each of them. Making one and adding may block, so not in the
    event loop.

    An event only means that the folder should be checked. A change may come as several events, and events may
    be lost if very many come at once.
    """

    def __init__(self) -> None:
        from watchdog.observers import Observer  # here because few programs watch folders

        logging.getLogger("watchdog").addHandler(_SILENCE)
        warnings.filterwarnings("ignore", "Callback with id", RuntimeWarning)  # about folders made just now
        self._observer = Observer()
        self._observer.start()

    def add(
        self,
        folder: Path,
        hear: Callable[[bool, tuple[str, ...]], None],
        *,
        deep: bool = False,
        files: bool = True,
    ) -> None:
        """Call `hear` for each change in a folder, with `deep` also in the folders below it; without `files`
        only for changes of folders in it. It is called in a thread of its own: `hear(is_folder, paths)`, with
        one path, or two for a move.

        Raises FileNotFoundError or NotADirectoryError if there is no folder, and another OSError if the
        system's limit of watches is reached.
        """
        from watchdog import events

        counted = [getattr(events, name) for name in (*(_FILE_EVENTS if files else ()), *_FOLDER_EVENTS)]
        listener: Any = _Listener(hear)
        self._observer.schedule(listener, os.fspath(folder), recursive=deep, event_filter=counted)

    def close(self, *, wait: bool = False) -> None:
        """Stop watching; with `wait`, no more calls are made after this returns."""
        self._observer.stop()
        if wait:
            self._observer.join()


class _Listener:
    """Takes the events of one folder from watchdog."""

    def __init__(self, hear: Callable[[bool, tuple[str, ...]], None]) -> None:
        self._hear = hear

    def dispatch(self, event: Any) -> None:
        """Handle an event; watchdog calls this in a thread of its own."""
        self._hear(event.is_directory, tuple(filter(None, (event.src_path, event.dest_path))))


class _WatchedFolder(NamedTuple):
    """A folder to watch: its identity now, and the part of the home that it belongs to."""

    path: str
    device: int
    inode: int
    part: str
    deep: bool


class FileEvents:
    """Watches the `parts` of a folder; parts with True include all folders below them.

    `changed` is called with the name of a part, on the loop's thread, soon after a change in it.
    """

    def __init__(self, root: Path, parts: Mapping[str, bool], changed: Callable[[str], None]) -> None:
        self._root, self._parts, self._changed = root, parts, changed
        self._loop = asyncio.get_running_loop()
        self._watch: FolderWatch | None = None
        self._armed: frozenset[_WatchedFolder] = frozenset()
        self.stale = False
        """True if folders have appeared or disappeared: then `arm` has work to do."""
        self._posted: set[str] = set()
        self._overflows = _Overflows(self._overflowed)

    def arm(self) -> None:
        """Watch the folders that exist now. Call it outside the loop's thread: it may take a while.

        Raises OSError if the system has no room for the watches; then nothing is watched.
        """
        while True:
            stale, self.stale = self.stale, False
            places = frozenset(self._places())
            if places == self._armed and not stale:
                return
            self.close()
            try:
                self._listen(places)
            except (FileNotFoundError, NotADirectoryError):  # it has just disappeared: check again
                self.stale = True
                continue
            except BaseException:
                self.close()
                raise
            self._armed = places

    def close(self) -> None:
        """Stop watching."""
        watch, self._watch, self._armed = self._watch, None, frozenset()
        logging.getLogger(_WATCHDOG).removeHandler(self._overflows)
        if watch is not None:
            watch.close()

    def _listen(self, places: frozenset[_WatchedFolder]) -> None:
        logging.getLogger(_WATCHDOG).addHandler(self._overflows)
        self._watch = FolderWatch()
        for place in places:
            self._watch.add(Path(place.path), partial(self._notice, place), deep=place.deep)

    def _places(self) -> Iterator[_WatchedFolder]:
        """The home itself, whose folders appear and disappear; each part; the targets of links in a part."""
        folders = {(_resolved(self._root), ""): False}
        links: dict[tuple[Path, str], bool] = {}
        for part, deep in self._parts.items():
            folder = _resolved(self._root / part)
            folders[folder, part] = deep
            links |= {(_resolved(link).parent, part): False for link in _links(folder, deep=deep)}
        for (path, part), deep in (links | folders).items():
            with contextlib.suppress(OSError):
                status = path.stat()
                if path.is_dir():
                    yield _WatchedFolder(str(path), status.st_dev, status.st_ino, part, deep)

    # --- on the thread of the watch -------------------------------------------------------------------

    def _notice(self, place: _WatchedFolder, is_folder: bool, paths: tuple[str, ...]) -> None:
        """Handle an event of a folder."""
        if place.part:
            self.stale = self.stale or is_folder
            self._post(place.part)
            return
        names = {Path(path).relative_to(place.path).parts[:1] for path in paths if _below(path, place.path)}
        for name in (parts[0] for parts in names if parts):
            if name in self._parts:
                self.stale = True
                self._post(name)

    def _overflowed(self) -> None:
        log.warning("changes of files came faster than the system can tell; everything is read again")
        self.stale = True
        for part in self._parts:
            self._post(part)

    def _post(self, part: str) -> None:
        if part in self._posted:
            return
        self._posted.add(part)
        with contextlib.suppress(RuntimeError):  # the loop has just been closed
            self._loop.call_soon_threadsafe(self._pass_on, part)

    def _pass_on(self, part: str) -> None:
        self._posted.discard(part)
        self._changed(part)


class _Overflows(logging.Handler):
    """Detects lost events, which watchdog only writes to its log."""

    def __init__(self, tell: Callable[[], None]) -> None:
        super().__init__(logging.WARNING)
        self._tell = tell

    def emit(self, record: logging.LogRecord) -> None:
        """Check a line of watchdog's log."""
        if _OVERFLOW in record.getMessage():
            self._tell()


class Debounce:
    """Waits until nothing has happened for `settle` seconds, but for at most `most` seconds."""

    def __init__(self, settle: float, most: float) -> None:
        self._settle, self._most = settle, most
        self._news = asyncio.Event()

    def notice(self) -> None:
        """Record that something happened."""
        self._news.set()

    @property
    def settled(self) -> bool:
        """True if nothing has happened since the last wait."""
        return not self._news.is_set()

    async def quiet(self, within: float | None = None) -> bool:
        """Wait for something to happen, at most `within` seconds, and then until it has settled; return False
        if it did not settle in time.
        """
        try:
            async with asyncio.timeout(within):
                await self._news.wait()
        except TimeoutError:
            return True
        clock = asyncio.get_running_loop().time
        end = clock() + self._most
        while (left := end - clock()) > 0:
            self._news.clear()
            try:
                async with asyncio.timeout(min(self._settle, left)):
                    await self._news.wait()
            except TimeoutError:
                if left > self._settle:
                    return True
        self._news.clear()
        return False


def _resolved(path: Path) -> Path:
    """The target of a path; for links in a circle, some path on it."""
    return Path(os.path.realpath(path))


def _below(path: str, folder: str) -> bool:
    return path.startswith(folder.rstrip(os.sep) + os.sep)


def _links(folder: Path, *, deep: bool) -> Iterator[Path]:
    """The links to files in a folder."""
    for at, folders, names in os.walk(folder):
        if not deep:
            folders.clear()
        yield from (path for name in names if (path := Path(at, name)).is_symlink())
