"""Notices to the service manager that started the daemon, and the log format it expects (sd_notify(3)).

systemd names a datagram socket in NOTIFY_SOCKET. The daemon reports there when it is ready, when it reloads
its files, when it ends, and, if WATCHDOG_USEC asks for it, that it is alive. Without these variables nothing
is sent, and nothing wakes up. They are removed from the environment, so that no program that the daemon
starts reports in its name.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from pathlib import Path

from narval.core.errors import NarvalError

log = logging.getLogger("narval.service")

_LEVELS = ((logging.CRITICAL, 2), (logging.ERROR, 3), (logging.WARNING, 4), (logging.INFO, 6))
"""Levels of the log, and their syslog numbers; lower levels are 7."""


class ServiceManager:
    """The program that started the daemon, if it wants notices; otherwise they have no effect."""

    def __init__(self, environ: MutableMapping[str, str] = os.environ) -> None:
        named = environ.pop("NOTIFY_SOCKET", "")
        self._address = "\0" + named[1:] if named.startswith("@") else named
        period, pid = environ.pop("WATCHDOG_USEC", ""), environ.pop("WATCHDOG_PID", "")
        meant = self._address and period.isascii() and period.isdigit() and pid in ("", str(os.getpid()))
        self.watchdog: float | None = int(period) / 1_000_000 if meant and int(period) else None
        """Seconds after which a silent daemon is considered hung; None without a watchdog."""

    def ready(self, status: str = "") -> None:
        """Report that the daemon accepts requests, or has reloaded its files."""
        self._send("READY=1", *([f"STATUS={status}"] if status else ()))

    def reloading(self) -> None:
        """Report that the daemon reloads its files; `ready` follows."""
        self._send("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self) -> None:
        """Report that the daemon ends."""
        self._send("STOPPING=1", "STATUS=stopping")

    async def keep_alive(self, turn: Callable[[], Awaitable[object]], status: Callable[[], str]) -> None:
        """Report twice in each period that the daemon is alive, each time after a turn has ended.

        So a loop that hangs, or a commit that never returns, is noticed. It ends when turns fail.
        """
        if self.watchdog is None:
            return
        while True:
            try:
                await turn()
            except NarvalError:
                return
            self._send("WATCHDOG=1", f"STATUS={status()}")
            await asyncio.sleep(self.watchdog / 2)

    def _send(self, *lines: str) -> None:
        """Send lines; a service manager that does not listen is ignored."""
        if not self._address:
            return
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
            out.settimeout(1.0)
            out.connect(self._address)
            out.sendall("\n".join(line.replace("\n", " ") for line in lines).encode())


# --- its log --------------------------------------------------------------------------------------------


def is_journal(handle: int, environ: MutableMapping[str, str] = os.environ) -> bool:
    """True if an open file leads to the journal of the system (JOURNAL_STREAM)."""
    device, _, inode = environ.get("JOURNAL_STREAM", "").partition(":")
    try:
        status = os.fstat(handle)
    except OSError:
        return False
    return (device, inode) == (str(status.st_dev), str(status.st_ino))


class JournalFormatter(logging.Formatter):
    """Lines as the journal takes them from standard error: each begins with the number of its level."""

    def format(self, record: logging.LogRecord) -> str:
        """The message, each of its lines with the same level; lines after the first are indented."""
        number = next((number for level, number in _LEVELS if record.levelno >= level), 7)
        text = f"{record.name}: {super().format(record)}"
        return f"<{number}>" + f"\n<{number}>    ".join(text.splitlines())


def journal_command(cgroup: Path = Path("/proc/self/cgroup")) -> str:
    """The command that shows the log of this service in the journal."""
    try:
        path = cgroup.read_text(encoding="utf-8").strip().rpartition(":")[2]
    except OSError:
        path = ""
    unit = next((part for part in reversed(path.split("/")) if part.endswith(".service")), "narval.service")
    user = " --user" if "/user@" in path else ""
    return f"journalctl{user} -u {unit.removesuffix('.service')}"
