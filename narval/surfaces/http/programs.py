"""Requests of external programs: webhooks, calls, `/metrics` for Prometheus, `/healthz` for supervisors.

/hook/NAME takes an element of memory. A webhook has its own token, sent as `Authorization: Bearer TOKEN`, or
as `token` in the address by programs that cannot send the header. /call/DEFINITION takes the elements of a
run, and a call gets its results. A run that has not ended in time continues; only its caller can ask for it
again, at its own address.

Metrics name definitions and models, so they need a token. `/healthz` needs none and names nothing: it reports
whether the daemon can work, and otherwise the kind of trouble.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from narval.core.errors import NarvalError
from narval.files.agents.senders import is_token
from narval.surfaces.control.async_client import AsyncClient
from narval.surfaces.http.guard import ADMITTED, CALLS, HEALTH, METRICS, RefusedError
from narval.surfaces.http.senders import (
    BODY_READERS,
    BodyError,
    Sender,
    Senders,
    body_of,
    body_within,
    elements_of_json,
    media_type_of,
    no_token,
    refusal_of,
    refused,
    token_of,
)

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
        self._writing, self._senders = writing, Senders(reading, "hooks", "hook", seconds)
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
            refusal = refusal_of(error, then=", and send it again")
        if refusal.status < 500 and name in self._senders.known:
            self._refused.setdefault(name, Counter())[str(refusal.status)] += 1
            if self._telling is None or self._telling.done():
                self._telling = asyncio.create_task(self._tell_refused())
        return refused(refusal)

    async def _tell_refused(self) -> None:
        """Report refusals to the daemon after a delay, all together."""
        while self._refused:
            await asyncio.sleep(TOLD)
            unreported, self._refused = self._refused, {}
            for name, statuses in unreported.items():
                with suppress(NarvalError):  # if the daemon is gone, these are never counted
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


# --- calls --------------------------------------------------------------------------------------------------


RUNS = f"{CALLS}runs/"
"""The prefix of the addresses of called runs."""

WAIT = 25.0
"""Seconds for which a request waits for the end of a run."""

TYPES = ("application/json", "application/xml", "text/xml")
"""The media types of bodies."""

STATUS_OF_ENDED: Mapping[str, int] = {"done": 200, "forgotten": 410}
"""The status for an ended run, by its phase; 422 for any other phase."""

Run = dict[str, Any]


class Calls:
    """The calls to a home, whose daemon is asked by `reading` and `writing`."""

    def __init__(
        self, reading: AsyncClient, writing: AsyncClient, *, seconds: Callable[[], float] = time.monotonic
    ) -> None:
        self._reading, self._writing = reading, writing
        self._senders = Senders(reading, "callers", "caller", seconds)

    def routes(self) -> tuple[Route, Route]:
        """The routes of runs that were called, and of definitions."""

        async def ask(request: Request) -> Response:
            return await self._respond(request, self._ask)

        async def call(request: Request) -> Response:
            return await self._respond(request, self._call)

        return (
            Route(f"{RUNS}{{run:int}}", ask, methods=["GET"]),
            Route(f"{CALLS}{{definition}}", call, methods=["POST"]),
        )

    async def _respond(self, request: Request, work: Callable[[Sender, Request], Awaitable[Run]]) -> Response:
        """The response to a request of a caller with a valid token, within its limits."""
        try:
            caller = await self._senders.with_token(token_of(request.headers))
            if caller is None:
                raise no_token("of a caller")
            self._senders.take(caller, "this caller has")
            run = await work(caller, request)
        except (RefusedError, BodyError, NarvalError) as error:
            return refused(refusal_of(error, other=400 if request.method == "POST" else 404))
        if not run["active"]:
            return JSONResponse(run, STATUS_OF_ENDED.get(run["phase"], 422))
        agent = request.query_params.get("agent", "")
        location = f"{RUNS}{run['eid']}{f'?agent={agent}' if agent else ''}"
        return JSONResponse(run, 202, {"location": location})

    async def _call(self, caller: Sender, request: Request) -> Run:
        """The run of a definition. Raises NarvalError, BodyError, RefusedError."""
        kind = media_type_of(request)
        if kind not in TYPES:
            raise RefusedError(415, f"Expected one of {', '.join(TYPES)}.")
        body = await body_within(body_of(request), caller["bytes"])
        elements = elements_of_json(body) if kind == TYPES[0] else [body]
        return dict(
            await self._writing.ask(
                "call_offered",
                agent=request.query_params.get("agent", ""),
                caller=caller["caller"],
                definition=request.path_params["definition"],
                elements=elements,
                key=request.headers.get("idempotency-key", ""),
                wait=WAIT,
            )
        )

    async def _ask(self, caller: Sender, request: Request) -> Run:
        """A run that this caller started before. Raises NarvalError."""
        agent, run = request.query_params.get("agent", ""), request.path_params["run"]
        asked = {"caller": caller["caller"], "run": run, "wait": WAIT}
        return dict(await self._reading.ask("offered_run", agent=agent, **asked))


# --- metrics and health -------------------------------------------------------------------------------------


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
            needs = "Metrics need a token: set web.metrics_sha256 in etc/narval.toml"
            return PlainTextResponse(f"{needs}, and start narval web again.\n", 404)
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
