"""The output of programs: the last lines, a limited part of the rest in a file, all of it live (A13), and
the files that they create: whether they are up to date (A9), and which may be half made.
"""

from __future__ import annotations

import codecs
import contextlib
import fcntl
import glob
import logging
import os
import shutil
import time
from collections.abc import Callable, Iterable
from functools import cached_property, partial
from pathlib import Path
from typing import IO

from narval.calls.context import CallContext
from narval.calls.output_capture import Lines
from narval.core.engines.view import FileTimes
from narval.system.whole_files import write_whole

logger = logging.getLogger("narval.program")

TAIL_BYTES, TAIL_LINES = 4096, 40
"""The end of the output that is kept with the run."""
IN_MEMORY = 16 * 1024
"""Bytes of output that are kept in memory; longer output goes to a file."""
FILE_BYTES = 1024 * 1024
"""The size in bytes at which a file is set aside; the file set aside before is dropped."""
LINES_A_SECOND = 200
"""The most lines of one program that are logged in a second; of further lines only the number is logged."""

SWEEP_EVERY = 3600.0
"""Seconds between two sweeps of the output of forgotten runs."""

Hear = Callable[[bytes, bool], None]
"""Called with a program's output as it arrives, with True for standard error; with b"" at the end."""
Listen = Callable[[CallContext], Hear]
IsKnown = Callable[[str, int], bool]
"""Tells whether an agent, by its name, has a run of that number."""


class ProgramOutput:
    """The output of one program so far. `path` returns the file for output that is too long for memory; None
    if there is none.
    """

    def __init__(self, hear: Hear, path: Callable[[], Path] | None) -> None:
        self._hear, self._path = hear, path
        self._begun, self._tail = bytearray(), b""
        self._file: IO[bytes] | None = None
        self._written = 0

    def add(self, data: bytes, is_error: bool) -> None:
        """Add output."""
        self._hear(data, is_error)
        self._tail = (self._tail + data[-TAIL_BYTES:])[-TAIL_BYTES:]
        if self._path is None:
            return
        if self._file is None and len(self._begun) + len(data) <= IN_MEMORY:
            self._begun += data
            return
        path = self._path()
        try:
            self._write(path, data)
        except OSError as error:  # a full disk must not end the program
            logger.warning("what is printed is not kept in %s: %s", path, error)
            self._path = None

    def close(self) -> None:
        """End the output."""
        self._hear(b"", False)
        if self._file is not None:
            self._file.close()
            self._file = None

    @property
    def last(self) -> str:
        """The last lines."""
        if not self._tail:
            return ""
        text = self._tail.decode("utf-8", "replace")
        if len(self._tail) == TAIL_BYTES:
            text = text.partition("\n")[2] or text
        return "\n".join(text.splitlines()[-TAIL_LINES:])

    def _write(self, path: Path, data: bytes) -> None:
        if self._file is None:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._file = path.open("wb", buffering=0)
            self._file.write(self._begun)
            self._written = len(self._begun)
            self._begun.clear()
        if self._written + len(data) > FILE_BYTES:
            self._file.close()
            path.replace(path.with_name(path.name + ".before"))
            self._file, self._written = path.open("wb", buffering=0), 0
        self._file.write(data)
        self._written += len(data)


def logged(call: CallContext) -> Hear:
    """A function that logs the output of a call's program, line by line."""
    return _Logged(call).hear


class OutputFolder:
    """The folder that keeps the output of programs, by run and step; None if nothing is kept.

    Output of the agent `own` is in the folder itself, that of any other in a folder of its name. `listen`
    returns the function that gets a call's output live. `known_runs` returns a test for the runs whose output
    is kept; the files of any other are removed (A13).
    """

    def __init__(
        self,
        folder: Path | None,
        *,
        listen: Listen = logged,
        own: str = "",
        known_runs: Callable[[], IsKnown] = lambda: lambda agent, run: True,
    ) -> None:
        self._folder, self._own, self._listen = folder, own, listen
        self._known_runs = known_runs
        self._swept = 0.0

    def redirect(self, listen: Listen) -> None:
        """Use another `listen` from now on."""
        self._listen = listen

    def of(self, call: CallContext) -> ProgramOutput:
        """The output of a call's program, which is about to start."""
        if time.monotonic() - self._swept > SWEEP_EVERY:
            self.sweep()
        path = partial(self._path_of, call, self._folder) if self._folder is not None else None
        return ProgramOutput(self._listen(call), path)

    def sweep(self) -> None:
        """Remove the output of runs that are forgotten."""
        self._swept, is_known = time.monotonic(), self._known_runs()
        with contextlib.suppress(OSError):
            for folder in self._folder.iterdir() if self._folder is not None else ():
                if folder.name.isdigit():
                    _sweep_run(self._own, folder, is_known)
                else:
                    for run in folder.iterdir():
                        _sweep_run(folder.name, run, is_known)

    def _path_of(self, call: CallContext, folder: Path) -> Path:
        of_agent = () if call.agent == self._own else (call.agent,)
        return folder.joinpath(*of_agent, str(call.run), call.step)


def _sweep_run(agent: str, folder: Path, is_known: IsKnown) -> None:
    if folder.name.isdigit() and not is_known(agent, int(folder.name)):
        shutil.rmtree(folder, ignore_errors=True)


class _Logged:
    """The log of a program's output, created with the first output: most programs print nothing."""

    def __init__(self, call: CallContext) -> None:
        self._call = call
        self._lines: tuple[Lines, Lines] | None = None

    def _open(self) -> tuple[Lines, Lines]:
        call = self._call
        self._extra = {"call": call.id, "run": call.run, "step": call.step}
        self._decoders = [codecs.getincrementaldecoder("utf-8")("replace") for _ in range(2)]
        self._since, self._room, self._left_out = 0.0, LINES_A_SECOND, 0
        return Lines(self._say), Lines(self._say)

    def hear(self, data: bytes, is_error: bool) -> None:
        """Log output; b"" is its end."""
        if not data:
            self._end()
            return
        if self._lines is None:
            self._lines = self._open()
        now = time.monotonic()
        if now - self._since > 1.0:
            self._tell_left_out()
            self._since, self._room = now, LINES_A_SECOND
        if self._room <= 0:
            self._left_out += data.count(b"\n")
            return
        self._lines[is_error].add(self._decoders[is_error].decode(data))

    def _end(self) -> None:
        if self._lines is not None:
            for lines in self._lines:
                lines.end()
            self._tell_left_out()

    def _tell_left_out(self) -> None:
        if self._left_out:
            logger.info("… %d lines left out: too many at once", self._left_out, extra=self._extra)
            self._left_out = 0

    def _say(self, line: str) -> None:
        if self._room > 0:
            self._room -= 1
            logger.info("%s: %s", self._extra["step"], line, extra=self._extra)
        else:
            self._left_out += 1


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
