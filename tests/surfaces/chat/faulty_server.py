"""A server of JSON over HTTP on loopback that fails in the ways that networks and services fail."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.loopback import LoopbackServer


class RefusedError(Exception):
    """A request that a service refuses, with a status and the object that it answers."""

    def __init__(self, status: int, answer: dict[str, Any]) -> None:
        super().__init__(str(answer))
        self.status, self.answer = status, answer


class FaultyServer(LoopbackServer):
    """Does what `route` says, unless something goes wrong.

    `faults[NAME]` are what goes wrong with the next requests of a name, one after another: "lost" (it is
    done, and the connection breaks instead of an answer), "half" (it breaks within the answer), "cut" (it
    breaks before anything is done), "late" (the answer takes a while), "never" (it is done, and no answer
    comes until the asker goes), a RefusedError, or None for nothing.
    """

    def __init__(self) -> None:
        self.faults: dict[str, list[object]] = defaultdict(list)
        self.is_open = True
        self.news = threading.Condition()
        super().__init__()

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://{self.place}"

    def route(self, handler: BaseHTTPRequestHandler, body: bytes) -> tuple[str, Callable[[], object]]:
        """The name of a request, and what does it under the lock of `news`; its result is bytes or JSON."""
        raise NotImplementedError

    def open(self) -> None:
        self.is_open = True
        super().open()

    def close(self) -> None:
        with self.news:
            self.is_open = False
            self.news.notify_all()
        super().close()

    def await_news(self, is_there: Callable[[], bool], seconds: float) -> None:
        """Wait for something, under the lock; ends when the server does."""
        until = time.monotonic() + seconds
        while not is_there() and (left := until - time.monotonic()) > 0:
            self.news.wait(left)
            if not self.is_open:
                raise ConnectionAbortedError

    def serve(self, handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers.get("Content-Length", 0)))
        try:
            name, do = self.route(handler, body)
            with self.news:
                fault = self.faults[name].pop(0) if self.faults[name] else None
            if isinstance(fault, RefusedError):
                raise fault
            if fault == "cut":
                raise ConnectionAbortedError
            with self.news:
                result = do()
            status = 200
        except RefusedError as error:
            status, result, fault = error.status, error.answer, None
        except ConnectionAbortedError:
            status, result, fault = 0, b"", "lost"
        with suppress(OSError):  # whoever asked may be gone
            if fault == "lost":
                handler.connection.shutdown(socket.SHUT_RDWR)
            elif fault == "never":
                handler.connection.recv(1)
            else:
                time.sleep(0.3 if fault == "late" else 0.0)
                self._write(handler, status, result, is_half=fault == "half")

    @staticmethod
    def _write(handler: BaseHTTPRequestHandler, status: int, result: object, *, is_half: bool) -> None:
        body = result if isinstance(result, bytes) else json.dumps(result).encode()
        handler.send_response(status)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body[: len(body) // 2] if is_half else body)
