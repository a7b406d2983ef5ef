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


class Senders:
    """The senders that an operation lists, each with `sha256` of its token, and its `calls` in a minute.

    `key` is that of their names.
    """

    def __init__(self, reading: Asks, operation: str, key: str, seconds: Callable[[], float]) -> None:
        self._reading, self._operation, self._key, self._seconds = reading, operation, key, seconds
        self.known: dict[str, dict[str, Any]] = {}
        """The senders that were listed last, by name."""
        self._listed: float | None = None
        self._taken: dict[str, deque[float]] = {}
        """The moments of the calls of the last minute, by name."""
        self._asking = asyncio.Lock()

    async def all(self) -> dict[str, dict[str, Any]]:
        """The senders by name, as they were a second ago at most."""
        async with self._asking:  # once for all who come meanwhile
            now = self._seconds()
            if self._listed is None or now - self._listed > KNOWN:
                self.known = {one[self._key]: one for one in await self._reading.ask(self._operation)}
                self._listed = now
            return self.known

    def wait(self, sender: dict[str, Any]) -> int:
        """The seconds until another call is taken; 0 if this one is, which counts from now on."""
        now, taken = self._seconds(), self._taken.setdefault(sender[self._key], deque())
        while taken and now - taken[0] >= 60.0:
            taken.popleft()
        if len(taken) >= sender["calls"]:
            return max(1, round(60.0 - (now - taken[0])))
        taken.append(now)
        return 0


def is_token_of(sender: dict[str, Any], token: str) -> bool:
    """True if a token is that of a sender."""
    return hmac.compare_digest(hashlib.sha256(token.encode()).hexdigest(), sender["sha256"])


async def body_within(pieces: AsyncIterator[bytes], most: int) -> bytes:
    """The bytes of a body. Raises RefusedError for more than `most`."""
    body = bytearray()
    async for piece in pieces:
        body += piece
        if len(body) > most:
            raise RefusedError(413, f"Expected at most {most:,} bytes.")
    return bytes(body)


class Hooks:
    """The webhooks of a home, whose daemon is asked by `reading` and `writing`."""

    def __init__(self, reading: Asks, writing: Asks, seconds: Callable[[], float] = time.monotonic) -> None:
        self._writing, self._senders = writing, Senders(reading, "hooks", "hook", seconds)
        self._places = asyncio.Semaphore(AT_ONCE)
        self._refused: dict[str, Counter[str]] = {}
        """The calls refused of which the daemon has not been told, by hook and status."""
        self._telling: asyncio.Task[None] | None = None

    async def take(self, call: HookCall) -> HookAnswer:
        """Take what was sent; it is recorded when the answer is 202. The daemon hears of what is refused."""
        answer = await self._answer(call)
        if answer.status != 202 and answer.status < 500 and call.name in self._senders.known:
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
            hook = (await self._senders.all()).get(call.name)
            if hook is None:
                return refusal(404, "There is no such webhook.")
            if not is_token_of(hook, call.token):
                return refusal(401, "Expected the token of this webhook: Authorization: Bearer TOKEN.")
            wait = self._senders.wait(hook)
            if wait:
                message = f"Too many calls: this webhook takes {hook['calls']} a minute."
                return HookAnswer(429, {"error": message}, wait)
            return await self._recorded(hook, call)
        except RefusedError as refused:
            return refusal(refused.status, str(refused))
        except DaemonGoneError:
            return HookAnswer(
                503, {"error": "No daemon is at work; start it (narval run), and send it again."}, 10
            )
        except BodyError as error:
            return refusal(400, f"{error}.")
        except ElementError as error:
            return refusal(422, f"{error}.")
        except NarvalError as error:
            return refusal(400, f"{error}.")

    async def _recorded(self, hook: dict[str, Any], call: HookCall) -> HookAnswer:
        """The answer once the element of a call is recorded. Raises NarvalError, BodyError."""
        read = BODY_READERS.get(call.media_type)
        if read is None:
            return refusal(415, f"Expected one of {', '.join(BODY_READERS)}.")
        body = await body_within(call.body, hook["bytes"])
        recorded = hook["element"], body
        async with self._places:
            element = read(*recorded) if len(body) < LONG else await asyncio.to_thread(read, *recorded)
            answer = await self._writing.ask("take_hook", name=hook["hook"], element=element, key=call.key)
        return HookAnswer(202, {"eid": answer["eid"], "again": answer["again"]})


def refusal(status: int, sentence: str) -> HookAnswer:
    """The answer to what is refused."""
    return HookAnswer(status, {"error": sentence})


async def body_of(request: Request) -> AsyncIterator[bytes]:
    """The body of a request that has shown a token. Raises RefusedError where it comes too late."""
    request.scope[ADMITTED] = True
    try:
        async for piece in request.stream():
            yield piece
    except ClientDisconnect:
        raise RefusedError(400, "The request ended before its body did.") from None


def token_of(request: Request) -> str:
    """The token in the header of a request; "" where there is none."""
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" else ""


def media_type_of(request: Request) -> str:
    """The media type of a body, without parameters."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def response(answer: HookAnswer) -> Response:
    """The response to a program, with the headers that go with the status."""
    headers = {"retry-after": str(answer.retry_after)} if answer.retry_after else {}
    if answer.status == 401:
        headers["www-authenticate"] = "Bearer"
    if answer.status in (408, 413):  # there may be more of the body, which no one reads
        headers["connection"] = "close"
    return JSONResponse(answer.told, answer.status, headers)


def hook_route(hooks: Hooks) -> Route:
    """The route of all webhooks."""

    async def endpoint(request: Request) -> Response:
        call = HookCall(
            request.path_params["name"],
            token_of(request) or request.query_params.get("token", ""),
            media_type_of(request),
            next((value for name in KEYS if (value := request.headers.get(name))), ""),
            body_of(request),
        )
        return response(await hooks.take(call))

    return Route(PATH, endpoint, methods=["POST"])
