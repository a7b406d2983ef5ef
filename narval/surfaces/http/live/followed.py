"""A followed page: remade once for all that have it open, at most four times a second (M61)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from narval.core.errors import DaemonGoneError, NarvalError, SilentError
from narval.surfaces.http.live.stream import (
    NOTHING,
    PageStream,
    Picture,
    StreamEvent,
    differences,
    message,
    picture,
)
from narval.surfaces.http.page import Follows, Shown

log = logging.getLogger("narval.web")

PACE = 0.25
"""The least seconds between two renderings of a page."""

PARTS = 250
"""The most parts of a graph for which a page keeps that pace; twice the parts halve it, and so on."""

REST = 3
"""The pause of a page, in multiples of its rendering time: many changing pages share the processor."""

Making = Callable[[], Awaitable[tuple[Shown, Mapping[str, Any]]]]
"""Remakes a page: the handler's answer, and the content of its live regions by name."""


class PageNews(NamedTuple):
    """The changes of an agent up to a turn; `lost` says that anything may have changed (M6)."""

    turn: int
    runs: frozenset[int] = frozenset()
    elements: bool = False
    work: bool = False
    faults: bool = False
    jobs: bool = False
    lost: bool = False

    def concern(self, follows: Follows | None) -> bool:
        """True if a page that follows such news must be remade."""
        if follows is None:
            return False
        return (
            self.lost
            or follows.log
            or follows.run in self.runs
            or (follows.runs and bool(self.runs))
            or (follows.elements and self.elements)
            or (follows.work and self.work)
            or (follows.faults and self.faults)
            or (follows.jobs and self.jobs)
        )


class FollowedPage:
    """The current state of a page, for all its open streams.

    `turn` gives the newest turn with news. Its task is `run`.
    """

    def __init__(self, again: Making, turn: Callable[[], int]) -> None:
        self._again, self._turn = again, turn
        self.streams: set[PageStream] = set()
        self._follows: Follows | None = None
        self._picture: Picture | None = None
        self._changed_at = 0
        """The turn at which the picture last changed."""
        self._trouble: StreamEvent | None = None
        self._is_stale = asyncio.Event()
        self._is_over = False
        self._begun, self._made = 0, 0
        """The number of the rendering started last, and of the one that produced the picture."""
        self._again_in: float | None = None
        self._changes_by_itself = False
        """True if it has changed without news, so that its turn does not identify what a page has seen."""

    def join(self, last: int | None) -> PageStream:
        """A stream for one more open page, whose script may have seen the picture of a turn.

        A page that has not seen this picture may be newer than it, so it gets one whose rendering starts
        later.
        """
        has_all = self._picture is not None and last is not None and last >= self._changed_at
        has_all = has_all and not self._changes_by_itself
        stream = PageStream(partial(self._everything, self._begun), has_all=has_all)
        self.streams.add(stream)
        if self._is_over:
            stream.end(message("over"))
        elif self._begun and not has_all:
            self._is_stale.set()
        return stream

    def tell(self, news: PageNews) -> None:
        """Remake the page if the news concern it, and at first in any case."""
        if self._picture is None or news.concern(self._follows):
            self._is_stale.set()

    def trouble(self, sentence: str | None) -> None:
        """Tell all open pages why they are not kept up to date, or with None that they are again."""
        if sentence is None and self._trouble is None:
            return
        self._trouble = None if sentence is None else message("gone", {"text": sentence})
        self._offer(self._trouble or message("back"))

    async def run(self) -> None:
        """Keep the page up to date until it can no longer change."""
        loop = asyncio.get_running_loop()
        while not self._is_over:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._is_stale.wait(), self._again_in)
            self._is_stale.clear()
            begun = loop.time()
            await self._make()
            took = loop.time() - begun
            await asyncio.sleep(max(self._pace - took, REST * took))

    @property
    def _pace(self) -> float:
        parts = len(self._picture.parts) if self._picture is not None else 0
        return PACE * max(1.0, parts / PARTS)

    async def _make(self) -> None:
        turn = self._turn()
        if not turn:  # the daemon was away; its first news always remake the page
            return
        self._begun += 1
        number = self._begun
        try:
            page, regions = await self._again()
        except DaemonGoneError as error:
            if isinstance(error, SilentError):
                self.trouble(str(error))
            return  # the request for news reports any other, and has the page remade when the daemon is back
        except NarvalError as error:
            self.trouble(str(error))
            return
        except Exception:
            log.exception("a page that is followed broke")
            self.trouble("This page broke down as it was made again; the log of narval web says where.")
            return
        if not self._turn():  # the daemon has gone since; this rendering does not end the trouble
            return
        before, self._follows, self._made = self._picture, page.follows, number
        self._again_in = page.again
        self._changes_by_itself |= page.again is not None
        self._picture = picture(regions, page.parts)
        events = differences(before or NOTHING, self._picture, turn)
        if events:
            self._changed_at = turn
        self.trouble(None)
        self._offer(*events)
        if page.over:
            self._is_over = True
            for stream in self.streams:
                stream.end(message("over"))

    def _offer(self, *messages: StreamEvent) -> None:
        for stream in self.streams:
            stream.offer(messages)

    def _everything(self, begun: int) -> list[StreamEvent] | None:
        """The messages for a page without a picture; None until a rendering after number `begun` is made."""
        if self._picture is None:
            return [self._trouble] if self._trouble else None
        if self._made <= begun and self._trouble is None and not self._is_over:
            return None
        return [self._trouble or message("back"), *differences(NOTHING, self._picture, self._changed_at)]
