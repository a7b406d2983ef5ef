"""Files: a folder that is watched, and what is done with a single file (N36, N37; the page is docs/files.md).

`watch` tells of the files of `<folder path="…"/>` as `<file path="…" event="…"/>` elements: those that are
there, then each that is created, modified, moved or deleted, also while no daemon ran. The other actions take
such elements. They reach no further than the home, or the folder that the element names. The sections:
watching, what was told, notices, single files, places.
"""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import errno
import hashlib
import importlib
import itertools
import json
import math
import os
import re
import shutil
import stat
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from lxml import etree

from narval import ActionError, Element, Input, Output, action, call

SETTLE_SECONDS = 0.2
"""A file is told of once it has been left alone for this long: most programs write in several strokes."""
TOGETHER_SECONDS = 0.05
BURST = 4096
"""When more files change at once the whole folder is looked through: the kernel may have dropped notices."""
BATCH = 256
MAX_TEXT = 8 * 1024 * 1024
WHOLE = ""
"""The path, from the folder, of the folder itself."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

FOLDER = Input("folder", "folder[@path]")
FILES = Output(
    "files",
    "file[@path and @event]",
    list=True,
    optional=True,
    unique="concat(@path,' ',@stamp,' ',@event='deleted')",
)
TROUBLES = Output("troubles", "error[@folder]", list=True, optional=True)
"""Declared, so that a file nobody may read does not end a source that goes on."""


# --- watching -------------------------------------------------------------------------------------------


@action(
    source=True,
    inputs=[FOLDER],
    outputs=[FILES, TROUBLES],
    description="The files of a folder, as they change.",
)
async def watch(folder: Element) -> AsyncIterator[list[etree._Element]]:
    """Tell of the files of a folder, then of each change; by notices of the system, nothing is polled."""
    here = call()
    wanted = Folder.of(folder, here.home)
    told = await asyncio.to_thread(Told, wanted.told_at(here.home))
    was_there, caught_up = True, False
    notices = Notices(wanted.path, wanted.settle, recursive=wanted.recursive)
    try:
        while True:
            dirty = await notices.quiet() if caught_up else {WHOLE: True}
            if await asyncio.to_thread(notices.arm):
                dirty |= {WHOLE: True}
            is_there = await asyncio.to_thread(wanted.path.is_dir)
            if was_there and not is_there:
                missing = f"{wanted.path}: it is not there; waiting for it"
                yield [_error("no-such-folder", missing, wanted.shown())]
            was_there = is_there
            changes = await asyncio.to_thread(look, wanted, told.known, dirty)
            for start in range(0, len(changes), BATCH):
                batch = changes[start : start + BATCH]
                elements = await asyncio.to_thread(wanted.elements, batch)
                if elements:
                    yield elements
                await asyncio.to_thread(told.record, batch)
            if not caught_up:
                here.caught_up()
                caught_up = True
    finally:
        notices.close()


class Stamp(NamedTuple):
    """How a file was when it was looked at: bytes, nanoseconds since 1970, and why it cannot be given."""

    size: int
    modified: int
    changed: int
    inode: int
    trouble: str = ""

    @property
    def who(self) -> tuple[int, int, int]:
        """What stays when a file is renamed."""
        return self.inode, self.size, self.modified

    def same(self, other: Stamp) -> bool:
        """Whether the file can be taken to say what it said; a new inode alone is a restored backup."""
        return (self.size, self.modified, self.trouble) == (other.size, other.modified, other.trouble)


class Change(NamedTuple):
    """What happened to a file; `path` and `origin` (of a move) are from the folder."""

    event: str
    path: str
    stamp: Stamp
    origin: str = ""


class Folder(NamedTuple):
    """What a `folder` element asks for."""

    path: Path
    home: Path | None
    patterns: tuple[str, ...]
    recursive: bool
    settle: float
    digests: bool

    @classmethod
    def of(cls, element: Element, home: Path | None) -> Folder:
        """Read the element; a relative path is from the home."""
        given = element.attributes
        try:
            settle = float(given.get("settle", SETTLE_SECONDS))
        except ValueError:
            settle = -1.0
        if not 0.0 <= settle <= 3600.0:
            raise ActionError(
                f"expected settle to be seconds from 0 to 3600, got {given['settle']!r}", "bad-folder"
            )
        return cls(
            Path(os.path.abspath(_absolute(given["path"], home))),
            home,
            tuple(given.get("pattern", "*").split()) or ("*",),
            given.get("recursive") == "yes",
            settle,
            given.get("sha256") == "yes",
        )

    def wants(self, name: str) -> bool:
        """Whether a file of that name is meant; as in a shell, a hidden one only when the pattern says so."""
        hidden = name.startswith(".")
        return any(fnmatchcase(name, each) for each in self.patterns if each.startswith(".") or not hidden)

    def shown(self, path: str = WHOLE) -> str:
        """A path as elements carry it: from the home where it is inside, so that a home can be moved."""
        return _shown(self.path / path, self.home)

    def told_at(self, home: Path | None) -> Path | None:
        """Where it is kept what was told of this folder."""
        asked = "\0".join((str(self.path), str(self.recursive), *self.patterns))
        digest = hashlib.sha256(os.fsencode(asked)).hexdigest()[:32]
        return home and home / "var" / "files" / f"{digest}.jsonl"

    def elements(self, changes: Iterable[Change]) -> list[etree._Element]:
        """What memory is told of changes; what could never be given is not told to be gone."""
        told = [each for each in changes if each.event != "deleted" or each.stamp.trouble not in NEVER_GIVEN]
        return [self._element(change) for change in told]

    def _element(self, change: Change) -> etree._Element:
        path, trouble = self.shown(change.path), change.stamp.trouble
        if trouble and change.event != "deleted":
            return _error(trouble, f"{path}: {TROUBLE[trouble]}", self.shown(), path)
        element = _file(path, change.event, change.stamp, self.shown())
        if change.origin:
            element.set("from", self.shown(change.origin))
        if self.digests and change.event != "deleted":
            with contextlib.suppress(OSError, ActionError), _opened(self.path / change.path) as file:
                element.set("sha256", _sha256(file))
        return element


def _sha256(file: BinaryIO) -> str:
    digest = hashlib.sha256()
    while chunk := file.read(1 << 20):
        digest.update(chunk)
    return digest.hexdigest()


TROUBLE = {
    "unreadable-file": "it may not be read; give narval the right to",
    "unnameable-file": "its name cannot be written in XML; rename it",
    "unreadable-folder": "it may not be looked into; give narval the right to",
}
NEVER_GIVEN = ("unnameable-file", "unreadable-folder")


def look(folder: Folder, known: dict[str, Stamp], dirty: dict[str, bool]) -> list[Change]:
    """How the files differ from what is known of them, at the paths given; True says it is or was a folder.

    A folder that is not there as a whole says nothing about its files: a disk may have been unplugged.
    """
    found: dict[str, Stamp] = {}
    doubtful: set[str] = set()
    for path, is_folder in dirty.items():
        hidden = any(part.startswith(".") for part in path.split(os.sep)[: None if is_folder else -1])
        if hidden or (path == WHOLE and not folder.path.is_dir()):
            continue
        doubtful.add(path)
        if is_folder:
            below = path and path + os.sep
            doubtful.update(each for each in known if each.startswith(below))
            if path == WHOLE or folder.recursive:
                found.update(_listed(folder, path))
        else:
            found.update(_seen(folder, path, os.path.basename(path)))
    lost = {path: known[path] for path in doubtful if path in known and path not in found}
    return [*_appeared(found, known, lost), *(Change("deleted", path, lost[path]) for path in sorted(lost))]


def _appeared(found: dict[str, Stamp], known: dict[str, Stamp], lost: dict[str, Stamp]) -> Iterator[Change]:
    """The files that are new or changed; one that was lost elsewhere at the same time has moved."""
    origins = {stamp.who: path for path, stamp in lost.items() if not stamp.trouble}
    for path, stamp in sorted(found.items()):
        before = known.get(path)
        origin = origins.pop(stamp.who, "") if before is None else ""
        if origin:
            del lost[origin]
            yield Change("moved", path, stamp, origin)
        elif before is None or not before.same(stamp):
            yield Change("created" if before is None or before.trouble else "modified", path, stamp)


def _listed(folder: Folder, path: str) -> Iterator[tuple[str, Stamp]]:
    """The files in and, if asked, below one folder; symbolic links are not followed and not told of."""
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
    """A file as it is now, if it is there and meant."""
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


# --- what was told --------------------------------------------------------------------------------------


class Told:
    """What has been told of a folder's files: a line each in `var/files/DIGEST.jsonl`, the last one counts.

    Kept so that a new start tells only what has changed since. A line is written after its element was
    recorded; one that is lost in between is told again, with the same `stamp`, and dropped (N37).
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
        """Remember what has been told."""
        lines: list[tuple[Any, ...]] = []
        for change in changes:
            if change.event == "deleted" or change.origin:
                self.known.pop(change.origin or change.path, None)
                lines.append((change.origin or change.path,))
            if change.event != "deleted":
                self.known[change.path] = change.stamp
                lines.append((change.path, *change.stamp))
        # What cannot be kept is told once more after the next start: no reason to stop.
        with contextlib.suppress(OSError):
            self._write(lines)

    def _write(self, lines: list[tuple[Any, ...]]) -> None:
        if self._path is not None:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self._path.open("a", encoding="ascii") as file:
                file.write("".join(json.dumps(line) + "\n" for line in lines))

    def _take(self, line: str) -> None:
        # A line may be half a line, written by a daemon that was killed.
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
    """Which paths of a folder the system says have changed, once each has been left alone for a moment."""

    def __init__(self, folder: Path, settle: float, *, recursive: bool = False) -> None:
        self._folder, self._settle, self._recursive = folder, settle, recursive
        self._due: dict[str, float] = {}  # what is heard of again goes to the end: the first is due first
        self._is_folder: dict[str, bool] = {}
        self._news = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._observer: Any = None
        self._nearest: Path | None = None
        self._stale = False

    async def quiet(self) -> dict[str, bool]:
        """Wait for paths that changed and have settled; True for those that are or were folders.

        What settles a moment after the first comes with it: the two ends of a move belong together.
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
        """Watch the folder, or the nearest one above it that is there; True when that is not what it was.

        The folder above is watched as well: it alone sees the folder renamed.
        """
        armed = False
        while True:
            stale, self._stale = self._stale, False
            nearest = next(each for each in (self._folder, *self._folder.parents) if each.is_dir())
            if nearest == self._nearest and not stale:
                return armed
            armed = True
            self.close()
            self._nearest, self._observer = nearest, _observer()
            try:
                _schedule(
                    self._observer, self, nearest, recursive=self._recursive and nearest == self._folder
                )
            except FileNotFoundError:
                self._stale = True
                continue
            with contextlib.suppress(OSError):
                _schedule(self._observer, self, nearest.parent)

    def close(self) -> None:
        """Hear nothing more."""
        if self._observer is not None:
            self._observer.stop()

    def dispatch(self, event: Any) -> None:
        """Hear of a change; called by watchdog, in a thread of its own."""
        with contextlib.suppress(RuntimeError):  # the loop has just been closed
            self._loop.call_soon_threadsafe(self._hear, event.is_directory, event.src_path, event.dest_path)

    def _hear(self, is_folder: bool, *paths: str) -> None:
        root = str(self._folder)
        due = self._loop.time() + self._settle
        for path in filter(None, paths):
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


def _observer() -> Any:
    observer = importlib.import_module("watchdog.observers").Observer()
    observer.start()
    return observer


def _schedule(observer: Any, handler: Any, folder: Path, *, recursive: bool = False) -> None:
    events = importlib.import_module("watchdog.events")
    # Not FileOpened nor FileClosedNoWrite: our own reading would make them.
    heard = [
        events.FileCreatedEvent, events.FileModifiedEvent, events.FileAttribEvent, events.FileClosedEvent,
        events.FileMovedEvent, events.FileDeletedEvent, events.DirCreatedEvent, events.DirMovedEvent,
        events.DirDeletedEvent,
    ]  # fmt: skip
    observer.schedule(handler, str(folder), recursive=recursive, event_filter=heard)


# --- single files ---------------------------------------------------------------------------------------

FILE = Input("file", "file[@path]")
TO = Input("to", "to[@path]")
DONE = Output("file", "file[@path and @event]")

MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF32_LE: "utf-32-le",
    codecs.BOM_UTF32_BE: "utf-32-be",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
"""Byte order marks; those of UTF-32 first, as they begin like those of UTF-16."""


@action(inputs=[FILE], outputs=[Output("text", "text[@path]")], description="The text of a file.")
def read_text(file: Element) -> etree._Element:
    """Read a file as text: by its byte order mark, else as UTF-8, else as windows-1252."""
    path = place(file)
    with _opened(path) as opened:
        data = opened.read(MAX_TEXT + 1)
    if len(data) > MAX_TEXT:
        raise ActionError(f"expected at most {MAX_TEXT:,} bytes of text in {path}, got more", "too-large")
    text, encoding = _decoded(data, path)
    element = etree.Element("text", path=file.attributes["path"], name=path.name, encoding=encoding)
    element.text = _clean(text)
    return element


@action(
    inputs=[Input("text", "text[@path]")], outputs=[DONE], description="A file with the text of an element."
)
def write(text: Element) -> etree._Element:
    """Write the text of an element to the path that it names: wholly or not at all."""
    path = place(text)
    data = text.text.encode()
    atomically(path, lambda file: file.write(data))
    return _done(path, "written", text)


@action(inputs=[FILE, TO], outputs=[DONE], description="A second file with the same content.")
def copy(file: Element, to: Element) -> etree._Element:
    """Copy a file, with its time; another that is there already is an error unless `replace="yes"`."""
    source = place(file)
    target = _target(to, source.name)
    with _opened(source) as opened:
        now = os.fstat(opened.fileno())
        if not _is_copy(target, now, to):
            atomically(target, lambda fresh: shutil.copyfileobj(opened, fresh), now)
    return _done(target, "copied", to, file)


@action(inputs=[FILE, TO], outputs=[DONE], description="The file, at another place.")
def move(file: Element, to: Element) -> etree._Element:
    """Move a file, also to another disk; another that is there already is an error unless `replace="yes"`."""
    source = place(file)
    target = _target(to, source.name)
    if not (_status(source) is None and _was_moved(file, target)):
        with _opened(source) as opened:
            now = os.fstat(opened.fileno())
            _is_copy(target, now, to)
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                os.rename(source, target)
            except OSError as error:
                if error.errno != errno.EXDEV:
                    raise
                atomically(target, lambda fresh: shutil.copyfileobj(opened, fresh), now)
                os.unlink(source)
    return _done(target, "moved", to, file)


@action(inputs=[FILE], outputs=[DONE], description="The file, gone.")
def delete(file: Element) -> etree._Element:
    """Delete a file; one that is gone already is no error, as the call may have been tried before."""
    path = place(file)
    before = _status(path)
    if before is not None and stat.S_ISDIR(before.st_mode):
        raise ActionError(f"expected a file, got the folder {path}", "not-a-file")
    path.unlink(missing_ok=True)
    return _done(path, "deleted", file)


def _decoded(data: bytes, path: Path) -> tuple[str, str]:
    for mark, encoding in MARKS.items():
        if data.startswith(mark):
            return data[len(mark) :].decode(encoding, "replace"), encoding
    if b"\0" in data:
        raise ActionError(f"expected text in {path}, got a file with zero bytes in it", "not-text")
    try:
        return data.decode("utf-8"), "utf-8"
    except UnicodeDecodeError:
        return data.decode("windows-1252", "replace"), "windows-1252"


def _target(to: Element, name: str) -> Path:
    """Where `to` leads; into it, under the file's own name, when it is a folder or ends like one."""
    target = place(to)
    return target / name if target.is_dir() or to.attributes["path"].endswith("/") else target


def _is_copy(target: Path, source: os.stat_result, to: Element) -> bool:
    """Whether the file is there already. Raises ActionError when another is that may not be replaced."""
    there = _status(target)
    same = there is not None and (there.st_size, there.st_mtime_ns) == (source.st_size, source.st_mtime_ns)
    if there is None or same:
        return same
    if stat.S_ISDIR(there.st_mode) or to.attributes.get("replace") != "yes":
        raise ActionError(
            f'expected nothing at {target}; to replace what is there, write replace="yes"', "exists"
        )
    return False


def _was_moved(file: Element, target: Path) -> bool:
    """Whether an earlier try of this call moved the file: what is at the target is as the element says."""
    there = _status(target)
    if there is None:
        return False
    now = {"size": str(there.st_size), "modified": _moment(there.st_mtime_ns)}
    return all(file.attributes.get(name, value) == value for name, value in now.items())


def _done(path: Path, event: str, named: Element, source: Element | None = None) -> etree._Element:
    """The element of a file after something was done to it."""
    there = _status(path)
    stamp = there and Stamp(there.st_size, there.st_mtime_ns, there.st_ctime_ns, there.st_ino)
    element = _file(_shown(path, call().home), event, stamp, named.attributes.get("folder", ""))
    if source is not None:
        element.set("from", source.attributes["path"])
    return element


# --- places ---------------------------------------------------------------------------------------------

GUARDED = ("etc", "modules", "recipes")
"""Folders of the home that an element reaches only by naming them: whoever writes there decides what runs."""

DOCUMENTS = (".html", ".xml", ".txt", ".md", ".csv", ".json")
"""What may lie beside the store, directly in `var`; the daemon's own files there are called otherwise."""


def place(element: Element) -> Path:
    """Where an element's `path` leads, links in its folders followed. Raises ActionError for outside.

    Inside is the home but for what is guarded in it, or the folder that the element names.
    """
    given, home = element.attributes, call().home
    path = _absolute(given["path"], home)
    root = Path(os.path.realpath(_absolute(given.get("folder", ""), home)))
    found = Path(os.path.realpath(path.parent)) / path.name
    if path.name in ("", "..") or found == root or not found.is_relative_to(root):
        raise ActionError(
            f"expected a path inside {root}, got {given['path']!r}; to reach further, name the folder",
            "outside",
        )
    guarded = _guarded(found, home) if home is not None else ""
    if home is not None and guarded and _within(root, home)[:1] != (guarded,):
        raise ActionError(
            f'{given["path"]!r} is in {guarded} of the home; to reach it, write folder="{guarded}"', "outside"
        )
    return found


def _guarded(path: Path, home: Path) -> str:
    """The guarded folder of the home in which a path lies, if any."""
    top, *deeper = _within(path, home) or ("",)
    beside_the_store = top == "var" and len(deeper) == 1 and path.suffix not in DOCUMENTS
    return top if top in GUARDED or beside_the_store else ""


def _within(path: Path, home: Path) -> tuple[str, ...]:
    real = Path(os.path.realpath(home))
    return path.relative_to(real).parts if path.is_relative_to(real) else ()


def _absolute(path: str, home: Path | None) -> Path:
    given = Path(path).expanduser()
    if home is None and not given.is_absolute():
        raise ActionError(f"expected an absolute path, as this home is in memory, got {path!r}", "outside")
    return (home or Path("/")) / given


def _shown(path: Path, home: Path | None) -> str:
    """A path as elements carry it: from the home where it is inside, so that a home can be moved."""
    for start in (home, home and Path(os.path.realpath(home))):
        if start is not None and path.is_relative_to(start):
            return str(path.relative_to(start))
    return str(path)


def _status(path: Path) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """A regular file to read: no link is followed, no pipe is waited for."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags)
    except FileNotFoundError:
        raise ActionError(f"there is no file {path}", "no-such-file") from None
    except OSError as error:
        raise ActionError(f"cannot read {path}: {error.strerror}", "unreadable-file") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ActionError(f"expected a regular file, got {path}", "not-a-file")
    with open(descriptor, "rb") as file:
        yield file


def atomically(path: Path, fill: Callable[[BinaryIO], object], like: os.stat_result | None = None) -> None:
    """Put a file in its place at once, and for good: a reader sees the old one or the new one.

    It is made under a name that comes from the call, so a new try takes up what an interrupted one left.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.parent / f".{hashlib.sha256(call().id.encode()).hexdigest()[:20]}.part"
    before = _status(path) or like
    try:
        with open(
            fresh, "wb", opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW, 0o666)
        ) as file:
            fill(file)
            file.flush()
            if before is not None and stat.S_ISREG(before.st_mode):
                os.fchmod(file.fileno(), stat.S_IMODE(before.st_mode))
            if like is not None:
                os.utime(file.fileno(), ns=(like.st_atime_ns, like.st_mtime_ns))
            os.fsync(file.fileno())
        os.replace(fresh, path)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


UNWANTED = re.compile("[^\t\n\r\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Control characters, and whatever else XML cannot carry."""


def _file(path: str, event: str, stamp: Stamp | None, folder: str) -> etree._Element:
    values = {"path": path, "name": os.path.basename(path), "event": event, "folder": folder}
    if stamp is not None:
        values |= {"size": str(stamp.size), "modified": _moment(stamp.modified), "stamp": str(stamp.changed)}
    return etree.Element("file", {name: _clean(value) for name, value in values.items() if value})


def _error(kind: str, message: str, folder: str, path: str = "") -> etree._Element:
    error = etree.Element("error", type=kind, folder=_clean(folder))
    if path:
        error.set("path", _clean(path))
    etree.SubElement(error, "message").text = _clean(message)
    return error


def _moment(nanoseconds: int) -> str:
    """ISO 8601 in UTC, to the microsecond; nothing for a time that no calendar has."""
    try:
        return (EPOCH + timedelta(microseconds=nanoseconds // 1000)).isoformat().replace("+00:00", "Z")
    except OverflowError:
        return ""


def _clean(text: str) -> str:
    return UNWANTED.sub("\ufffd", text)
