"""Calls by HTTP: a program elsewhere sends elements to /call/DEFINITION, and gets the results of the run.

A run that has not ended in time continues; only its caller can ask for it again, at its own address.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from narval.core.errors import NarvalError
from narval.surfaces.control.async_client import AsyncClient
from narval.surfaces.http import senders
from narval.surfaces.http.guard import CALLS, RefusedError
from narval.surfaces.http.senders import BodyError, elements_of_json

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
        self._senders = senders.Senders(reading, "callers", "caller", seconds)

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

    async def _respond(
        self, request: Request, work: Callable[[senders.Sender, Request], Awaitable[Run]]
    ) -> Response:
        """The response to a request of a caller with a valid token, within its limits."""
        try:
            caller = await self._senders.with_token(senders.token_of(request.headers))
            if caller is None:
                raise senders.no_token("of a caller")
            self._senders.take(caller, "this caller has")
            run = await work(caller, request)
        except (RefusedError, BodyError, NarvalError) as error:
            return senders.refused(senders.refusal_of(error, other=400 if request.method == "POST" else 404))
        if not run["active"]:
            return JSONResponse(run, STATUS_OF_ENDED.get(run["phase"], 422))
        agent = request.query_params.get("agent", "")
        location = f"{RUNS}{run['eid']}{f'?agent={agent}' if agent else ''}"
        return JSONResponse(run, 202, {"location": location})

    async def _call(self, caller: senders.Sender, request: Request) -> Run:
        """The run of a definition. Raises NarvalError, BodyError, RefusedError."""
        kind = senders.media_type_of(request)
        if kind not in TYPES:
            raise RefusedError(415, f"Expected one of {', '.join(TYPES)}.")
        body = await senders.body_within(senders.body_of(request), caller["bytes"])
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

    async def _ask(self, caller: senders.Sender, request: Request) -> Run:
        """A run that this caller started before. Raises NarvalError."""
        agent, run = request.query_params.get("agent", ""), request.path_params["run"]
        asked = {"caller": caller["caller"], "run": run, "wait": WAIT}
        return dict(await self._reading.ask("offered_run", agent=agent, **asked))
