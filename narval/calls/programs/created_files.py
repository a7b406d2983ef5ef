"""The files that programs create: whether they are up to date (A9), and which may be half made."""

from __future__ import annotations

import contextlib
import glob
import hashlib
import logging
import os
from collections.abc import Iterable
from pathlib import Path

from narval.core.engines.view import FileTimes

_WILD = frozenset("*?[")

logger = logging.getLogger("narval.program")


class CreatedFiles:
    """The files that programs create. Those of a program that did not end with 0 may be half made, and are
    made again.

    `folder` has a mark for each file from before its program begins until one has ended with 0, so that it
    outlives the daemon; None: it need not.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._marks: set[str] = set()

    def are_up_to_date(
        self, directory: str, creates: Iterable[str], needs: Iterable[str], times: FileTimes
    ) -> bool:
        """True if all are there and whole, and none that is needed is newer."""
        if not is_up_to_date(directory, creates, needs, times):
            return False
        return not any(self._is_marked(_mark(directory, pattern)) for pattern in creates)

    def begin(self, directory: str, creates: Iterable[str]) -> None:
        """Mark what a program is about to create."""
        for pattern in creates:
            mark = _mark(directory, pattern)
            self._marks.add(mark)
            if self._folder is None:
                continue
            try:
                self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                (self._folder / mark).write_text(f"{_path(directory, pattern)}\n")
            except OSError as error:
                logger.warning("it is not recorded that %s may be half made: %s", pattern, error)

    def complete(self, directory: str, creates: Iterable[str]) -> None:
        """Remove the marks of what a program has created that ended with 0."""
        for pattern in creates:
            mark = _mark(directory, pattern)
            self._marks.discard(mark)
            if self._folder is not None:
                with contextlib.suppress(OSError):
                    (self._folder / mark).unlink()
                    self._folder.rmdir()  # if it was the last

    def _is_marked(self, mark: str) -> bool:
        return mark in self._marks or (self._folder is not None and (self._folder / mark).exists())


def lacking(directory: str, creates: Iterable[str], needs: Iterable[str]) -> list[str]:
    """Needs of a program that creates files, which no file fits: it is never up to date."""
    return [pattern for pattern in needs if _look(directory, pattern, {})[1] < 0] if any(creates) else []


def _path(directory: str, pattern: str) -> str:
    # os.path.join takes as long as a look at the file
    return pattern if pattern.startswith("/") else f"{directory}/{pattern}"


def _mark(directory: str, pattern: str) -> str:
    return hashlib.sha256(os.path.normpath(_path(directory, pattern)).encode()).hexdigest()[:32]


def is_up_to_date(directory: str, creates: Iterable[str], needs: Iterable[str], times: FileTimes) -> bool:
    """True if all files exist and none that is needed is newer; False for a program that creates none.

    Files in `times` are not examined; the others are added.
    """
    oldest: int | None = None
    for pattern in creates:
        first, _ = times.get((directory, pattern)) or _look(directory, pattern, times)
        if first < 0:
            return False
        oldest = first if oldest is None else min(oldest, first)
    if oldest is None:
        return False
    for pattern in needs:
        _, last = times.get((directory, pattern)) or _look(directory, pattern, times)
        if last < 0 or last > oldest:
            return False
    return True


def _look(directory: str, pattern: str, times: FileTimes) -> tuple[int, int]:
    """The first and last modification times of the files that fit a pattern, recorded in `times`."""
    path, span = _path(directory, pattern), (-1, -1)
    try:
        if _WILD.isdisjoint(pattern):
            altered = os.stat(path).st_mtime_ns
            span = altered, altered
        elif names := glob.glob(path, recursive=True):
            each = [os.stat(name).st_mtime_ns for name in names]
            span = min(each), max(each)
    except OSError:
        span = -1, -1
    times[directory, pattern] = span
    return span
