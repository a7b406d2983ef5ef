"""W5, waits: 200 waits of 50 ms in a dataflow, 20 at a time.

    python -m bench.flow_waits [waits | fetch]

`waits`: an operator in Python that sleeps. `fetch`: pages of a site on this machine that takes 50 ms for
each; beside it httpx2 alone, with its connections kept and without, as `fetch` keeps none.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2

from bench.measure import argument, emit, now, scratch
from narval.files.settings import Settings
from narval.kinds.dataflow.calls.documents import relation_element
from narval.kinds.dataflow.calls.foreground import FlowFile, load_dataflow, run_sessions, sessions_of
from narval.kinds.dataflow.engine.network.batches import TupleBatch

COUNT, WAIT, AT_ONCE = 200, 0.05, 20
MODULE = f"""
import time
from narval import operator

@operator(inputs="Number n", outputs="TupleStream out", reentrant=True)
def nap(n):
    time.sleep({WAIT})
    return n
"""


class FirstShown:
    """The moment of the first tuple, and how many there were."""

    def __init__(self) -> None:
        self.first, self.count = 0.0, 0

    def tuples(self, output: str, batch: TupleBatch) -> None:
        """Count tuples."""
        self.first = self.first or now()
        self.count += len(batch.rows)

    def retracted(self, output: str, batch: TupleBatch) -> None:
        """Nothing is taken back."""

    def value(self, output: str, value: Any) -> None:
        """Nothing is counted of a value."""

    def over(self, output: str, cancelled: bool) -> None:
        """Nothing is counted of an end."""


def run(flow: FlowFile, schema: str, values: list[Any]) -> tuple[float, float]:
    """The seconds until the first result of a dataflow, and until the last."""
    rows = relation_element("given", [TupleBatch((schema,), [(value,) for value in values])])
    document = b"<plan_input><session>" + rows + b"</session></plan_input>"
    shown, began = FirstShown(), now()
    (over,) = asyncio.run(run_sessions(flow, sessions_of(document, {}), [shown], print, print))
    assert (over.state, shown.count) == ("done", COUNT), over
    return shown.first - began, now() - began


def loaded(folder: Path, body: str, settings: Settings | None = None) -> FlowFile:
    """A dataflow of one operator."""
    (folder / "modules").mkdir(exist_ok=True)
    (folder / "modules/w.py").write_text(MODULE)
    file = folder / "w.plan"
    file.write_text(f"PLAN W {{ INPUT: TupleStream given; OUTPUT: TupleStream out; BODY {{ {body} }} }}")
    flow = load_dataflow(file)
    return flow if settings is None else flow._replace(settings=settings)


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer each request after the wait."""
    page = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 14\r\n\r\n<html>x</html>"
    try:
        while await reader.readuntil(b"\r\n\r\n"):
            await asyncio.sleep(WAIT)
            writer.write(page)
            await writer.drain()
    except (asyncio.IncompleteReadError, OSError):
        pass
    finally:
        writer.close()


def site() -> int:
    """The port of a site in a thread of its own."""
    ports: list[int] = []
    ready = threading.Event()

    async def serve() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        ports.append(server.sockets[0].getsockname()[1])
        ready.set()
        await server.serve_forever()

    threading.Thread(target=lambda: asyncio.run(serve()), daemon=True).start()
    ready.wait()
    return ports[0]


async def bare(urls: list[str], reused: int) -> float:
    """The seconds that httpx2 takes by itself; `reused` are the connections that it keeps."""
    limits, at_once = httpx2.Limits(max_keepalive_connections=reused), asyncio.Semaphore(AT_ONCE)
    began = now()
    async with httpx2.AsyncClient(limits=limits, trust_env=False) as client:

        async def one(url: str) -> None:
            async with at_once:
                (await client.get(url)).raise_for_status()

        await asyncio.gather(*map(one, urls))
    return now() - began


def waits(folder: Path) -> None:
    """Wait in Python."""
    flow = loaded(folder, "nap(given : out)")
    run(flow, "n", list(range(COUNT)))
    first, seconds = run(flow, "n", list(range(COUNT)))
    emit("W5-waits", COUNT, seconds, ms=round(1e3 * seconds, 1), first_ms=round(1e3 * first, 1))


def fetch(folder: Path) -> None:
    """Wait for pages."""
    port = site()
    urls = [f"http://127.0.0.1:{port}/{number}" for number in range(COUNT)]
    flow = loaded(folder, "fetch(given : out)", Settings(fetch_allow=(f"127.0.0.1:{port}",)))
    run(flow, "url", urls)
    asyncio.run(bare(urls[:AT_ONCE], AT_ONCE))
    reused, new = asyncio.run(bare(urls, AT_ONCE)), asyncio.run(bare(urls, 0))
    first, seconds = run(flow, "url", urls)
    figures = {"first_ms": first, "bare_kept_ms": reused, "bare_ms": new, "ms": seconds}
    emit("W5-fetch", COUNT, seconds, **{name: round(1e3 * value, 1) for name, value in figures.items()})


MODES: dict[str, Callable[[Path], None]] = {"waits": waits, "fetch": fetch}

if __name__ == "__main__":
    with scratch() as folder:
        MODES[argument(1, "waits")](folder)
