"""The daemon's side of the reaper: it is told of every group, and started anew if it dies (A12).

A signal at the death of the parent, which Linux has, would reach the program that was started and nothing
that it has started itself, and it takes one more program for each to ask for it. The reaper is one for all,
reaches whole groups, and needs nothing but a pipe.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import secrets
import subprocess
import sys
import time
from pathlib import Path

from narval.calls.programs import reaper
from narval.files.home import Home
from narval.system.cgroup import obstacle, own_group
from narval.system.pipes import read_pipe

_SOON = 0.2
"""Seconds."""
LONGEST_WAIT = 6.0
"""Seconds for which the next daemon waits for the reaper of the last one."""


class ReaperClient:
    """Groups under way, and the reaper that knows them; it is started with the first.

    `store` says whose programs they are, by its agent and its place (`store_of`), and `folder` is where their
    reaper says that it is at work; a home in memory has neither.
    """

    def __init__(self, store: str = "", folder: Path | None = None) -> None:
        self.store, self.folder = store or secrets.token_hex(8), folder
        self.owner = f"{self.store}.{secrets.token_hex(8)}"
        """This life of the daemon, as programs carry it in their environment."""
        self._lock = folder / "reaper" if folder is not None else None
        self._groups: set[int] = set()
        self._gone: set[int] = set()
        self._killed: set[int] = set()
        """Groups that the reaper has killed, as far as it was read."""
        self._is_closed = False
        self._program: subprocess.Popen[bytes] | None = None
        self._deadline = b""

    @property
    def pid(self) -> int | None:
        """The process id of the reaper at work, or None."""
        return self._program.pid if self._program is not None else None

    def end_former(self) -> None:
        """End the programs that the last daemon of this home has left, if its reaper was killed as well."""
        if self._lock is None or not self._lock.exists():
            return
        former, own = f"{reaper.OWNER}={self.store}.".encode(), f"{reaper.OWNER}={self.owner}".encode()
        reaper.end_carriers(
            lambda environment: own not in environment and any(v.startswith(former) for v in environment)
        )
        _wait_for(self._lock)
        if folder := _groups_folder():
            reaper.remove_groups(folder, f"{self.store}.")
        with contextlib.suppress(OSError):
            self._lock.unlink()

    def prepare(self) -> None:
        """Start the reaper before anything else is started."""
        if self._program is None:
            self._start()

    def hold_until(self, moment: float) -> None:
        """Have all groups be ended at a moment of the monotonic clock, unless a later one is told by then."""
        self._deadline = b"=%f\n" % moment
        if self._groups or self._gone:
            self._report(self._deadline)

    def began(self, group: int) -> None:
        """Take note of a group of programs that was started."""
        self._groups.add(group)
        self._gone.discard(group)
        self._report(self._deadline + b"+%d\n" % group)

    def ended(self, group: int) -> None:
        """Forget a group that is gone; the reaper learns it with the next one, or soon: to wake it costs."""
        self._groups.discard(group)
        self._killed.discard(group)
        if not self._gone:
            asyncio.get_running_loop().call_later(_SOON, self._report, b"")
        self._gone.add(group)

    def has_killed(self, group: int) -> bool:
        """True if the reaper has killed a group at the moment that `hold_until` was told last."""
        self._hear()
        return group in self._killed

    def guard(self, group: int) -> None:
        """Take note of a worker, which dies with the daemon by itself, but is not stopped with it: only where
        groups are to be ended at a moment.
        """
        if self._deadline:
            self.began(group)

    def unguard(self, group: int) -> None:
        """Forget a worker that is gone."""
        if group in self._groups:
            self.ended(group)

    def close(self) -> None:
        """Have the reaper end programs that have left their group, and then itself; it is the last call."""
        self._is_closed = True
        if self._program is None:
            return
        assert self._program.stdin is not None
        with contextlib.suppress(OSError):
            self._program.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._program.wait(LONGEST_WAIT)
        assert self._program.stdout is not None
        self._program.stdout.close()
        self._program = None
        if self._lock is not None:
            self._lock.unlink(missing_ok=True)

    def _start(self) -> None:
        if self._lock is not None:
            self._lock.touch(mode=0o600)  # not left to the reaper: it might be killed before it does
        self._program = subprocess.Popen(
            [
                sys.executable,
                "-I",
                "-S",
                reaper.__file__,
                self.owner,
                str(self._lock or ""),
                _groups_folder(),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            cwd="/",
            start_new_session=True,
        )
        assert self._program.stdin is not None
        assert self._program.stdout is not None
        for pipe in (self._program.stdin, self._program.stdout):
            os.set_blocking(pipe.fileno(), False)
        self._write(self._deadline)
        for group in self._groups:
            self._write(b"+%d\n" % group)

    def _report(self, line: bytes) -> None:
        line = b"".join(b"-%d\n" % group for group in self._gone) + line
        self._gone.clear()
        if not line or self._is_closed:
            return
        if self._program is None or not self._write(line):
            if self._program is not None:
                self._program.kill()
                self._program.wait()
                self._hear()
            self._start()

    def _hear(self) -> None:
        """Read which groups it has killed."""
        if self._program is None:
            return
        assert self._program.stdout is not None
        while data := read_pipe(self._program.stdout.fileno()):  # it writes whole lines, which fit in at once
            self._killed.update(map(int, data.split()))

    def _write(self, line: bytes) -> bool:
        """Write a line to it; False when it is dead. One that is stopped finds by itself what it missed."""
        assert self._program is not None
        assert self._program.stdin is not None
        try:
            os.write(self._program.stdin.fileno(), line)
        except BlockingIOError:
            pass
        except OSError:
            return False
        return True


def store_of(agent: str, home: Home) -> str:
    """The store of a home as its programs carry it: the id of its agent (G1), and the device and inode of its
    file, or of `var/` where a database elsewhere has it. A copy of a home has the same agent, another file.
    """
    for path in (home.store, home.var):
        with contextlib.suppress(OSError):
            found = path.stat()
            return f"{agent}.{found.st_dev:x}.{found.st_ino:x}"
    return agent


def _groups_folder() -> str:
    """The folder of the control groups in which programs are counted (A19); "" where they cannot be."""
    return "" if obstacle() else str(own_group())


def _wait_for(lock: Path) -> None:
    """Wait until the reaper of the last daemon has done its work."""
    try:
        handle = os.open(lock, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return
    try:
        deadline = time.monotonic() + LONGEST_WAIT
        while time.monotonic() < deadline:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                time.sleep(0.02)
            else:
                return
    finally:
        os.close(handle)
