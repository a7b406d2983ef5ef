"""Kept files: what servers sent that is no text, as files of the home, for as long as anything names them."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import threading
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from narval.core.errors import StoreError
from narval.system.whole_file import write_whole

FILES = "var/mcp-files"
"""The folder of a home where the bytes of results are kept, by their digest."""

YOUNG = 86_400.0
"""Seconds for which a file stays in any case: what names it may be under way."""

SWEEP_EVERY = 3600.0
"""Seconds between two sweeps."""

Mentions = Callable[[str], Iterable[bytes] | None]
"""Gives all that is remembered with a text in it; None where nothing is kept that could be searched."""

log = logging.getLogger("narval.mcp")

_NAMED = re.compile(rb"var/mcp-files/[0-9a-f]{2}/([0-9a-f]{64})")
_DIGEST = re.compile("[0-9a-f]{64}")

_ALONE = threading.Lock()
"""Held to write a file, and to remove one."""


def write_file(path: Path, data: bytes) -> None:
    """Write a file that its owner alone may read; one that is there is young again: its name says what it
    holds.

    Raises OSError.
    """
    with _ALONE:
        for folder in (path.parents[2], path.parents[1], path.parents[0]):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            os.utime(path)
        except FileNotFoundError:
            write_whole(path, data)


class KeptFiles:
    """The files of a home. `mentions` tells what names them; without it all stay."""

    def __init__(self, mentions: Mentions | None = None) -> None:
        self._mentions = mentions
        self._swept = -SWEEP_EVERY

    def sweep_beside(self, home: Path) -> None:
        """Remove the files that nothing names any more, once an hour at most, in a thread for which nobody
        waits: a large store takes long to be looked through.
        """
        if self._mentions is None or time.monotonic() < self._swept + SWEEP_EVERY:
            return
        self._swept = time.monotonic()
        work = partial(self._sweep, home / FILES, self._mentions)
        threading.Thread(target=work, name="narval-mcp-files", daemon=True).start()

    def _sweep(self, files: Path, mentions: Mentions) -> None:
        try:
            _remove_unnamed(files, mentions)
        except (OSError, StoreError) as error:
            log.warning("files that nothing names could not be removed from %s: %s", FILES, error)


def _remove_unnamed(files: Path, mentions: Mentions) -> None:
    """Remove the old files that nothing names. Raises OSError, StoreError."""
    old = {folder.name: folder for folder in files.glob("??/*") if _is_old(folder)}
    found = mentions(f"{FILES}/") if old else None
    if found is None:
        return
    for value in found:
        for digest in _NAMED.findall(value):
            old.pop(digest.decode(), None)
    for folder in old.values():
        with _ALONE:
            if _is_old(folder):  # no server has sent it again meanwhile
                for file in folder.iterdir():
                    file.unlink()
                with contextlib.suppress(OSError):  # others are beside it
                    folder.rmdir()
                    folder.parent.rmdir()


def _is_old(folder: Path) -> bool:
    """True of the folder of a file that has been there for long."""
    if _DIGEST.fullmatch(folder.name) is None or not folder.is_dir():
        return False
    return all(file.stat().st_mtime < time.time() - YOUNG for file in folder.iterdir())
