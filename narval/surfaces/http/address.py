"""The address at which the pages of a home are served now, for whoever makes a login link for them.

The program that serves them holds a lock on the file that says it: so there is one for a home, and one that
was killed leaves nothing that could be taken for it.
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
def serving(folder: Path) -> Iterator[int]:
    """Be the program that serves the pages of a home while inside: the file to note the address in.

    Raises OperatorError where another one is.
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
        os.ftruncate(handle, 0)
        yield handle
        os.ftruncate(handle, 0)
    finally:
        os.close(handle)


def note(handle: int, address: str) -> None:
    """Write down where the pages are."""
    os.pwrite(handle, address.encode(), 0)


def known(folder: Path) -> str:
    """The address at which the pages of a home are served. Raises OperatorError where no one serves them."""
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
