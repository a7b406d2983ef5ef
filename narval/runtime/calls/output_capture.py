"""What actions print goes to the log, with the call it belongs to, and not among the daemon's own output."""

from __future__ import annotations

import contextvars
import logging
import sys
from collections.abc import Callable
from typing import Any, TextIO

from narval.runtime.calls.context import CallContext, current_call

logger = logging.getLogger("narval.action")

_LONGEST_LINE = 8_192
_logging: contextvars.ContextVar[bool] = contextvars.ContextVar("narval-action-logging", default=False)


_unended: set[str] = set()
"""Calls that have printed something."""

MOST_AT_ONCE = 400
"""Lines of one piece that are told; a program that prints without end must not be all that a log holds."""


class Lines:
    """Text that comes in pieces, told line by line; what is never ended is told when it gets long."""

    __slots__ = ("_rest", "_tell")

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._rest = ""

    def add(self, text: str) -> None:
        """Tell the lines that this piece completes."""
        *complete, self._rest = (self._rest + text).split("\n")
        for line in complete[:MOST_AT_ONCE]:
            self._say(line)
        if len(complete) > MOST_AT_ONCE:
            self._say(f"… {len(complete) - MOST_AT_ONCE} lines left out: too many at once")
        while len(self._rest) > _LONGEST_LINE:
            self._say(self._rest[:_LONGEST_LINE])
            self._rest = self._rest[_LONGEST_LINE:]

    def end(self) -> None:
        """Tell what is left."""
        rest, self._rest = self._rest, ""
        self._say(rest)

    def _say(self, line: str) -> None:
        if line.strip():
            self._tell(line.rstrip())


def log_print(line: str, id: str, run: int, step: str) -> None:
    """One line that an action printed."""
    logger.info("%s", line, extra={"call": id, "run": run, "step": step})


class _Captured:
    """Stands before a stream: what an action writes goes to the log, all else passes through."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._lines: dict[str, Lines] = {}

    def write(self, text: str) -> int:
        current = None if _logging.get() else current_call()
        if current is None:
            return self._stream.write(text)
        self._of(current).add(text)
        return len(text)

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def end(self, id: str) -> None:
        """Tell what the call has left on an unfinished line."""
        lines = self._lines.pop(id, None)
        if lines is not None:
            lines.end()

    def _of(self, current: CallContext) -> Lines:
        lines = self._lines.get(current.id)
        if lines is None:
            id, run, step = current.id, current.run, current.step
            lines = self._lines[id] = Lines(lambda line: self._log(line, id, run, step))
            _unended.add(id)
        return lines

    def _log(self, line: str, id: str, run: int, step: str) -> None:
        # a log handler may write to this very stream: that must pass through, not come back here
        token = _logging.set(True)
        try:
            log_print(line, id, run, step)
        finally:
            _logging.reset(token)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def capture_output() -> Callable[[], None]:
    """Send what actions print to the logger `narval.action`; gives a function that puts everything back.

    Done once: when it is in place already, nothing happens.
    """
    before = sys.stdout, sys.stderr
    if isinstance(sys.stdout, _Captured):
        return lambda: None
    sys.stdout, sys.stderr = _Captured(sys.stdout), _Captured(sys.stderr)

    def restore() -> None:
        sys.stdout, sys.stderr = before

    return restore


def end_prints(id: str) -> None:
    """A call is over: tell what it printed without ending the line."""
    if id not in _unended:
        return
    _unended.discard(id)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, _Captured):
            stream.end(id)
