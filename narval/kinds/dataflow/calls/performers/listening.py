"""The operator `listen`: values that the user's programs send to a socket of the home."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import AsyncGenerator
from pathlib import Path

from narval.core.memory.labels import PROGRAM
from narval.kinds.dataflow.calls.performers.performing import FlowAnswer
from narval.kinds.dataflow.calls.performers.tools import FlowTools
from narval.kinds.dataflow.engine.network.batches import VALUE, FlowError, TupleBatch
from narval.kinds.dataflow.engine.network.requests import OperatorRequest

LONGEST_LINE = 1 << 20
"""The most bytes of a value."""

_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,63}")


class Listen:
    """Give each line sent to the socket `var/listen/NAME` of the home, which only the user can reach.

    It ends with a line that is just `.`, or with its dataflow.
    """

    def __init__(self, tools: FlowTools, request: OperatorRequest) -> None:
        self._home, self._labels = tools.home, tools.labels
        self._lines: asyncio.Queue[str | None] = asyncio.Queue(1)

    async def perform(self, request: OperatorRequest) -> AsyncGenerator[FlowAnswer]:
        """Listen until the end."""
        path = self._path(str(request.arguments["address"]))
        try:
            listener = _listener_at(path)
            server = await asyncio.start_unix_server(self._heard, sock=listener, limit=LONGEST_LINE)
        except OSError as error:
            raise FlowError("bad-address", f"{path}: {error}") from None
        try:
            async with server:
                while (line := await self._lines.get()) is not None:
                    self._labels.add(PROGRAM)
                    yield FlowAnswer(TupleBatch(VALUE, [(line,)]))
        finally:
            path.unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        if self._home is None:
            raise FlowError("no-home", "there is no socket without a home: start it with narval start")
        if not _NAME.fullmatch(name):
            raise FlowError(
                "bad-address", f"expected the name of a socket, such as prices, found {name!r:.80}"
            )
        return self._home / "var" / "listen" / name

    async def _heard(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                text = line.decode("utf-8", "replace").rstrip("\r\n")
                await self._lines.put(None if text == "." else text)
        except ValueError:
            writer.write(f"expected a line of {LONGEST_LINE:,} bytes at most\n".encode())
        finally:
            writer.close()


def _listener_at(path: Path) -> socket.socket:
    """A socket listening at a path in a folder that only the user can reach. Raises FlowError, OSError."""
    path.parent.mkdir(mode=0o700, exist_ok=True)
    if path.is_socket():
        with socket.socket(socket.AF_UNIX) as other:
            if other.connect_ex(str(path)) == 0:
                raise FlowError(
                    "in-use", f"another dataflow listens at {path}; end it, or choose another name"
                )
        path.unlink()
    listener = socket.socket(socket.AF_UNIX)
    try:
        listener.bind(str(path))
        path.chmod(0o600)
    except BaseException:
        listener.close()
        raise
    return listener
