"""Pipes of a started program, and its end, as events of the loop."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import sys
import threading
from collections.abc import Callable

CHUNK = 256 * 1024
"""Bytes read at once."""


class PipeWriter:
    """Writes to a pipe as fast as it is read. When its reader is gone, the rest is dropped."""

    __slots__ = ("_ends", "_loop", "_pipe", "_unsent")

    def __init__(self, loop: asyncio.AbstractEventLoop, pipe: int) -> None:
        os.set_blocking(pipe, False)
        self._loop, self._pipe = loop, pipe
        self._unsent = bytearray()
        self._ends = False

    def send(self, data: bytes, *, ends: bool = False) -> None:
        """Write these bytes after the earlier ones; with `ends`, close the pipe when all is written."""
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
        except OSError:  # the reader is gone
            self._unsent.clear()
        self._loop.remove_writer(self._pipe)
        if self._ends:
            self.close()


class Descriptors:
    """Watches descriptors for reading, until it is closed; the loop watches one descriptor in place of them
    all.

    Having the loop watch each of a short program's three descriptors would take a seventh of the work for it.
    """

    __slots__ = ("_loop", "_poll", "_ready")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._poll: select.epoll | None = None
        self._ready: dict[int, Callable[[], object]] = {}

    def add_reader(self, descriptor: int, ready: Callable[[], object]) -> None:
        """Call `ready` whenever there is something to read, or the end is reached."""
        if self._poll is None:
            self._poll = select.epoll()
            self._loop.add_reader(self._poll.fileno(), self._tell, self._poll)
        self._poll.register(descriptor, select.EPOLLIN)
        self._ready[descriptor] = ready

    def remove_reader(self, descriptor: int) -> None:
        """Stop watching a descriptor, if it was watched; it stays open."""
        if self._poll is None or self._ready.pop(descriptor, None) is None:
            return
        self._poll.unregister(descriptor)

    def close(self) -> None:
        """Stop watching all descriptors."""
        if self._poll is not None:
            self._loop.remove_reader(self._poll.fileno())
            self._poll.close()
            self._poll = None

    def _tell(self, poll: select.epoll) -> None:
        ready = [(descriptor, self._ready[descriptor]) for descriptor, _ in poll.poll(0)]
        for descriptor, call in ready:
            if self._ready.get(descriptor) is not call:  # it was closed, and its number may have been reused
                continue
            try:
                call()
            except Exception as error:  # the others are still called
                message = "what was watched could not be read"
                self._loop.call_exception_handler({"message": message, "exception": error})


Readers = asyncio.AbstractEventLoop | Descriptors
"""The loop itself, or the descriptors that it watches as one."""


class ProgramEnd:
    """Calls `ended` when a child program has ended, noticed by a file descriptor, or else by a thread."""

    __slots__ = ("_death", "_ended", "_pid", "_readers")

    def __init__(self, readers: Readers, pid: int, ended: Callable[[], None]) -> None:
        self._readers, self._pid, self._ended = readers, pid, ended
        self._death = -1
        if sys.platform == "linux":
            self._death = os.pidfd_open(pid)
            readers.add_reader(self._death, ended)
        else:
            waiting = (asyncio.get_running_loop(),)
            threading.Thread(target=self._wait, args=waiting, name="narval-program-end", daemon=True).start()

    def close(self) -> None:
        """Stop watching."""
        if self._death >= 0:
            self._readers.remove_reader(self._death)
            os.close(self._death)
            self._death = -1

    def _wait(self, loop: asyncio.AbstractEventLoop) -> None:
        with contextlib.suppress(ChildProcessError):  # it has already been reaped
            os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOWAIT)
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(self._ended)


def read_pipe(pipe: int) -> bytes | None:
    """The bytes in a non-blocking pipe: b"" when it is closed, None if there are none now."""
    try:
        return os.read(pipe, CHUNK)
    except BlockingIOError:
        return None
    except OSError:
        return b""
