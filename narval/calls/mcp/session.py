"""A session with an MCP server, through the library `mcp`: a limited number of tools.

Requests by a server itself (for a language model, folders, input of the user) are refused.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import sys
import types as python_types
from collections.abc import AsyncIterator
from typing import IO, TYPE_CHECKING, Any

from narval.calls.mcp.frames import Connect
from narval.calls.mcp.transports import (
    LOST,
    TOO_LARGE,
    SessionError,
    StreamEnd,
    http_streams,
    program_streams,
)
from narval.core.definitions.action.tool import MOST_TOOLS, Tool, fault_of
from narval.system.extras import install_command

if TYPE_CHECKING:
    from mcp.client.session import ClientSession

PAGES = 100
"""The most pages of tools that are read."""

CHANGED = "tool-changed"
"""The error type of a tool that differs from what was accepted."""

LOGIN_WANTED = "login-wanted"
"""The error type of a server that wants a login, or a different one, by the owner of the home."""

_NOT_SUPPORTED_VERSION = -32022


class McpSession:
    """An open session: its tools, and whether they may have changed."""

    def __init__(self, client: ClientSession, end: StreamEnd) -> None:
        self.client, self.end = client, end
        self.tools: dict[str, Tool] = {}
        self.left_out: dict[str, str] = {}
        """The tools that cannot be actions, with the reason."""
        self.is_outdated = True
        """True if the server has said that its tools changed since they were listed."""
        self.announced = asyncio.Event()
        """Set when the server says that its tools changed."""

    async def list_tools(self) -> None:
        """List the tools again. Raises SessionError if there are too many."""
        self.is_outdated = False
        try:
            await self._list_tools()
        except BaseException:
            self.is_outdated = True
            raise

    async def _list_tools(self) -> None:
        import mcp_types as types

        tools, left_out, cursor, seen = dict[str, Tool](), dict[str, str](), None, 0
        actions: dict[str, str] = {}
        for _ in range(PAGES):
            params = types.PaginatedRequestParams(cursor=cursor) if cursor else None
            page = await self.client.list_tools(params=params)
            for listed in page.tools:
                seen += 1
                tool = tool_of(listed)
                why = fault_of(tool)
                if not why and (other := actions.setdefault(tool.action, tool.name)) != tool.name:
                    why = f"it and the tool {other!r:.80} would be one action, {tool.action!r:.80}"
                if why:
                    left_out[tool.name[:128]] = why
                else:
                    tools[tool.name] = tool
            if seen > MOST_TOOLS:
                raise SessionError(TOO_LARGE, f"expected at most {MOST_TOOLS} tools, got more", final=True)
            cursor = page.next_cursor
            if not cursor:
                self.tools, self.left_out = tools, left_out
                return
        raise SessionError(TOO_LARGE, f"expected at most {PAGES} pages of tools, got more", final=True)


def import_client_alone() -> None:
    """Make the client of `mcp` importable without its servers, in a program that needs only the client.

    Its packages import everything, which takes a second and twenty megabytes more than the client needs.
    """
    _import_without("mcp", "mcp.client")


def import_server_alone(*, over_http: bool) -> None:
    """Make a server of `mcp` importable without its clients and other kinds of servers, in a program that is
    such a server; without HTTP, also without streaming and the web server.
    """
    _import_without("mcp", "mcp.client", "mcp.server")
    if not over_http and "sse_starlette" not in sys.modules:
        streaming: Any = python_types.ModuleType("sse_starlette")
        streaming.EventSourceResponse = None
        sys.modules["sse_starlette"] = streaming


def _import_without(*names: str) -> None:
    """Make modules in packages of `mcp` importable without the imports of the packages themselves."""
    if "mcp" in sys.modules:
        return
    package_spec = importlib.util.find_spec("mcp")
    if package_spec is None or not package_spec.submodule_search_locations:
        return
    for name in names:
        package = python_types.ModuleType(name)
        below = name.removeprefix("mcp").replace(".", "/")
        package.__path__ = [f"{folder}{below}" for folder in package_spec.submodule_search_locations]
        sys.modules[name] = package


@contextlib.asynccontextmanager
async def session(
    server: Connect, prints: IO[bytes] | None = None, login: Any = None
) -> AsyncIterator[McpSession]:
    """An open session with a server. Its program prints to the file `prints`; for None, to our own standard
    error. `login` takes the end of the streams, and returns the httpx2.Auth of requests to an HTTP server.
    Raises SessionError.
    """
    if "mcp" not in sys.modules and importlib.util.find_spec("mcp") is None:
        why = f"what speaks with MCP servers is not installed: {install_command('mcp')}"
        raise SessionError("no-mcp", why, final=True)
    end = StreamEnd()
    end.begin_request()
    opening = http_streams(server, end, login) if server.url else program_streams(server, end, prints)
    try:
        async with opening as (read, write), _session(read, write, end, server) as made:
            yield made
    except BaseExceptionGroup:  # of tasks beside the caller's
        cause = end.cause()
        if cause is None or cause.kind == LOST:
            raise
        raise cause from None


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
            raise end.cause() or SessionError(LOST, shown_error(error)) from error
        end.begin_request()
        yield made


async def _begin(client: ClientSession, *, probes: bool) -> None:
    """Agree on a protocol revision. With `probes`, first ask for those without a handshake, because an HTTP
    server may have only these. The first request to a program must be one that it knows.
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
    """A tool from the library's form."""
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
    """The error of a session for an exception; for several at once, the most informative one."""
    if isinstance(error, BaseExceptionGroup):
        sessions = error.subgroup(SessionError)
        error = sessions if sessions is not None else error
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
    return error if isinstance(error, SessionError) else SessionError(LOST, shown_error(error))


def shown_error(error: BaseException) -> str:
    """The text of an error, for people; for several at once, of the first."""
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    slips: Any = getattr(error, "errors", None)
    if isinstance(error, ValueError) and callable(slips):  # of pydantic, whose own text is for programmers
        first = slips()[0]
        place = ".".join(map(str, first["loc"]))
        where = f", at {place:.200}" if place else ""
        return f"it sent what the protocol does not allow{where}: {first['msg']:.200}"
    return str(error)[:2_000] or type(error).__name__
