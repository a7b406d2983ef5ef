"""Altering files of the home: one operation at a time, and what it wrote takes effect."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from narval.core.errors import RequestError
from narval.daemon import reload
from narval.daemon.daemon import Daemon
from narval.files.home import Home

Answer = TypeVar("Answer")


async def altered(daemon: Daemon, home: Home, what: str, alter: Callable[[], Answer]) -> Answer:
    """Alter files in a thread, for `what`, and let them take effect; returns the answer of `alter`.

    Raises RequestError if a file cannot be written, or is not read then.
    """
    try:
        answer = await reload.altered(home, alter)
    except OSError as error:
        raise RequestError(f"{what} cannot be written: {error.strerror}") from None
    await daemon.renewal.take_over()
    return answer
