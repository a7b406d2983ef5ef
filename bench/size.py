"""W18: how soon each page is there in a home at its limits.

    python -m bench.size [RUNS [ELEMENTS]]

A home on a disk has so many runs that have ended, and so many elements. Each page that the navigation leads
to is asked for, and those of a run, of an element, and of a search that finds nothing; told are the
milliseconds until the first byte, the slowest page, and the longest time that the daemon needed to answer
another question meanwhile.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from statistics import median
from typing import Any

from bench import homes, programs
from bench.measure import SETTINGS, argument, emit, scratch
from bench.monitor import Pages
from bench.pages import Loop
from narval.surfaces.control.client import Client
from narval.surfaces.web.site import NAVIGATION, SECTIONS

TRIES, AT_ONCE = 5, 5_000
"""Times that a page is asked for, whose median counts; elements that are added by one question."""

OTHERS = {
    "element": "memory/{element}",
    "filter": "memory?xpath=item%5B%40n%20%3D%20'7'%5D",
    "vain": "memory?xpath=*%5Bcontains(%40n%2C%20'none')%5D",
    "run": "runs/{run}",
    "state": "runs?state=failed",
    "text": "runs?text=nothing-of-that-name",
    "search": "search?q=nothing-of-that-name",
}
"""Pages that the navigation does not lead to."""


def grow(client: Client, elements: int) -> int:
    """Add elements until there are so many; the eid of one."""
    eid = 0
    for first in range(int(client.ask("count")["count"]), elements, AT_ONCE):
        most = min(AT_ONCE, elements - first)
        eid = client.ask("add", elements=[b"<item n='%d'/>" % (first + at) for at in range(most)])["eids"][0]
    return eid


async def measure(folder: Path, client: Client, elements: int) -> dict[str, Any]:
    """The milliseconds of each page."""
    of = {"element": grow(client, elements), "run": client.ask("runs", limit=1)[0]["eid"]}
    pages = Pages(folder, client.ask("people")[0]["person"])
    loop = Loop(client)
    asking = asyncio.create_task(loop.run())
    try:
        listed = [
            path for _, path, *_ in (*NAVIGATION, *(each for beside in SECTIONS.values() for each in beside))
        ]
        paths = {path.strip("/") or "status": path.strip("/") for path in listed}
        paths |= {name: path.format(**of) for name, path in OTHERS.items()}
        taken = {}
        for number, (name, path) in enumerate(paths.items()):
            times = [await pages.first_byte(f"/a/narval/{path}", number) for _ in range(TRIES)]
            taken[name] = round(median(times) * 1e3, 1)
    finally:
        asking.cancel()
        pages.program.terminate()
        pages.program.wait()
    slowest = max(taken, key=taken.__getitem__)
    return {
        "slowest": slowest,
        "slowest_ms": taken[slowest],
        "loop_ms": round(loop.longest * 1e3, 1),
        **taken,
    }


def main() -> None:
    runs, elements = argument(1, 100_000), argument(2, 1_000_000)
    with scratch() as folder:
        made = folder / "home"
        homes.fill(made, "ended", runs)
        (made / SETTINGS).write_text(f"[agent]\nelements = {elements + 100_000}\n")
        with programs.running(made) as (_, client):
            began = time.monotonic()
            figures = asyncio.run(measure(made, client, elements))
    emit(f"W18-size-{elements}", elements, time.monotonic() - began, **figures)


if __name__ == "__main__":
    main()
