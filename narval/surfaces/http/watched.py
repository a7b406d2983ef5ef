"""Pages for machines: `/metrics` for Prometheus, `/healthz` for supervisors and proxies.

Metrics name definitions and models, so they need a token. `/healthz` needs none and names nothing: it reports
whether the daemon can work, and otherwise the kind of trouble.
"""

from __future__ import annotations

import asyncio
import time

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from narval.core.errors import NarvalError
from narval.files.agents.senders import is_token
from narval.surfaces.control.async_client import AsyncClient
from narval.surfaces.http.guard import ADMITTED, HEALTH, METRICS
from narval.surfaces.http.senders import token_of

WITHIN = 5.0
"""Seconds within which a healthy daemon answers."""

KNOWN = 1.0
"""Seconds for which the last health answer of the daemon is cached, as anyone may ask."""


class Watched:
    """The watching of a daemon by HTTP; `digest` is that of the token for metrics, "" without one."""

    def __init__(self, asks: AsyncClient, digest: str) -> None:
        self._asks, self._digest = asks, digest
        self._health = ""
        self._asked = -KNOWN
        self._asking = asyncio.Lock()

    def routes(self) -> list[Route]:
        """The routes of both pages."""
        return [Route(METRICS, self._metrics), Route(HEALTH, self._healthz)]

    async def _metrics(self, request: Request) -> Response:
        if not self._digest:
            needs = "Metrics are given to who has a token: set web.metrics_sha256 in etc/narval.toml.\n"
            return PlainTextResponse(needs, 404)
        if not is_token(token_of(request.headers), self._digest):
            needs = "Expected the token for metrics: Authorization: Bearer TOKEN.\n"
            return PlainTextResponse(needs, 401, {"www-authenticate": "Bearer"})
        request.scope[ADMITTED] = True
        from narval.ask.exposition import MEDIA_TYPE, down, openmetrics  # here: few use them

        try:
            async with asyncio.timeout(WITHIN):
                text = openmetrics(await self._asks.ask("metrics"))
        except (NarvalError, TimeoutError):
            text = down()
        return Response(text, media_type=MEDIA_TYPE)

    async def _healthz(self, request: Request) -> Response:
        async with self._asking:  # once for all concurrent requests
            if time.monotonic() - self._asked > KNOWN:
                self._health, self._asked = await self._look(), time.monotonic()
        if self._health:
            return PlainTextResponse(f"not well: {self._health}\n", 503)
        return PlainTextResponse("well\n")

    async def _look(self) -> str:
        """The kinds of trouble that keep the daemon from working; "" for none."""
        try:
            async with asyncio.timeout(WITHIN):
                answer = await self._asks.ask("health")
        except (NarvalError, TimeoutError):
            return "no daemon answers"
        return ", ".join(dict.fromkeys(trouble["what"] for trouble in answer["troubles"]))
