"""Webhooks: what a program elsewhere sends to /hook/NAME becomes an element of memory.

A hook has a token of its own, which comes as `Authorization: Bearer TOKEN`, or as `token` in the address from
programs that can send no header.
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
from narval.files.tokens import is_token
from narval.surfaces.asks import Asks
from narval.surfaces.http.guard import RefusedError
from narval.surfaces.http.hook_bodies import BODY_READERS, BodyError
from narval.surfaces.http.senders import (
    Senders,
    body_of,
    body_within,
    media_type_of,
    no_token,
    refusal_of,
    refused,
    token_of,
)

PATH = "/hook/{name}"

KEYS = ("idempotency-key", "webhook-id", "x-github-delivery")
"""The headers by which a sender gives what it sends a key: what comes again is taken once."""

AT_ONCE = 8
"""Bodies that are made into elements and recorded at a time; others wait, having arrived."""

TOLD = 1.0
"""Seconds after which the daemon is told of calls that were refused."""

LONG = 64 * 1024
"""Bytes from which a body is read in a thread."""


class Hooks:
    """The webhooks of a home, whose daemon is asked by `reading` and `writing`."""

    def __init__(self, reading: Asks, writing: Asks, seconds: Callable[[], float] = time.monotonic) -> None:
        self._writing, self._senders = writing, Senders(reading, "hooks", "hook", seconds)
        self._places = asyncio.Semaphore(AT_ONCE)
        self._refused: dict[str, Counter[str]] = {}
        """The calls refused of which the daemon has not been told, by hook and status."""
        self._telling: asyncio.Task[None] | None = None

    def route(self) -> Route:
        """The route of all webhooks."""
        return Route(PATH, self.take, methods=["POST"])

    async def take(self, request: Request) -> Response:
        """Take what was sent; it is recorded when the status is 202. The daemon hears of what is refused."""
        name = str(request.path_params["name"])
        try:
            return JSONResponse(await self._recorded(name, request), 202)
        except (RefusedError, BodyError, NarvalError) as error:
            refusal = refusal_of(error, then=", and send it again")
        if refusal.status < 500 and name in self._senders.known:
            self._refused.setdefault(name, Counter())[str(refusal.status)] += 1
            if self._telling is None or self._telling.done():
                self._telling = asyncio.create_task(self._tell_refused())
        return refused(refusal)

    async def _tell_refused(self) -> None:
        """Tell the daemon after a while, once for all that are refused meanwhile, however many."""
        while self._refused:
            await asyncio.sleep(TOLD)
            refused, self._refused = self._refused, {}
            for name, statuses in refused.items():
                with suppress(NarvalError):  # what a daemon that is gone does not count is not made up for
                    await self._writing.ask("note_refused", name=name, statuses=dict(statuses))

    async def _recorded(self, name: str, request: Request) -> dict[str, object]:
        """The answer once the element of a call is recorded. Raises RefusedError, NarvalError, BodyError."""
        hook = (await self._senders.all()).get(name)
        if hook is None:
            raise RefusedError(404, "There is no such webhook.")
        token = token_of(request.headers) or request.query_params.get("token", "")
        if not is_token(token, hook["sha256"]):
            raise no_token("of this webhook")
        self._senders.take(hook, "this webhook takes")
        read = BODY_READERS.get(media_type_of(request))
        if read is None:
            raise RefusedError(415, f"Expected one of {', '.join(BODY_READERS)}.")
        body = await body_within(body_of(request), hook["bytes"])
        key = next((value for header in KEYS if (value := request.headers.get(header))), "")
        recorded = hook["element"], body
        async with self._places:
            element = read(*recorded) if len(body) < LONG else await asyncio.to_thread(read, *recorded)
            answer = await self._writing.ask("take_hook", name=hook["hook"], element=element, key=key)
        return {"eid": answer["eid"], "again": answer["again"]}
