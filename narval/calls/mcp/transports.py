"""Transports: the streams to an MCP server, over the pipes of a program or over HTTP.

Everything that a server sends is limited: the bytes of a message, and output that is not a message.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import ssl
from collections.abc import AsyncIterator
from contextvars import ContextVar
from pathlib import Path
from typing import IO, Any

from narval.calls.mcp.frames import Connect

MOST_MESSAGE = 4 * 1024 * 1024
"""The most bytes of one message of a server."""

MOST_SKIPPED = 16 * MOST_MESSAGE
"""The most bytes of an overlong message that are skipped; a longer one ends the connection."""

MOST_RUBBISH = 100
"""The most lines that are not messages, before the connection to a server is ended."""

FAREWELL = 2.0
"""Seconds that a program has to end after its input is closed."""

TOO_LONG = -32_090
"""The error code in place of an answer that was too long."""

UNREADABLE = -32_091
"""The error code in place of an answer that cannot be read."""

LOST, CANNOT_START = "server-lost", "cannot-start"
"""The error types of a server that died or does not answer, and of a program that cannot be started."""

TOO_LARGE = "too-large"
"""The error type of an answer that is too large."""


class SessionError(Exception):
    """An unusable server: the error type, and the reason."""

    def __init__(self, kind: str, message: str, *, final: bool = False) -> None:
        super().__init__(message)
        self.kind, self.final = kind, final


class StreamEnd:
    """The end of the streams to a server: whether they are closed and why, and how single requests fail."""

    def __init__(self) -> None:
        self.came = asyncio.Event()
        self.why = ""

    def begin_request(self) -> None:
        """Start a request of this task, whose refusal affects no other."""
        _REFUSAL.set(Refusal())

    def refuse(self, kind: str, why: str) -> None:
        """Record how a server, or a proxy, refuses the current request; "" if it does not."""
        refusal = _REFUSAL.get(None)
        if refusal is not None:
            refusal.kind, refusal.why = kind if why else LOST, why

    def note(self, why: str) -> None:
        """Record that the streams are closed."""
        self.why = self.why or why
        self.came.set()

    def cause(self) -> SessionError | None:
        """The error of this task's request, if it was refused or the streams are closed; else None."""
        refusal = _REFUSAL.get(None)
        if refusal is not None and refusal.why:
            return SessionError(refusal.kind, refusal.why, final=refusal.kind != LOST)
        return SessionError(LOST, self.why) if self.why else None


class Refusal:
    """The refusal of a request: the error type, and why; "" if there is none."""

    def __init__(self) -> None:
        self.kind, self.why = LOST, ""


_REFUSAL: ContextVar[Refusal] = ContextVar("refusal")
"""The refusal of the current request: the library sends each in the context of the task that makes it."""


@contextlib.asynccontextmanager
async def program_streams(server: Connect, end: StreamEnd, prints: IO[bytes] | None) -> AsyncIterator[Any]:
    """Open the streams to a program, which is started and ended with the session."""
    import anyio

    try:
        program = await asyncio.create_subprocess_exec(
            *server.command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=prints,
            env=server.variables,
            cwd=server.folder or None,
            limit=MOST_MESSAGE,
        )
    except (OSError, ValueError) as error:
        raise SessionError(CANNOT_START, _why_not_started(server, error), final=True) from None
    assert program.stdin is not None
    to_session, read = anyio.create_memory_object_stream[Any](0)
    write, to_server = anyio.create_memory_object_stream[Any](0)
    tasks = [
        asyncio.create_task(_listen(program, to_session, end)),
        asyncio.create_task(_speak(program.stdin, to_server)),
    ]
    try:
        yield read, write
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for stream in (to_session, read, write, to_server):
            await stream.aclose()
        program.stdin.close()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(program.wait(), FAREWELL)
        program._transport.close()  # type: ignore[attr-defined]  # it kills, and closes what is still open


def _why_not_started(server: Connect, error: Exception) -> str:
    """The reason why a program does not start, and the next step."""
    program, folder = server.command[0], server.folder
    if folder and not Path(folder).is_dir():
        return f"there is no folder {folder} in which {program} would run; make it, or alter folder"
    why = f"{program}: {getattr(error, 'strerror', None) or error}"
    if not isinstance(error, FileNotFoundError):
        return why
    if program in _PROGRAMS:
        return f"{why}; it comes with {_PROGRAMS[program]}: install that, or write the path of the program"
    return f"{why}; install it, or write the path of the program as the first word of command"


_PROGRAMS = {
    "uvx": "uv (https://docs.astral.sh/uv/)",
    "uv": "uv (https://docs.astral.sh/uv/)",
    "npx": "Node.js (https://nodejs.org)",
    "node": "Node.js (https://nodejs.org)",
    "docker": "Docker (https://docs.docker.com/get-docker/)",
}
"""The programs that start many servers, and where to get them."""


async def _listen(program: asyncio.subprocess.Process, to_session: Any, end: StreamEnd) -> None:
    """Pass on the messages of a program until it closes its output, or sends too much."""
    import anyio
    from mcp.shared.message import SessionMessage
    from mcp_types import ErrorData, JSONRPCError, jsonrpc_message_adapter

    assert program.stdout is not None
    rubbish = 0
    async with to_session:
        while True:
            message: Any
            try:
                line = await _line(program.stdout)
                if not line:
                    break
                message = jsonrpc_message_adapter.validate_json(line, by_name=False)
            except _TooLongError as error:
                if error.request is None:
                    end.note(f"it sent {error}")
                    return
                data = ErrorData(code=TOO_LONG, message=f"its answer is {error}")
                message = JSONRPCError(jsonrpc="2.0", id=error.request, error=data)
            except (ValueError, RecursionError):
                rubbish += bool(line.strip())
                if rubbish > MOST_RUBBISH:
                    end.note(f"it sent more than {MOST_RUBBISH} lines that are no messages")
                    return
                if (request := _answered_by(line[:_END], line[-_END:])) is None:
                    continue
                data = ErrorData(code=UNREADABLE, message="its answer is no message of the protocol in JSON")
                message = JSONRPCError(jsonrpc="2.0", id=request, error=data)
            try:
                await to_session.send(SessionMessage(message))
            except (anyio.ClosedResourceError, anyio.BrokenResourceError):
                return
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(program.wait(), 0.5)
        status = program.returncode
        end.note("it closed its output" if status is None else f"it ended with status {status}")


_VERSION = rb'(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?'
_ANSWERS = re.compile(
    rb'\s*\{\s*%b(?:"id"\s*:\s*(\d{1,15})\s*,\s*)?%b"(?:result|error)"' % (_VERSION, _VERSION)
)
_ID_LAST = re.compile(rb',\s*"id"\s*:\s*(\d{1,15})\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$')
_END = 200
"""The bytes at either end of a message that are searched for the number of its request."""


class _TooLongError(Exception):
    """A message that was too long, and the number of the request that it answers; None if unknown."""

    def __init__(self, request: int | None) -> None:
        super().__init__(f"a message of more than {MOST_MESSAGE:,} bytes")
        self.request = request


async def _line(stream: asyncio.StreamReader) -> bytes:
    """The next line, b"" at the end. Raises _TooLongError after one that is too long, if it ends."""
    first, last, skipped = b"", b"", 0
    while skipped <= MOST_SKIPPED:
        try:
            line = await stream.readuntil(b"\n")
        except asyncio.IncompleteReadError as error:
            line = error.partial
        except asyncio.LimitOverrunError as error:
            piece = await stream.readexactly(error.consumed)
            first, last, skipped = first or piece[:_END], (last + piece)[-_END:], skipped + len(piece)
            continue
        if not skipped:
            return line
        raise _TooLongError(_answered_by(first, last + line))
    raise _TooLongError(None)


def _answered_by(first: bytes, last: bytes) -> int | None:
    """The number of the request that a message answers, by its first and last bytes; None if unknown."""
    answer, end = _ANSWERS.match(first), _ID_LAST.search(last)
    number = (answer[1] or (end and end[1])) if answer is not None else None
    return int(number) if number else None


async def _speak(stdin: asyncio.StreamWriter, to_server: Any) -> None:
    """Write the messages of a session to a program, one a line, until it closes its input."""
    async with to_server:
        async for sent in to_server:
            text = sent.message.model_dump_json(by_alias=True, exclude_unset=True)
            try:
                stdin.write(text.encode() + b"\n")
                await stdin.drain()
            except OSError:
                return


@contextlib.asynccontextmanager
async def http_streams(server: Connect, end: StreamEnd, login: Any) -> AsyncIterator[Any]:
    """Open the streams to a server that speaks HTTP."""
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    headers = {"Authorization": f"Bearer {server.token}"} if server.token else {}
    headers |= server.headers

    class Bounded(httpx2.AsyncByteStream):
        """The bytes of an answer that is one message, up to the limit."""

        def __init__(self, stream: Any) -> None:
            self._stream = stream

        async def __aiter__(self) -> AsyncIterator[bytes]:
            count = 0
            async for piece in self._stream:
                count += len(piece)
                if count > MOST_MESSAGE:
                    raise httpx2.ReadError(f"it sent a message of more than {MOST_MESSAGE:,} bytes")
                yield piece

        async def aclose(self) -> None:
            await self._stream.aclose()

    class BoundedTransport(httpx2.AsyncHTTPTransport):
        async def handle_async_request(self, request: Any) -> Any:
            response = await super().handle_async_request(request)
            if response.status_code in (401, 403):
                wants = "it wants another secret" if headers else "it refuses what it is asked"
                end.refuse(LOST, f"it answers {response.status_code}: {wants}")
            elif response.is_server_error and "json" not in response.headers.get("content-type", ""):
                end.refuse(LOST, f"it answers {response.status_code}")
            elif response.is_success:
                end.refuse(LOST, "")
            if "text/event-stream" not in response.headers.get("content-type", ""):
                response.stream = Bounded(response.stream)
            return response

    timeout = httpx2.Timeout(30.0, read=300.0)
    transport = BoundedTransport(verify=certificates(server.ca))
    auth = None if login is None else login(end)
    async with (
        httpx2.AsyncClient(headers=headers, timeout=timeout, transport=transport, auth=auth) as client,
        streamable_http_client(server.url, http_client=client, max_sse_event_size=MOST_MESSAGE) as streams,
    ):
        yield streams[0], streams[1]


def certificates(authority: str) -> Any:
    """The trusted certificates of authorities: those of this machine, or of a file.

    Raises SessionError.
    """
    if not authority:
        return True
    try:
        return ssl.create_default_context(cafile=authority)
    except (OSError, ValueError) as error:
        raise SessionError("no-certificate", f"{authority}: {error}", final=True) from None
