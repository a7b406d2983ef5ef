"""The answer to a follower of a page: messages as they come, and otherwise a ping.

Nothing is polled: an unchanging page costs a ping every fifteen seconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from narval.surfaces.http.live.picture import StreamEvent
from narval.surfaces.http.live.stream import PageStream

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
