"""Static pages with the scripts of the monitor, and streams that say what a test wants; no server."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tests.surfaces.web.vendored import STATIC

ORIGIN = "http://narval.test"
CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'; worker-src 'self'"
)
SCRIPTS = ("live.js", "graph.js", "replay.js", "keys.js")
STYLE = ".unseen { position: absolute; clip-path: inset(50%) } .graph svg { width: 600px; }"


def event(name: str, data: Any = None, number: int | None = None) -> str:
    """One event of a stream."""
    head = f"id: {number}\n" if number is not None else ""
    return f"{head}event: {name}\ndata: {json.dumps(data)}\n\n"


def document(body: str, attributes: str = "") -> str:
    """A page with all scripts, under the policy of the real ones."""
    scripts = "".join(f'<script type="module" src="/static/{name}"></script>' for name in SCRIPTS)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>stage</title>'
        '<link rel="stylesheet" href="/static/stage.css"><script src="/static/theme.js"></script>'
        f'<script src="/static/idiomorph.js" defer></script>{scripts}</head>'
        f'<body {attributes}><div id="banner" role="status" hidden></div><main>{body}</main>'
        '<div id="told" class="unseen" role="status" aria-live="polite"></div></body></html>'
    )


class Stage:
    """Answers a page's requests from what a test puts here: texts by path, or functions that give them."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.answers: dict[str, str | tuple[str, str] | Callable[[Any], tuple[str, str] | None]] = {}
        self.asked: list[str] = []
        self.trouble: list[str] = []
        page.on("pageerror", lambda error: self.trouble.append(str(error)))
        page.on("console", lambda said: self.trouble.append(said.text) if "Policy" in said.text else None)
        page.route("**/*", self._answer)

    def show(self, body: str, attributes: str = "", at: str = "/") -> None:
        """Open a page with that body."""
        self.answers["/"] = document(body, attributes)
        self.page.goto(ORIGIN + at)

    def _answer(self, route: Any) -> None:
        url = route.request.url.removeprefix(ORIGIN)
        path = url.split("?")[0]
        self.asked.append(url)
        if path == "/static/stage.css":
            return route.fulfill(body=STYLE, content_type="text/css")
        if path.startswith("/static/"):
            return route.fulfill(path=STATIC / path.removeprefix("/static/"), content_type="text/javascript")
        answer = self.answers.get(path)
        if callable(answer):
            answer = answer(route.request)
        if answer is None:
            return route.abort()
        text, kind = (answer, "text/html") if isinstance(answer, str) else answer
        return route.fulfill(body=text, content_type=kind, headers={"Content-Security-Policy": CSP})
