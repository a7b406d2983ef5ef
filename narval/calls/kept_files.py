"""Kept files: received data that is not text, kept as files of the home while anything names them."""

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
from narval.system.whole_files import write_whole

MCP_FILES = "var/mcp-files"
"""The folder of a home with the bytes that MCP servers sent, each in two folders named by its digest."""

CHAT_FILES = "var/chat"
"""The folder of a home with the files that people sent by chat, each in a folder of its digest."""

YOUNG = 86_400.0
"""Seconds for which every file is kept: an element that names it may be under way."""

SWEEP_EVERY = 3600.0
"""Seconds between two sweeps."""

Mentions = Callable[[str], Iterable[bytes] | None]
"""A function that returns all stored values with a text; None if there is nothing to search."""

log = logging.getLogger("narval.perform")

_DIGEST = re.compile("[0-9a-f]{32}|[0-9a-f]{64}")

_ALONE = threading.Lock()
"""The lock for writing and removing files."""


def write_file(path: Path, data: bytes) -> None:
    """Write a file that only its owner may read. An existing file only gets a new modification time, because
    its name identifies its content.

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
    """The files in a folder of a home. `mentions` finds what names them; without it all are kept."""

    def __init__(self, folder: str, mentions: Mentions | None = None) -> None:
        self._folder, self._mentions = folder, mentions
        self._swept = -SWEEP_EVERY

    def sweep_beside(self, home: Path) -> None:
        """Remove the files that nothing names any longer, at most once an hour, in a thread that nothing
        waits for: searching a large store takes long.
        """
        if self._mentions is None or time.monotonic() < self._swept + SWEEP_EVERY:
            return
        if not (home / self._folder).is_dir():
            return
        self._swept = time.monotonic()
        work = partial(self._sweep, home, self._mentions)
        threading.Thread(target=work, name="narval-kept-files", daemon=True).start()

    def _sweep(self, home: Path, mentions: Mentions) -> None:
        try:
            _remove_unnamed(home, self._folder, mentions)
        except (OSError, StoreError) as error:
            log.warning("files that nothing names could not be removed from %s: %s", self._folder, error)


def _remove_unnamed(home: Path, files: str, mentions: Mentions) -> None:
    """Remove the old files that nothing names. Raises OSError, StoreError."""
    folders = [*(home / files).glob("*"), *(home / files).glob("??/*")]
    old = {folder.name: folder for folder in folders if _is_old(folder)}
    mentioned = mentions(f"{files}/") if old else None
    if mentioned is None:
        return
    named = re.compile(re.escape(files).encode() + rb"/(?:[0-9a-f]{2}/)?([0-9a-f]{32,64})")
    for value in mentioned:
        for digest in named.findall(value):
            old.pop(digest.decode(), None)
    for folder in old.values():
        with _ALONE:
            if _is_old(folder):  # not sent again by a server since
                for file in folder.iterdir():
                    file.unlink()
                with contextlib.suppress(OSError):  # it has other files
                    folder.rmdir()
                    if folder.parent != home / files:
                        folder.parent.rmdir()


def _is_old(folder: Path) -> bool:
    """True for the folder of an old file."""
    if _DIGEST.fullmatch(folder.name) is None or not folder.is_dir():
        return False
    within = [*folder.iterdir()] or [folder]  # an empty folder is about to be filled
    return all(one.stat().st_mtime < time.time() - YOUNG for one in within)
