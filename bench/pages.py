"""W18: how soon a page is there: lists, graphs, a page of a large memory (M84, M85).

    python -m bench.pages [ELEMENTS]

Told are the milliseconds until a page is painted in a headless Chromium (its first contentful paint), with
the layout of a large graph made anew and kept; those until the first byte, for pages of a memory of so many
elements; beside them those of a page that asks nothing; and the longest time that the daemon needed to answer
another question meanwhile.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from statistics import median
from typing import Any

from playwright.async_api import BrowserContext, async_playwright

from bench import programs
from bench.measure import argument, emit, home, scratch
from bench.monitor import Pages
from narval.surfaces.control.client import Client
from narval.surfaces.http.place import WebPlace
from tests.browser.finding import ARGUMENTS, browser_path

TRIES = 9
"""So many times a page is asked for; the median counts."""

SMALL, LARGE = 50, 500
"""Steps of the graphs: a step and a transition are two parts."""

AT_ONCE = 5_000
"""Elements that are added by one question."""

PAINTED = """() => new Promise(resolve => new PerformanceObserver(found => {
    const paint = found.getEntriesByName('first-contentful-paint')[0]
    if (paint) resolve(paint.startTime)
}).observe({type: 'paint', buffered: true}))"""


def chain(name: str, steps: int) -> str:
    """A plan of so many steps one after another, the second of which waits for an element."""
    parts = [f'<step id="s{number}" type="action" target="basic.nothing"/>' for number in range(steps)]
    for number in range(1, steps):
        wait = "<condition><match>never</match></condition>" if number == 1 else ""
        ways = f'<in idref="s{number - 1}"/><out idref="s{number}"/>'
        parts.append(f'<transition id="t{number}">{ways}{wait}</transition>')
    return (
        f'<recipe group="w" name="{name}" start_step="s0" end_step="s{steps - 1}">{"".join(parts)}</recipe>'
    )


class Loop:
    """Questions that the daemon is asked all the time, and the longest wait for an answer."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.longest = 0.0

    async def run(self) -> None:
        """Ask until cancelled."""
        while True:
            began = time.perf_counter()
            await asyncio.to_thread(self._client.ask, "count", xpath="nothing-of-that-name")
            self.longest = max(self.longest, time.perf_counter() - began)
            await asyncio.sleep(0.002)


async def painted(context: BrowserContext, url: str, tries: int = TRIES) -> float:
    """Milliseconds until a page is painted, the median of several times."""
    taken = []
    for _ in range(tries):
        page = await context.new_page()
        await page.goto(url)
        taken.append(float(await page.evaluate(PAINTED)))
        await page.close()
    return round(median(taken), 1)


async def measure(folder: Path, client: Client, elements: int) -> dict[str, Any]:
    """The times of all pages."""
    pages = Pages(folder, client.ask("people")[0]["person"])
    small, large = (client.ask("start", name=f"w.{name}")["eid"] for name in ("small", "large"))
    for first in range(0, elements, AT_ONCE):
        client.ask("add", elements=[b"<item n='%d'/>" % (first + at) for at in range(AT_ONCE)])
    base = f"http://127.0.0.1:{pages.port}"
    figures: dict[str, Any] = {}
    loop = Loop(client)
    asking = asyncio.create_task(loop.run())
    try:
        async with async_playwright() as playwright:
            browser = await playwright.chromium.launch(executable_path=browser_path(), args=ARGUMENTS)
            context = await browser.new_context(base_url=base)
            cookie = {"name": WebPlace(pages.port).cookie, "value": pages.secret(0), "url": base}
            await context.add_cookies([cookie])  # type: ignore[list-item]
            figures["bare_ms"] = await painted(context, f"{base}/sessions")
            figures["list_ms"] = await painted(context, f"{base}/a/narval/runs")
            figures["small_ms"] = await painted(context, f"{base}/a/narval/runs/{small}")
            figures["large_new_ms"] = await painted(context, f"{base}/a/narval/runs/{large}", 1)
            figures["large_kept_ms"] = await painted(context, f"{base}/a/narval/runs/{large}")
            await browser.close()
        for name, path in (
            ("bare_byte_ms", "/sessions"),
            ("graph_byte_ms", f"/a/narval/runs/{small}"),
            ("memory_byte_ms", "/a/narval/memory"),
            ("pattern_byte_ms", "/a/narval/memory?xpath=item%5B%40n%20%3D%20'7'%5D"),
            ("vain_byte_ms", "/a/narval/memory?xpath=*%5Bcontains(%40n%2C%20'none')%5D"),
        ):
            figures[name] = round(median([await pages.first_byte(path) for _ in range(TRIES)]) * 1e3, 1)
    finally:
        asking.cancel()
        pages.program.terminate()
        pages.program.wait()
    return {**figures, "loop_ms": round(loop.longest * 1e3, 1)}


def main() -> None:
    elements = int(argument(1, 200_000))
    recipes = chain("small", SMALL) + chain("large", LARGE)
    with scratch() as folder:
        made = home(folder, module="", recipes=f"<cookbook>{recipes}</cookbook>")
        with programs.running(made) as (_, client):
            began = time.monotonic()
            figures = asyncio.run(measure(made, client, elements))
    emit(f"W18-pages-{elements}", elements, time.monotonic() - began, **figures)


if __name__ == "__main__":
    main()
