"""A worker as the daemon sees it: a program, the pipes to it, and how it ended (N33).

Requests go to its standard input, answers come from its standard output, and what its actions print, at
whatever level, comes from its standard error. It leads a session of its own, so that it can be killed with
all that it started.
"""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Protocol

import narval
from narval.runtime.calls.output_capture import Lines
from narval.runtime.calls.workers.frames import Answered, FrameError, FrameReader, WorkerMessage, read_message

_CHUNK = 256 * 1024
_MOST_CHUNKS = 64
_A_FLOOD, _PAUSE = 32 * 1024, 0.1
"""Bytes printed at once after which a program has to wait for so many seconds before more is read."""
_FAREWELL = 5.0
"""Seconds a program may take to end when nothing more will come; one that was stopped never would."""
_LAST_WORDS = 20
_FOLDER = str(Path(narval.__file__).parent.parent)


class Listener(Protocol):
    """Who is told what a child says and does, on the loop's thread."""

    def child_said(self, child: Child, message: WorkerMessage) -> None:
        """It sent a message."""

    def child_printed(self, child: Child, line: str) -> None:
        """What runs in it printed a line."""

    def child_ended(self, child: Child, how: str) -> None:
        """It is no more; `how` is for people: "was killed by SIGSEGV", "exited with status 3"."""


class Child:
    """One worker program."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, listener: Listener, memory: int | None = None
    ) -> None:
        self._loop, self._listener = loop, listener
        self._frames = FrameReader()
        self._lines = Lines(self._printed)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._unsent = bytearray()
        self._fault = ""
        self._is_closed = False
        self._timers: list[asyncio.TimerHandle] = []
        self.last_words: deque[str] = deque(maxlen=_LAST_WORDS)
        # started in the folder that holds narval, to import the same narval; then it comes where we are
        self._program = subprocess.Popen(
            [
                *(sys.executable, "-m", "narval.runtime.calls.workers.worker"),
                *(str(os.getpid()), os.getcwd(), str(memory or 0)),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            cwd=_FOLDER,
            start_new_session=True,
        )
        assert self._program.stdin is not None
        assert self._program.stdout is not None
        assert self._program.stderr is not None
        self._requests = self._program.stdin.fileno()
        self._answers = self._program.stdout.fileno()
        self._prints = self._program.stderr.fileno()
        for pipe in (self._requests, self._answers, self._prints):
            os.set_blocking(pipe, False)
        loop.add_reader(self._answers, self._read_answers)
        loop.add_reader(self._prints, self._read_prints)
        self._watch()

    def send(self, frame: bytes) -> None:
        """Send a frame, as fast as the child takes it."""
        self._unsent += frame
        self._write()

    def retire(self) -> None:
        """Tell it that nothing more will come: it ends by itself, or is killed."""
        if self._program.stdin and not self._program.stdin.closed:
            self._loop.remove_writer(self._requests)
            self._program.stdin.close()
            self._later(_FAREWELL, self.kill)

    def kill(self, why: str = "") -> None:
        """End it at once, with all programs that it started; `why` is told of its end."""
        self._fault = self._fault or why
        with contextlib.suppress(ProcessLookupError, PermissionError):
            # not reaped yet, so the number cannot have passed to another program
            if self._program.returncode is None:
                os.killpg(self._program.pid, signal.SIGKILL)

    # --- the pipes ------------------------------------------------------------------------------------

    def _write(self) -> None:
        if self._program.stdin is None or self._program.stdin.closed:
            return
        try:
            while self._unsent:
                del self._unsent[: os.write(self._requests, self._unsent)]
        except BlockingIOError:
            self._loop.add_writer(self._requests, self._write)
            return
        except OSError:  # it is gone, or going: its end will be told
            self._unsent.clear()
        self._loop.remove_writer(self._requests)

    def _read_answers(self) -> bool:
        """Read what is there; False when there was nothing."""
        data = _read(self._answers)
        if data == b"":
            self._loop.remove_reader(self._answers)
            # it is about to end, most likely; if not, it can never answer again
            self._later(1.0, partial(self.kill, "closed its pipe to narval"))
        try:
            for body in self._frames.feed(data or b""):
                self._heard(read_message(body))
        except FrameError as error:
            self._loop.remove_reader(self._answers)
            self.kill(str(error))
        return bool(data)

    def _heard(self, message: WorkerMessage) -> None:
        if isinstance(message, Answered):  # what it printed before it answered belongs to the same call
            self._drain(self._read_prints)
            self._lines.end()
        self._listener.child_said(self, message)

    def _read_prints(self) -> bool:
        data = _read(self._prints)
        if data == b"":
            self._loop.remove_reader(self._prints)
        self._lines.add(self._decoder.decode(data or b""))
        if data is not None and len(data) >= _A_FLOOD:
            self._loop.remove_reader(self._prints)
            self._later(_PAUSE, self._listen_again)
        return bool(data)

    def _listen_again(self) -> None:
        """Go on with what a flood of prints left in the pipe: meanwhile its writer has had to wait."""
        self._loop.add_reader(self._prints, self._read_prints)

    def _later(self, seconds: float, what: Callable[[], None]) -> None:
        """Do something then, unless the pipes are closed by that time."""
        now = self._loop.time()
        self._timers = [timer for timer in self._timers if timer.when() > now]
        self._timers.append(self._loop.call_later(seconds, what))

    @staticmethod
    def _drain(read: Callable[[], bool]) -> None:
        """Read all that is there, but not for ever: a program that it started may go on writing."""
        for _ in range(_MOST_CHUNKS):
            if not read():
                return

    def _printed(self, line: str) -> None:
        self.last_words.append(line)
        self._listener.child_printed(self, line)

    # --- its end --------------------------------------------------------------------------------------

    def _watch(self) -> None:
        """Have `_ended` called when the program is no more: by a file descriptor, or else by a thread."""
        if sys.platform == "linux":
            self._death = os.pidfd_open(self._program.pid)
            self._loop.add_reader(self._death, self._ended)
            return
        threading.Thread(target=self._wait, name="narval-worker-end", daemon=True).start()

    def _wait(self) -> None:
        with contextlib.suppress(ChildProcessError):  # it has been reaped meanwhile
            os.waitid(os.P_PID, self._program.pid, os.WEXITED | os.WNOWAIT)
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._ended)

    def _ended(self) -> None:
        """Take in its last words, end what it left running, and tell."""
        if self._is_closed:
            return
        self.kill()
        self._drain(self._read_answers)
        self._drain(self._read_prints)
        self._lines.end()
        self.close()
        self._listener.child_ended(self, self._fault or _how(self._program.wait()))

    def end(self) -> None:
        """Kill it and wait until it is gone; nobody is told."""
        self.kill()
        if not self._is_closed:
            self.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._program.wait(1.0)

    def close(self) -> None:
        """Let go of the pipes."""
        self._is_closed = True
        if sys.platform == "linux":
            self._loop.remove_reader(self._death)
            os.close(self._death)
        self._loop.remove_reader(self._answers)
        self._loop.remove_reader(self._prints)
        self.retire()
        for timer in self._timers:
            timer.cancel()
        for pipe in (self._program.stdout, self._program.stderr):
            if pipe:
                pipe.close()


def _read(pipe: int) -> bytes | None:
    """What is in a pipe: b"" when it was closed, None when there is nothing now."""
    try:
        return os.read(pipe, _CHUNK)
    except BlockingIOError:
        return None
    except OSError:
        return b""


def _how(status: int) -> str:
    """How a program ended, for people."""
    if status >= 0:
        return f"exited with status {status}"
    try:
        return f"was killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"was killed by signal {-status}"
