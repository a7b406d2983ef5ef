"""Clients of MCP in a daemon: their files as they are now, and what each has used in the last minute."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

from narval.core.definitions.suggestions import closest
from narval.core.errors import Fault, RequestError
from narval.files.mcp_clients import CLIENTS, McpClient, client_names, read_client

MINUTE = 60.0


class UsedMinute:
    """The calls of a client in the last minute: their moments and sizes, and the sum of these."""

    def __init__(self) -> None:
        self._calls: deque[tuple[float, int]] = deque()
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._calls)

    def forget(self, now: float) -> None:
        """Leave out what is a minute ago."""
        while self._calls and now - self._calls[0][0] >= MINUTE:
            self.bytes -= self._calls.popleft()[1]

    def add(self, now: float, size: int) -> None:
        """Count a call."""
        self._calls.append((now, size))
        self.bytes += size

    def until_next(self, now: float) -> int:
        """The seconds until the oldest call counts no more."""
        return max(1, round(MINUTE - (now - self._calls[0][0])))


class Clients:
    """The clients of a home; None is a home in memory, which has none."""

    def __init__(self, home: Path | None, seconds: Callable[[], float] = time.monotonic) -> None:
        self._home, self._seconds = home, seconds
        self._read: dict[str, tuple[tuple[int, ...], McpClient | None, list[Fault]]] = {}
        """The files that were read, each with what tells it from a later version."""
        self._used: dict[str, UsedMinute] = {}

    def client(self, name: str) -> McpClient:
        """The client of that name, as its file says now. Raises RequestError."""
        client, faults = self._current(name)
        if client is not None:
            return client
        if faults:
            raise RequestError(f"the client {name} cannot be served: {faults[0]}")
        names = client_names(self._home) if self._home is not None else []
        hint = closest(name, names) or f"; make it: narval mcp client add {name}"
        raise RequestError(f"there is no client {name!r:.80} in {CLIENTS}/{hint}")

    def all(self) -> Iterator[tuple[str, McpClient | None, list[Fault]]]:
        """The names of all clients, each with the client or what is wrong with its file."""
        for name in client_names(self._home) if self._home is not None else ():
            yield name, *self._current(name)

    def take(self, client: McpClient, size: int) -> None:
        """Count a call of so many bytes. Raises RequestError where a minute has no room for it."""
        now, used = self._seconds(), self._used.setdefault(client.name, UsedMinute())
        used.forget(now)
        if len(used) >= client.calls:
            why = f"too many calls: {client.name} may make {client.calls:,} a minute"
        elif used.bytes + size > client.bytes:
            why = f"too much: {client.name} may send {client.bytes:,} bytes a minute"
        else:
            used.add(now, size)
            return
        raise RequestError(f"{why}; again in {used.until_next(now)} s" if len(used) else why)

    def _current(self, name: str) -> tuple[McpClient | None, list[Fault]]:
        """The client that a file has, read again where it changed; neither it nor faults without a file."""
        if self._home is None or "/" in name or "\0" in name:
            return None, []
        try:
            status = (self._home / CLIENTS / f"{name}.toml").stat()
            version = status.st_mtime_ns, status.st_size, status.st_ino
            if name not in self._read or self._read[name][0] != version:
                self._read[name] = version, *read_client(self._home, name)
        except OSError:
            self._read.pop(name, None)
            return None, []
        return self._read[name][1:]
