"""The stream of one open page: a short queue, and the whole picture if the page is too slow."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from narval.surfaces.http.live.picture import StreamEvent

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
