"""The daemon's side of a worker: a program, the pipes to it, and how it ended (N33).

Requests go to its standard input, answers come from its standard output, and all prints of its actions, even
those of C code, from its standard error. It leads its own session, so that it can be killed with everything
that it started.
"""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import msgspec

import narval
from narval.calls.output_capture import Lines
from narval.calls.record import CallRecord
from narval.calls.workers.confined import Confined
from narval.calls.workers.frames import Answered, FrameError, FrameReader, read_message
from narval.system.pipes import PipeWriter, ProgramEnd, read_pipe
from narval.system.secret import without_given

_MOST_CHUNKS = 64
_FLOOD, _PAUSE = 32 * 1024, 0.1
"""The bytes printed at once after which a program must wait, and the seconds for which it waits."""
_FAREWELL = 5.0
"""Seconds that a program may take to end after its requests end; a stopped program would never end."""
_LAST_LINES = 20
_FOLDER = str(Path(narval.__file__).parent.parent)


class Listener(Protocol):
    """The owner of a child, which gets its messages, on the loop's thread."""

    def child_said(self, child: Child, message: Any) -> None:
        """Handle a message."""

    def child_printed(self, child: Child, line: str) -> None:
        """Handle a line that the child printed."""

    def child_ended(self, child: Child, how: str) -> None:
        """Handle its end; `how` is for people: "was killed by SIGSEGV", "exited with status 3"."""


class Child:
    """One worker program, or another program of narval. Its `words` follow those that start Python; it sees
    only the variables of its `environment`; `read` parses its messages.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        listener: Listener,
        words: Sequence[str],
        environment: Mapping[str, str] | None = None,
        read: Callable[[bytes], Any] = read_message,
    ) -> None:
        self._loop, self._listener, self._read_message = loop, listener, read
        self._frames = FrameReader()
        self._fault = ""
        self._program, self.requests, self._answers, prints = _started(loop, words, environment)
        self.prints = Prints(loop, prints, partial(listener.child_printed, self))
        loop.add_reader(self._answers, self._read_answers)
        self.record: CallRecord | None = None
        """The call that it answers."""
        self.is_stale = False
        """True if it must end with its call."""
        self._timer: asyncio.TimerHandle | None = None
        self._killing: asyncio.TimerHandle | None = None
        self._watch = ProgramEnd(loop, self._program.pid, self._ended)

    @property
    def pid(self) -> int:
        """The process id of the program, and of the group that it leads."""
        return self._program.pid

    def take(self, record: CallRecord | None) -> None:
        """Assign a call to it; None: it is free."""
        self.record = record
        self.stop_timer()
        if record is not None:
            self.prints.last.clear()

    def outdate(self) -> None:
        """Mark the worker to end when it is free."""
        self.is_stale = True

    def retire(self) -> None:
        """Close its requests: it ends by itself, or is killed."""
        self.requests.close()
        self._kill_after(_FAREWELL)

    def kill(self, why: str = "") -> None:
        """End it at once, with all programs that it started; `why` is reported as the way it ended."""
        self._fault = self._fault or why
        with contextlib.suppress(ProcessLookupError, PermissionError):
            # not reaped yet, so the number cannot belong to another program
            if self._program.returncode is None:
                os.killpg(self._program.pid, signal.SIGKILL)

    def end(self) -> None:
        """Kill it and wait until it is gone; the listener is not called."""
        self.kill()
        if self._answers >= 0:
            self.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._program.wait(1.0)

    def close(self) -> None:
        """Close the pipes."""
        self._watch.close()
        self._loop.remove_reader(self._answers)
        os.close(self._answers)
        self._answers = -1
        self.requests.close()
        self.prints.close()
        self.stop_timer()
        if self._killing is not None:
            self._killing.cancel()

    def _read_answers(self) -> bool:
        """Read the available answers; False if there are none."""
        data = read_pipe(self._answers)
        if data == b"":
            self._loop.remove_reader(self._answers)
            # most likely it is about to end; if not, it can never answer again
            self._kill_after(1.0, "closed its pipe to narval")
        try:
            for body in self._frames.feed(data or b""):
                message = self._read_message(body)
                if isinstance(message, Answered):  # its prints before the answer belong to the same call
                    self.prints.finish()
                self._listener.child_said(self, message)
        except FrameError as error:
            self._loop.remove_reader(self._answers)
            self.kill(str(error))
        return bool(data)

    def after(self, seconds: float, act: Callable[[], None]) -> None:
        """Call `act` after `seconds` seconds, unless the pipes are closed first. This replaces the previous
        `act`.
        """
        self.stop_timer()
        self._timer = self._loop.call_later(seconds, act)

    def stop_timer(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _kill_after(self, seconds: float, why: str = "") -> None:
        if self._killing is None:
            self._killing = self._loop.call_later(seconds, self.kill, why)

    def _ended(self) -> None:
        """Read its last messages and prints, end the programs that it left running, and tell the listener."""
        if self._answers < 0:  # closed
            return
        self.kill()
        _drain(self._read_answers)
        self.prints.finish()
        self.close()
        self._listener.child_ended(self, self._fault or _how(self._program.wait()))


class Prints:
    """The prints of a child, line by line; `last` are the last lines."""

    def __init__(self, loop: asyncio.AbstractEventLoop, pipe: int, printed: Callable[[str], None]) -> None:
        self._loop, self._pipe, self._printed = loop, pipe, printed
        self.last: deque[str] = deque(maxlen=_LAST_LINES)
        self._lines = Lines(self._print)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._pause: asyncio.TimerHandle | None = None
        loop.add_reader(pipe, self._read)

    def finish(self) -> None:
        """Read the prints received so far, and complete an unfinished line."""
        _drain(self._read)
        self._lines.end()

    def close(self) -> None:
        """Close the pipe."""
        if self._pause is not None:
            self._pause.cancel()
        self._loop.remove_reader(self._pipe)
        os.close(self._pipe)

    def _read(self) -> bool:
        data = read_pipe(self._pipe)
        if data == b"":
            self._loop.remove_reader(self._pipe)
        self._lines.add(self._decoder.decode(data or b""))
        if data is not None and len(data) >= _FLOOD:  # the rest waits in the pipe, and so does its writer
            self._loop.remove_reader(self._pipe)
            if self._pause is not None:
                self._pause.cancel()
            self._pause = self._loop.call_later(_PAUSE, self._resume)
        return bool(data)

    def _resume(self) -> None:
        self._loop.add_reader(self._pipe, self._read)

    def _print(self, line: str) -> None:
        line = without_given(line)
        self.last.append(line)
        self._printed(line)


def worker_words(memory: int | None, confined: Confined | None) -> list[str]:
    """The arguments that make Python a worker, which may be confined."""
    limits = [msgspec.json.encode(confined).decode()] if confined is not None else []
    return ["narval.calls.workers.worker", str(os.getpid()), os.getcwd(), str(memory or 0), *limits]


def _started(
    loop: asyncio.AbstractEventLoop, words: Sequence[str], environment: Mapping[str, str] | None
) -> tuple[subprocess.Popen[bytes], PipeWriter, int, int]:
    """Start a worker program; return it, its requests, and the pipes of its answers and prints."""
    requests, answers, prints = os.pipe(), os.pipe(), os.pipe()
    try:
        # started in the folder that holds narval, to import the same narval; then it changes to ours
        program = subprocess.Popen(
            [sys.executable, "-m", *words],
            env=environment,
            stdin=requests[0],
            stdout=answers[1],
            stderr=prints[1],
            cwd=_FOLDER,
            start_new_session=True,
        )
    except OSError:
        for pipe in (requests[1], answers[0], prints[0]):
            os.close(pipe)
        raise
    finally:
        for pipe in (requests[0], answers[1], prints[1]):
            os.close(pipe)
    for pipe in (answers[0], prints[0]):
        os.set_blocking(pipe, False)
    return program, PipeWriter(loop, requests[1]), answers[0], prints[0]


def _drain(read: Callable[[], bool]) -> None:
    """Read everything available, but not for ever: a program that it started may keep writing."""
    for _ in range(_MOST_CHUNKS):
        if not read():
            return


def _how(status: int) -> str:
    """The way a program ended, for people."""
    if status >= 0:
        return f"exited with status {status}"
    try:
        return f"was killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"was killed by signal {-status}"
