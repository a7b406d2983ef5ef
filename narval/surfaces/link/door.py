"""The listener for peers, which checks the token of each.

A request is checked before its body is read: its path, its token, whose digest identifies the peer, and the
peer's use in the last minute. Bodies are bounded, and so are the requests under way for one peer.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from narval.core.errors import DaemonGoneError, NarvalError, RequestError, SettingsError, UnansweredError
from narval.files.agents.senders import owner_of
from narval.files.outside.peers import PeerSettings, PeersFile
from narval.surfaces.control import wire
from narval.surfaces.control.async_client import AsyncClient
from narval.surfaces.control.client import seconds_for
from narval.surfaces.http.guard import ADMITTED, Receive, RefusedError, Scope, Send, in_time
from narval.surfaces.http.senders import STATUS_OF_GONE, body_of, body_within, refused, token_of
from narval.surfaces.link import protocol
from narval.system.minute import UsedMinute

log = logging.getLogger("narval.link")

SENDING = 60.0
"""Seconds for a body to arrive."""

PAUSE = 1.0
"""The pause in seconds after a wrong token."""

PAUSING = 16
"""The most wrong tokens in a pause at a time; more are refused at once."""

UNDER_WAY = 16
"""The most requests of one peer answered at a time; more are asked to retry later."""

DAY = 86_400.0

_HEADERS = {
    protocol.VERSIONS: f"{protocol.OLDEST}-{protocol.NEWEST}",
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
}


class LinkRequest(NamedTuple):
    """An accepted request: its peer, its headers, and its body."""

    peer: PeerSettings
    headers: Headers
    body: bytes


class LinkDoor:
    """The ASGI application for the peers of a home; `asks` asks its daemon."""

    def __init__(self, asks: AsyncClient, peers: PeersFile) -> None:
        self._asks, self._peers = asks, peers
        self._used = UsedMinute()
        self._under_way: Counter[str] = Counter()
        self._refused = RefusedTokens()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await _lifespan(receive, send)
            return
        try:
            answer = await self._answer(scope, receive)
        except RefusedError as refusal:
            answer = refused(refusal, _HEADERS)
        await answer(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive) -> Response:
        """The answer to a request. Raises RefusedError."""
        path, headers = scope["path"], Headers(scope=scope)
        if path not in (protocol.EXCHANGE, protocol.ASK):
            raise RefusedError(404, f"Peers ask at {protocol.EXCHANGE} and {protocol.ASK}.")
        if scope["method"] != "POST":
            raise RefusedError(405, "Peers ask by POST.", allow="POST")
        peer = await self._admitted(headers, scope)
        scope[ADMITTED] = True
        try:
            protocol.check_versions(headers.get(protocol.VERSIONS), f"your side, {peer.name},")
        except protocol.TooOldError as error:
            raise RefusedError(426, f"{error}.", upgrade="narval") from None
        with self._taking(peer):
            size = self._take(peer, headers)
            body = await body_within(body_of(Request(scope, in_time(receive, SENDING))), size)
            try:
                asked = LinkRequest(peer, headers, body)
                return await (
                    self._exchanged(asked) if path == protocol.EXCHANGE else self._asked(asked, receive)
                )
            except UnansweredError as error:
                raise RefusedError(STATUS_OF_GONE[UnansweredError], f"{error.what}.") from None
            except DaemonGoneError:
                why = "No daemon is running there."
                raise RefusedError(STATUS_OF_GONE[DaemonGoneError], why, retry_after="10") from None
            except NarvalError as error:
                raise RefusedError(400, f"{error}.") from None

    # --- the peer -------------------------------------------------------------------------------------------

    async def _admitted(self, headers: Headers, scope: Scope) -> PeerSettings:
        """The peer with the token of a request. Raises RefusedError, after a pause."""
        try:
            peers = self._peers.current()
        except SettingsError:
            log.error("no peer is let in before etc/peers.toml is mended: narval check")
            raise RefusedError(503, "This home cannot read who its peers are.", retry_after="60") from None
        owner = owner_of(token_of(headers), {name: peer.token_sha256 for name, peer in peers.items()})
        if owner is not None:
            return peers[owner]
        await self._refused.pause((scope.get("client") or ("",))[0])
        raise RefusedError(
            401,
            "The token is no peer's here: the link was removed on that side, or never accepted there.",
            www_authenticate="Bearer",
            connection="close",
        )

    def _take(self, peer: PeerSettings, headers: Headers) -> int:
        """Count a request; returns the size of its body. Raises RefusedError before reading any of it."""
        length = headers.get("content-length", "")
        if not (length.isascii() and length.isdecimal() and len(length) < 12):
            raise RefusedError(411, "Expected the length of the body.", connection="close")
        size = int(length)
        if size > wire.MOST + wire.HEADER:
            raise RefusedError(
                413, f"Expected at most {wire.MOST:,} bytes, got {size:,}.", connection="close"
            )
        most = max(peer.bytes, size)  # one request is always taken, whatever its size
        excess = self._used.take(peer.name, peer.requests, size, most)
        if excess is None:
            return size
        if excess.what == "calls":
            why = f"Too many requests: {peer.name} may make {peer.requests:,} a minute."
        else:
            why = f"Too much: {peer.name} may send {peer.bytes:,} bytes a minute."
        raise RefusedError(429, why, retry_after=str(excess.seconds), connection="close")

    @contextmanager
    def _taking(self, peer: PeerSettings) -> Iterator[None]:
        """Count a request as under way. Raises RefusedError if there are too many."""
        if self._under_way[peer.name] >= UNDER_WAY:
            raise RefusedError(
                429,
                f"{UNDER_WAY} requests of {peer.name} are under way.",
                retry_after="1",
                connection="close",
            )
        self._under_way[peer.name] += 1
        try:
            yield
        finally:
            self._under_way[peer.name] -= 1

    # --- the request ----------------------------------------------------------------------------------------

    async def _exchanged(self, asked: LinkRequest) -> Response:
        """The next frame of messages, after the received one is recorded. Raises NarvalError."""
        frame = await self._asks.ask(
            "exchange", peer=asked.peer.name, frame=asked.body, wait=_wait(asked.headers)
        )
        return Response(frame, media_type=protocol.FRAMES, headers=_HEADERS)

    async def _asked(self, asked: LinkRequest, receive: Receive) -> Response:
        """The frames of the answer to an operation. Raises NarvalError, RefusedError."""
        try:
            request = _request(asked.body)
        except wire.WireError as error:
            raise RefusedError(400, f"Not understood: {error}.") from None
        asking = asyncio.ensure_future(
            self._asks.ask(
                "ask_for_peer",
                peer=asked.peer.name,
                method=request.method,
                arguments=request.params,
                agent_asked=request.agent,
                wait=seconds_for(request.params, 0.0),
            )
        )
        gone = asyncio.ensure_future(_gone(receive))
        try:
            await asyncio.wait((asking, gone), return_when=asyncio.FIRST_COMPLETED)
            if not asking.done():
                raise RefusedError(400, "The request was given up.", connection="close")
            frames = _answer(request.number, asking)
            return StreamingResponse(_each(frames), media_type=protocol.FRAMES, headers=_HEADERS)
        finally:
            asking.cancel()
            gone.cancel()


class RefusedTokens:
    """The wrong tokens: each costs a pause, and those of a day share one line of the log."""

    def __init__(self) -> None:
        self._pausing, self._count, self._logged = 0, 0, -math.inf

    async def pause(self, address: str) -> None:
        """Make a client with a wrong token wait, unless too many do already."""
        self._count += 1
        now = time.monotonic()
        if now - self._logged >= DAY:
            log.warning(
                "%s asked with the token of no link here, perhaps before its link was accepted "
                "(narval link); others within a day are not logged (%d so far)",
                address or "somebody", self._count,
            )  # fmt: skip
            self._logged = now
        if self._pausing < PAUSING:
            self._pausing += 1
            try:
                await asyncio.sleep(PAUSE)
            finally:
                self._pausing -= 1


def _wait(headers: Headers) -> float:
    """The seconds that an exchange may wait."""
    try:
        wait = float(headers.get(protocol.WAIT, "0"))
    except ValueError:
        return 0.0
    return min(wait, protocol.LONGEST_WAIT) if wait > 0 else 0.0


def _request(body: bytes) -> wire.WireRequest:
    """The request in a body, which is one frame. Raises WireError."""
    size = wire.length(body[: wire.HEADER])
    if len(body) != wire.HEADER + size:
        raise wire.WireError(f"expected one frame of {size:,} bytes, got {len(body) - wire.HEADER:,}")
    request = wire.request(body[wire.HEADER :])
    if request.acting_as:
        raise wire.WireError("a peer speaks for no person: expected no name as which to act")
    return request


def _answer(number: int, asked: asyncio.Future[Any]) -> Iterable[bytes]:
    """The frames of an answer, or of its error. Raises DaemonGoneError."""
    try:
        return wire.answer(number, asked.result())
    except DaemonGoneError:
        raise
    except NarvalError as error:
        return [wire.frame(wire.REPLY, number, wire.error_form(error), None)]


async def _each(frames: Iterable[bytes]) -> AsyncIterator[bytes]:
    """Frames one by one, each made after the previous one is sent; for one that is too long, its error."""
    try:
        for frame in frames:
            yield frame
    except RequestError as error:
        yield wire.frame(wire.REPLY, 0, wire.error_form(error), None)


async def _gone(receive: Receive) -> None:
    """Wait until the client has disconnected."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _lifespan(receive: Receive, send: Send) -> None:
    """Start and end with the server: there is nothing to prepare."""
    while True:
        kind = (await receive())["type"]
        await send({"type": f"{kind}.complete"})
        if kind == "lifespan.shutdown":
            return
