"""One program under way, with all that it starts: fed, read, and ended as one group (A2, A4).

It is over when all of the group is gone. What a program has left running when it ends by itself is ended
then; what has left the group goes on, unless the program was ended on request.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence

from narval.runtime.calls.programs import reaper, spawn
from narval.runtime.calls.programs.output import ProgramOutput
from narval.runtime.calls.programs.reaper_client import ReaperClient

log = logging.getLogger("narval.programs")

_CHUNK = 256 * 1024
_MOST_CHUNKS = 64
_LOOK_AGAIN = 0.02
"""Seconds between looks at whether a group that is being ended is gone."""
_PATIENCE = 10.0
"""Seconds after SIGKILL when what cannot be ended (it waits for a disk, or belongs to root) is given up."""

Over = Callable[[int], None]
"""Told the status: negative, the signal that ended the program."""


class ProcessGroup:
    """A program that was started, and those that it has started.

    `mark` is the variable of its environment that no other program has but those that it started.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        keeping: ReaperClient,
        output: ProgramOutput,
        over: Over,
        *,
        grace: float,
        mark: str,
    ) -> None:
        self._loop, self._keeping, self._output, self._over = loop, keeping, output, over
        self._grace, self._mark = grace, mark.encode()
        self._readers: dict[int, bool] = {}
        """Pipes that are read, and whether each is a standard error."""
        self._feed, self._unfed = -1, memoryview(b"")
        self._death = -1
        self._status: int | None = None
        self._is_ending = self._is_asked = False
        self._killed_at = 0.0
        self._pause = _LOOK_AGAIN
        self._timer: asyncio.TimerHandle | None = None

    def start(
        self, words: Sequence[str], environment: Mapping[str, str], directory: str, text: bytes
    ) -> None:
        """Start it. Raises CannotStartError, or OSError when the system has no pipe left."""
        with contextlib.ExitStack() as theirs:
            given = self._input(text, theirs)
            output, error = self._pipe(theirs, is_error=False), self._pipe(theirs, is_error=True)
            try:
                self._program = spawn.start(words, environment, directory, spawn.Pipes(given, output, error))
            except spawn.CannotStartError:
                self._close()
                raise
        self.pid = self._program.pid
        self._keeping.began(self.pid)
        for pipe in self._readers:
            self._loop.add_reader(pipe, self._read, pipe)
        if self._feed >= 0:
            self._loop.add_writer(self._feed, self._write)
        self._watch()

    def end(self) -> None:
        """End it on request, with what has left its group: SIGTERM, and after the grace SIGKILL."""
        self._is_asked = True
        self._end()

    def _end(self) -> None:
        if not self._is_ending:
            self._is_ending = True
            self._signal(signal.SIGTERM)
            self._signal(signal.SIGCONT)  # what was stopped hears it too
            self._timer = self._loop.call_later(self._grace, self._kill)

    # --- its pipes ------------------------------------------------------------------------------------

    def _input(self, text: bytes, theirs: contextlib.ExitStack) -> int:
        """Its standard input: what fits into a pipe is there before it is, the rest follows."""
        if not text:
            nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
            theirs.callback(os.close, nothing)
            return nothing
        given, feed = os.pipe()
        theirs.callback(os.close, given)
        os.set_blocking(feed, False)
        self._feed, self._unfed = feed, memoryview(text)
        if self._push():
            self._stop_feeding()
        return given

    def _pipe(self, theirs: contextlib.ExitStack, *, is_error: bool) -> int:
        ours, their = os.pipe()
        theirs.callback(os.close, their)
        os.set_blocking(ours, False)
        self._readers[ours] = is_error
        return their

    def _write(self) -> None:
        if self._push():
            self._loop.remove_writer(self._feed)
            self._stop_feeding()

    def _push(self) -> bool:
        """Write what it takes; True when nothing is left, or nobody reads."""
        try:
            while self._unfed:
                self._unfed = self._unfed[os.write(self._feed, self._unfed) :]
        except BlockingIOError:
            return False
        except OSError:  # it reads no more
            pass
        return True

    def _stop_feeding(self) -> None:
        os.close(self._feed)
        self._feed = -1

    def _read(self, pipe: int) -> bool:
        """Read what is there; False when there is nothing now, or nothing more."""
        try:
            data = os.read(pipe, _CHUNK)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if data:
            self._output.add(data, self._readers[pipe])
            return True
        self._loop.remove_reader(pipe)
        del self._readers[pipe]
        os.close(pipe)
        return False

    # --- its end --------------------------------------------------------------------------------------

    def _watch(self) -> None:
        """Have `_died` called when the program is no more: by a file descriptor, or else by a thread."""
        if sys.platform == "linux":
            self._death = os.pidfd_open(self.pid)
            self._loop.add_reader(self._death, self._died)
            return
        threading.Thread(target=self._wait, name="narval-program-end", daemon=True).start()

    def _wait(self) -> None:
        with contextlib.suppress(ChildProcessError):
            os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._died)

    def _died(self) -> None:
        """Take in what it printed, and end what it has left running."""
        self._status = self._program.status()
        for pipe in tuple(self._readers):
            for _ in range(_MOST_CHUNKS):
                if not self._read(pipe):
                    break
        if not self._is_ending and not reaper.is_gone(self.pid):
            self._end()
        self._look()

    def _look(self) -> None:
        """Whether all is gone; if not, look again in a while."""
        if self._left():
            if self._killed_at and self._loop.time() - self._killed_at > _PATIENCE:
                log.error("program %d, or what it has started, cannot be ended", self.pid)
                self._finish()
                return
            self._loop.call_later(self._pause, self._look)
            self._pause = min(0.1, self._pause * 1.5)
            return
        self._finish()

    def _left(self) -> bool:
        """Whether something is left of it; what has left the group is ended at once where that was asked."""
        if not reaper.is_gone(self.pid):
            return True
        if not self._is_asked:
            return False
        found = list(reaper.carriers(self._mark.__eq__))
        for program in found:
            reaper.send(program, signal.SIGKILL)
        if found and not self._killed_at:
            self._killed_at = self._loop.time()
        return bool(found)

    def _kill(self) -> None:
        self._killed_at = self._loop.time()
        self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    def _finish(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._keeping.ended(self.pid)
        self._close()
        assert self._status is not None
        self._over(self._status)

    def _close(self) -> None:
        if self._death >= 0:
            self._loop.remove_reader(self._death)
            os.close(self._death)
            self._death = -1
        if self._feed >= 0:
            self._loop.remove_writer(self._feed)
            os.close(self._feed)
            self._feed = -1
        for pipe in self._readers:
            self._loop.remove_reader(pipe)
            os.close(pipe)
        self._readers.clear()
