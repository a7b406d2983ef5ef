"""Appending: add a line to the end of a file once for each call, whenever a crash happens (N37).

Before a call writes, the end of the file is noted in its record. The call wrote the bytes from there to the
place where the next call began: nothing, the text, or its beginning. Other programs may have appended there
too, so the text is searched for among these bytes.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import stat
from pathlib import Path
from typing import BinaryIO, NamedTuple

from narval import ActionError, call

from .places import atomically

KEPT = 1000
"""The most calls in the record of a file: more than can be active."""


class Begun(NamedTuple):
    """The place where a file ended when a call began: the file itself, and its size."""

    inode: int
    size: int


Calls = dict[str, Begun]
"""The calls that appended to a file, in the order in which they began."""


def append_once(path: Path, text: bytes) -> None:
    """Append a text to a file, which is made if missing, unless this call has done so before.

    Other calls that append to it wait. Raises ActionError for anything but a regular file.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with _opened(path) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(text[_written(file, path, text) :])
        file.flush()
        os.fsync(file.fileno())


def _written(file: BinaryIO, path: Path, text: bytes) -> int:
    """The bytes of a text that this call has written before; a new beginning is recorded."""
    now = os.fstat(file.fileno())
    record, end = _record_of(path), Begun(now.st_ino, now.st_size)
    calls = _read(record)
    begun = calls.get(call().id)
    if begun is not None and begun.inode == end.inode and begun.size <= end.size:
        later = list(calls.values())[list(calls).index(call().id) + 1 :]
        until = next((other.size for other in later if other.inode == end.inode), end.size)
        file.seek(begun.size)
        since = file.read(max(until - begun.size, 0))
        if text in since:
            return len(text)
        if not later:
            return next(size for size in range(len(text) - 1, -1, -1) if since.endswith(text[:size]))
    if record is not None:
        calls.pop(call().id, None)
        _write(record, {**calls, call().id: end})
    return 0


def _opened(path: Path) -> BinaryIO:
    """Open a regular file to read and to append to, without following links or waiting for pipes."""
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags, 0o666)
    except OSError as error:
        raise ActionError(f"cannot append to {path}: {error.strerror}", "unwritable-file") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ActionError(f"expected a regular file, got {path}", "not-a-file")
    return open(descriptor, "a+b")


# --- the record of a file -------------------------------------------------------------------------------


def _record_of(path: Path) -> Path | None:
    """The path of the record; None for a home in memory, where nothing outlives the program."""
    home = call().home
    return home and home / "var" / "files" / f"{hashlib.sha256(os.fsencode(path)).hexdigest()[:32]}.appended"


def _read(record: Path | None) -> Calls:
    if record is None or not record.exists():
        return {}
    return {id: Begun(*place) for id, place in json.loads(record.read_bytes()).items()}


def _write(record: Path, calls: Calls) -> None:
    recent = dict(list(calls.items())[-KEPT:])
    atomically(record, lambda file: file.write(json.dumps(recent).encode()))
