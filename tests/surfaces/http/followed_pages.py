"""A hub with a daemon and browsers that a test plays: what is asked, what is answered, what is sent."""

from __future__ import annotations

import asyncio
import json
from typing import Any, cast

from jinja2 import DictLoader, Environment
from starlette.requests import Request
from starlette.responses import Response

from narval.core.errors import NarvalError
from narval.surfaces.control.async_client import AsyncClient
from narval.surfaces.http.hub import Hub
from narval.surfaces.http.page import VISITOR, Follows, PageRoute, Patch, Shown, Visitor

TEMPLATE = "{% block live_state %}{{ state }}{% endblock %}{% block live_form %}{{ token }}{% endblock %}"


class PlayedDaemon:
    """Answers `changed` when a test says that something has changed, or fails when it says so."""

    start = "narval run"

    def __init__(self) -> None:
        self.turn, self.asked, self.open = 100, 0, 0
        self.error: NarvalError | None = None
        self._news: dict[int, dict[str, Any]] = {}
        self._came = asyncio.Event()

    def connect(self) -> AsyncClient:
        self.open += 1
        return cast(AsyncClient, self)

    async def close(self) -> None:
        self.open -= 1

    def changes(self, *runs: int, **more: bool) -> None:
        self.turn += 1
        self._news[self.turn] = {"runs": list(runs), **more}
        self._wake()

    def fails(self, error: NarvalError | None) -> None:
        self.error = error
        self._wake()

    def _wake(self) -> None:
        self._came.set()
        self._came = asyncio.Event()

    async def again(self) -> None:
        await self._came.wait()

    async def ask(self, method: str, *, agent: str = "", after: int, wait: float) -> dict[str, Any]:
        assert method == "changed"
        self.asked += 1
        if self.error is None and after == self.turn:
            came = self._came
            try:
                await asyncio.wait_for(came.wait(), wait)
            except TimeoutError:
                return {"turn": after}
        if self.error is not None:
            raise self.error
        if after not in range(100, self.turn + 1):
            return {"turn": self.turn, "lost": True}
        news = [self._news[turn] for turn in range(after + 1, self.turn + 1)]
        flags = {name: any(one.get(name) for one in news) for name in ("elements", "work", "faults")}
        return {"turn": self.turn, "runs": sorted({run for one in news for run in one["runs"]}), **flags}


class PlayedPage:
    """A page of a run, whose state a test sets."""

    def __init__(self, run: int = 57) -> None:
        self.state, self.over, self.made = "waiting", False, 0
        self.parts: list[Patch] = []
        self.run, self.error = run, None
        self.takes = 0.0
        self.in_seconds: float | None = None

    async def again(self) -> tuple[Shown, dict[str, Any]]:
        self.made += 1
        await asyncio.sleep(self.takes)
        if self.error is not None:
            raise self.error
        follows = Follows(run=self.run)
        parts, again = list(self.parts), self.in_seconds
        shown = Shown("page", {}, follows=follows, parts=parts, over=self.over, again=again)
        return shown, {"state": self.state, "token": "token-of-s1"}


class Browser:
    """A page that is open in a browser: what it was sent; one that `stalls` takes nothing any more."""

    def __init__(self, answer: Response, request: Request) -> None:
        self.status, self.sent, self.pings, self.stalls = answer.status_code, "", 0, False
        self._gone = asyncio.Event()
        self.task = asyncio.create_task(answer(request.scope, self._receive, self._send))

    @property
    def events(self) -> list[tuple[str, Any]]:
        """The name and data of all that was sent, by now."""
        found = []
        for frame in self.sent.split("\n\n"):
            fields = dict(line.partition(": ")[::2] for line in frame.split("\n") if line and line[0] != ":")
            if "event" in fields:
                found.append((fields["event"], json.loads(fields["data"])))
        return found

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.events]

    def take(self) -> list[tuple[str, Any]]:
        """What was sent since the last time."""
        events = self.events
        self.sent = ""
        return events

    async def leave(self) -> None:
        self._gone.set()
        await self.task

    async def _receive(self) -> dict[str, Any]:
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: dict[str, Any]) -> None:
        if self.stalls:
            await asyncio.Event().wait()
        text = message.get("body", b"").decode()
        self.pings += text.startswith(":")
        self.sent += text


class Pages:
    """A hub and all who look at its pages."""

    def __init__(self) -> None:
        self.daemon = PlayedDaemon()
        templates = Environment(loader=DictLoader({"page": TEMPLATE}), autoescape=True)
        self.hub = Hub(templates, self.daemon.connect)
        self.browsers: list[Browser] = []

    async def open(
        self, page: PlayedPage, session: str = "s1", *, last: int | None = None, person: str = "ann"
    ) -> Browser:
        """Follow a page, and wait until nothing more happens for a second."""
        path = f"/a/home/runs/{page.run}"
        headers = [] if last is None else [(b"last-event-id", str(last).encode())]
        scope = {
            "type": "http", "method": "GET", "path": f"{path}/live", "headers": headers, "query_string": b"",
            "path_params": {"agent": "home"}, "server": ("narval.test", 80), "scheme": "http",
            VISITOR: Visitor(session, person, "operator", f"token-of-{session}"),
        }  # fmt: skip
        request = Request(scope)
        browser = Browser(await self.hub(request, cast(PageRoute, None), page.again), request)
        self.browsers.append(browser)
        await asyncio.sleep(1)
        return browser

    async def __aenter__(self) -> Pages:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.hub.close()
        for browser in self.browsers:
            browser.task.cancel()
        await asyncio.gather(*(browser.task for browser in self.browsers), return_exceptions=True)
