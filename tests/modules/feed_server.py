"""A server of the web, for tests: it gives one answer after another, and can be away."""

from __future__ import annotations

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Server:
    """Answers each request with the next of its answers, the last one again and again; keeps the requests."""

    def __init__(self) -> None:
        self.answers: list[Callable[[BaseHTTPRequestHandler], None]] = []
        self.requests: list[dict[str, str]] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                server.requests.append({"path": self.path} | {k.lower(): v for k, v in self.headers.items()})
                self.close_connection = True
                (server.answers.pop(0) if len(server.answers) > 1 else server.answers[0])(self)

            def log_message(self, *_: object) -> None:
                pass

        self._handler = Handler
        self._port = 0
        self.open()
        self.url = f"http://127.0.0.1:{self._port}/feed"

    def open(self) -> None:
        """Listen, at the same port as before if it did before."""
        self._server = ThreadingHTTPServer(("127.0.0.1", self._port), self._handler)
        self._port = self._server.server_address[1]
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def says(body: bytes = b"", status: int = 200, **headers: str) -> Callable[[BaseHTTPRequestHandler], None]:
    def send(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in ({"content_length": str(len(body))} | headers).items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(body)

    return send
