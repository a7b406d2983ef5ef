"""A login's token on each request to an MCP server, renewed when it has expired or is refused."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx2
from mcp.client.auth import OAuthClientProvider
from mcp.client.auth.utils import extract_field_from_www_auth, extract_scope_from_www_auth
from mcp.shared.auth import (
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from msgspec.structs import replace

from narval.calls.mcp.frames import Connect
from narval.calls.mcp.session import LOGIN_WANTED
from narval.calls.mcp.transports import LOST, StreamEnd
from narval.files.outside.mcp_servers import McpLogin, read_login, write_login

EARLY = 30.0
"""Seconds before its expiry at which a token is renewed."""

_POLL = 0.05

_SCOPES = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]{1,100}( [\x21\x23-\x5b\x5d-\x7e]{1,100}){0,49}")
"""The pattern of OAuth scopes: words without quotes and control characters."""

logging.getLogger("mcp.client.auth").setLevel(logging.CRITICAL + 1)  # it logs answers, which may have tokens


def scopes_of(text: str | None) -> str:
    """The scopes that a server names; "" if it names none, or invalid ones."""
    return text if text and _SCOPES.fullmatch(text) else ""


class Storage:
    """The input of an OAuth flow, and the tokens that it obtains (a `TokenStorage` of the library)."""

    def __init__(self, client: OAuthClientInformationFull | None, token: OAuthToken | None = None) -> None:
        self.client, self.token = client, token
        self.is_new = False
        """True once it has received tokens."""

    async def get_tokens(self) -> OAuthToken | None:
        """The initial tokens."""
        return self.token

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Store tokens."""
        self.token, self.is_new = tokens, True

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """The client as which narval is registered."""
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Store the record of a registration."""
        self.client = client_info


def expiry(token: OAuthToken) -> float | None:
    """The time at which a token received now expires; None if unknown."""
    return None if token.expires_in is None else time.time() + token.expires_in


class KeptLogin(httpx2.Auth):
    """The login stored in a file, applied to the requests to its server. A fault of the login is recorded at
    the end of the streams, and the request continues with the server's answer.
    """

    def __init__(self, name: str, file: Path, url: str, end: StreamEnd) -> None:
        self._name, self._file, self._url, self._end = name, file, url, end

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Add the token to a request; renew it, once, if it has expired or is refused."""
        login = self._read()
        is_due = login is not None and login.expires is not None and login.expires < time.time() + EARLY
        trouble = 0
        for attempt in (1, 2):
            if is_due and login is not None:
                async with _alone(self._file):
                    newest = self._read()
                    if newest is not None and newest.token == login.token:  # not renewed elsewhere
                        flow, storage = _renewing(newest, request)
                        outgoing = await anext(flow)
                        while outgoing is not request:
                            response = yield outgoing
                            trouble = response.status_code if response.is_server_error else 0
                            outgoing = await flow.asend(response)
                        await flow.aclose()
                        if storage.is_new and storage.token is not None:
                            write_login(self._file, _with_token(newest, storage.token))
                    login = self._read()
            request.headers.pop("Authorization", None)
            if login is not None:
                request.headers["Authorization"] = f"Bearer {login.token.get('access_token', '')}"
            response = yield request
            is_due = response.status_code == 401 and login is not None and "refresh_token" in login.token
            if not is_due or attempt == 2:
                break
        if trouble and response.status_code == 401:
            self._end.refuse(LOST, f"its login cannot be renewed now: its server of logins answers {trouble}")
        else:
            await self._note(response, login)

    def _read(self) -> McpLogin | None:
        try:
            return read_login(self._file, self._url)
        except ValueError as error:
            self._end.refuse(LOGIN_WANTED, str(error))
            return None

    async def _note(self, response: httpx2.Response, login: McpLogin | None) -> None:
        """Record that a request was refused because it lacks a login, or its login lacks scopes."""
        log_in = f"log in: narval mcp login {self._name}"
        if response.status_code == 401:
            why = "it wants a login" if login is None else "the login has expired, or was withdrawn"
            self._end.refuse(LOGIN_WANTED, f"{why}; {log_in}")
        elif response.status_code == 403 and login is not None:
            if extract_field_from_www_auth(response, "error") != "insufficient_scope":
                return
            scopes = scopes_of(extract_scope_from_www_auth(response))
            async with _alone(self._file):
                if (newest := self._read()) is not None:
                    write_login(self._file, replace(newest, wants=scopes))
            more = f" ({scopes})" if scopes else ""
            self._end.refuse(LOGIN_WANTED, f"the login may do too little for that{more}; {log_in}")


def _with_token(login: McpLogin, token: OAuthToken) -> McpLogin:
    dumped = token.model_dump(mode="json", exclude_none=True)
    return replace(login, token=dumped, expires=expiry(token))


def _renewing(login: McpLogin, request: httpx2.Request) -> tuple[Any, Storage]:
    """The flow by which the library renews a token before a request, and the storage for the result."""
    client = OAuthClientInformationFull.model_validate(login.client)
    storage = Storage(client, OAuthToken.model_validate(login.token))
    metadata = OAuthClientMetadata(redirect_uris=client.redirect_uris)
    provider = OAuthClientProvider(login.url, metadata, storage)
    provider.context.token_expiry_time = 1.0  # long ago
    provider.context.auth_server_url = login.issuer
    provider.context.oauth_metadata = OAuthMetadata.model_validate(login.authorization)
    if login.resource is not None:
        resource = ProtectedResourceMetadata.model_validate(login.resource)
        provider.context.protected_resource_metadata = resource
    return provider.async_auth_flow(request), storage


def kept_login(server: Connect) -> Callable[[StreamEnd], KeptLogin]:
    """The kept login of a server, in the form that a session takes."""
    return lambda end: KeptLogin(server.name, Path(server.login), server.url, end)


@contextlib.asynccontextmanager
async def _alone(file: Path) -> AsyncIterator[None]:
    """Hold the lock for renewing: a refresh token is often valid only once."""
    descriptor = os.open(file.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                await asyncio.sleep(_POLL)
        yield
    finally:
        os.close(descriptor)
