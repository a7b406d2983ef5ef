"""The daemon's own log: a bounded file, one JSON object per line, shown by `narval log`."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import time
from collections import deque
from contextlib import suppress
from datetime import UTC, datetime
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any

from narval.core.source.secrets import without_secrets

FILE_BYTES = 2 * 1024 * 1024
"""The bytes at which a log file is rotated."""
FILES = 3
"""The number of files kept besides the one being written."""
KEPT = 2000
"""The lines kept in memory."""


class Logbook(logging.Handler):
    """Collects the log of narval and its actions.

    `path` is None for a home in memory. A logbook that is only read (`writes=False`) changes no file.
    """

    def __init__(self, path: Path | None, level: str = "info", *, writes: bool = True) -> None:
        super().__init__(level=level.upper())
        self._lines: deque[dict[str, Any]] = deque(maxlen=KEPT)
        if path is not None:
            with suppress(OSError):
                self._lines.extend(logged_in(path, KEPT))
        self._number = self._lines[-1]["seq"] if self._lines else 0
        self._waiting: set[asyncio.Future[None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._file: RotatingFileHandler | None = None
        if path is not None and writes:
            self._file = _LogFile(path, maxBytes=FILE_BYTES, backupCount=FILES, encoding="utf-8", delay=True)

    def leave(self, where: str) -> None:
        """End the file with a line that says where the log continues; lines are still kept in memory."""
        if self._file is not None:
            message = f"from here on the log is kept elsewhere: {where}"
            self.handle(logging.LogRecord("narval.log", logging.INFO, "", 0, message, None, None))
            self._file.close()
            self._file = None

    def attach(self) -> None:
        """Start collecting, for the running loop."""
        self._loop = asyncio.get_running_loop()
        logger = logging.getLogger("narval")
        logger.addHandler(self)
        if logger.level == logging.NOTSET or logger.level > self.level:
            logger.setLevel(self.level)
        logger.propagate = False

    def set_level(self, level: str) -> None:
        """Keep only lines of this level and above from now on."""
        self.setLevel(level.upper())
        if self._loop is not None:
            logging.getLogger("narval").setLevel(self.level)

    def detach(self) -> None:
        """Stop collecting."""
        logger = logging.getLogger("narval")
        logger.removeHandler(self)
        self._loop = None
        if not logger.handlers:
            logger.propagate = True
        if self._file is not None:
            self._file.close()

    def emit(self, record: logging.LogRecord) -> None:
        """Add a line; report one that cannot be formatted, since whoever logs it must not fail."""
        try:
            self._add(record)
        except Exception:
            self.handleError(record)

    def _add(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        if record.exc_info:
            message += "\n" + logging.Formatter().formatException(record.exc_info)
        self._number += 1
        line = {
            "seq": self._number,
            "at": datetime.fromtimestamp(record.created, UTC).astimezone().isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": without_secrets(message).encode("utf-8", "backslashreplace").decode(),
        }
        if run := getattr(record, "run", 0):  # for an action; narval.calls.output_capture sets it
            line |= {"run": run, "step": getattr(record, "step", "")}
        self._lines.append(line)
        if self._file is not None:
            self._write(record, line)
        if self._loop is not None and self._waiting:
            self._loop.call_soon_threadsafe(self._wake)

    def lines(self, after: int, most: int) -> list[dict[str, Any]]:
        """The last lines, or the first of those after a number; at most `most`."""
        if not after:
            return list(self._lines)[-most:] if most > 0 else []
        return [line for line in list(self._lines) if line["seq"] > after][:most]  # other threads add to it

    async def grown(self, wait: float) -> float:
        """Wait for the next line; return the seconds left of `wait`."""
        began = time.monotonic()
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(future)
        await asyncio.wait([future], timeout=wait)
        self._waiting.discard(future)
        return max(0.0, wait - (time.monotonic() - began))

    def _write(self, record: logging.LogRecord, line: dict[str, Any]) -> None:
        """Write a line to the file; a line that cannot be written (a full disk) is dropped."""
        assert self._file is not None
        text = json.dumps(line, ensure_ascii=False)
        plain = logging.LogRecord(record.name, record.levelno, "", 0, text, None, None)
        self._file.handleError = _pass  # type: ignore[method-assign]
        self._file.handle(plain)

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, set()
        for future in waiting:
            if not future.done():
                future.set_result(None)


class _LogFile(RotatingFileHandler):
    """A log file that only its owner can read."""

    def _open(self) -> TextIOWrapper:
        handle = os.open(self.baseFilename, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        os.fchmod(handle, 0o600)
        return os.fdopen(handle, "a", encoding="utf-8")


def _pass(record: logging.LogRecord) -> None:
    """Ignore a line that cannot be written."""


def logged_in(path: Path, most: int) -> list[dict[str, Any]]:
    """The last lines of a log file, at most `most`; none if there is no file. Raises OSError."""
    try:
        with path.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - FILE_BYTES))
            texts = file.read().decode("utf-8", "replace").splitlines()
    except FileNotFoundError:
        return []
    lines = []
    for text in texts[-KEPT:]:
        try:
            line = json.loads(text)
        except ValueError:
            continue
        if isinstance(line, dict) and isinstance(line.get("seq"), int):
            lines.append(line)
    return lines[-most:] if most > 0 else []
