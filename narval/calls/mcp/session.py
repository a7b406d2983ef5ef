"""A session with an MCP server, by the library `mcp`: over the pipes of a program, or over HTTP.

All that a server sends is bounded: the bytes of a message, the number of its tools, and what it sends that is
no message. What it asks for itself (a language model, folders, a word of the user) is refused.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import ssl
import sys
import types as python_types
from collections.abc import AsyncIterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from narval.calls.mcp.frames import Connect
from narval.core.definitions.action.tool import MOST_TOOLS, Tool, fault_of
from narval.system.extras import install_command

if TYPE_CHECKING:
    from mcp.client.session import ClientSession

MOST_MESSAGE = 4 * 1024 * 1024
"""The most bytes of one message of a server."""

MOST_RUBBISH = 100
"""The most lines that are no messages, after which a server is not listened to any more."""

PAGES = 100
"""The most pages of tools."""

FAREWELL = 2.0
"""Seconds that a program has to end when its input is closed."""

CHANGED, LOST, CANNOT_START = "tool-changed", "server-lost", "cannot-start"
"""The errors of a tool that is not as it was accepted, of a server that died or does not answer, and of one
whose program cannot be started.
"""

LOGIN_WANTED = "login-wanted"
"""The error of a server that wants a login of the owner of the home, or another."""

_NOT_SUPPORTED_VERSION = -32022


class SessionError(Exception):
    """A server that cannot be spoken with: the stable word for it, and why."""

    def __init__(self, kind: str, message: str, *, final: bool = False) -> None:
        super().__init__(message)
        self.kind, self.final = kind, final


class StreamEnd:
    """The end of the streams to a server: when they are closed, and why."""

    def __init__(self) -> None:
        self.came = asyncio.Event()
        self.kind, self.why = LOST, ""

    def refuse(self, kind: str, why: str) -> None:
        """Note how the server, or something on the way to it, refuses a request; "" if it does not."""
        self.kind, self.why = kind if why else LOST, why

    def note(self, why: str) -> None:
        """Note that they are closed."""
        self.why = self.why or why
        self.came.set()

    def error(self, otherwise: str) -> SessionError:
        """The error of a request that failed: how it was refused, or what else is known of it."""
        kind = self.kind if self.why else LOST
        return SessionError(kind, self.why or otherwise, final=kind != LOST)


class McpSession:
    """A session that has begun: its tools, and whether they may have changed."""

    def __init__(self, client: ClientSession, end: StreamEnd) -> None:
        self.client, self.end = client, end
        self.tools: dict[str, Tool] = {}
        self.left_out: dict[str, str] = {}
        """The tools that cannot be actions, with the reason."""
        self.is_outdated = True
        """True if the server has said that its tools changed since they were listed."""
        self.announced = asyncio.Event()
        """Set when the server says that they changed."""

    async def list_tools(self) -> None:
        """List the tools anew. Raises SessionError for too many."""
        self.is_outdated = False
        try:
            await self._list_tools()
        except BaseException:
            self.is_outdated = True
            raise

    async def _list_tools(self) -> None:
        import mcp_types as types

        tools, left_out, cursor, seen = dict[str, Tool](), dict[str, str](), None, 0
        for _ in range(PAGES):
            params = types.PaginatedRequestParams(cursor=cursor) if cursor else None
            page = await self.client.list_tools(params=params)
            for listed in page.tools:
                seen += 1
                tool = tool_of(listed)
                if why := fault_of(tool):
                    left_out[tool.name[:128]] = why
                else:
                    tools[tool.name] = tool
            if seen > MOST_TOOLS:
                raise SessionError("too-large", f"expected at most {MOST_TOOLS} tools, got more", final=True)
            cursor = page.next_cursor
            if not cursor:
                self.tools, self.left_out = tools, left_out
                return
        raise SessionError("too-large", f"expected at most {PAGES} pages of tools, got more", final=True)


def import_client_alone(*, and_server: bool = False) -> None:
    """Let the client of `mcp` be imported without its servers, in a program that needs the client alone; with
    `and_server` a server without what it does not serve by.

    Its packages import all of it, which takes twenty megabytes and a second more than the client needs.
    """
    if "mcp" in sys.modules:
        return
    package_spec = importlib.util.find_spec("mcp")
    if package_spec is None or not package_spec.submodule_search_locations:
        return
    packages = {"mcp": "", "mcp.client": "/client"} | ({"mcp.server": "/server"} if and_server else {})
    for name, below in packages.items():
        package = python_types.ModuleType(name)
        package.__path__ = [f"{folder}{below}" for folder in package_spec.submodule_search_locations]
        sys.modules[name] = package


@contextlib.asynccontextmanager
async def session(
    server: Connect, prints: IO[bytes] | None = None, login: Any = None
) -> AsyncIterator[McpSession]:
    """A session with a server, while it is open; its program prints into the file `prints`, None: into our
    own standard error. `login` makes, of the end of the streams, the httpx2.Auth of requests to a server that
    speaks HTTP. Raises SessionError.
    """
    if "mcp" not in sys.modules and importlib.util.find_spec("mcp") is None:
        why = f"what speaks with MCP servers is not installed: {install_command('mcp')}"
        raise SessionError("no-mcp", why, final=True)
    end = StreamEnd()
    opening = _http_streams(server, end, login) if server.url else _program_streams(server, end, prints)
    try:
        async with opening as (read, write), _session(read, write, end, server) as made:
            yield made
    except BaseExceptionGroup:  # of tasks beside the one that asks
        if end.kind == LOST:
            raise
        raise end.error("") from None


@contextlib.asynccontextmanager
async def _session(read: Any, write: Any, end: StreamEnd, server: Connect) -> AsyncIterator[McpSession]:
    """A session over the streams to a server. Raises SessionError."""
    import mcp_types as types
    from mcp.client.session import ClientSession

    made: McpSession | None = None

    async def hear(message: Any) -> None:
        if made is not None and isinstance(message, types.ToolListChangedNotification):
            made.is_outdated = True
            made.announced.set()
        await asyncio.sleep(0)

    info = types.Implementation(name="narval", version="1")
    async with ClientSession(
        read, write, message_handler=hear, client_info=info,
        sampling_callback=None, elicitation_callback=None, list_roots_callback=None,
    ) as client:  # fmt: skip
        made = McpSession(client, end)
        try:
            await _begin(client, probes=bool(server.url))
            await made.list_tools()
        except SessionError:
            raise
        except Exception as error:
            raise end.error(shown_error(error)) from error
        yield made


async def _begin(client: ClientSession, *, probes: bool) -> None:
    """Agree on a revision. `probes`: ask first for those without a handshake, as a server over HTTP may have
    them alone; what a program is asked first may not be what it does not know.
    """
    from mcp.client._probe import negotiate_auto
    from mcp.shared.exceptions import MCPError

    if probes:
        await negotiate_auto(client)
        return
    try:
        await client.initialize()
    except MCPError as error:
        if error.error.code != _NOT_SUPPORTED_VERSION:
            raise
        await client.discover()


def tool_of(listed: Any) -> Tool:
    """A tool as the library gives it."""
    annotations = (
        listed.annotations.model_dump(by_alias=True, exclude_none=True) if listed.annotations else {}
    )
    return Tool(
        name=listed.name,
        description=listed.description or "",
        input_schema=listed.input_schema or {},
        output_schema=listed.output_schema,
        annotations=annotations,
    )


def session_error(error: BaseException) -> SessionError:
    """The error of a session that something raised; of several that came at once, the one that says most."""
    if isinstance(error, BaseExceptionGroup):
        sessions = error.subgroup(SessionError)
        error = sessions if sessions is not None else error
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
    return error if isinstance(error, SessionError) else SessionError(LOST, shown_error(error))


def shown_error(error: BaseException) -> str:
    """An error, for people; of several that came at once, the first."""
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    return str(error)[:2_000] or type(error).__name__


# --- transports ---------------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def _program_streams(server: Connect, end: StreamEnd, prints: IO[bytes] | None) -> AsyncIterator[Any]:
    """The streams to a program that is started, and ended with the session."""
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
        with contextlib.suppress(ProcessLookupError):
            if program.returncode is None:
                program.kill()


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
"""The programs by which many servers are started, and what has them."""


async def _listen(program: asyncio.subprocess.Process, to_session: Any, end: StreamEnd) -> None:
    """Hand on the messages of a program until it closes its output, or sends what is too much."""
    import anyio
    from mcp.shared.message import SessionMessage
    from mcp_types import jsonrpc_message_adapter

    assert program.stdout is not None
    rubbish = 0
    async with to_session:
        while True:
            try:
                line = await program.stdout.readline()
            except ValueError:
                end.note(f"it sent a message of more than {MOST_MESSAGE:,} bytes")
                return
            if not line:
                break
            try:
                message = jsonrpc_message_adapter.validate_json(line, by_name=False)
            except (ValueError, RecursionError):
                rubbish += bool(line.strip())
                if rubbish > MOST_RUBBISH:
                    end.note(f"it sent more than {MOST_RUBBISH} lines that are no messages")
                    return
                continue
            try:
                await to_session.send(SessionMessage(message))
            except (anyio.ClosedResourceError, anyio.BrokenResourceError):
                return
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(program.wait(), 0.5)
        status = program.returncode
        end.note("it closed its output" if status is None else f"it ended with status {status}")


async def _speak(stdin: asyncio.StreamWriter, to_server: Any) -> None:
    """Write the messages of a session to a program, a line each, until it takes no more."""
    async with to_server:
        async for sent in to_server:
            text = sent.message.model_dump_json(by_alias=True, exclude_unset=True)
            try:
                stdin.write(text.encode() + b"\n")
                await stdin.drain()
            except OSError:
                return


@contextlib.asynccontextmanager
async def _http_streams(server: Connect, end: StreamEnd, login: Any) -> AsyncIterator[Any]:
    """The streams to a server that speaks HTTP."""
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    class Bounded(httpx2.AsyncByteStream):
        """The bytes of an answer that is one message, as long as they are not too many."""

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
                wants = "it wants another secret" if server.token else "it refuses what it is asked"
                end.refuse(LOST, f"it answers {response.status_code}: {wants}")
            elif response.is_success:
                end.refuse(LOST, "")
            if "text/event-stream" not in response.headers.get("content-type", ""):
                response.stream = Bounded(response.stream)
            return response

    headers = {"Authorization": f"Bearer {server.token}"} if server.token else {}
    timeout = httpx2.Timeout(30.0, read=300.0)
    transport = BoundedTransport(verify=certificates(server.ca))
    auth = None if login is None else login(end)
    async with (
        httpx2.AsyncClient(headers=headers, timeout=timeout, transport=transport, auth=auth) as client,
        streamable_http_client(server.url, http_client=client, max_sse_event_size=MOST_MESSAGE) as streams,
    ):
        yield streams[0], streams[1]


def certificates(authority: str) -> Any:
    """The certificates that may sign those of servers: those of this machine, or of a file of one's own.

    Raises SessionError.
    """
    if not authority:
        return True
    try:
        return ssl.create_default_context(cafile=authority)
    except (OSError, ValueError) as error:
        raise SessionError("no-certificate", f"{authority}: {error}", final=True) from None
