"""The hub: all streams of a program within their limits, and the pages and requests behind them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from jinja2 import Environment
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from narval.ask.text import in_shown_zone
from narval.core.errors import DaemonGoneError, NarvalError, SilentError
from narval.surfaces.control.async_client import AsyncClient
from narval.surfaces.http.live.followed import FollowedPage, PageNews
from narval.surfaces.http.live.stream import PageStream, StreamEvent, StreamResponse, message
from narval.surfaces.http.page import VISITOR, PageRoute, Shown, Visitor
from narval.surfaces.http.rendering import live_blocks

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
