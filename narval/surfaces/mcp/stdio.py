"""MCP over standard input and output: one client, from its first line to the end of the input."""

from __future__ import annotations

import asyncio
import os
import select
import shutil
import stat
import sys
import threading
from collections.abc import AsyncIterator
from typing import Any, BinaryIO

import anyio
from mcp.server.stdio import stdio_server

from narval.surfaces.control.async_client import AsyncClient
from narval.surfaces.mcp.server import ToolServer

LONGEST_LINE = 4 * 1024 * 1024
"""The most bytes of a message; a longer one is answered as unreadable."""

TOO_LONG = "a message of more than 4 MiB\n"
"""The line that replaces an overlong message: invalid JSON."""


class _Lines:
    """The lines of an input; an overlong one is never held whole."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader

    def __aiter__(self) -> AsyncIterator[str]:
        return self._read()

    async def _read(self) -> AsyncIterator[str]:
        is_rest = False
        while True:
            try:
                line = await self._reader.readuntil(b"\n")
            except asyncio.LimitOverrunError as error:
                await self._reader.readexactly(error.consumed)
                is_rest = True
                continue
            except asyncio.IncompleteReadError as error:
                if not error.partial:
                    return
                line = error.partial
            if is_rest:
                is_rest = False
                yield TOO_LONG
            elif line.strip():
                yield line.decode("utf-8", "replace")


class _Output:
    """The output, to which each message is written whole."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._is_pipe = stat.S_ISFIFO(os.fstat(descriptor).st_mode)
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLOUT)

    async def write(self, text: str) -> None:
        """Write a message; a slow reader does not block other work."""
        data = text.encode("utf-8", "surrogatepass")
        if self._takes(data):
            os.write(self._descriptor, data)
        else:
            await anyio.to_thread.run_sync(self._write, data)

    def _takes(self, data: bytes) -> bool:
        """True if the output is a pipe with room for a message now: a writable pipe takes up to PIPE_BUF
        bytes whole, without blocking.
        """
        return self._is_pipe and len(data) <= select.PIPE_BUF and bool(self._poll.poll(0))

    async def flush(self) -> None:
        """Do nothing: the output is not buffered."""

    def _write(self, data: bytes) -> None:
        while data:
            data = data[os.write(self._descriptor, data) :]


async def serve(find: Any, client: str) -> None:
    """Serve a client until its input ends. Raises NarvalError if the daemon or the client does not exist."""
    asks = AsyncClient(find)
    try:
        await asks.ask("client_tools", client=client)
        server = ToolServer(asks, lambda ctx: client)
        reader = await _input()
        output = os.dup(sys.stdout.fileno())
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # printed output is not a message
        streams: Any = {"stdin": _Lines(reader), "stdout": _Output(output)}
        async with stdio_server(**streams) as (read, write):
            await server.server.run(read, write, server.server.create_initialization_options())
            server.close()
    finally:
        await asks.close()


async def _input() -> asyncio.StreamReader:
    loop, reader = asyncio.get_running_loop(), asyncio.StreamReader(LONGEST_LINE)
    source: BinaryIO = os.fdopen(os.dup(0), "rb", 0)
    mode = os.fstat(0).st_mode
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or source.isatty()):
        source = _through_pipe(source)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), source)
    return reader


def _through_pipe(source: BinaryIO) -> BinaryIO:
    """The same input through a pipe: the system lets no loop wait for a file, or for /dev/null."""
    reading, writing = os.pipe()

    def copy() -> None:
        with source, os.fdopen(writing, "wb") as target:
            shutil.copyfileobj(source, target)

    threading.Thread(target=copy, daemon=True).start()
    return os.fdopen(reading, "rb", 0)
