"""A watched folder: its files, what was reported of them, and the notices of the system (N36)."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import itertools
import json
import math
import os
import stat
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from lxml import etree

from narval import ActionError, Element
from narval.api import FolderWatch

from .places import UNWANTED, Stamp, absolute, error_element, file_element, opening, shown

SETTLE_SECONDS = 0.2
"""Seconds without changes after which a file is reported: most programs write in several steps."""
TOGETHER_SECONDS = 0.05
BURST = 4096
"""The most files that change at once; beyond that the whole folder is read: the kernel may have lost some."""
BATCH = 256
WHOLE = ""
"""The path, relative to the folder, of the folder itself."""


class Change(NamedTuple):
    """A change of a file; `path` and `origin` (of a move) are relative to the folder."""

    event: str
    path: str
    stamp: Stamp
    origin: str = ""


class Folder(NamedTuple):
    """The values of a `folder` element."""

    path: Path
    home: Path | None
    patterns: tuple[str, ...]
    recursive: bool
    settle: float
    digests: bool

    @classmethod
    def of(cls, element: Element, home: Path | None) -> Folder:
        """Parse the element; a relative path starts at the home."""
        attributes = element.attributes
        try:
            settle = float(attributes.get("settle", SETTLE_SECONDS))
        except ValueError:
            settle = -1.0
        if not 0.0 <= settle <= 3600.0:
            raise ActionError(
                f"expected settle to be seconds from 0 to 3600, got {attributes['settle']!r}", "bad-folder"
            )
        return cls(
            Path(os.path.abspath(absolute(attributes["path"], home))),
            home,
            tuple(attributes.get("pattern", "*").split()) or ("*",),
            attributes.get("recursive") == "yes",
            settle,
            attributes.get("sha256") == "yes",
        )

    def wants(self, name: str) -> bool:
        """True if a file of that name is wanted; as in a shell, a hidden one only if the pattern says so."""
        hidden = name.startswith(".")
        return any(
            fnmatchcase(name, pattern) for pattern in self.patterns if pattern.startswith(".") or not hidden
        )

    def shown(self, path: str = WHOLE) -> str:
        """A path in elements: relative to the home if it is inside, so that a home can be moved."""
        return shown(self.path / path, self.home)

    def told_at(self, home: Path | None) -> Path | None:
        """The path of the record of this folder."""
        asked = "\0".join((str(self.path), str(self.recursive), *self.patterns))
        digest = hashlib.sha256(os.fsencode(asked)).hexdigest()[:32]
        return home and home / "var" / "files" / f"{digest}.jsonl"

    def elements(self, changes: Iterable[Change]) -> list[etree._Element]:
        """The elements of changes; a file that was never reported is not reported as gone."""
        return [
            self._element(change)
            for change in changes
            if change.event != "deleted" or change.stamp.trouble not in NEVER_GIVEN
        ]

    def _element(self, change: Change) -> etree._Element:
        path, trouble = self.shown(change.path), change.stamp.trouble
        if trouble and change.event != "deleted":
            remedy = TROUBLE[trouble].format(_for_a_shell(change.path))
            return error_element(trouble, f"{path}: {remedy}", self.shown(), path)
        element = file_element(path, change.event, change.stamp, self.shown())
        if change.origin:
            element.set("from", self.shown(change.origin))
        if self.digests and change.event != "deleted":
            with contextlib.suppress(OSError, ActionError), opening(self.path / change.path) as file:
                element.set("sha256", _sha256(file))
        return element


def _sha256(file: BinaryIO) -> str:
    digest = hashlib.sha256()
    while chunk := file.read(1 << 20):
        digest.update(chunk)
    return digest.hexdigest()


TROUBLE = {
    "unreadable-file": "it may not be read; give narval the right to",
    "unnameable-file": "its name cannot be written in XML; rename it, in a shell it is {}",
    "unreadable-folder": "it may not be looked into; give narval the right to",
}
NEVER_GIVEN = ("unnameable-file", "unreadable-folder")


def _for_a_shell(path: str) -> str:
    """A file's name as a shell accepts it, whatever its bytes are."""
    name = os.fsencode(os.path.basename(path))
    plain = (chr(byte) if 32 <= byte < 127 and byte not in b"\\'" else f"\\x{byte:02x}" for byte in name)
    return f"$'{''.join(plain)}'"


def look(folder: Folder, before: dict[str, Stamp], dirty: dict[str, bool]) -> list[Change]:
    """The changes at the given paths since their last known state; True for a path that is a folder.

    If the whole folder is missing, nothing is reported about its files: a disk may have been unplugged.
    """
    stamps: dict[str, Stamp] = {}
    doubtful: set[str] = set()
    for path, is_folder in dirty.items():
        hidden = any(part.startswith(".") for part in path.split(os.sep)[: None if is_folder else -1])
        if hidden or (path == WHOLE and not folder.path.is_dir()):
            continue
        doubtful.add(path)
        if is_folder:
            below = path and path + os.sep
            doubtful.update(name for name in before if name.startswith(below))
            if path == WHOLE or folder.recursive:
                stamps.update(_listed(folder, path))
        else:
            stamps.update(_seen(folder, path, os.path.basename(path)))
    lost = {path: before[path] for path in doubtful if path in before and path not in stamps}
    return [*_appeared(stamps, before, lost), *(Change("deleted", path, lost[path]) for path in sorted(lost))]


def _appeared(stamps: dict[str, Stamp], known: dict[str, Stamp], lost: dict[str, Stamp]) -> Iterator[Change]:
    """The files that are new or changed; one that was lost elsewhere at the same time has moved."""
    origins = {stamp.who: path for path, stamp in lost.items() if not stamp.trouble}
    for path, stamp in sorted(stamps.items()):
        before = known.get(path)
        origin = origins.pop(stamp.who, "") if before is None else ""
        if origin:
            del lost[origin]
            yield Change("moved", path, stamp, origin)
        elif before is None or not before.same(stamp):
            yield Change("created" if before is None or before.trouble else "modified", path, stamp)


def _listed(folder: Folder, path: str) -> Iterator[tuple[str, Stamp]]:
    """The files in and, if requested, below one folder; symbolic links are neither followed nor reported."""
    waiting = [path]
    while waiting:
        below = waiting.pop()
        try:
            with os.scandir(folder.path / below) as entries:
                names = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError:
            yield below, Stamp(0, 0, 0, 0, "unreadable-folder")
            continue
        for name, is_folder in names:
            if not is_folder:
                yield from _seen(folder, os.path.join(below, name), name)
            elif folder.recursive and not name.startswith("."):
                waiting.append(os.path.join(below, name))


def _seen(folder: Folder, path: str, name: str) -> Iterator[tuple[str, Stamp]]:
    """The current state of a file, if it exists and is wanted."""
    if not folder.wants(name):
        return
    try:
        now = os.lstat(folder.path / path)
        may_read = os.access(folder.path / path, os.R_OK)
    except OSError:
        return
    if stat.S_ISREG(now.st_mode):
        trouble = "unnameable-file" if UNWANTED.search(path) else "" if may_read else "unreadable-file"
        yield path, Stamp(now.st_size, now.st_mtime_ns, now.st_ctime_ns, now.st_ino, trouble)


# --- what was reported ----------------------------------------------------------------------------------


class Told:
    """A record of a folder's files: a line for every change in `var/files/DIGEST.jsonl`, the last one wins.

    It lets a new start report only changes since. A line is written after its element was recorded; a change
    whose line is lost in between is reported again, with the same `stamp`, and dropped (N37).
    """

    def __init__(self, path: Path | None) -> None:
        self.known: dict[str, Stamp] = {}
        self._path = path
        if path is not None:
            with contextlib.suppress(OSError):
                lines = path.read_text("ascii", "replace").splitlines()
                for line in lines:
                    self._take(line)
                if len(lines) > 2 * len(self.known) + BATCH:
                    self._shorten(path)

    def record(self, changes: Iterable[Change]) -> None:
        """Record what was reported."""
        lines: list[tuple[Any, ...]] = []
        for change in changes:
            if change.event == "deleted" or change.origin:
                self.known.pop(change.origin or change.path, None)
                lines.append((change.origin or change.path,))
            if change.event != "deleted":
                self.known[change.path] = change.stamp
                lines.append((change.path, *change.stamp))
        # What cannot be stored is reported again after the next start: no reason to stop.
        with contextlib.suppress(OSError):
            self._write(lines)

    def _write(self, lines: list[tuple[Any, ...]]) -> None:
        if self._path is not None:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self._path.open("a", encoding="ascii") as file:
                file.write("".join(json.dumps(line) + "\n" for line in lines))

    def _take(self, line: str) -> None:
        # A killed daemon may have written half a line.
        with contextlib.suppress(ValueError, TypeError):
            path, *stamp = json.loads(line)
            if stamp:
                size, modified, changed, inode, trouble = stamp
                self.known[path] = Stamp(int(size), int(modified), int(changed), int(inode), str(trouble))
            else:
                self.known.pop(path, None)

    def _shorten(self, path: Path) -> None:
        fresh = path.with_suffix(".new")
        fresh.write_text(
            "".join(json.dumps((path, *stamp)) + "\n" for path, stamp in self.known.items()), "ascii"
        )
        fresh.replace(path)


# --- notices --------------------------------------------------------------------------------------------


class Notices:
    """The paths of a folder that the system reports as changed, once they have rested for a moment."""

    def __init__(self, folder: Path, settle: float, *, recursive: bool = False) -> None:
        self._folder, self._settle, self._recursive = folder, settle, recursive
        self._due: dict[str, float] = {}  # a repeated path goes to the end: the first is due first
        self._is_folder: dict[str, bool] = {}
        self._news = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._watch: FolderWatch | None = None
        self._nearest: Path | None = None
        self._stale = False

    async def quiet(self) -> dict[str, bool]:
        """Wait for paths that changed and have settled; True for those that are or were folders.

        Paths that settle a moment after the first are returned with it: the two ends of a move belong
        together.
        """
        while not self._is_past(ripe := next(iter(self._due.values()), math.inf) + TOGETHER_SECONDS):
            self._news.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(ripe):
                    await self._news.wait()
        ready = list(itertools.takewhile(lambda path: self._is_past(self._due[path]), self._due))
        for path in ready:
            del self._due[path]
        return {path: self._is_folder.pop(path) for path in ready}

    def _is_past(self, moment: float) -> bool:
        return moment <= self._loop.time()

    def arm(self) -> bool:
        """Watch the folder, or the nearest existing one above it; True if that is another than before.

        The folder above is watched as well: only its watch reports that the folder was renamed.
        """
        armed = False
        while True:
            stale, self._stale = self._stale, False
            nearest = next(folder for folder in (self._folder, *self._folder.parents) if folder.is_dir())
            if nearest == self._nearest and not stale:
                return armed
            armed = True
            self.close()
            self._nearest, self._watch = nearest, FolderWatch()
            try:
                self._watch.add(nearest, self._notice, deep=self._recursive and nearest == self._folder)
            except FileNotFoundError:
                self._stale = True
                continue
            with contextlib.suppress(OSError):
                self._watch.add(nearest.parent, self._notice)

    def close(self) -> None:
        """Stop listening."""
        if self._watch is not None:
            self._watch.close()

    def _notice(self, is_folder: bool, paths: tuple[str, ...]) -> None:
        """Pass on a change, in the thread of the watch."""
        with contextlib.suppress(RuntimeError):  # the loop has just been closed
            self._loop.call_soon_threadsafe(self._hear, is_folder, paths)

    def _hear(self, is_folder: bool, paths: tuple[str, ...]) -> None:
        root = str(self._folder)
        due = self._loop.time() + self._settle
        for path in paths:
            if path.startswith(root + os.sep):
                self._mark(path[len(root) + 1 :], is_folder, due)
            elif path == root or root.startswith(path.rstrip(os.sep) + os.sep):
                self._stale = True
                self._mark(WHOLE, True, due)

    def _mark(self, path: str, is_folder: bool, due: float) -> None:
        if len(self._due) >= BURST:
            self._due, self._is_folder = {}, {}
            path, is_folder = WHOLE, True
        self._is_folder[path] = is_folder or self._is_folder.get(path, False)
        self._due.pop(path, None)
        self._due[path] = due
        self._news.set()
