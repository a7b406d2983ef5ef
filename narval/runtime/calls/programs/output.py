"""What a program prints: its last lines, a bounded part of the rest in a file, and all of it live (A13)."""

from __future__ import annotations

import codecs
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO

from narval.runtime.calls.backend import Task
from narval.runtime.calls.output_capture import Lines

logger = logging.getLogger("narval.program")

TAIL_BYTES, TAIL_LINES = 4096, 40
"""How much of its end is kept with the run."""
AT_HAND = 16 * 1024
"""What is longer goes to a file."""
FILE_BYTES = 1024 * 1024
"""At this size a file is set aside, and the one set aside before it dropped."""
LINES_A_SECOND = 200
"""So many lines of one program the log is told in a second; of more it is told how many there were."""

Heard = Callable[[bytes, bool], None]
"""Told what a program printed, as it comes, and whether to its standard error."""
Listen = Callable[[Task], Heard]


class ProgramOutput:
    """What one program has printed so far. `path` is where what is too long is kept, None: nowhere."""

    __slots__ = ("_begun", "_file", "_heard", "_path", "_tail", "_written")

    def __init__(self, heard: Heard, path: Path | None) -> None:
        self._heard, self._path = heard, path
        self._begun, self._tail = bytearray(), b""
        self._file: IO[bytes] | None = None
        self._written = 0

    def add(self, data: bytes, is_error: bool) -> None:
        """It printed something."""
        self._heard(data, is_error)
        self._tail = (self._tail + data[-TAIL_BYTES:])[-TAIL_BYTES:]
        if self._path is None:
            return
        if self._file is None and len(self._begun) + len(data) <= AT_HAND:
            self._begun += data
            return
        try:
            self._write(self._path, data)
        except OSError as error:  # a full disk must not end what runs
            logger.warning("what is printed is not kept in %s: %s", self._path, error)
            self._path = None

    def close(self) -> None:
        """Nothing more will come."""
        self._heard(b"", False)
        if self._file is not None:
            self._file.close()
            self._file = None

    @property
    def last(self) -> str:
        """The last lines."""
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


def logged(task: Task) -> Heard:
    """Tells the log what a program prints, line by line."""
    return _Logged(task).hear


class _Logged:
    __slots__ = ("_decoders", "_extra", "_left_out", "_lines", "_room", "_since")

    def __init__(self, task: Task) -> None:
        self._extra = {"call": task.call, "run": task.run, "step": task.step}
        self._lines: tuple[Lines, Lines] | None = None
        self._decoders = [codecs.getincrementaldecoder("utf-8")("replace") for _ in range(2)]
        self._since, self._room, self._left_out = 0.0, LINES_A_SECOND, 0

    def hear(self, data: bytes, is_error: bool) -> None:
        """It printed something; nothing, when it is over."""
        if not data:
            self._end()
            return
        if self._lines is None:
            self._lines = Lines(self._say), Lines(self._say)
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
