"""The files that programs create: whether they are up to date (A9), and which may be half made."""

from __future__ import annotations

import fcntl
import glob
import logging
import os
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path

from narval.core.engines.view import FileTimes
from narval.system.whole_files import write_whole

logger = logging.getLogger("narval.program")

_WILD = frozenset("*?[")

_BEGUN, _DONE = "+", "-"
"""The first character of a line: the file that it names may be half made, or no longer may be."""

MOST_LINES = 10_000
"""The lines after which the record is rewritten with only the files that may still be half made."""


class CreatedFiles:
    """The files that programs create. Those of a program that did not end with 0 may be half made, and are
    made again.

    `file` records these, so that the record outlives the daemon: a line is appended for each file before its
    program begins, and when it has ended with 0. None: nothing is recorded. Programs that share the record
    hold it by a lock; one that is alone with it rewrites or removes it.
    """

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._descriptor: int | None = None
        self._lines = 0

    @cached_property
    def _unfinished(self) -> set[str]:
        return set() if self._file is None else _read(self._file)

    def are_up_to_date(
        self, directory: str, creates: Iterable[str], needs: Iterable[str], times: FileTimes
    ) -> bool:
        """True if all files exist and are complete, and no needed file is newer."""
        if not is_up_to_date(directory, creates, needs, times):
            return False
        unfinished = self._unfinished
        return not unfinished or all(_name(directory, pattern) not in unfinished for pattern in creates)

    def begin(self, directory: str, creates: Iterable[str]) -> None:
        """Record that a program is about to create files."""
        for pattern in creates:
            name = _name(directory, pattern)
            self._unfinished.add(name)
            self._record(_BEGUN, name)

    def complete(self, directory: str, creates: Iterable[str]) -> None:
        """Record that a program has created files, and ended with 0."""
        for pattern in creates:
            name = _name(directory, pattern)
            self._unfinished.discard(name)
            self._record(_DONE, name)

    def close(self) -> None:
        """Stop recording, for now or for good. Remove the record if no file may be half made."""
        descriptor, self._descriptor, self._lines = self._descriptor, None, 0
        if descriptor is None or self._file is None:
            return
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if unfinished := _read(self._file):
                lines = "".join(f"{_BEGUN}{name}\n" for name in sorted(unfinished))
                write_whole(self._file, os.fsencode(lines))
            else:
                self._file.unlink(missing_ok=True)
        except BlockingIOError:  # another program is using it
            pass
        except OSError as error:
            logger.warning("%s cannot be rewritten: %s", self._file, error)
        finally:
            os.close(descriptor)

    def _record(self, sign: str, name: str) -> None:
        if self._file is None:
            return
        try:
            if self._descriptor is None:
                flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
                self._descriptor = os.open(self._file, flags, 0o600)
                fcntl.flock(self._descriptor, fcntl.LOCK_SH)
                os.write(self._descriptor, b"\n")  # ends a line that a power loss may have cut off
            os.write(self._descriptor, os.fsencode(f"{sign}{name}\n"))
            self._lines += 1
            if self._lines >= MOST_LINES:
                self.close()
        except OSError as error:
            logger.warning("it is not recorded whether %s may be half made: %s", name, error)


def _read(file: Path) -> set[str]:
    """The files that may be half made, according to the record; none if it cannot be read."""
    unfinished = set[str]()
    try:
        text = file.read_text("utf-8", "surrogateescape")
    except OSError:
        return unfinished
    for line in text.split("\n"):
        if line.startswith(_BEGUN):
            unfinished.add(line[1:])
        elif line.startswith(_DONE):
            unfinished.discard(line[1:])
    return unfinished


def lacking(directory: str, creates: Iterable[str], needs: Iterable[str]) -> list[str]:
    """The needs that match no file, of a program that creates files: it is never up to date."""
    return [pattern for pattern in needs if _look(directory, pattern, {})[1] < 0] if any(creates) else []


def _path(directory: str, pattern: str) -> str:
    # os.path.join takes as long as examining the file
    return pattern if pattern.startswith("/") else f"{directory}/{pattern}"


def _name(directory: str, pattern: str) -> str:
    return os.path.normpath(_path(directory, pattern)).replace("\n", " ")


def is_up_to_date(directory: str, creates: Iterable[str], needs: Iterable[str], times: FileTimes) -> bool:
    """True if all files exist and no needed file is newer; False for a program that creates none.

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
    """The first and last modification times of the files that match a pattern, recorded in `times`."""
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
