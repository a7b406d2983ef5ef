"""W24: what traces cost a step: the same steps without and with them, both in turn.

    python -m bench.traces [SHAPE] [ROUNDS] [PAUSE]

SHAPE is runs x steps of each, as of `bench.steps`, in a home on a disk (`crash`); PAUSE are seconds between
two rounds. A second program takes the spans as a collector does, over HTTP on loopback. Told are the medians
of both, the median of the rounds' ratios, and how many requests came in: what does not fit into the share
that traces may take waits, or is dropped. The machine needs a core for the collector.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from bench.measure import argument, emit, scratch, us
from bench.steps import measure


class Collector(BaseHTTPRequestHandler):
    """Takes whatever comes, and counts the bytes."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        sys.stdout.write(f"{len(body)}\n")
        sys.stdout.flush()
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


def collect() -> None:
    """Be the collector: the first line is its port, each of the others the bytes of a request."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    sys.stdout.write(f"{server.server_port}\n")
    sys.stdout.flush()
    server.serve_forever()


@contextmanager
def collector() -> Iterator[subprocess.Popen[str]]:
    """A collector in a program of its own, to which the environment points."""
    line = [sys.executable, "-m", "bench.traces", "collect"]
    program = subprocess.Popen(line, stdout=subprocess.PIPE, text=True)
    assert program.stdout is not None
    os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = f"http://127.0.0.1:{program.stdout.readline().strip()}"
    try:
        yield program
    finally:
        program.kill()
        program.wait()


def once(shape: tuple[int, int], *, traced: bool) -> float:
    """Seconds for the steps of one round."""
    with scratch() as folder:
        settings = f"traces = {str(traced).lower()}\n"
        seconds, _ = measure(*shape, "crash", "plain", folder, settings=settings)
    return seconds


def main() -> None:
    if argument(1, "") == "collect":
        collect()
        return
    runs, steps = map(int, argument(1, "1000x10").split("x"))
    rounds, pause = argument(2, 15), argument(3, 0.0)
    plain, traced = list[float](), list[float]()
    with collector() as program:
        for number in range(rounds):
            for is_traced in (False, True) if number % 2 else (True, False):
                (traced if is_traced else plain).append(once((runs, steps), traced=is_traced))
                time.sleep(pause)
        program.kill()
        sizes = [int(line) for line in program.stdout or ()]
    ratios = [with_them / without for with_them, without in zip(traced, plain, strict=True)]
    count = runs * steps
    emit(
        f"W24-{runs}x{steps}",
        count,
        statistics.median(traced),
        plain_us=us(statistics.median(plain), count),
        traced_us=us(statistics.median(traced), count),
        over_plain=round(statistics.median(ratios), 4),
        requests=len(sizes),
        kb=sum(sizes) // 1024,
    )


if __name__ == "__main__":
    main()
