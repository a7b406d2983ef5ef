"""A page that is followed: made anew once for all that have it open, four times a second at most (M61)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from narval.core.errors import DaemonGoneError, NarvalError
from narval.surfaces.http.live.picture import NOTHING, Picture, StreamEvent, differences, message, picture
from narval.surfaces.http.live.stream import PageStream
from narval.surfaces.http.page import Follows, Shown

log = logging.getLogger("narval.web")

PACE = 0.25
"""Seconds between two times that a page is made."""

PARTS = 250
"""A page whose graph has more parts than this is made as many times more seldom as it has times more."""

REST = 3
"""A page rests so many times as long as it took to be made: many that change at once share what there is."""

Making = Callable[[], Awaitable[tuple[Shown, Mapping[str, Any]]]]
"""Makes a page anew: the handler's answer, and the content of its live regions by name."""


class PageNews(NamedTuple):
    """The changes of an agent up to a turn; `lost` says that it may be anything (M6)."""

    turn: int
    runs: frozenset[int] = frozenset()
    elements: bool = False
    work: bool = False
    faults: bool = False
    jobs: bool = False
    lost: bool = False

    def concern(self, follows: Follows | None) -> bool:
        """True if what follows this has to be made anew."""
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
    """A page as it is now, for all streams of those who have it open.

    `turn` gives the newest turn of which there are news. Its task is `run`.
    """

    def __init__(self, again: Making, turn: Callable[[], int]) -> None:
        self._again, self._turn = again, turn
        self.streams: set[PageStream] = set()
        self._follows: Follows | None = None
        self._picture: Picture | None = None
        self._changed_at = 0
        """The turn with which the picture last became another one."""
        self._trouble: StreamEvent | None = None
        self._is_stale = asyncio.Event()
        self._is_over = False
        self._again_in: float | None = None
        self._changes_by_itself = False
        """True if it has become another one without news, so that their turn does not tell what was seen."""

    def join(self, last: int | None) -> PageStream:
        """A stream for one more page, whose script has seen the picture of a turn, if any."""
        has_all = self._picture is not None and last is not None and last >= self._changed_at
        has_all = has_all and not self._changes_by_itself
        stream = PageStream(self._everything, has_all=has_all)
        self.streams.add(stream)
        if self._is_over:
            stream.end(message("over"))
        return stream

    def tell(self, news: PageNews) -> None:
        """Make the page anew if it concerns it; at first in any case."""
        if self._picture is None or news.concern(self._follows):
            self._is_stale.set()

    def trouble(self, sentence: str | None) -> None:
        """Tell all pages that they are not kept up to date, and why; None: that they are again."""
        if sentence is None and self._trouble is None:
            return
        self._trouble = None if sentence is None else message("gone", {"text": sentence})
        self._offer(self._trouble or message("back"))

    async def run(self) -> None:
        """Keep the page up to date until nothing of it will change any more."""
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
        if not turn:  # the daemon was away: with its first news the page is made in any case
            return
        try:
            page, regions = await self._again()
        except DaemonGoneError:
            return  # whoever asks for news tells of that, and has the page made when it is back
        except NarvalError as error:
            self.trouble(str(error))
            return
        except Exception:
            log.exception("a page that is followed broke")
            self.trouble("This page broke down as it was made anew; the log of narval web says where.")
            return
        before, self._follows = self._picture, page.follows
        self._again_in = page.again
        self._changes_by_itself |= page.again is not None
        self._picture = picture(regions, page.parts)
        events = differences(before or NOTHING, self._picture, turn)
        if events:
            self._changed_at = turn
        self.trouble(None)
        if before is not None:
            self._offer(*events)
        for stream in self.streams:
            stream.look()
        if page.over:
            self._is_over = True
            for stream in self.streams:
                stream.end(message("over"))

    def _offer(self, *messages: StreamEvent) -> None:
        for stream in self.streams:
            stream.offer(messages)

    def _everything(self) -> list[StreamEvent] | None:
        if self._picture is None:
            return [self._trouble] if self._trouble else None
        return [self._trouble or message("back"), *differences(NOTHING, self._picture, self._changed_at)]
