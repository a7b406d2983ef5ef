"""MCP over streamable HTTP: a separate listener, which checks tokens and knows no pages.

A request is checked before the SDK sees it: its path, Host and Origin, and its token, whose digest identifies
the client. Bodies, connections, sessions and requests under way are bounded.
"""

from __future__ import annotations

from typing import Any

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.transport_security import TransportSecuritySettings
from starlette.datastructures import Headers

from narval.core.errors import NarvalError
from narval.files.web_settings import WebSettings
from narval.surfaces.control.async_client import AsyncClient
from narval.surfaces.http.guard import ADMITTED, Receive, RefusedError, RequestLimits, Scope, Send, in_time
from narval.surfaces.http.senders import Senders, no_token, refusal_of, refused, token_of
from narval.surfaces.mcp.resources import Context
from narval.surfaces.mcp.server import ToolServer

PATH = "/mcp"
"""The only path that is served."""

MOST_BYTES = 4 * 1024 * 1024
"""The most bytes of a body."""

SESSIONS = 64
"""The most open sessions of revisions with a handshake."""

IDLE = 600.0
"""Seconds without a request after which a session ends."""

UNDER_WAY = 48
"""The most requests answered at a time; more are asked to retry later."""


class McpDoor:
    """The ASGI application of MCP for the clients of a home. `reading` asks the daemon who they are,
    `writing` asks it on their behalf.
    """

    def __init__(self, reading: AsyncClient, writing: AsyncClient, settings: WebSettings) -> None:
        self._tools, self._clients = ToolServer(writing, client_of), Senders(reading, "mcp_clients", "client")
        hosts = [f"{name}:{settings.port}" for name in ("127.0.0.1", "localhost", "[::1]")]
        bracketed = f"[{settings.host}]" if ":" in settings.host else settings.host
        hosts += [f"{bracketed}:{settings.port}", *settings.mcp_names]
        hosts += [f"{name}:{settings.port}" for name in settings.mcp_names if ":" not in name]
        scheme = "https" if settings.mcp_key is not None else "http"
        self._hosts, self._origins = frozenset(hosts), frozenset(f"{scheme}://{host}" for host in hosts)
        self._application = self._tools.server.streamable_http_app(
            streamable_http_path=PATH,
            max_request_body_size=MOST_BYTES,
            max_sessions=SESSIONS,
            session_idle_timeout=IDLE,
            transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        )
        self._under_way = 0

    def end(self) -> None:
        """Treat requests cut off from now on as lost connections, not as cancelled by the client."""
        self._tools.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._application(scope, receive, send)
            return
        try:
            client = await self._admit(scope)
            if self._under_way >= UNDER_WAY:
                raise RefusedError(503, "Too many requests are under way; try again.", retry_after="1")
        except RefusedError as refusal:
            await _refuse(scope, receive, send, refusal)
            return
        scope[ADMITTED] = True
        scope["user"] = AuthenticatedUser(AccessToken(token="", client_id=client, scopes=[]))
        begun = False

        async def answer(message: Any) -> None:
            nonlocal begun
            begun = True
            await send(message)

        self._under_way += 1
        try:
            await self._application(scope, in_time(receive, RequestLimits().sending), answer)
        except RefusedError as refusal:
            if not begun:
                await _refuse(scope, receive, send, refusal)
        finally:
            self._under_way -= 1

    async def _admit(self, scope: Scope) -> str:
        """The name of the client of a request. Raises RefusedError."""
        headers = Headers(scope=scope)
        if scope["path"] != PATH:
            raise RefusedError(404, f"MCP is served at {PATH}.")
        if headers.get("host", "").lower() not in self._hosts:
            raise RefusedError(421, "This Host does not belong to this server.")
        origin = headers.get("origin")
        if origin is not None and origin.lower() not in self._origins:
            raise RefusedError(403, "This Origin does not belong to this server.")
        try:
            client = await self._clients.with_token(token_of(headers))
        except NarvalError as error:
            raise refusal_of(error, other=503) from None
        if client is None:
            raise no_token("of a client", "; `narval mcp client` lists them, and faults of their files")
        return str(client["client"])


def client_of(ctx: Context) -> str:
    """The client of a request."""
    request: Any = ctx.request
    return str(request.scope["user"].display_name)


async def _refuse(scope: Scope, receive: Receive, send: Send, refusal: RefusedError) -> None:
    headers = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
    await refused(refusal, headers)(scope, receive, send)
