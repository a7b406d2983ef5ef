"""The daemon's side of the renewer: tells it that the daemon lives, and restarts it if it dies."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from narval.store.postgresql.leases import PULSE
from narval.system.pipes import read_pipe


class RenewerClient:
    """The program that renews for a daemon, by its number, in the store at a URL, from `begin` to `close`.

    It is started after `after` seconds. A command that ends before that, within the lease that joining gave
    it, needs none.
    """

    def __init__(self, url: str, daemon: int, after: float = 0.0) -> None:
        self._url, self._daemon = url, daemon
        self._from, self._using = time.monotonic() + after, threading.Lock()
        self._renewed: Callable[[float], None] | None = None
        self._program: subprocess.Popen[bytes] | None = None
        self._pulse: asyncio.TimerHandle | None = None

    @property
    def pid(self) -> int | None:
        """The process id of the running renewer, or None."""
        return self._program.pid if self._program is not None else None

    def begin(self) -> None:
        """Send the renewer a sign of life whenever the event loop runs, from now on."""
        loop = asyncio.get_running_loop()
        with self._using:
            if self._is_started(loop):
                self._write(b"%f\n" % time.monotonic())
        self._pulse = loop.call_later(PULSE, self.begin)

    def tell_of_renewals(self, renewed: Callable[[float], None]) -> None:
        """Call a function in the event loop with the sending time of each answered renewal."""
        self._renewed = renewed

    def pulse_by_thread(self) -> Callable[[], None]:
        """Send signs of life from a thread, although the event loop is blocked; return a function that ends
        the thread, and waits for its end.

        A stopped program sends no sign of life. One that hangs during its start, as in the code of an
        imported module, is renewed until it is ended: only a standby of the same home could take anything
        from it.
        """
        is_over, loop = threading.Event(), asyncio.get_running_loop()

        def pulse() -> None:
            while not is_over.wait(PULSE):
                with self._using:
                    if self._is_started(loop):
                        self._write(b"%f\n" % time.monotonic())

        thread = threading.Thread(target=pulse, name="narval-pulses", daemon=True)
        thread.start()

        def end() -> None:
            is_over.set()
            thread.join()

        return end

    def close(self) -> None:
        """Stop renewing."""
        if self._pulse is not None:
            self._pulse.cancel()
        self._end()

    def _is_started(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Start the program if it is time and none is running; True if one is running."""
        if self._program is None and time.monotonic() >= self._from:
            self._start(loop)
        return self._program is not None

    def _start(self, loop: asyncio.AbstractEventLoop) -> None:
        self._program = subprocess.Popen(
            [sys.executable, "-m", "narval.daemon.fleet.renewer", str(self._daemon)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            start_new_session=True,
        )
        assert self._program.stdin is not None
        assert self._program.stdout is not None
        for pipe in (self._program.stdin, self._program.stdout):
            os.set_blocking(pipe.fileno(), False)
        self._write(self._url.encode() + b"\n")
        loop.call_soon_threadsafe(self._listen, self._program)

    def _listen(self, program: subprocess.Popen[bytes]) -> None:
        if program is self._program:
            assert program.stdout is not None
            asyncio.get_running_loop().add_reader(program.stdout.fileno(), self._hear)

    def _hear(self) -> None:
        assert self._program is not None
        assert self._program.stdout is not None
        data = read_pipe(self._program.stdout.fileno())
        if data == b"":
            self._end()  # the next pulse starts another one
        elif data and self._renewed is not None:
            self._renewed(max(map(float, data.split())))  # it writes whole lines, each in one write

    def _write(self, line: bytes) -> None:
        """Write a line; drop it if the renewer has no room, as it would be late anyway."""
        assert self._program is not None
        assert self._program.stdin is not None
        with suppress(OSError):  # the end of a dead one is noticed elsewhere
            os.write(self._program.stdin.fileno(), line)

    def _end(self) -> None:
        with self._using:
            program, self._program = self._program, None
        if program is None:
            return
        assert program.stdin is not None
        assert program.stdout is not None
        asyncio.get_running_loop().remove_reader(program.stdout.fileno())
        program.stdin.close()
        program.stdout.close()
        program.kill()
        program.wait()
