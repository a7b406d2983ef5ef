"""Files within reach: where an action may go, and how to write a file whole or not at all."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import BinaryIO, NamedTuple

from lxml import etree

from narval import ActionError, Element, call
from narval.api import reachable

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Stamp(NamedTuple):
    """The state of a file at some moment: bytes, nanoseconds since 1970, and why it is unavailable."""

    size: int
    modified: int
    changed: int
    inode: int
    trouble: str = ""

    @property
    def who(self) -> tuple[int, int, int]:
        """The part that does not change when a file is renamed."""
        return self.inode, self.size, self.modified

    def same(self, other: Stamp) -> bool:
        """True if the content can be assumed to be the same; a new inode alone means a restored backup."""
        return (self.size, self.modified, self.trouble) == (other.size, other.modified, other.trouble)


def place(element: Element) -> Path:
    """The path of an element, links in its folders followed. Raises ActionError for one outside."""
    return reachable(element.attributes, call().home)


def absolute(path: str, home: Path | None) -> Path:
    """A path relative to the home, or to the working folder of the program if the home is in memory."""
    return (home or Path.cwd()) / Path(path).expanduser()


def shown(path: Path, home: Path | None) -> str:
    """A path in elements: relative to the home if it is inside, so that a home can be moved."""
    for start in (home, home and Path(os.path.realpath(home))):
        if start is not None and path.is_relative_to(start):
            return str(path.relative_to(start))
    return str(path)


def status(path: Path) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None


@contextlib.contextmanager
def opening(path: Path) -> Iterator[BinaryIO]:
    """Open a regular file for reading, without following links or waiting for pipes."""
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
    """Replace a file at once, and durably: a reader sees the old one or the new one.

    It is made under a name that comes from the call, so a retry reuses what an interrupted try left.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.parent / f".{hashlib.sha256(call().id.encode()).hexdigest()[:20]}.part"
    before = status(path) or like
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


UNWANTED = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
"""Control characters, and other characters that XML cannot have."""


def file_element(path: str, event: str, stamp: Stamp | None, folder: str) -> etree._Element:
    values = {"path": path, "name": os.path.basename(path), "event": event, "folder": folder}
    if stamp is not None:
        values |= {"size": str(stamp.size), "modified": moment(stamp.modified), "stamp": str(stamp.changed)}
    return etree.Element("file", {name: clean(value) for name, value in values.items() if value})


def error_element(kind: str, message: str, folder: str, path: str = "") -> etree._Element:
    error = etree.Element("error", type=kind, folder=clean(folder))
    if path:
        error.set("path", clean(path))
        error.set("key", clean(path))
    etree.SubElement(error, "message").text = clean(message)
    return error


def moment(nanoseconds: int) -> str:
    """The moment in ISO 8601 and UTC, to the microsecond; nothing for a time that no calendar has."""
    try:
        return (EPOCH + timedelta(microseconds=nanoseconds // 1000)).isoformat().replace("+00:00", "Z")
    except OverflowError:
        return ""


def clean(text: str) -> str:
    return UNWANTED.sub("\ufffd", text)
