"""The stream of one open page: pictures of it, their differences, and the answer that carries these.

A picture has the parts of a page that may change. A stream is a short queue of messages that turn one picture
into another, and the whole picture if the page is too slow. Nothing is polled: an unchanging page costs a
ping every fifteen seconds.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from narval.surfaces.http.page import Patch


class StreamEvent(NamedTuple):
    """An event of a stream: its name, its data as JSON, and the turn from which a reconnect continues."""

    name: str
    data: str = "null"
    turn: int | None = None

    def frame(self) -> str:
        """The encoded message."""
        head = "" if self.turn is None else f"id: {self.turn}\n"
        return f"{head}event: {self.name}\ndata: {self.data}\n\n"


class Picture(NamedTuple):
    """The content of a page's regions, and the parts of its graph, both by id."""

    regions: Mapping[str, str]
    parts: Mapping[str, Patch]


NOTHING = Picture({}, {})


def picture(regions: Mapping[str, str], parts: Sequence[Patch]) -> Picture:
    """The picture of these regions and parts."""
    return Picture(regions, {part.id: part for part in parts})


def message(name: str, data: Any = None, turn: int | None = None) -> StreamEvent:
    """A message with plain data."""
    return StreamEvent(name, json.dumps(data, ensure_ascii=False, separators=(",", ":")), turn)


def differences(before: Picture, after: Picture, turn: int) -> list[StreamEvent]:
    """The messages that turn one picture of a page into another; the last names the turn."""
    regions = {name: text for name, text in after.regions.items() if before.regions.get(name) != text}
    parts = [part for name, part in after.parts.items() if before.parts.get(name) != part]
    events: list[StreamEvent] = []
    if regions:
        events.append(message("regions", regions))
    if parts:
        events.append(message("parts", [(part.id, part.state, part.tone, part.badge) for part in parts]))
    return [*events[:-1], events[-1]._replace(turn=turn)] if events else []


QUEUE = 32
"""The most messages that wait for a page."""


class PageStream:
    """The queue to one page; `everything` gives its whole picture, None while unknown.

    A page that `has_all` gets only new messages; any other gets everything first.
    """

    def __init__(
        self, everything: Callable[[], Sequence[StreamEvent] | None], *, has_all: bool = False
    ) -> None:
        self._everything = everything
        self._queue: deque[StreamEvent] = deque()
        self._wants_all, self._has_ended = not has_all, False
        self._news = asyncio.Event()
        self._news.set()

    def offer(self, messages: Sequence[StreamEvent]) -> None:
        """Queue messages in order; the whole picture replaces them if there are too many or it was not sent
        yet.
        """
        if self._has_ended:
            return
        if not self._wants_all:
            self._queue.extend(messages)
        if len(self._queue) > QUEUE:
            self._queue.clear()
            self._wants_all = True
        self._news.set()

    def end(self, last: StreamEvent | None = None, *, at_once: bool = False) -> None:
        """End the stream: send what waits, or drop it, then a last message."""
        if at_once:
            self._queue.clear()
            self._wants_all = False
        if not self._has_ended and last is not None:
            self._queue.append(last)
        self._has_ended = True
        self._news.set()

    async def take(self) -> Sequence[StreamEvent]:
        """Wait for messages and take them; an empty sequence when the stream has ended."""
        while True:
            self._news.clear()
            if (all_of_it := self._all_anew()) is not None:
                self._queue.extendleft(reversed(all_of_it))
            if self._queue:
                taken = tuple(self._queue)
                self._queue.clear()
                return taken
            if self._has_ended:
                return ()
            await self._news.wait()

    def _all_anew(self) -> Sequence[StreamEvent] | None:
        events = self._everything() if self._wants_all else None
        if events is not None:
            self._wants_all = False
        return events


PING = 15.0
"""Seconds after which a silent stream sends a ping, which detects a page that has gone."""

PATIENCE = 30.0
"""Seconds within which a page must read what is sent to it."""

RETRY = 1000
"""Milliseconds after which a disconnected browser reconnects."""


class _SlowError(Exception):
    """A page that does not read what it is sent."""


class StreamResponse(Response):
    """Sends a stream until it ends, or its page has gone or stops reading; then calls `ended`.

    `written` adapts messages to this one page.
    """

    media_type = "text/event-stream"

    def __init__(
        self, stream: PageStream, ended: Callable[[], None], written: Callable[[Sequence[StreamEvent]], str]
    ) -> None:
        super().__init__(headers={"x-accel-buffering": "no"})
        del self.headers["content-length"]
        self._stream, self._ended, self._written = stream, ended, written

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer (ASGI)."""
        listening = asyncio.create_task(self._listen(receive))
        try:
            start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
            await send(start)
            await self._send(send, f"retry: {RETRY}\n\n")
            while text := await self._next():
                await self._send(send, text)
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except _SlowError:
            pass  # the server hangs up on an unfinished answer
        finally:
            listening.cancel()
            self._ended()

    async def _next(self) -> str:
        """The next messages, or a ping; "" at the end."""
        try:
            async with asyncio.timeout(PING):
                return self._written(await self._stream.take())
        except TimeoutError:
            return ": still here\n\n"

    async def _send(self, send: Send, text: str) -> None:
        """Send a text. Raises _SlowError if the page does not read it."""
        try:
            async with asyncio.timeout(PATIENCE):
                await send({"type": "http.response.body", "body": text.encode(), "more_body": True})
        except TimeoutError:
            raise _SlowError from None

    async def _listen(self, receive: Receive) -> None:
        """Wait until the page has gone."""
        while (await receive())["type"] != "http.disconnect":
            pass
        self._stream.end(at_once=True)
