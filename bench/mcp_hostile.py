"""W25: what hostile servers and clients of MCP cost who adds an element meanwhile.

    python -m bench.mcp_hostile [ROUNDS]

A daemon on a home on a disk is asked over the control socket to add one element after another; the time of
each is taken until the daemon has recorded it. `quiet`: nothing else happens. `hostile`: a tool of a server
is called all the time, which sends 6,000 reports and log messages that nobody wants before it answers, and
four clients send requests over HTTP without a pause, with wrong tokens, with rubbish, and with bodies of
5 MB. Both in turn, so many rounds.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from bench import programs
from bench.mcp import CLIENT, TOKEN, free_port
from bench.measure import argument, emit, home, now, percentile, scratch
from narval.core.errors import NarvalError
from narval.files.home import Home
from narval.surfaces.control.client import Client
from tests.calls.mcp.servers_at_work import RECIPE, settings, tools

ADDED, WARM = 400, 50
HUGE = b"[" * 5_000_000
BODIES = (b"rubbish", b'{"jsonrpc": "2.0", "id": 1e999, "method": 5}', HUGE, b"\xff\xfe" * 1000)


class Hostile:
    """A server that is called, and clients that send, from threads of this program, until it is over."""

    def __init__(self, folder: Path, port: int) -> None:
        self._folder, self._port = folder, port
        self._is_over = threading.Event()
        self.calls, self.requests = 0, 0
        clients = [threading.Thread(target=self._send, args=(which,)) for which in range(len(BODIES))]
        self._threads = [threading.Thread(target=self._call), *clients]

    def __enter__(self) -> Hostile:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join()

    def _call(self) -> None:
        with Client(Home(self._folder).socket()) as client:
            while not self._is_over.is_set():
                run = client.ask("start", name="t.calls")["eid"]
                with suppress(NarvalError):
                    client.ask("wait", run=run, timeout=20)
                self.calls += 1

    def _send(self, which: int) -> None:
        for number in itertools.count():
            if self._is_over.is_set():
                return
            token = TOKEN if number % 2 else "wrong"
            headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
            with suppress(OSError, HTTPException):
                connection = HTTPConnection("127.0.0.1", self._port, timeout=5)
                connection.request("POST", "/mcp", BODIES[which], headers)
                connection.getresponse().read()
                connection.close()
            self.requests += 1


def added(client: Client, count: int) -> list[float]:
    """The seconds that each of so many elements took."""
    took = []
    for number in range(count):
        began = now()
        client.ask("add", elements=[f"<mail n='{number}'/>".encode()])
        took.append(now() - began)
    return took


@contextmanager
def at_work(port: int) -> Iterator[tuple[Path, Client]]:
    """A home whose server floods and which is one itself, and a connection to its daemon."""
    with scratch() as folder:
        (folder / "behaves").write_text("flood")
        (folder / "dies").write_text("0")
        calls = RECIPE.format(name="calls", tool="environment", of="")
        web = f'[web]\nmcp = "127.0.0.1:{port}"\n'
        home(folder, recipes=f'<cookbook group="t">{calls}</cookbook>', settings=settings(folder) + web)
        for path, text in (
            ("recipes/mcp/test.tools", json.dumps({"server": "test", "tools": tools()})),
            ("etc/mcp/desk.toml", CLIENT),
        ):
            (folder / path).parent.mkdir(exist_ok=True)
            (folder / path).write_text(text)
        with programs.running(folder) as (_, client):
            yield folder, client


@contextmanager
def web(folder: Path) -> Iterator[None]:
    """The program that serves clients over HTTP."""
    line = programs.command(folder, "web", "--port", "0")
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as program:
        assert program.stdout is not None
        program.stdout.readline()  # it answers
        try:
            yield
        finally:
            program.terminate()


def main() -> None:
    """Measure both in turn."""
    rounds, port = argument(1, 5), free_port()
    quiet, hostile = list[float](), list[float]()
    calls = requests = 0
    with at_work(port) as (folder, client), web(folder):
        added(client, WARM)
        for _ in range(rounds):
            quiet += added(client, ADDED)
            with Hostile(folder, port) as enemy:
                added(client, WARM)
                hostile += added(client, ADDED)
            calls, requests = calls + enemy.calls, requests + enemy.requests
    emit(
        "W25",
        len(hostile),
        sum(hostile),
        quiet_p50_ms=round(percentile(quiet, 50) * 1000, 2),
        quiet_p99_ms=round(percentile(quiet, 99) * 1000, 2),
        hostile_p50_ms=round(percentile(hostile, 50) * 1000, 2),
        hostile_p99_ms=round(percentile(hostile, 99) * 1000, 2),
        hostile_max_ms=round(max(hostile) * 1000, 2),
        calls=calls,
        requests=requests,
    )


if __name__ == "__main__":
    main()
