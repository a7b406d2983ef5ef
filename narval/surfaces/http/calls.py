"""Calls by HTTP: a program elsewhere sends elements to /call/DEFINITION, and gets what the run gives.

A caller has a token of its own, looked at before the body is; no cookie is read.
A run that is not over in time goes on, and is asked for again at its own address, by its caller alone.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from narval.core.errors import DaemonGoneError, ElementError, NarvalError, NotOfferedError
from narval.surfaces.http.guard import CALLS, RefusedError
from narval.surfaces.http.hook_bodies import BodyError, elements_of_json
from narval.surfaces.http.hooks import (
    Asks,
    HookAnswer,
    Senders,
    body_of,
    body_within,
    is_token_of,
    media_type_of,
    refusal,
    response,
    token_of,
)

RUNS = f"{CALLS}runs/"
"""The start of the addresses of runs that were called."""

WAIT = 25.0
"""Seconds for which a request waits for the end of a run."""

TYPES = ("application/json", "application/xml", "text/xml")
"""The media types of bodies."""

Caller = dict[str, Any]


class Calls:
    """The calls of a home, whose daemon is asked by `reading` and `writing`."""

    def __init__(
        self,
        reading: Asks,
        writing: Asks,
        *,
        seconds: Callable[[], float] = time.monotonic,
        wait: float = WAIT,
    ) -> None:
        self._reading, self._writing, self._wait = reading, writing, wait
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

    async def _respond(
        self, request: Request, work: Callable[[Caller, Request], Awaitable[HookAnswer]]
    ) -> Response:
        """The response to a request of a caller who has shown a token, within the limits of that."""
        answer = await self._answer(request, work)
        made = response(answer)
        if answer.status == 202:
            agent = request.query_params.get("agent", "")
            made.headers["location"] = f"{RUNS}{answer.told['eid']}{f'?agent={agent}' if agent else ''}"
        return made

    async def _answer(
        self, request: Request, work: Callable[[Caller, Request], Awaitable[HookAnswer]]
    ) -> HookAnswer:
        try:
            token, callers = token_of(request), await self._senders.all()
            caller = next((one for one in callers.values() if is_token_of(one, token)), None)
            if caller is None:
                return refusal(401, "Expected the token of a caller: Authorization: Bearer TOKEN.")
            if wait := self._senders.wait(caller):
                message = f"Too many calls: this caller has {caller['calls']} a minute."
                return HookAnswer(429, {"error": message}, wait)
            return await work(caller, request)
        except RefusedError as refused:
            return refusal(refused.status, str(refused))
        except DaemonGoneError:
            return HookAnswer(503, {"error": "No daemon is at work; start it (narval run)."}, 10)
        except BodyError as error:
            return refusal(400, f"{error}.")
        except NotOfferedError as error:
            return refusal(403, f"{error}.")
        except ElementError as error:
            return refusal(422, f"{error}.")
        except NarvalError as error:
            return refusal(400 if request.method == "POST" else 404, f"{error}.")

    async def _call(self, caller: Caller, request: Request) -> HookAnswer:
        """The answer of a definition. Raises NarvalError, BodyError, RefusedError."""
        kind = media_type_of(request)
        if kind not in TYPES:
            return refusal(415, f"Expected one of {', '.join(TYPES)}.")
        body = await body_within(body_of(request), caller["bytes"])
        elements = elements_of_json(body) if kind == TYPES[0] else [body]
        return _outcome(
            await self._writing.ask(
                "call_offered",
                agent=request.query_params.get("agent", ""),
                caller=caller["caller"],
                definition=request.path_params["definition"],
                elements=elements,
                key=request.headers.get("idempotency-key", ""),
                wait=self._wait,
            )
        )

    async def _ask(self, caller: Caller, request: Request) -> HookAnswer:
        """The answer of a run that goes on. Raises NarvalError."""
        agent, run = request.query_params.get("agent", ""), request.path_params["run"]
        asked = {"caller": caller["caller"], "run": run, "wait": self._wait}
        return _outcome(await self._reading.ask("offered_run", agent=agent, **asked))


def _outcome(run: dict[str, Any]) -> HookAnswer:
    """The answer that a run is: 202 while it goes on, 200 when it is done, else 422."""
    return HookAnswer(202 if run["active"] else 200 if run["phase"] == "done" else 422, run)
