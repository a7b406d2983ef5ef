"""The prints of actions. In a daemon they go to the log with their call, not to the daemon's output."""

from __future__ import annotations

import contextlib
import contextvars
import logging
import sys
from collections.abc import Callable
from typing import Any, TextIO

from narval.calls.context import CallContext, current_call

logger = logging.getLogger("narval.action")

_LONGEST_LINE = 8_192
_LONGEST_NAME = 200
_logging: contextvars.ContextVar[bool] = contextvars.ContextVar("narval-action-logging", default=False)


UNENDED: set[str] = set()
"""The calls that may have an unfinished line."""

MOST_AT_ONCE = 400
"""The most lines of one piece that are logged, so that endless output does not fill the log."""


class Lines:
    """Splits text that comes in pieces into lines. A long line is passed on before its end."""

    __slots__ = ("_rest", "_write")

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._rest = ""

    def add(self, text: str) -> None:
        """Pass on the lines that this piece completes."""
        *complete, self._rest = (self._rest + text).split("\n")
        for line in complete[:MOST_AT_ONCE]:
            self._hand_on(line)
        if len(complete) > MOST_AT_ONCE:
            self._hand_on(f"… {len(complete) - MOST_AT_ONCE} lines left out: too many at once")
        while len(self._rest) > _LONGEST_LINE:
            self._hand_on(self._rest[:_LONGEST_LINE])
            self._rest = self._rest[_LONGEST_LINE:]

    def end(self) -> None:
        """Pass on an unfinished line."""
        rest, self._rest = self._rest, ""
        self._hand_on(rest)

    def _hand_on(self, line: str) -> None:
        if line.strip():
            self._write(line.rstrip())


def log_print(line: str, id: str, run: int, step: str) -> None:
    """Log a line that an action printed in a separate program; if output is not captured, print it."""
    if _CAPTURED:
        _log(line, id, run, step)
    else:
        with contextlib.suppress(OSError, ValueError):  # nobody reads the output any more
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()


def _log(line: str, id: str, run: int, step: str) -> None:
    logger.info("%s", line, extra={"call": id, "run": run, "step": step})


class _Captured:
    """Wraps a stream: text that an action writes goes to the log; everything else passes through."""

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
        """Log the unfinished line of a call."""
        lines = self._lines.pop(id, None)
        if lines is not None:
            lines.end()

    def _of(self, current: CallContext) -> Lines:
        lines = self._lines.get(current.id)
        if lines is None:
            id, run, step = current.id, current.run, current.step
            lines = self._lines[id] = Lines(lambda line: self._log(line, id, run, step))
            UNENDED.add(id)
        return lines

    def _log(self, line: str, id: str, run: int, step: str) -> None:
        # A log handler may write to this very stream: that must pass through, not loop back here.
        token = _logging.set(True)
        try:
            _log(line, id, run, step)
        finally:
            _logging.reset(token)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def log_record(name: str, level: int, message: str, id: str, run: int, step: str) -> None:
    """Log a line that an action in a separate program logged, with the name of its logger and its level.

    The name is not trusted: it becomes no logger, which Python would keep for ever, and below `narval` it is
    put below `narval.action`, so that no action logs in the name of the daemon.
    """
    narval = logging.getLogger("narval")
    if level < narval.getEffectiveLevel():
        return
    record = logging.LogRecord(_name_of_action(name), level, "", 0, message, None, None)
    vars(record).update({"call": id, "run": run, "step": step})
    narval.handle(record)


def _name_of_action(name: str) -> str:
    """The name under which the lines of an action's logger are logged."""
    first, dot, rest = name[:_LONGEST_NAME].partition(".")
    if first == "narval" and rest.partition(".")[0] != "action":
        return f"{logger.name}{dot}{rest}"
    return name[:_LONGEST_NAME]


class _OfActions(logging.Handler):
    """Adds to the log what an action logs through its own logger or a library's, with its level and run.

    Anything logged elsewhere is treated as if there were no handler. The presence of this handler also keeps
    Python from adding one.
    """

    def emit(self, record: logging.LogRecord) -> None:
        """Log a record."""
        if record.name.partition(".")[0] == "narval" or hasattr(record, "run"):  # the log has it already
            return
        try:
            self._log(record)
        except Exception:  # a wrong log call fails no action
            self.handleError(record)

    def _log(self, record: logging.LogRecord) -> None:
        current = None if _logging.get() else current_call()
        if current is not None:
            vars(record).update({"call": current.id, "run": current.run, "step": current.step})
            for handler in logging.getLogger("narval").handlers:
                if record.levelno >= handler.level:
                    handler.handle(record)
        elif (last := logging.lastResort) is not None and record.levelno >= last.level:
            _print_unless_handled(record, last)


def _print_unless_handled(record: logging.LogRecord, handler: logging.Handler) -> None:
    """Print a record as Python does: unless its logger or one above it, except the root, has a handler."""
    logger = logging.getLogger(record.name)
    while logger.parent is not None and not logger.handlers:
        logger = logger.parent
    if logger.parent is None:
        handler.handle(record)


_CAPTURED: list[_Captured] = []
"""The streams that replace this program's output, once it is captured."""


def capture_output() -> Callable[[], None]:
    """Send what actions print to the logger `narval.action`, and what they log through other loggers to the
    log; return a function that restores everything.

    If output is already captured, do nothing.
    """
    before = sys.stdout, sys.stderr
    if _CAPTURED:
        return lambda: None
    _CAPTURED.extend((_Captured(sys.stdout), _Captured(sys.stderr)))
    sys.stdout, sys.stderr = _CAPTURED
    logging.getLogger().addHandler(of_actions := _OfActions())

    def restore() -> None:
        logging.getLogger().removeHandler(of_actions)
        _CAPTURED.clear()
        sys.stdout, sys.stderr = before

    return restore


def end_prints(id: str) -> None:
    """Log the unfinished lines of a call that has ended."""
    if id not in UNENDED:
        return
    UNENDED.discard(id)
    for stream in _CAPTURED:
        stream.end(id)
