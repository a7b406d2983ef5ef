"""W18: what an open status page costs the daemon of a large home, and who begins runs meanwhile.

    python -m bench.status [RUNS] [SECONDS]

A home on a disk has so many runs that have ended, each with an element, and 200 that wait. Four runs a second
begin, without a page and with the status page open. Told are the processor time of the daemon and of the
program of the pages, how long the slowest in twenty of the starts took, and the time until the first byte of
several pages.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from statistics import median
from typing import Any

import narval
from bench import homes, programs
from bench.measure import argument, emit, percentile, scratch
from bench.monitor import Pages
from narval.surfaces.control.client import Client

WAITING, A_SECOND, TRIES = 200, 4, 9
"""Runs that wait, runs that begin in a second, and times that a page is asked for."""

PAGES = {"status": "", "runs": "runs", "active": "runs?state=active", "memory": "memory", "errors": "errors"}


def fill(folder: Path, runs: int) -> Path:
    """Make the home: runs that have ended, and some that wait."""
    homes.fill(folder, "ended", runs)
    with narval.open(folder) as agent:
        agent.start_each("w.waiting", ["<matter/>"] * WAITING)
        agent.until_idle()
    return folder


async def starts(client: Client, seconds: float) -> list[float]:
    """Milliseconds that each start took."""
    taken, due = [], time.monotonic()
    for _ in range(int(seconds * A_SECOND)):
        began = time.perf_counter()
        await asyncio.to_thread(client.ask, "start", name="w.ended")
        taken.append((time.perf_counter() - began) * 1e3)
        due += 1 / A_SECOND
        await asyncio.sleep(max(0.0, due - time.monotonic()))
    return taken


async def measure(folder: Path, client: Client, daemon: int, seconds: float) -> dict[str, Any]:
    """The figures without a page and with one."""
    pages = Pages(folder, client.ask("people")[0]["person"])
    figures: dict[str, Any] = {}
    try:
        await starts(client, 2)
        for name in ("without", "open"):
            if name == "open":
                await pages.open([""])
            before = programs.processor_time([daemon])
            taken = await starts(client, seconds)
            spent = programs.processor_time([daemon]) - before
            figures[f"{name}_ms"] = round(spent / seconds * 1e3, 2)
            figures[f"{name}_start_p95_ms"] = round(percentile(taken, 95), 2)
        figures["frames"] = pages.frames
        await pages.close()
        for name, path in PAGES.items():
            first = [await pages.first_byte(f"/a/narval/{path}") for _ in range(TRIES)]
            figures[f"{name}_byte_ms"] = round(median(first) * 1e3, 1)
    finally:
        pages.program.terminate()
        pages.program.wait()
    return {**figures, "page_ms": round(figures["open_ms"] - figures["without_ms"], 2)}


def main() -> None:
    runs, seconds = int(argument(1, 12_000)), float(argument(2, 20.0))
    with scratch() as folder:
        made = fill(folder, runs)
        with programs.running(made) as (daemon, client):
            began = time.monotonic()
            figures = asyncio.run(measure(made, client, daemon.pid, seconds))
    emit(f"W18-status-{runs}", runs, time.monotonic() - began, **figures)


if __name__ == "__main__":
    main()
