"""A way to a server of PostgreSQL that is cut when a test says so, at a commit (G51)."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import parse_qs, quote, urlsplit

BEFORE, AFTER, LATE = "before", "after", "late"
"""When it is cut: before the server is told of a commit; after it has made it, so that its answer is lost;
or before it has begun to make it, though it is told.
"""

_COMMIT = b"\0record\0"
"""Of the message by which the prepared statement of that name is called."""


class Cutting:
    """Passes on what a socket hears, and cuts at each commit as `cuts` says next; "" leaves it alone."""

    def __init__(self, url: str, folder: Path) -> None:
        server = parse_qs(urlsplit(url).query)["host"][0]
        self._server = f"{server}/.s.PGSQL.5432"
        self.url = url.replace(quote(server, safe=""), quote(str(folder), safe=""))
        self.cuts: Iterator[str] = iter(())
        self.made = 0
        """How many cuts were made."""
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(f"{folder}/.s.PGSQL.5432")
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.socket(socket.AF_UNIX)
                server.connect(self._server)
                state = {"cut": ""}
                for work in (self._ask, self._answer):
                    threading.Thread(target=work, args=(client, server, state), daemon=True).start()

    def _ask(self, client: socket.socket, server: socket.socket, state: dict[str, str]) -> None:
        with suppress(OSError):
            while said := client.recv(1 << 20):
                if _COMMIT in said:
                    state["cut"] = next(self.cuts, "")
                    if state["cut"] in (BEFORE, LATE):
                        self.made += 1
                        _end(client)
                        if state["cut"] == BEFORE:
                            break
                server.sendall(said)
        if state["cut"] not in (AFTER, LATE):
            _end(server)

    def _answer(self, client: socket.socket, server: socket.socket, state: dict[str, str]) -> None:
        with suppress(OSError):
            while said := server.recv(1 << 20):
                if state["cut"]:
                    if state["cut"] == AFTER:
                        self.made += 1
                    break
                client.sendall(said)
        _end(client)
        _end(server)

    def close(self) -> None:
        """Let nobody in any more."""
        self._listener.close()


def _end(one: socket.socket) -> None:
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)


@contextmanager
def cutting(url: str, folder: Path) -> Iterator[Cutting]:
    """A way to the server of a URL; its socket is in a folder with a short path."""
    way = Cutting(url, folder)
    try:
        yield way
    finally:
        way.close()
