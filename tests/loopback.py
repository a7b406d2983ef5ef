"""A server of HTTP on loopback, for tests: stand-ins of servers say how it answers."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.ports import free_port

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "PROPFIND", "REPORT")


class LoopbackServer(ABC):
    """Serves from the start, a thread for each request, until it is closed; it may be opened again then."""

    def __init__(self) -> None:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: object) -> None:
                pass

        def serve(handler: Handler) -> None:
            handler.close_connection = True
            self.serve(handler)

        for method in METHODS:
            setattr(Handler, f"do_{method}", serve)
        self._handler = Handler
        self.port = free_port()
        self.open()

    @abstractmethod
    def serve(self, handler: BaseHTTPRequestHandler) -> None:
        """Answer one request."""

    @property
    def place(self) -> str:
        """The host and the port."""
        return f"127.0.0.1:{self.port}"

    def open(self) -> None:
        """Listen, at the same port each time."""
        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), self._handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Serve no more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
