"""Open pages: the hub of all streams of a program, and the pages that are remade for them.

The hub keeps streams within their limits, and knows the pages and requests behind them. A followed page is
remade once for all that have it open, at most four times a second.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple

from jinja2 import Environment
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from narval.ask.text import in_shown_zone
from narval.core.errors import DaemonGoneError, NarvalError, SilentError
from narval.surfaces.control.async_client import AsyncClient
from narval.surfaces.http.page import VISITOR, Follows, PageRoute, Shown, Visitor
from narval.surfaces.http.rendering import live_blocks
from narval.surfaces.http.stream import (
    NOTHING,
    PageStream,
    Picture,
    StreamEvent,
    StreamResponse,
    differences,
    message,
    picture,
)

log = logging.getLogger("narval.web")

WAIT = 600.0
"""Seconds that one request waits for news: the daemon is not woken to report that there are none."""

OF_A_SESSION = 4
"""The most streams of a session: browsers allow six connections to a host, over all tabs."""

IN_ALL = 200
"""The most streams of the program."""

LINGER = 5.0
"""Seconds for which a closed page is kept up to date, since a reload reopens it at once."""


class _OpenPage(NamedTuple):
    """A followed page, the token in its forms, its task, and the agent whose news it needs."""

    follower: FollowedPage
    token: str
    task: asyncio.Task[None]
    agent: str


class Questions:
    """Asks for the news of an agent over a connection of its own, once for all pages that follow it."""

    def __init__(self, client: AsyncClient, agent: str) -> None:
        self._client, self._agent = client, agent
        self.followers: set[FollowedPage] = set()
        self.turn = 0
        """The newest turn with news; 0 before the first."""
        self._trouble: str | None = None

    def add(self, follower: FollowedPage) -> None:
        """Tell one more follower the news from now on."""
        self.followers.add(follower)
        if self._trouble is not None:
            follower.trouble(self._trouble)
        elif self.turn:
            follower.tell(PageNews(self.turn, lost=True))

    async def run(self) -> None:
        """Ask for news until cancelled."""
        try:
            while True:
                await self._ask()
        finally:
            await self._client.close()

    async def _ask(self) -> None:
        try:
            changes = await self._client.ask("changed", agent=self._agent, after=self.turn, wait=WAIT)
        except NarvalError as error:
            self._gone(error)
            await self._client.again()
            return
        self._trouble = None
        news = news_of(changes)
        self.turn = news.turn
        for follower in list(self.followers):
            follower.tell(news)

    def _gone(self, error: NarvalError) -> None:
        self.turn = 0
        if self._trouble is not None:
            return
        self._trouble = str(error)
        if isinstance(error, DaemonGoneError) and not isinstance(error, SilentError):
            since = in_shown_zone(datetime.now(UTC))
            self._trouble = f"No daemon at work since {since:%H:%M:%S}; start it: {self._client.start}"
        log.info("pages of %s are not followed: %s", self._agent or "the home's agent", error)
        for follower in list(self.followers):
            follower.trouble(self._trouble)


def news_of(changes: Mapping[str, Any]) -> PageNews:
    """The answer of the operation `changed`."""
    flags = {name: bool(changes.get(name)) for name in PageNews._fields[2:]}
    return PageNews(int(changes["turn"]), frozenset(changes.get("runs") or ()), **flags)


class Hub:
    """Answers followers of pages; `connect` makes a connection to the daemon that may only read."""

    def __init__(self, templates: Environment, connect: Callable[[], AsyncClient]) -> None:
        self._templates, self._connect = templates, connect
        self._pages: dict[tuple[str, ...], _OpenPage] = {}
        self._questions: dict[str, tuple[Questions, asyncio.Task[None]]] = {}
        self._of_session: dict[str, list[PageStream]] = {}

    @property
    def streams(self) -> int:
        """The number of streams that are open."""
        return sum(map(len, self._of_session.values()))

    async def __call__(self, request: Request, route: PageRoute, again: Callable[[], Any]) -> Response:
        """The stream of a page, or a refusal."""
        visitor = request.scope.get(VISITOR) or Visitor("", "", "reader")
        own = self._of_session.get(visitor.session, [])
        while len(own) >= OF_A_SESSION:
            own.pop(0).end(message("superseded"), at_once=True)
        if self.streams >= IN_ALL:
            return PlainTextResponse(f"{IN_ALL} pages are followed already; this one is read without.", 503)
        agent = str(request.path_params.get("agent", ""))
        key = (request.url.path, request.url.query, visitor.role, visitor.person)
        page = self._pages.get(key)
        if page is not None and page.task.done():
            self._questions[agent][0].followers.discard(page.follower)
            page = None
        if page is None:
            page = self._pages[key] = self._follow(agent, visitor, again)
        stream = page.follower.join(_last_seen(request))
        self._of_session.setdefault(visitor.session, own).append(stream)
        return StreamResponse(
            stream, lambda: self._left(key, visitor.session, stream), _Written(page.token, visitor.token)
        )

    async def close(self) -> None:
        """End all streams and everything behind them."""
        for streams in self._of_session.values():
            for stream in streams:
                stream.end(at_once=True)
        tasks = [page.task for page in self._pages.values()]
        tasks += [task for _, task in self._questions.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # --- pages ----------------------------------------------------------------------------------------------

    def _follow(self, agent: str, visitor: Visitor, again: Callable[[], Any]) -> _OpenPage:
        async def made() -> tuple[Shown, Mapping[str, Any]]:
            page, values = await again()
            return page, live_blocks(self._templates.get_template(page.template), values)

        questions = self._asked(agent)
        follower = FollowedPage(made, lambda: questions.turn)
        task = asyncio.create_task(follower.run())
        questions.add(follower)
        return _OpenPage(follower, visitor.token, task, agent)

    def _asked(self, agent: str) -> Questions:
        if agent not in self._questions:
            questions = Questions(self._connect(), agent)
            self._questions[agent] = questions, asyncio.create_task(questions.run())
        return self._questions[agent][0]

    def _left(self, key: tuple[str, ...], session: str, stream: PageStream) -> None:
        """Forget an ended stream, and after a delay everything that no other stream needs."""
        own = self._of_session.get(session, [])
        if stream in own:
            own.remove(stream)
        if not own:
            self._of_session.pop(session, None)
        page = self._pages.get(key)
        if page is not None and stream in page.follower.streams:
            page.follower.streams.remove(stream)
            if not page.follower.streams:
                asyncio.get_running_loop().call_later(LINGER, self._forget, key, page)

    def _forget(self, key: tuple[str, ...], page: _OpenPage) -> None:
        if page.follower.streams or self._pages.get(key) is not page:
            return
        del self._pages[key]
        page.task.cancel()
        questions, task = self._questions[page.agent]
        questions.followers.discard(page.follower)
        if not questions.followers:
            del self._questions[page.agent]
            task.cancel()


class _Written:
    """Messages for one session: its token replaces that of the first session in forms."""

    def __init__(self, value: str, own: str) -> None:
        self._given, self._own = value, own

    def __call__(self, messages: Sequence[StreamEvent]) -> str:
        text = "".join(one.frame() for one in messages)
        return text.replace(self._given, self._own) if self._given and self._own else text


def _last_seen(request: Request) -> int | None:
    """The turn of the last message that the page has, as reported by its browser."""
    said = request.headers.get("last-event-id", "")
    return int(said) if said.isascii() and said.isdecimal() and len(said) < 20 else None


# --- followed pages -----------------------------------------------------------------------------------------


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
