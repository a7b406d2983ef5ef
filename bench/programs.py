"""Programs of measurements: daemons that are measured from outside, and the end of what is left behind."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from narval.core.errors import DaemonGoneError
from narval.files.home import Home
from narval.surfaces.control.client import Client

PATIENCE = 60.0
GRACE = 2.0
"""Seconds in which programs that a measurement has left behind may end, before each sterner signal."""
_PR_SET_CHILD_SUBREAPER = 36


def command(home: Path, *arguments: str) -> list[str]:
    """The command line of narval on a home."""
    return [sys.executable, "-m", "narval", "--home", str(home), *arguments]


def begin(home: Path) -> subprocess.Popen[bytes]:
    """A daemon; it may not be ready yet."""
    with (home / "output").open("ab") as output:
        return subprocess.Popen(command(home, "run"), stdin=subprocess.DEVNULL, stdout=output, stderr=output)


def reached(home: Path, daemon: subprocess.Popen[bytes], pause: float = 0.005) -> Client:
    """A connection to it, as soon as it answers."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        try:
            return Client(Home(home).socket())
        except DaemonGoneError:
            if daemon.poll() is not None:
                raise
            time.sleep(pause)
    raise TimeoutError("the daemon does not answer")


@contextmanager
def running(home: Path) -> Iterator[tuple[subprocess.Popen[bytes], Client]]:
    """A daemon that answers, and a connection to it; it is ended well."""
    daemon = begin(home)
    try:
        with reached(home, daemon) as client:
            yield daemon, client
    finally:
        end(daemon)


def end(daemon: subprocess.Popen[bytes]) -> None:
    """Let it end, and see to it that it does."""
    daemon.send_signal(signal.SIGTERM)
    try:
        daemon.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        daemon.kill()
        daemon.wait()


@contextmanager
def none_left() -> Iterator[None]:
    """End all programs that were begun within, directly or not, however this is left.

    Orphans become children of this program, so those in a session of their own are found too. SIGTERM and
    SIGHUP leave this as an exit does.
    """
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    handlers = {number: signal.signal(number, _exit) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        numbers = (*handlers, signal.SIGINT)
        before = {number: signal.signal(number, signal.SIG_IGN) for number in numbers}
        end_children()
        for number, handler in (before | handlers).items():
            signal.signal(number, handler)


def end_children() -> None:
    """End all programs that this one has begun, directly or not, and wait until they are gone.

    At first they are told nothing (0): one that cleans up after a measurement ends by itself.
    """
    own = os.getpid()
    for number in (0, signal.SIGTERM, signal.SIGKILL):
        for each in family(own):
            with suppress(ProcessLookupError):
                os.kill(each, number if each != own else 0)
        until = time.monotonic() + GRACE
        while family(own) != [own] and time.monotonic() < until:
            with suppress(ChildProcessError):
                os.waitpid(-1, os.WNOHANG)
            time.sleep(0.01)


def _exit(number: int, frame: object) -> None:
    raise SystemExit(128 + number)


def family(program: int) -> list[int]:
    """A program and all it began, directly or not."""
    begun: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            begun.setdefault(int(fields[1]), []).append(int(entry.name))
    members, left = [], [program]
    while left:
        members.append(left.pop())
        left += begun.get(members[-1], [])
    return members


def processor_time(programs: Sequence[int]) -> float:
    """Seconds of processor time that they have used."""
    ticks = 0
    for each in programs:
        fields = Path(f"/proc/{each}/stat").read_text().rsplit(")", 1)[1].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def wake_ups(programs: Sequence[int]) -> int:
    """How often their threads went to sleep, and so had been awake."""
    return sum(
        int(line.split()[1])
        for each in programs
        for status in Path(f"/proc/{each}/task").glob("*/status")
        for line in status.read_text().splitlines()
        if line.startswith("voluntary_ctxt_switches:")
    )
