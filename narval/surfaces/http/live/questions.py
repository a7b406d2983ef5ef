"""The one question for news of an agent that is under way for all pages that follow it (M6)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from narval.core.errors import DaemonGoneError, NarvalError
from narval.surfaces.control.async_client import AsyncClient
from narval.surfaces.http.live.followed import FollowedPage, PageNews

log = logging.getLogger("narval.web")

WAIT = 600.0
"""Seconds that the daemon may take to have news: it is not woken to say that there are none."""

RETRY = 1.0
"""Seconds between two looks for a daemon that has gone (M4)."""


class Questions:
    """Asks for the news of an agent over a connection of its own, and tells those who follow it."""

    def __init__(self, client: AsyncClient, agent: str) -> None:
        self._client, self._agent = client, agent
        self.followers: set[FollowedPage] = set()
        self.turn = 0
        """The newest turn of which there are news; 0 before the first."""
        self._trouble: str | None = None

    def add(self, follower: FollowedPage) -> None:
        """Tell one more of the news from now on."""
        self.followers.add(follower)
        if self._trouble is not None:
            follower.trouble(self._trouble)
        elif self.turn:
            follower.tell(PageNews(self.turn, lost=True))

    async def run(self) -> None:
        """Ask, until cancelled."""
        try:
            while True:
                await self._ask()
        finally:
            await self._client.close()

    async def _ask(self) -> None:
        try:
            found = await self._client.ask("changed", agent=self._agent, after=self.turn, wait=WAIT)
        except NarvalError as error:
            self._gone(error)
            await asyncio.sleep(RETRY)
            return
        self._trouble = None
        news = news_of(found)
        self.turn = news.turn
        for follower in list(self.followers):
            follower.tell(news)

    def _gone(self, error: NarvalError) -> None:
        self.turn = 0
        if self._trouble is not None:
            return
        self._trouble = str(error)
        if isinstance(error, DaemonGoneError):
            since = datetime.now().astimezone()
            self._trouble = f"No daemon at work since {since:%H:%M:%S}; start it: narval run"
        log.info("pages of %s are not followed: %s", self._agent or "the home's agent", error)
        for follower in list(self.followers):
            follower.trouble(self._trouble)


def news_of(found: Mapping[str, Any]) -> PageNews:
    """The answer of the operation `changed`."""
    flags = {name: bool(found.get(name)) for name in PageNews._fields[2:]}
    return PageNews(int(found["turn"]), frozenset(found.get("runs") or ()), **flags)
