"""A web site on loopback for tests: its pages have contents, failures and latency per path."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import NamedTuple

from tests.loopback import LoopbackServer


class Answer(NamedTuple):
    """One answer: after `latency` seconds, and no sooner than `held` is set."""

    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = {}
    latency: float = 0.0
    held: threading.Event | None = None


def page(text: str | bytes, status: int = 200, **headers: str) -> Answer:
    """An answer with a page; `content_type` is the header Content-Type."""
    body = text if isinstance(text, bytes) else text.encode()
    named = {name.replace("_", "-").title(): value for name, value in headers.items()}
    return Answer(body, status, {"Content-Type": "text/html; charset=utf-8", **named})


class Asked(NamedTuple):
    """A request as it came."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


class LocalSite(LoopbackServer):
    """Answers each path with the next of its answers, the last one again and again.

    One that has an ETag is answered by 304 to those who have it. `most_at_once` is the most requests that
    were under way at one moment.
    """

    def __init__(self) -> None:
        self._answers: dict[str, list[Answer]] = {}
        self._lock = threading.Lock()
        self._at_once = 0
        self.most_at_once = 0
        self.asked: list[Asked] = []
        super().__init__()
        self.url = f"http://{self.place}"

    def put(self, path: str, *answers: Answer | str) -> None:
        """Let a path be answered by these, one after another."""
        made = [page(answer) if isinstance(answer, str) else answer for answer in answers]
        with self._lock:
            self._answers[path] = made

    def requests(self, path: str) -> list[Asked]:
        """The requests for a path so far."""
        with self._lock:
            return [asked for asked in self.asked if asked.path == path]

    def serve(self, handler: BaseHTTPRequestHandler) -> None:
        """Answer one request."""
        body = handler.rfile.read(int(handler.headers.get("Content-Length", 0)))
        headers = {name.lower(): value for name, value in handler.headers.items()}
        with self._lock:
            self.asked.append(Asked(handler.command, handler.path, headers, body))
            known = self._answers.get(handler.path, [Answer(b"not here", 404)])
            answer = known.pop(0) if len(known) > 1 else known[0]
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
        time.sleep(answer.latency)
        if answer.held is not None:
            answer.held.wait(60)
        with self._lock:
            self._at_once -= 1
        if "Etag" in answer.headers and headers.get("if-none-match") == answer.headers["Etag"]:
            answer = Answer(b"", 304, {"Etag": answer.headers["Etag"]})
        try:
            handler.send_response(answer.status)
            for name, value in {"Content-Length": str(len(answer.body)), **answer.headers}.items():
                handler.send_header(name, value)
            handler.end_headers()
            if handler.command != "HEAD":
                handler.wfile.write(answer.body)
        except OSError:
            pass  # whoever asked is gone


@contextmanager
def local_site() -> Iterator[LocalSite]:
    """A site for the time of a block."""
    site = LocalSite()
    try:
        yield site
    finally:
        site.close()
