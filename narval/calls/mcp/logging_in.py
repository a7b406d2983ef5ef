"""Login at an MCP server: its user agrees in a browser, which is redirected to a listener on this machine.

The library implements OAuth: it finds the addresses, registers narval, proves that the program that asks for
tokens is the one that began (PKCE, `state`), and checks every issuer against the expected one. This module
decides where requests may go, which redirects are accepted, and where the tokens are kept.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx2
from mcp.client.auth import OAuthClientProvider
from mcp.client.auth.utils import union_scopes
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata

from narval.calls.mcp.connection import Offered, connect_to, quiet_library
from narval.calls.mcp.kept_login import Storage, expiry
from narval.calls.mcp.session import session, session_error
from narval.calls.mcp.transports import SessionError, StreamEnd, certificates
from narval.core.errors import ActionError
from narval.files.outside.mcp_servers import (
    McpLogin,
    McpServer,
    login_file,
    read_login,
    remove_login,
    write_login,
)
from narval.files.outside.services import is_in_the_clear

REFUSED = "login-refused"
"""The error type of a failed login."""

PATIENCE = 600.0
"""The time limit in seconds for a person to log in."""

LONGEST_REQUEST = 16 * 1024
"""The most bytes of the head of a redirected request."""

_PATH = "/callback"


class LoggedIn(NamedTuple):
    """A successful login, and the tools that the server then offers."""

    login: McpLogin
    offered: Offered


def log_in(server: McpServer, home: Path, show: Callable[[str], None], port: int = 0) -> LoggedIn:
    """Log in at a server, and keep the login. `show` gets the address to open in a browser.

    Raises ActionError (`login-refused`, `no-secret`, `server-lost`).
    """
    quiet_library()
    try:
        return asyncio.run(_log_in(server, home, show, port))
    except ActionError:
        raise
    except TimeoutError:
        raise ActionError(f"{server}: no login within {PATIENCE:g} s", REFUSED, final=True) from None
    except Exception as error:
        cause = session_error(error)
        raise ActionError(f"{server} in etc/narval.toml: {cause}", cause.kind, final=True) from None


async def _log_in(server: McpServer, home: Path, show: Callable[[str], None], port: int) -> LoggedIn:
    file = login_file(home, server.name)
    try:
        before = read_login(file, server.url)
    except ValueError:  # a new one replaces it
        before = None
    secret = server.secret_named(server.client_secret, home) if server.client_secret else None
    async with Redirects(port) as redirects:
        client = _client(server, secret, redirects.url)
        flow = LoginFlow(server.url, client, before, redirects, show)
        async with asyncio.timeout(PATIENCE), session(connect_to(server, home, {}), login=flow.of) as opened:
            if (login := flow.login()) is None:
                raise SessionError(REFUSED, "it asks for no login", final=True)
            remove_login(file)
            write_login(file, login)
            return LoggedIn(login, Offered(opened.tools, opened.left_out))


def _client(server: McpServer, secret: str | None, redirect: str) -> OAuthClientInformationFull | None:
    """The client as which narval was registered by hand; None if it must register itself."""
    if not server.client_id:
        return None
    return OAuthClientInformationFull.model_validate(
        {"client_id": server.client_id, "client_secret": secret, "redirect_uris": [redirect]}
    )


class LoginFlow(httpx2.Auth):
    """The requests of a login, before and between those to the server."""

    def __init__(
        self,
        url: str,
        client: OAuthClientInformationFull | None,
        before: McpLogin | None,
        redirects: Redirects,
        show: Callable[[str], None],
    ) -> None:
        self._url, self._before, self._redirects, self._show = url, before, redirects, show
        self._storage, self._end = Storage(client), StreamEnd()
        self._is_asked = True
        self._provider = OAuthClientProvider(
            url,
            OAuthClientMetadata.model_validate({"client_name": "narval", "redirect_uris": [redirects.url]}),
            self._storage,
            redirect_handler=self._open,
            callback_handler=redirects.came,
        )

    def of(self, end: StreamEnd) -> LoginFlow:
        """Record faults at an end of streams from now on; return this flow."""
        self._end = end
        return self

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Get the requests of a login from the library, and check that each may go to its URL."""
        flow = self._provider.async_auth_flow(request)
        try:
            outgoing = await anext(flow)
            while True:
                self._may_go(str(outgoing.url))
                response = yield outgoing
                if outgoing is request and response.is_success and not self._storage.is_new:
                    self._is_asked = False  # it may want a login only for its tools
                    response = httpx2.Response(401, request=request)
                outgoing = await flow.asend(response)
        except StopAsyncIteration:
            return
        except GeneratorExit:
            raise
        except Exception as error:
            cause = str(error)[:1_000] or type(error).__name__
            why = "the login failed" if self._is_asked else "it asks for no login, and offers none"
            self._end.refuse(REFUSED, f"{why}: {cause}")
            raise httpx2.RequestError(cause) from None
        finally:
            await flow.aclose()

    def login(self) -> McpLogin | None:
        """The login; None if none was asked for."""
        context, token, client = self._provider.context, self._storage.token, self._storage.client
        if not self._storage.is_new or token is None or client is None or context.oauth_metadata is None:
            return None
        resource = context.protected_resource_metadata
        return McpLogin(
            url=self._url,
            issuer=context.auth_server_url or str(context.oauth_metadata.issuer),
            client=_dumped(client),
            token=_dumped(token),
            expires=expiry(token),
            authorization=_dumped(context.oauth_metadata),
            resource=_dumped(resource) if resource is not None else None,
        )

    def _may_go(self, url: str) -> None:
        """Raise ValueError for a URL where a request of the login, or a browser, must not go."""
        if is_in_the_clear(url):
            raise ValueError(f"expected https, since what is sent is secret, got {url:.200}")
        if _is_local(url) and not _is_local(self._url):
            raise ValueError(
                f"a server elsewhere names an address of this machine or its network: {url:.200}"
            )

    async def _open(self, url: str) -> None:
        """Have the user of the home open the address at which to agree."""
        context, scopes = self._provider.context, ""
        if context.oauth_metadata is None:
            raise ValueError("it does not say where one logs in (no metadata of OAuth)")
        if "S256" not in (context.oauth_metadata.code_challenge_methods_supported or ()):
            raise ValueError("its server of logins does not support PKCE (S256)")
        self._may_go(url)
        self._is_asked = True
        client, methods = context.client_info, context.oauth_metadata.token_endpoint_auth_methods_supported
        if client is not None and client.client_secret and client.token_endpoint_auth_method is None:
            posts = methods is not None and "client_secret_basic" not in methods
            client.token_endpoint_auth_method = "client_secret_post" if posts else "client_secret_basic"
        if self._before is not None and self._before.wants:
            scopes = union_scopes(" ".join(self._before.scopes), self._before.wants) or ""
        base, _, query = url.partition("?")
        fields = {name: values[-1] for name, values in parse_qs(query).items()}
        if scopes:
            fields["scope"] = union_scopes(fields.get("scope"), scopes) or scopes
        self._redirects.expect(fields["state"])
        self._show(f"{base}?{urlencode(fields)}")


def _is_local(url: str) -> bool:
    """True if the host of a URL is this machine, or a non-public address."""
    host = urlsplit(url).hostname or ""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return not ipaddress.ip_address(host).is_global
    except ValueError:
        return False


def _dumped(model: Any) -> dict[str, Any]:
    dumped: dict[str, Any] = model.model_dump(mode="json", exclude_none=True)
    return dumped


# --- the redirect -------------------------------------------------------------------------------------------


class Redirects:
    """A listener on this machine only, to which the browser is redirected with a code or a refusal."""

    def __init__(self, port: int) -> None:
        self._port, self.url, self._state = port, "", ""
        self._came: asyncio.Future[AuthorizationCodeResult] = asyncio.get_running_loop().create_future()
        self._server: asyncio.Server | None = None
        self._answering: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Redirects:
        try:
            self._server = await asyncio.start_server(self._answer, "127.0.0.1", self._port)
        except OSError as error:
            why = f"its answer cannot be awaited at port {self._port} of 127.0.0.1: {error.strerror}"
            raise SessionError(REFUSED, why) from None
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}{_PATH}"
        return self

    async def __aexit__(self, *error: object) -> None:
        if self._server is not None:
            self._server.close()
        if self._answering:  # so that the user can read the result
            await asyncio.wait(self._answering, timeout=2.0)

    def expect(self, state: str) -> None:
        """Accept only answers with this state."""
        self._state = state
        if self._came.done():
            self._came = asyncio.get_running_loop().create_future()

    async def came(self) -> AuthorizationCodeResult:
        """The answer of the redirect. Raises ValueError for a refusal."""
        return await self._came

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer a browser's request, without showing anything it sends."""
        task = asyncio.current_task()
        assert task is not None
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)
        status, text = "404 Not Found", "There is nothing here."
        with contextlib.suppress(
            OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError
        ):
            async with asyncio.timeout(10.0):
                line = (await reader.readuntil(b"\r\n"))[:LONGEST_REQUEST].decode("latin-1")
                method, _, target = line.partition(" ")
                parts = urlsplit(target.partition(" ")[0])
                if method == "GET" and parts.path == _PATH:
                    status, text = self._take(parse_qs(parts.query))
                body = f"<!doctype html><meta charset=utf-8><title>narval</title><p>{text}".encode()
                head = f"HTTP/1.1 {status}\r\ncontent-type: text/html\r\ncontent-length: {len(body)}\r\n"
                writer.write(head.encode() + b"cache-control: no-store\r\nconnection: close\r\n\r\n" + body)
                await writer.drain()
        writer.close()

    def _take(self, fields: dict[str, list[str]]) -> tuple[str, str]:
        """The status and text for a redirected request."""
        state, code = fields.get("state", [""])[-1], fields.get("code", [""])[-1]
        if not self._state or state != self._state or self._came.done():
            return "400 Bad Request", "narval waits for no such answer."
        if "error" in fields or not code:
            kind = fields.get("error", ["it gave no code"])[-1][:100]
            more = fields.get("error_description", [""])[-1][:500]
            self._came.set_exception(ValueError(f"it was refused: {kind}{f': {more}' if more else ''}"))
            return "200 OK", "The login was refused. You may close this page."
        issuer = fields.get("iss", [None])[-1]
        self._came.set_result(AuthorizationCodeResult(code=code, state=state, iss=issuer))
        return "200 OK", "narval goes on in its terminal. You may close this page."


# --- logging out --------------------------------------------------------------------------------------------


class LoggedOut(NamedTuple):
    """The outcome of logging out: whether there was a login, and whether its server has revoked it."""

    was_there: bool
    is_revoked: bool


def log_out(server: McpServer, home: Path) -> LoggedOut:
    """Delete a login, and ask the server that issued its tokens to revoke them, if it supports that."""
    file = login_file(home, server.name)
    try:
        login = read_login(file, server.url)
    except ValueError:
        login = None
    was_there = remove_login(file)
    return LoggedOut(was_there, login is not None and asyncio.run(_revoked(login, server, home)))


async def _revoked(login: McpLogin, server: McpServer, home: Path) -> bool:
    """True if the server that issued the tokens has revoked them."""
    endpoint = login.authorization.get("revocation_endpoint")
    if not endpoint or is_in_the_clear(str(endpoint)):
        return False
    client_id, secret = str(login.client.get("client_id", "")), login.client.get("client_secret")
    is_well = True
    verify = certificates(connect_to(server, home, {}).ca)
    async with httpx2.AsyncClient(timeout=10.0, verify=verify) as http:
        for kind in ("refresh_token", "access_token"):
            if not (token := login.token.get(kind)):
                continue
            fields = {"token": str(token), "token_type_hint": kind, "client_id": client_id}
            basic = httpx2.BasicAuth(client_id, str(secret)) if secret else httpx2.Auth()
            if secret and login.client.get("token_endpoint_auth_method") == "client_secret_post":
                fields, basic = {**fields, "client_secret": str(secret)}, httpx2.Auth()
            try:
                is_well &= (await http.post(str(endpoint), data=fields, auth=basic)).status_code == 200
            except (httpx2.HTTPError, ValueError):
                return False
    return is_well
