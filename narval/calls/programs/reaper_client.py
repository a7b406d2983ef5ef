"""The daemon's side of the reaper: it reports every group to the reaper, and restarts it if it dies (A12).

Linux can signal a program when its parent dies. But that would not reach the programs that it has started,
and needs an extra program for each to request it. One reaper serves all, reaches whole groups, and needs only
a pipe.
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
"""Seconds within which groups that are gone are reported to the reaper."""
LONGEST_WAIT = 6.0
"""Seconds for which a daemon waits for the reaper of the previous one."""


class ReaperClient:
    """The groups under way, and the reaper that knows them, started with the first.

    `store` identifies the owner of the programs by its agent and place (`store_of`). `folder` is where their
    reaper holds its lock. A home in memory has neither.
    """

    def __init__(self, store: str = "", folder: Path | None = None) -> None:
        self.store, self.folder = store or secrets.token_hex(8), folder
        self.owner = f"{self.store}.{secrets.token_hex(8)}"
        """The name of this life of the daemon, which its programs carry in their environment."""
        self._lock = folder / "reaper" if folder is not None else None
        self._groups: set[int] = set()
        self._gone: set[int] = set()
        self._killed: set[int] = set()
        """Groups that the reaper has reported as killed."""
        self._is_closed = False
        self._reports_soon = False
        """True while a timer will report the groups that are gone."""
        self._program: subprocess.Popen[bytes] | None = None
        self._deadline = b""

    @property
    def pid(self) -> int | None:
        """The process id of the running reaper, or None."""
        return self._program.pid if self._program is not None else None

    def end_former(self) -> None:
        """End the programs that the last daemon of this home left running, if its reaper was killed too."""
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
        """Have all groups ended at a time of the monotonic clock, unless a later time is given by then."""
        self._deadline = b"=%f\n" % moment
        if self._groups or self._gone:
            self._report(self._deadline)

    def began(self, group: int) -> None:
        """Record a group of programs that was started."""
        self._groups.add(group)
        self._gone.discard(group)
        self._report(self._deadline + b"+%d\n" % group)

    def ended(self, group: int) -> None:
        """Forget a group that is gone. The reaper is told with the next report, or soon, because waking it
        costs time.
        """
        self._groups.discard(group)
        self._killed.discard(group)
        self._gone.add(group)
        if not self._reports_soon:
            self._reports_soon = True
            asyncio.get_running_loop().call_later(_SOON, self._report_soon)

    def has_killed(self, group: int) -> bool:
        """True if the reaper has killed a group at the moment last given to `hold_until`."""
        self._hear()
        return group in self._killed

    def guard(self, group: int) -> None:
        """Record a worker, if groups must be ended at a set time. A worker dies with the daemon by itself,
        but is not stopped when the daemon is stopped.
        """
        if self._deadline:
            self.began(group)

    def unguard(self, group: int) -> None:
        """Forget a worker that is gone."""
        if group in self._groups:
            self.ended(group)

    def close(self) -> None:
        """Make the reaper end programs that have left their group, and then itself; no call may follow."""
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
            self._lock.touch(mode=0o600)  # not left to the reaper, which might be killed before
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

    def _report_soon(self) -> None:
        self._reports_soon = False
        self._report(b"")

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
        """Read which groups the reaper has killed."""
        if self._program is None:
            return
        assert self._program.stdout is not None
        while data := read_pipe(self._program.stdout.fileno()):  # it writes whole lines at once
            self._killed.update(map(int, data.split()))

    def _write(self, line: bytes) -> bool:
        """Write a line to the reaper; False if it is dead. A stopped one finds by itself what it missed."""
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
    """The name of a home's store that its programs carry: the id of its agent (G1), and the device and inode
    of its file, or of `var/` if the database is elsewhere. A copy of a home has the same agent, but another
    file.
    """
    for path in (home.store, home.var):
        with contextlib.suppress(OSError):
            status = path.stat()
            return f"{agent}.{status.st_dev:x}.{status.st_ino:x}"
    return agent


def _groups_folder() -> str:
    """The folder of the control groups that account for programs; "" if there is none."""
    return "" if obstacle() else str(own_group())


def _wait_for(lock: Path) -> None:
    """Wait until the reaper of the previous daemon has done its work."""
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
