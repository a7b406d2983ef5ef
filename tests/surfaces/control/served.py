"""A control server on a thread of its own, for clients that block, and raw connections to it."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from narval.ask.asker import Asker
from narval.core.errors import (
    ActionError,
    DefinitionError,
    ElementError,
    Fault,
    NarvalError,
    PatternError,
    RequestError,
)
from narval.surfaces.control import wire
from narval.surfaces.control.client import Client
from narval.surfaces.control.server import ControlLimits, ControlServer


class Fake:
    """Stands in for the operations: each method shows one thing about the socket."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.finished: list[str] = []
        self.cancelled: list[str] = []
        self.askers: list[Asker] = []
        self.running = self.most = 0

    async def invoke(self, asker: Asker, name: str, arguments: dict[str, Any]) -> Any:
        method = getattr(self, f"do_{name}", None)
        if method is None:
            raise RequestError(f"expected an operation, got {name!r}")
        self.askers.append(asker)
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            result = await method(**arguments)
        except asyncio.CancelledError:
            self.cancelled.append(name)
            raise
        finally:
            self.running -= 1
        self.finished.append(name)
        return result

    async def do_echo(self, **arguments: Any) -> Any:
        return arguments

    async def do_gated(self, wait: float = 0.0) -> str:
        await self.gate.wait()
        return "through"

    async def do_open(self) -> None:
        self.gate.set()

    async def do_slow(self, seconds: float) -> float:
        await asyncio.sleep(seconds)
        return seconds

    async def do_many(self, count: int, size: int) -> list[dict[str, Any]]:
        return [{"eid": eid, "xml": "x" * size} for eid in range(count)]

    async def do_huge(self) -> dict[str, str]:
        return {"xml": "x" * (wire.MOST + 1)}

    async def do_raise(self, name: str) -> None:
        raise RAISED[name]

    async def do_break(self) -> None:
        raise ZeroDivisionError("a fault of ours")

    async def do_object(self) -> list[Any]:
        return [1, object()]


RAISED: dict[str, NarvalError] = {
    "faults": DefinitionError([Fault("b.xml", 3, 4, "no such step"), Fault("a.xml", 1, 2, "twice")]),
    "pattern": PatternError("email[", "expected ']'", 7),
    "element": ElementError("doctype", "a DOCTYPE is not accepted", 2, 5),
    "action": ActionError("it took longer than 3 seconds", "timeout"),
    "request": RequestError("expected a run, got 12"),
}


class Daemon:
    """A control server in an event loop of its own, on a thread, for clients that block."""

    def __init__(self, path: Path, limits: ControlLimits, uid_of: Callable[[Any], int] | None) -> None:
        self.path, self.limits, self.uid_of = path, limits, uid_of
        self.loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_until_complete(self._open())
        self._ready.set()
        self.loop.run_forever()
        self.loop.run_until_complete(self.server.close())
        self.left = [task for task in asyncio.all_tasks(self.loop) if not task.done()]
        self.loop.close()

    async def _open(self) -> None:
        self.fake = Fake()
        self.server = await ControlServer.open(
            self.path, self.fake.invoke, limits=self.limits, uid_of=self.uid_of
        )

    def __enter__(self) -> Daemon:
        self._thread.start()
        assert self._ready.wait(60)
        return self

    def __exit__(self, *exception: object) -> None:
        self.end()

    def end(self) -> None:
        if self._thread.is_alive():
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join(60)
        assert not self._thread.is_alive()


@contextmanager
def serving(
    folder: Path, uid_of: Callable[[Any], int] | None = None, **limits: Any
) -> Iterator[tuple[Daemon, Path]]:
    path = folder / "socket"
    with Daemon(path, ControlLimits(**limits), uid_of) as daemon:
        yield daemon, path


def raw(path: Path) -> socket.socket:
    """A connection past its greeting."""
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(60)
    with wire.address(path) as name:
        connection.connect(name)
    kind, number, error, about = read(connection)
    assert (kind, number, error) == (wire.GREETING, None, None), (kind, number, error)
    assert about["protocol"] == wire.PROTOCOL
    return connection


def read(connection: socket.socket) -> list[Any]:
    size = int.from_bytes(exactly(connection, 4), "big")
    return wire.fields(exactly(connection, size))


def exactly(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        received = connection.recv(count - len(data))
        if not received:
            raise EOFError(data)
        data += received
    return data


def ended(connection: socket.socket) -> bool:
    """Whether the other end hangs up without another word."""
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True


def request(number: int, method: str, **params: Any) -> bytes:
    return wire.frame(wire.REQUEST, number, method, params)


def answers(path: Path) -> bool:
    """Whether the daemon is well."""
    with Client(path) as client:
        return client.ask("echo", a=1) == {"a": 1}


def until(condition: Callable[[], bool]) -> None:
    for _ in range(12_000):
        if condition():
            return
        time.sleep(0.005)
    raise AssertionError("it did not come about within a minute")
