"""A server over HTTP that wants a login, and gives the tokens itself, by what the library has for servers."""

from __future__ import annotations

import secrets
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import mcp_types as types
import uvicorn
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    ProviderTokenVerifier,
    RefreshToken,
    TokenError,
    construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions, RevocationOptions
from mcp.server.lowlevel import Server
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

ECHO = types.Tool(
    name="echo",
    description="Say it again.",
    input_schema={"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
)


class OAuthServer:
    """The server, which tests tell how to behave, and ask what it was asked."""

    def __init__(self, certificate: tuple[str, str] | None = None) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.certificate = certificate
        scheme = "https" if certificate else "http"
        self.base = f"{scheme}://127.0.0.1:{self._socket.getsockname()[1]}"
        self.url = f"{self.base}/mcp"
        self.clients: dict[str, OAuthClientInformationFull] = {}
        self.codes: dict[str, AuthorizationCode] = {}
        self.access: dict[str, AccessToken] = {}
        self.renewing: dict[str, RefreshToken] = {}
        self.is_refusing, self.is_ill, self.lifetime = False, False, 3600
        self.grants = list[str]()
        """The kinds of grants for which tokens were given."""
        self.metadata: dict[str, Any] = {}
        """What the metadata of logins say instead."""
        self._app = self._server().streamable_http_app(
            json_response=True,
            auth=AuthSettings.model_validate(
                {
                    "issuer_url": self.base,
                    "resource_server_url": self.url,
                    "required_scopes": ["use"],
                    "validate_token_resource": True,
                    "client_registration_options": ClientRegistrationOptions(
                        enabled=True, valid_scopes=["use", "offline_access"], default_scopes=["use"]
                    ),
                    "revocation_options": RevocationOptions(enabled=True),
                }
            ),
            token_verifier=ProviderTokenVerifier(self),  # type: ignore[arg-type]
            auth_server_provider=self,  # type: ignore[arg-type]
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; metadata as a test has them, and no token while the server of logins is ill."""
        if scope["type"] == "http" and scope["path"] == "/token" and self.is_ill:
            await Response("ill", 503)(scope, receive, send)
            return
        if scope["type"] == "http" and "oauth-authorization-server" in scope["path"] and self.metadata:
            metadata = {
                "issuer": self.base,
                "authorization_endpoint": f"{self.base}/authorize",
                "token_endpoint": f"{self.base}/token",
                "registration_endpoint": f"{self.base}/register",
                "code_challenge_methods_supported": ["S256"],
                **self.metadata,
            }
            response: Response = JSONResponse(metadata)
            await response(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _server(self) -> Server[Any]:
        async def listed(ctx: Any, params: Any) -> types.ListToolsResult:
            return types.ListToolsResult(tools=[ECHO])

        async def called(ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
            text = (params.arguments or {}).get("text", "")
            return types.CallToolResult(content=[types.TextContent(type="text", text=text)])

        return Server("tracker", on_list_tools=listed, on_call_tool=called)

    @contextmanager
    def running(self) -> Iterator[OAuthServer]:
        """Serve meanwhile."""
        certificate, key = self.certificate or (None, None)
        config = uvicorn.Config(
            self,
            log_level="critical",
            ws="none",
            ssl_certfile=certificate,
            ssl_keyfile=key,
            timeout_graceful_shutdown=1,
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([self._socket],), daemon=True)
        thread.start()
        try:
            yield self
        finally:
            server.should_exit = True
            thread.join()

    def forget(self) -> None:
        """Take all tokens for none from now on."""
        self.access.clear()
        self.renewing.clear()

    def expire(self) -> None:
        """Let all tokens expire; they can be renewed."""
        self.access.clear()

    # --- what the library asks of one that gives tokens -------------------------------------------------

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        self.clients[client_info.client_id] = client_info

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        if self.is_refusing:
            answer = {"error": "access_denied", "error_description": "not \x1b[31mtoday"}
            return construct_redirect_uri(str(params.redirect_uri), state=params.state, **answer)
        code = AuthorizationCode(
            code=secrets.token_urlsafe(24),
            scopes=params.scopes or ["use"],
            expires_at=time.time() + 60,
            client_id=client.client_id,
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
        )
        self.codes[code.code] = code
        return construct_redirect_uri(str(params.redirect_uri), code=code.code, state=params.state)

    async def load_authorization_code(self, client: Any, authorization_code: str) -> AuthorizationCode | None:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(
        self, client: Any, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        del self.codes[authorization_code.code]
        return self._given("code", client, authorization_code.scopes, authorization_code.resource)

    async def load_refresh_token(self, client: Any, refresh_token: str) -> RefreshToken | None:
        return self.renewing.get(refresh_token)

    async def exchange_refresh_token(
        self, client: Any, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        if self.renewing.pop(refresh_token.token, None) is None:
            raise TokenError("invalid_grant")
        return self._given("refresh", client, scopes, refresh_token.resource)

    async def load_access_token(self, token: str) -> AccessToken | None:
        return self.access.get(token)

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        self.access.pop(token.token, None)
        self.renewing.pop(token.token, None)

    def _given(self, grant: str, client: Any, scopes: list[str], resource: str | None) -> OAuthToken:
        self.grants.append(grant)
        access, renewing = secrets.token_urlsafe(24), secrets.token_urlsafe(24)
        about = {"client_id": client.client_id, "scopes": scopes, "resource": resource}
        self.access[access] = AccessToken.model_validate({"token": access, **about})
        self.renewing[renewing] = RefreshToken.model_validate({"token": renewing, **about})
        return OAuthToken(
            access_token=access, refresh_token=renewing, expires_in=self.lifetime, scope=" ".join(scopes)
        )
