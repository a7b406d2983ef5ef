"""Clients of MCP in a daemon: their present files, and their use in the last minute."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from narval.core.definitions.suggestions import closest
from narval.core.errors import Fault, RequestError
from narval.files.mcp_clients import CLIENTS, McpClient, client_names, read_client
from narval.system.minute import UsedMinute
from narval.system.whole_files import CurrentFile


class Clients:
    """The clients of a home; a home in memory (None) has none."""

    def __init__(self, home: Path | None, seconds: Callable[[], float] = time.monotonic) -> None:
        self._home, self._used = home, UsedMinute(seconds)
        self._files: dict[str, CurrentFile[tuple[McpClient | None, list[Fault]]]] = {}

    def client(self, name: str) -> McpClient:
        """The client of that name, from its present file. Raises RequestError."""
        client, faults = self._current(name)
        if client is not None:
            return client
        if faults:
            raise RequestError(f"the client {name} cannot be served: {faults[0]}")
        names = client_names(self._home) if self._home is not None else []
        hint = closest(name, names) or f"; make it: narval mcp client add {name}"
        raise RequestError(f"there is no client {name!r:.80} in {CLIENTS}/{hint}")

    def all(self) -> Iterator[tuple[str, McpClient | None, list[Fault]]]:
        """The names of all clients, each with the client or the faults of its file."""
        for name in client_names(self._home) if self._home is not None else ():
            yield name, *self._current(name)

    def take(self, client: McpClient, size: int) -> None:
        """Count a call of `size` bytes. Raises RequestError if it exceeds the limits of the minute."""
        excess = self._used.take(client.name, client.calls, size, client.bytes)
        if excess is None:
            return
        if excess.what == "calls":
            why = f"too many calls: {client.name} may make {client.calls:,} a minute"
        else:
            why = f"too much: {client.name} may send {client.bytes:,} bytes a minute"
        raise RequestError(f"{why}; again in {excess.seconds} s" if excess.seconds else why)

    def _current(self, name: str) -> tuple[McpClient | None, list[Fault]]:
        """The client in a file, read again if it has changed; neither client nor faults without a file."""
        if self._home is None or "/" in name or "\0" in name:
            return None, []
        read = partial(read_client, self._home, name)
        file = self._files.setdefault(name, CurrentFile(self._home / CLIENTS / f"{name}.toml", read))
        try:
            return file.get()
        except OSError:
            del self._files[name]
            return None, []
