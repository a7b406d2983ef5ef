"""Webhooks: what a program elsewhere sends to /hook/NAME becomes an element of memory.

No cookie is read: a hook has a token of its own, which comes as `Authorization: Bearer TOKEN`, or as `token`
in the address from programs that can send no header. It is looked at before the body is.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any, NamedTuple, Protocol

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from narval.core.errors import DaemonGoneError, ElementError, NarvalError
from narval.surfaces.http.guard import ADMITTED, RefusedError
from narval.surfaces.http.hook_bodies import BODY_READERS, BodyError

PATH = "/hook/{name}"

KEYS = ("idempotency-key", "webhook-id", "x-github-delivery")
"""The headers by which a sender gives what it sends a key: what comes again is taken once."""

KNOWN = 1.0
"""Seconds for which the webhooks of the home are known without asking again."""

AT_ONCE = 8
"""Bodies that are made into elements and recorded at a time; others wait, having arrived."""

TOLD = 1.0
"""Seconds after which the daemon is told of calls that were refused."""

LONG = 64 * 1024
"""Bytes from which a body is read in a thread."""


class Asks(Protocol):
    """The way to the daemon's operations."""

    async def ask(self, method: str, /, **params: Any) -> Any:
        """The answer to an operation. Raises NarvalError."""


class HookCall(NamedTuple):
    """A request as it came: the name of the hook, the token, the media type, the sender's key, the body.

    The body is read only of a call that has the token. It raises RefusedError where it comes too late.
    """

    name: str
    token: str
    media_type: str
    key: str
    body: AsyncIterator[bytes]


class HookAnswer(NamedTuple):
    """The answer to a sender: the status, what is told, seconds after which to try again."""

    status: int
    told: dict[str, Any]
    retry_after: int | None = None


class Hooks:
    """The webhooks of a home, whose daemon is asked by `reading` and `writing`."""

    def __init__(self, reading: Asks, writing: Asks, seconds: Callable[[], float] = time.monotonic) -> None:
        self._reading, self._writing, self._seconds = reading, writing, seconds
        self._known: tuple[float, dict[str, dict[str, Any]]] | None = None
        self._taken: dict[str, deque[float]] = {}
        """The moments of the calls of the last minute, by hook."""
        self._places, self._asking = asyncio.Semaphore(AT_ONCE), asyncio.Lock()
        self._refused: dict[str, Counter[str]] = {}
        """The calls refused of which the daemon has not been told, by hook and status."""
        self._telling: asyncio.Task[None] | None = None

    async def take(self, call: HookCall) -> HookAnswer:
        """Take what was sent; it is recorded when the answer is 202. The daemon hears of what is refused."""
        answer = await self._answer(call)
        hooks = self._known[1] if self._known is not None else {}
        if answer.status != 202 and answer.status < 500 and call.name in hooks:
            self._refused.setdefault(call.name, Counter())[str(answer.status)] += 1
            if self._telling is None or self._telling.done():
                self._telling = asyncio.create_task(self._tell_refused())
        return answer

    async def _tell_refused(self) -> None:
        """Tell the daemon after a while, once for all that are refused meanwhile, however many."""
        while self._refused:
            await asyncio.sleep(TOLD)
            refused, self._refused = self._refused, {}
            for name, statuses in refused.items():
                with suppress(NarvalError):  # what a daemon that is gone does not count is not made up for
                    await self._writing.ask("note_refused", name=name, statuses=dict(statuses))

    async def _answer(self, call: HookCall) -> HookAnswer:
        try:
            hook = (await self._hooks()).get(call.name)
            if hook is None:
                return _refusal(404, "There is no such webhook.")
            digest = hashlib.sha256(call.token.encode()).hexdigest()
            if not hmac.compare_digest(digest, hook["sha256"]):
                return _refusal(401, "Expected the token of this webhook: Authorization: Bearer TOKEN.")
            wait = self._wait(hook)
            if wait:
                message = f"Too many calls: this webhook takes {hook['calls']} a minute."
                return HookAnswer(429, {"error": message}, wait)
            return await self._recorded(hook, call)
        except RefusedError as refusal:
            return _refusal(refusal.status, str(refusal))
        except DaemonGoneError:
            return HookAnswer(
                503, {"error": "No daemon is at work; start it (narval run), and send it again."}, 10
            )
        except BodyError as error:
            return _refusal(400, f"{error}.")
        except ElementError as error:
            return _refusal(422, f"{error}.")
        except NarvalError as error:
            return _refusal(400, f"{error}.")

    async def _recorded(self, hook: dict[str, Any], call: HookCall) -> HookAnswer:
        """The answer once the element of a call is recorded. Raises NarvalError, BodyError."""
        read = BODY_READERS.get(call.media_type)
        if read is None:
            return _refusal(415, f"Expected one of {', '.join(BODY_READERS)}.")
        body = bytearray()
        async for piece in call.body:
            body += piece
            if len(body) > hook["bytes"]:
                return _refusal(413, f"Expected at most {hook['bytes']:,} bytes.")
        recorded = hook["element"], bytes(body)
        async with self._places:
            element = read(*recorded) if len(body) < LONG else await asyncio.to_thread(read, *recorded)
            answer = await self._writing.ask("take_hook", name=hook["hook"], element=element, key=call.key)
        return HookAnswer(202, {"eid": answer["eid"], "again": answer["again"]})

    async def _hooks(self) -> dict[str, dict[str, Any]]:
        """The webhooks by name, as they were a second ago at most."""
        async with self._asking:  # once for all who come meanwhile
            now = self._seconds()
            if self._known is None or now - self._known[0] > KNOWN:
                self._known = now, {hook["hook"]: hook for hook in await self._reading.ask("hooks")}
            return self._known[1]

    def _wait(self, hook: dict[str, Any]) -> int:
        """The seconds until another call is taken; 0 if this one is, which counts from now on."""
        now, taken = self._seconds(), self._taken.setdefault(hook["hook"], deque())
        while taken and now - taken[0] >= 60.0:
            taken.popleft()
        if len(taken) >= hook["calls"]:
            return max(1, round(60.0 - (now - taken[0])))
        taken.append(now)
        return 0


def _refusal(status: int, sentence: str) -> HookAnswer:
    return HookAnswer(status, {"error": sentence})


def hook_route(hooks: Hooks) -> Route:
    """The route of all webhooks."""

    async def body(request: Request) -> AsyncIterator[bytes]:
        request.scope[ADMITTED] = True
        try:
            async for piece in request.stream():
                yield piece
        except ClientDisconnect:
            raise RefusedError(400, "The request ended before its body did.") from None

    async def endpoint(request: Request) -> Response:
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        answer = await hooks.take(
            HookCall(
                request.path_params["name"],
                token.strip() if kind.lower() == "bearer" else request.query_params.get("token", ""),
                request.headers.get("content-type", "").partition(";")[0].strip().lower(),
                next((value for name in KEYS if (value := request.headers.get(name))), ""),
                body(request),
            )
        )
        headers = {"retry-after": str(answer.retry_after)} if answer.retry_after else {}
        if answer.status == 401:
            headers["www-authenticate"] = "Bearer"
        if answer.status in (408, 413):  # there may be more of the body, which no one reads
            headers["connection"] = "close"
        return JSONResponse(answer.told, answer.status, headers)

    return Route(PATH, endpoint, methods=["POST"])
