"""A real Radicale for tests, with a calendar of one user; and a door before it that misbehaves."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2

from tests.ports import free_port

USER, PASSWORD = "ann", "a secret: of ann"
MKCALENDAR = (
    '<d:mkcol xmlns:d="DAV:" xmlns:c="urn:ietf:params:xml:ns:caldav"><d:set><d:prop><d:resourcetype>'
    "<d:collection/><c:calendar/></d:resourcetype></d:prop></d:set></d:mkcol>"
)


class Radicale:
    """A server on loopback that keeps its calendars in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}/{USER}/work/"
        self._program: subprocess.Popen[bytes] | None = None
        users = folder / "users"
        users.write_text(f"{USER}:{PASSWORD}\n")
        (folder / "config").write_text(
            f"[server]\nhosts = 127.0.0.1:{self.port}\n[auth]\ntype = htpasswd\nhtpasswd_filename = {users}\n"
            f"htpasswd_encryption = plain\ndelay = 0\n[storage]\nfilesystem_folder = {folder / 'kept'}\n"
        )

    def start(self) -> None:
        """Begin to serve, and return when it does."""
        command = [sys.executable, "-m", "radicale", "--config", str(self._folder / "config")]
        with (self._folder / "log").open("ab") as log:
            self._program = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                return
            except OSError:
                assert self._program.poll() is None, (self._folder / "log").read_text()
                time.sleep(0.05)

    def stop(self) -> None:
        """Serve no more."""
        if self._program is not None:
            os.killpg(self._program.pid, signal.SIGTERM)
            self._program.wait()
            self._program = None

    def ask(self, method: str, name: str = "", data: bytes | str = b"", **headers: str) -> Any:
        """Ask as another program of the user would."""
        answer = httpx2.request(method, self.url + name, content=data, headers=headers, auth=(USER, PASSWORD))
        assert answer.status_code < 400, (answer.status_code, answer.text)
        return answer

    def empty(self) -> None:
        """Begin with an empty calendar, at work."""
        if self._program is None:
            self.start()
        self.ask("DELETE")
        self.ask("MKCOL", data=MKCALENDAR)

    def put(self, name: str, data: bytes) -> None:
        """Enter or alter an event."""
        self.ask("PUT", f"{name}.ics", data, **{"Content-Type": "text/calendar"})

    def entries(self) -> dict[str, str]:
        """The texts of the entries, by the names of their files."""
        kept = self._folder / "kept" / "collection-root" / USER / "work"
        return {path.stem: path.read_text() for path in kept.glob("*.ics")}


@contextmanager
def radicale(folder: Path) -> Iterator[Radicale]:
    """A server with an empty calendar."""
    folder.mkdir()
    server = Radicale(folder)
    server.start()
    try:
        server.ask("MKCOL", data=MKCALENDAR)
        yield server
    finally:
        server.stop()
