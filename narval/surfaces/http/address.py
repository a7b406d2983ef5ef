"""The address at which the pages of a home are served now, for making login links.

The program that serves them holds a lock on the file with the address: so a home has only one such program,
and an address is valid only while the file is locked. The next program listens there again if it can, so that
open pages in a browser keep working.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from narval.core.errors import OperatorError

_NAME = "address"


@contextmanager
def serving(folder: Path) -> Iterator[tuple[int, str]]:
    """Hold the lock as the program that serves the pages of a home: the file to write the address to, and the
    address of the previous program; "" if there was none.

    Raises OperatorError if another one serves them.
    """
    folder.mkdir(mode=0o700, exist_ok=True)
    handle = os.open(folder / _NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            there = os.pread(handle, 4096, 0).decode(errors="replace") or "an address of its own"
            raise OperatorError(
                f"narval web serves this home already, at {there}; log in there: narval web login"
            ) from None
        former = os.pread(handle, 4096, 0).decode(errors="replace")
        yield handle, former
    finally:
        os.close(handle)


def note(handle: int, address: str) -> None:
    """Write the address of the pages."""
    os.ftruncate(handle, 0)
    os.pwrite(handle, address.encode(), 0)


def port_of(address: str) -> int | None:
    """The port of an address of this machine; None for any other."""
    host, _, port = address.removeprefix("http://").rpartition(":")
    return int(port) if host == "127.0.0.1" and port.isascii() and port.isdecimal() else None


def known(folder: Path) -> str:
    """The address at which the pages of a home are served. Raises OperatorError if they are not served."""
    nobody = OperatorError("no pages of this home are served; do it: narval web")
    try:
        handle = os.open(folder / _NAME, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        raise nobody from None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return os.pread(handle, 4096, 0).decode(errors="replace")
    else:
        raise nobody
    finally:
        os.close(handle)
