"""A stand-in for a language model: a server that speaks the OpenAI chat protocol, as told."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler
from types import MappingProxyType
from typing import Any, NamedTuple

from tests.loopback import LoopbackServer

Send = Callable[[bytes], object]


class Said(NamedTuple):
    """One answer: its status, its headers, and what sends its body, piece by piece."""

    send: Callable[[Send], None]
    status: int = 200
    headers: Mapping[str, str] = MappingProxyType({})


def event(content: str | None = None, finish: str | None = None, **more: Any) -> bytes:
    """A piece of a stream."""
    delta = {} if content is None else {"content": content}
    return (
        b"data: "
        + json.dumps({"choices": [{"delta": delta, "finish_reason": finish}], **more}).encode()
        + b"\n\n"
    )


def streamed(text: str, sent: int = 20, came: int = 10, *, finish: str = "stop") -> Said:
    """An answer in pieces, and what it is said to have cost."""

    def send(out: Send) -> None:
        for at in range(0, len(text), 7):
            out(event(text[at : at + 7]))
        out(event(finish=finish))
        usage = {"prompt_tokens": sent, "completion_tokens": came}
        out(b"data: " + json.dumps({"choices": [], "usage": usage}).encode() + b"\n\ndata: [DONE]\n\n")

    return Said(send, headers={"Content-Type": "text/event-stream"})


def whole(body: Any, status: int = 200, **headers: str) -> Said:
    """An answer in one, of JSON or of these bytes."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    named = {name.replace("_", "-").title(): value for name, value in headers.items()}
    return Said(lambda out: out(data), status, named)


def endless(piece: bytes, pause: float = 0.0) -> Said:
    """An answer that does not end as long as anybody listens."""

    def send(out: Send) -> None:
        while True:
            out(piece)
            time.sleep(pause)

    return Said(send)


class ChatServer(LoopbackServer):
    """Answers each request with the next of its answers, the last one again and again."""

    def __init__(self) -> None:
        self.answers: list[Said] = []
        self.asked: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.hung_up = threading.Event()
        super().__init__()
        self.url = f"http://{self.place}/v1"

    def will_say(self, *answers: Said) -> None:
        """Let these be the answers."""
        self.answers = list(answers)

    def serve(self, handler: BaseHTTPRequestHandler) -> None:
        """Answer one request."""
        body = handler.rfile.read(int(handler.headers["Content-Length"]))
        self.asked.append({"path": handler.path, **json.loads(body)})
        self.headers.append({name.lower(): value for name, value in handler.headers.items()})
        said = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

        def out(data: bytes) -> None:
            handler.wfile.write(data)
            handler.wfile.flush()

        try:
            handler.send_response(said.status)
            for name, value in said.headers.items():
                handler.send_header(name, value)
            handler.end_headers()
            said.send(out)
        except OSError:
            self.hung_up.set()


@contextmanager
def chat_server() -> Iterator[ChatServer]:
    """A server for the time of a block."""
    server = ChatServer()
    try:
        yield server
    finally:
        with suppress(OSError):
            server.close()
