"""Letters: mails in their mailbox's form, and the session in which they are read (N36)."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from narval import ActionError

MAX_MAIL = 64 * 1024 * 1024
"""The most bytes of a mail; a larger one stays in place and is reported by an error."""
MOST_TOLD = 1_000
"""The most changed paths that are kept; beyond that, every file is examined."""
QUIET_SECONDS = 0.05
"""Seconds without changes after which a mailbox is read: some programs deliver in several steps."""


class Letter(NamedTuple):
    """A mail in its mailbox's form: `ident` is the mailbox's own name for it, `where` helps people find it,
    `fault` says why it has no `raw`, `flags` are those of `TOLD` that its owner has set. If it `is_old`, it
    arrived before the `since` of its mailbox, and was not read.
    """

    ident: str
    where: str
    raw: bytes = b""
    fault: str = ""
    flags: tuple[str, ...] = ()
    is_old: bool = False

    @classmethod
    def bounded(cls, ident: str, where: str, raw: bytes | None, flags: tuple[str, ...] = ()) -> Letter:
        """A letter whose content is left out if it is too large."""
        if raw is not None and len(raw) <= MAX_MAIL:
            return cls(ident, where, raw, flags=flags)
        return cls(ident, where, fault=f"larger than {MAX_MAIL >> 20} MB; left where it is")


class Session(NamedTuple):
    """An open mailbox: its unknown letters, and a function that waits until there may be more, and returns
    False if the mailbox must be opened again. One that `is_local` works as soon as it is read; any other may
    hang up during the wait.
    """

    letters: Callable[[set[str]], Iterator[Letter]]
    wait: Callable[[], bool]
    is_local: bool = True


class UnreachableError(ActionError):
    """A mailbox cannot be reached, is gone, or gives invalid answers: this may be temporary."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "mailbox-unreachable")


class Signal:
    """The signal to the thread that follows a mailbox: something has changed, or the call has ended.

    `told` are the changed paths, as notices of the system name them; if there were very many, some may be
    missing. `only` is the one file of interest, None for all. When one of `folders` is added, removed or
    moved, `reopen` says so.
    """

    def __init__(self) -> None:
        self._changed = threading.Event()
        self.stopped = False
        self.only: Path | None = None
        self.folders: frozenset[str] = frozenset()
        self.reopen = False
        self.told: deque[str] = deque(maxlen=MOST_TOLD)
        self._longest: float | None = None
        self.interrupt: Callable[[], None] = lambda: None

    def notice(self, is_folder: bool, paths: tuple[str, ...]) -> None:
        """Pass on a change, in the thread of a watch."""
        if is_folder:
            if not self.folders.isdisjoint(paths):
                self.reopen = True
                self._changed.set()
        elif self.only is None or os.fspath(self.only) in paths:
            self.told += paths
            self._changed.set()

    def stop(self) -> None:
        """End the current wait, and prevent further ones."""
        self.stopped = True
        self._changed.set()
        with suppress(OSError):
            self.interrupt()

    def wait(self, seconds: float | None = None) -> None:
        """Wait for a change, and until there has been none for a moment."""
        changed = self._changed.wait(seconds)
        for _ in range(100):
            if self.stopped or not changed:
                return
            self._changed.clear()
            changed = self._changed.wait(QUIET_SECONDS)

    def look_in(self, seconds: float) -> None:
        """End the next wait for news after at most `seconds` seconds."""
        self._longest = seconds if self._longest is None else min(self._longest, seconds)

    def news(self) -> bool:
        """Wait for a change; False if it was one of the folders."""
        longest, self._longest = self._longest, None
        self.wait(longest)
        return not self.reopen
