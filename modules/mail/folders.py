"""Mailboxes in files: a Maildir, an mbox; they are only read (N36, N37)."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from stat import S_ISREG
from typing import IO

from narval.api import FolderWatch, one_line

from . import letters
from .letters import MOST_TOLD, Letter, Session, Signal, UnreachableError
from .mailbox import Mailbox
from .texts import CHUNK
from .wanted import told_of

_DELIVERED = re.compile(r"\d{9,10}(?=\.)")
"""The moment of delivery, at the beginning of a file name in a Maildir."""
EMPTY_SECONDS = 60.0
"""Seconds for which an empty file may still be one that a program is writing."""
_FROM_LINE = re.compile(rb"From \S+ +(\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d \d{4})")
_STATUS = re.compile(rb"^(?:X-)?Status:[ \t]*([A-Z]+)", re.IGNORECASE | re.MULTILINE)
_FLAG_OF_STATUS = {"R": "S", "A": "R"}
"""The flags of a mail, in a Maildir's spelling, by the letters in its fields `Status` and `X-Status`."""


@contextmanager
def _reached(box: Mailbox) -> Iterator[None]:
    """Raise UnreachableError for errors of the system: a disk may come back, and permissions be granted."""
    try:
        yield
    except OSError as error:
        raise UnreachableError(f"account {box}: {error.filename}: {error.strerror}") from error


@contextmanager
def _watched(box: Mailbox, within: Iterable[Path], around: Iterable[Path], signal: Signal) -> Iterator[None]:
    """Pass the changes of files in `within`, and of folders `around`, to the signal within the block."""
    signal.reopen = False
    if signal.stopped:
        yield
        return
    watch = FolderWatch()
    try:
        with _reached(box):
            for path in within:
                watch.add(path, signal.notice)
            for path in around:
                watch.add(path, signal.notice, files=False)
        yield
    finally:
        watch.close(wait=True)


@contextmanager
def maildir(box: Mailbox, signal: Signal) -> Iterator[Session]:
    """A session on a Maildir. Raises UnreachableError if there is none."""
    path = Path(os.path.abspath(box.path))
    both = [path / name for name in ("new", "cur")]
    with _reached(box):
        folders = [folder for folder in both if folder.is_dir()]
    if not folders:
        raise UnreachableError(f"account {box}: expected a Maildir, with new/ or cur/ in it, at {path}")
    signal.folders = frozenset(map(os.fspath, (path, *both)))
    with _watched(box, folders, (path, path.parent), signal):
        yield Session(partial(_maildir_letters, box, folders, signal, set()), signal.news)


def _maildir_letters(
    box: Mailbox, folders: Iterable[Path], signal: Signal, seen: set[str], known: set[str]
) -> Iterator[Letter]:
    """The letters of a Maildir, oldest first. Flags and moves do not make a letter new. Growth does, since
    some programs deliver in several steps, and so does becoming readable. An empty file is checked again when
    it should have content.

    Files with `seen` names are examined again only if they are reported as changed: for ten thousand files,
    only the names are read.
    """
    files: list[tuple[str, str, Path]] = []
    since = box.since
    if len(signal.told) == MOST_TOLD:
        seen.clear()
    while signal.told:
        seen.discard(_base_name(os.path.basename(signal.told.popleft())))
    for folder in folders:
        with _reached(box):
            names = os.listdir(folder)
        bases = ((_base_name(name), name) for name in names if not name.startswith("."))
        files += [(base, name, folder) for base, name in bases if base not in seen]
    files.sort()
    for base, name, folder in files:  # only names are kept of a backlog
        path = folder / name
        try:
            state = path.stat()
        except OSError:  # just moved or deleted, or a dangling link
            continue
        if not S_ISREG(state.st_mode):
            continue
        if not state.st_size and (left := EMPTY_SECONDS - (time.time() - state.st_mtime)) > 0:
            signal.look_in(min(left, EMPTY_SECONDS))
            continue
        ident = f"{one_line(base)}/{state.st_size}/{state.st_mode:o}"
        seen.add(base)
        if ident in known:
            continue
        if since is not None and _arrival(base, state) < since:
            yield Letter(ident, str(path), is_old=True)
            continue
        if not state.st_size:
            yield Letter(ident, str(path), fault="has no bytes")
            continue
        try:
            raw = path.read_bytes() if state.st_size <= letters.MAX_MAIL else None
            yield Letter.bounded(ident, str(path), raw, told_of(path.name.partition(":2,")[2]))
        except FileNotFoundError:  # if it was moved, the next listing has it
            seen.discard(base)
        except OSError as error:
            yield Letter(ident, str(path), fault=f"cannot be read: {error.strerror}")


def _base_name(name: str) -> str:
    """The name of a file in a Maildir without its flags."""
    return name.partition(":")[0]


def _arrival(base: str, state: os.stat_result) -> float:
    """The moment when a letter arrived: that in its name, or that of its file if earlier. A program that
    copies letters changes the name or the file, and seldom both.
    """
    delivered = _DELIVERED.match(base)
    return min(state.st_mtime, float(delivered[0])) if delivered else state.st_mtime


@contextmanager
def mbox(box: Mailbox, signal: Signal) -> Iterator[Session]:
    """A session on an mbox, which may be missing. Raises UnreachableError if its folder is."""
    path = Path(os.path.abspath(box.path))
    _expect_folder(box, path)
    signal.only, signal.folders = path, frozenset((os.fspath(path.parent),))
    with _watched(box, [path.parent], [path.parent.parent], signal):
        yield Session(partial(_mbox_letters, box, path), signal.news)


def _expect_folder(box: Mailbox, path: Path) -> None:
    """Raise UnreachableError if the folder of an mbox is missing."""
    with _reached(box):
        if not path.parent.is_dir():
            raise UnreachableError(f"account {box}: expected a folder for the mbox, {path.parent}")


def _mbox_letters(box: Mailbox, path: Path, known: set[str]) -> Iterator[Letter]:
    """The letters of an mbox, in order."""
    with _reached(box):
        if not path.exists():
            _expect_folder(box, path)  # it may have gone, without an event, while its watch was being set up
            return
        if not path.is_file():
            raise box.fault(f"expected an mbox, which is a file, at {path}")
        opened = path.open("rb")
    with opened as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:  # a delivery is in progress; its end will wake us
            return
        since = box.since
        for from_line, raw in _mbox_mails(file):
            ident = hashlib.sha256(raw).hexdigest()[:40]
            if ident in known:
                continue
            if since is not None and (arrival := _mbox_arrival(from_line)) is not None and arrival < since:
                yield Letter(ident, str(path), is_old=True)
            else:
                yield Letter.bounded(ident, str(path), raw, _mbox_flags(raw))


def _mbox_arrival(from_line: bytes) -> float | None:
    """The moment in the line before a mail, in this machine's zone, as programs write it; or None."""
    date = _FROM_LINE.match(from_line)
    with suppress(ValueError, OverflowError):
        if date is not None:
            return time.mktime(time.strptime(date[1].decode(), "%a %b %d %H:%M:%S %Y"))
    return None


def _mbox_flags(raw: bytes) -> tuple[str, ...]:
    """The flags that a mail program has written into the header of a mail."""
    header = re.split(rb"\r?\n\r?\n", raw, maxsplit=1)[0]
    words = b"".join(_STATUS.findall(header)).decode().upper()
    return told_of([flag for letter, flag in _FLAG_OF_STATUS.items() if letter in words])


def _mbox_mails(file: IO[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """The mails of an mbox, each with the line before it, `>From ` unquoted; of one that is too large,
    slightly more than is allowed.
    """
    lines: list[bytes] = []
    from_line = b""
    size, after_blank = 0, True
    for line in iter(partial(file.readline, CHUNK), b""):
        if after_blank and line.startswith(b"From "):
            if lines:
                yield from_line, b"".join(lines)
            from_line, lines, size = line, [], 0
        elif size <= letters.MAX_MAIL:
            lines.append(re.sub(rb"^>(>*From )", rb"\1", line))
            size += len(line)
        after_blank = line in (b"\n", b"\r\n")
    if lines:
        yield from_line, b"".join(lines)
