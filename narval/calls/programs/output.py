"""The output of programs: the last lines, a limited part of the rest in a file, all of it live (A13)."""

from __future__ import annotations

import codecs
import contextlib
import logging
import shutil
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import IO

from narval.calls.context import CallContext
from narval.calls.output_capture import Lines

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
