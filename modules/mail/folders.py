"""Mailboxes in files: a Maildir, an mbox; read and never altered (N36, N37)."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from stat import S_ISREG
from typing import IO, Any

from narval.runtime.calls.people.mail.account import Account
from narval.runtime.calls.people.mail.texts import fit

from . import letters
from .letters import MOST_TOLD, Letter, Session, Signal, UnreachableError
from .texts import CHUNK


@contextmanager
def _reached(box: Account) -> Iterator[None]:
    """Raise UnreachableError for what the system refuses: a disk may come back, and rights be given."""
    try:
        yield
    except OSError as error:
        raise UnreachableError(f"account {box}: {error.filename}: {error.strerror}") from error


@contextmanager
def _watched(box: Account, within: Iterable[Path], around: Iterable[Path], signal: Signal) -> Iterator[None]:
    """Pass the changes of files in `within`, and of folders `around`, to the signal while this lasts."""
    signal.reopen = False
    if signal.stopped:
        yield
        return
    from watchdog import events
    from watchdog.observers import Observer

    files: list[Any] = [events.FileClosedEvent, events.FileCreatedEvent]
    files += [events.FileModifiedEvent, events.FileMovedEvent]
    folders: list[Any] = [events.DirCreatedEvent, events.DirDeletedEvent, events.DirMovedEvent]
    observer = Observer()
    handler: Any = signal
    with _reached(box):
        try:
            for paths, heard in ((within, files), (around, folders)):
                for path in paths:
                    observer.schedule(handler, os.fspath(path), event_filter=heard)
            observer.start()
        except OSError:
            observer.unschedule_all()
            raise
    try:
        yield
    finally:
        observer.stop()
        observer.join()


@contextmanager
def maildir(box: Account, signal: Signal) -> Iterator[Session]:
    """A session on a Maildir. Raises UnreachableError where there is none."""
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
    box: Account, folders: Iterable[Path], signal: Signal, seen: set[str], known: set[str]
) -> Iterator[Letter]:
    """The letters of a Maildir, oldest first. No flag or move makes a letter new; growing does, as not every
    program delivers in one stroke, and so does being made readable.

    Files whose names were `seen` are looked at again where they are told to have changed: of ten thousand
    that lie there the names are read, and no more.
    """
    found: list[tuple[str, str, Path, int]] = []
    if len(signal.told) == MOST_TOLD:
        seen.clear()
    while signal.told:
        seen.discard(_base_name(os.path.basename(signal.told.popleft())))
    for folder in folders:
        with _reached(box):
            names = os.listdir(folder)
        for name in names:
            base = _base_name(name)
            if base in seen:
                continue
            path = folder / name
            with suppress(OSError):  # moved or deleted just now, or a link that leads nowhere
                state = path.stat()
                if S_ISREG(state.st_mode) and state.st_size and not name.startswith("."):
                    ident = f"{fit(base)}/{state.st_size}/{state.st_mode:o}"
                    found.append((base, ident, path, state.st_size))
    for base, ident, path, size in sorted(found):
        seen.add(base)
        if ident in known:
            continue
        try:
            yield Letter.bounded(ident, str(path), path.read_bytes() if size <= letters.MAX_MAIL else None)
        except FileNotFoundError:  # if it was moved, the next listing has it
            seen.discard(base)
        except OSError as error:
            yield Letter(ident, str(path), fault=f"cannot be read: {error.strerror}")


def _base_name(name: str) -> str:
    """The name of a file in a Maildir without its flags."""
    return name.partition(":")[0]


@contextmanager
def mbox(box: Account, signal: Signal) -> Iterator[Session]:
    """A session on an mbox, which need not be there yet. Raises UnreachableError where its folder is not."""
    path = Path(os.path.abspath(box.path))
    with _reached(box):
        if not path.parent.is_dir():
            raise UnreachableError(f"account {box}: expected a folder for the mbox, {path.parent}")
    signal.only, signal.folders = path, frozenset((os.fspath(path.parent),))
    with _watched(box, [path.parent], [path.parent.parent], signal):
        yield Session(partial(_mbox_letters, box, path), signal.news)


def _mbox_letters(box: Account, path: Path, known: set[str]) -> Iterator[Letter]:
    """The letters of an mbox, in order."""
    with _reached(box):
        if not path.exists():
            return
        if not path.is_file():
            raise box.fault(f"expected an mbox, which is a file, at {path}")
        opened = path.open("rb")
    with opened as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:  # it is being delivered to; the end of that will wake us
            return
        for raw in _mbox_mails(file):
            ident = hashlib.sha256(raw).hexdigest()[:40]
            if ident not in known:
                yield Letter.bounded(ident, str(path), raw)


def _mbox_mails(file: IO[bytes]) -> Iterator[bytes]:
    """The mails of an mbox, `>From ` unquoted; of one that is too large, a little more than is allowed."""
    lines: list[bytes] = []
    size, after_blank = 0, True
    for line in iter(partial(file.readline, CHUNK), b""):
        if after_blank and line.startswith(b"From "):
            if lines:
                yield b"".join(lines)
            lines, size = [], 0
        elif size <= letters.MAX_MAIL:
            lines.append(re.sub(rb"^>(>*From )", rb"\1", line))
            size += len(line)
        after_blank = line in (b"\n", b"\r\n")
    if lines:
        yield b"".join(lines)
