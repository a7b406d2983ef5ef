"""Webhooks: what an external program sends to /hook/NAME becomes an element of memory.

A hook has its own token, sent as `Authorization: Bearer TOKEN`, or as `token` in the address by programs that
cannot send the header.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from narval.core.errors import NarvalError
from narval.files.agents.senders import is_token
from narval.surfaces.control.async_client import AsyncClient
from narval.surfaces.http import senders
from narval.surfaces.http.guard import RefusedError
from narval.surfaces.http.senders import BODY_READERS, BodyError

PATH = "/hook/{name}"

KEYS = ("idempotency-key", "webhook-id", "x-github-delivery")
"""The headers with a sender's key for a request: a repeated request is taken once."""

AT_ONCE = 8
"""The most bodies processed at a time; others wait after their arrival."""

TOLD = 1.0
"""Seconds after which refused calls are reported to the daemon."""

LONG = 64 * 1024
"""The size in bytes from which a body is parsed in a thread."""


class Hooks:
    """The webhooks of a home, whose daemon is asked by `reading` and `writing`."""

    def __init__(
        self, reading: AsyncClient, writing: AsyncClient, seconds: Callable[[], float] = time.monotonic
    ) -> None:
        self._writing, self._senders = writing, senders.Senders(reading, "hooks", "hook", seconds)
        self._places = asyncio.Semaphore(AT_ONCE)
        self._refused: dict[str, Counter[str]] = {}
        """The refused calls not yet reported to the daemon, by hook and status."""
        self._telling: asyncio.Task[None] | None = None

    def route(self) -> Route:
        """The route of all webhooks."""
        return Route(PATH, self.take, methods=["POST"])

    async def take(self, request: Request) -> Response:
        """Take a call; it is recorded if the status is 202. Refusals are reported to the daemon."""
        name = str(request.path_params["name"])
        try:
            return JSONResponse(await self._recorded(name, request), 202)
        except (RefusedError, BodyError, NarvalError) as error:
            refusal = senders.refusal_of(error, then=", and send it again")
        if refusal.status < 500 and name in self._senders.known:
            self._refused.setdefault(name, Counter())[str(refusal.status)] += 1
            if self._telling is None or self._telling.done():
                self._telling = asyncio.create_task(self._tell_refused())
        return senders.refused(refusal)

    async def _tell_refused(self) -> None:
        """Report refusals to the daemon after a delay, all together."""
        while self._refused:
            await asyncio.sleep(TOLD)
            refused, self._refused = self._refused, {}
            for name, statuses in refused.items():
                with suppress(NarvalError):  # if the daemon is gone, these are never counted
                    await self._writing.ask("note_refused", name=name, statuses=dict(statuses))

    async def _recorded(self, name: str, request: Request) -> dict[str, object]:
        """The answer once the element of a call is recorded. Raises RefusedError, NarvalError, BodyError."""
        hook = (await self._senders.all()).get(name)
        if hook is None:
            raise RefusedError(404, "There is no such webhook.")
        token = senders.token_of(request.headers) or request.query_params.get("token", "")
        if not is_token(token, hook["sha256"]):
            raise senders.no_token("of this webhook")
        self._senders.take(hook, "this webhook takes")
        read = BODY_READERS.get(senders.media_type_of(request))
        if read is None:
            raise RefusedError(415, f"Expected one of {', '.join(BODY_READERS)}.")
        body = await senders.body_within(senders.body_of(request), hook["bytes"])
        key = next((value for header in KEYS if (value := request.headers.get(header))), "")
        recorded = hook["element"], body
        async with self._places:
            element = read(*recorded) if len(body) < LONG else await asyncio.to_thread(read, *recorded)
            answer = await self._writing.ask("take_hook", name=hook["hook"], element=element, key=key)
        return {"eid": answer["eid"], "again": answer["again"]}
