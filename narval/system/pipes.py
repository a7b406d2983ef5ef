"""Pipes of a program that was started, and its end, as events of the loop."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading
from collections.abc import Callable

CHUNK = 256 * 1024
"""Bytes read at once."""


class PipeWriter:
    """Writes to a pipe, as fast as it is read. When no one reads it any more, the rest is dropped."""

    __slots__ = ("_ends", "_loop", "_pipe", "_unsent")

    def __init__(self, loop: asyncio.AbstractEventLoop, pipe: int) -> None:
        os.set_blocking(pipe, False)
        self._loop, self._pipe = loop, pipe
        self._unsent = bytearray()
        self._ends = False

    def send(self, data: bytes, *, ends: bool = False) -> None:
        """Write these bytes after those before; with `ends`, close the pipe when all is written."""
        if self._pipe >= 0:
            self._unsent += data
            self._ends = ends
            self._write()

    def close(self) -> None:
        """Close the pipe now."""
        if self._pipe >= 0:
            self._loop.remove_writer(self._pipe)
            os.close(self._pipe)
            self._pipe = -1

    def _write(self) -> None:
        try:
            while self._unsent:
                del self._unsent[: os.write(self._pipe, self._unsent)]
        except BlockingIOError:
            self._loop.add_writer(self._pipe, self._write)
            return
        except OSError:  # no one reads any more
            self._unsent.clear()
        self._loop.remove_writer(self._pipe)
        if self._ends:
            self.close()


class ProgramEnd:
    """Calls `ended` once a child program is no more, by a file descriptor, or else by a thread."""

    __slots__ = ("_death", "_ended", "_loop", "_pid")

    def __init__(self, loop: asyncio.AbstractEventLoop, pid: int, ended: Callable[[], None]) -> None:
        self._loop, self._pid, self._ended = loop, pid, ended
        self._death = -1
        if sys.platform == "linux":
            self._death = os.pidfd_open(pid)
            loop.add_reader(self._death, ended)
        else:
            threading.Thread(target=self._wait, name="narval-program-end", daemon=True).start()

    def close(self) -> None:
        """Watch no more."""
        if self._death >= 0:
            self._loop.remove_reader(self._death)
            os.close(self._death)
            self._death = -1

    def _wait(self) -> None:
        with contextlib.suppress(ChildProcessError):  # it has been reaped meanwhile
            os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOWAIT)
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._ended)


def read_pipe(pipe: int) -> bytes | None:
    """The bytes in a pipe that does not block: b"" when it was closed, None when there are none now."""
    try:
        return os.read(pipe, CHUNK)
    except BlockingIOError:
        return None
    except OSError:
        return b""
