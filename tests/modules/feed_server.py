"""A server of the web, for tests: it gives one answer after another, and can be away."""

from __future__ import annotations

from collections.abc import Callable
from http.server import BaseHTTPRequestHandler

from tests.loopback import LoopbackServer


class Server(LoopbackServer):
    """Answers each request with the next of its answers, the last one again and again; keeps the requests."""

    def __init__(self) -> None:
        self.answers: list[Callable[[BaseHTTPRequestHandler], None]] = []
        self.requests: list[dict[str, str]] = []
        super().__init__()
        self.url = f"http://{self.place}/feed"

    def serve(self, handler: BaseHTTPRequestHandler) -> None:
        """Answer one request."""
        self.requests.append({"path": handler.path} | {k.lower(): v for k, v in handler.headers.items()})
        (self.answers.pop(0) if len(self.answers) > 1 else self.answers[0])(handler)


def says(body: bytes = b"", status: int = 200, **headers: str) -> Callable[[BaseHTTPRequestHandler], None]:
    def send(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in ({"content_length": str(len(body))} | headers).items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(body)

    return send
