"""W18: what pages cost the daemon that they show, and how soon a page is there (M84, M87).

    python -m bench.monitor [PAGES] [SECONDS]

A daemon on a home on a disk has as many runs as there are pages, each of which goes on twice a second, and
`narval web` stands beside it. Told is the processor time of the daemon for that work without a page; with a
page on each run; with one page on one of the runs, and with all pages on it; that of the program of the
pages; how long a run's page takes to its first byte, and a bare page of the same server; and what wakes the
daemon while pages are open on which nothing changes.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

from bench import programs
from bench.measure import argument, emit, home, scratch
from narval.files.home import Home
from narval.surfaces.control.client import Client
from narval.surfaces.http.place import WebPlace
from narval.surfaces.http.sessions import FOLDER, Sessions

APART, REST, TRIES = 0.5, 5.0, 20
"""Seconds between two steps of a run, and of a look at rest; pages that are timed."""

MODULE = """
from narval import Input, Output, action

@action(inputs=[Input("want", "want")], outputs=[Output("mine", "mine")], runs="inline")
def take(want):
    return f"<mine n='{want.attributes['n']}'/>"

@action(runs="inline")
def nothing():
    pass
"""


def recipe(steps: int) -> str:
    """A plan that goes on by one step for each element that is for it."""
    parts = ['<step id="s0" type="action" target="w.take"/>']
    for number in range(1, steps + 1):
        parts.append(
            f'<step id="s{number}" type="action" target="w.nothing"/>'
            f'<transition id="t{number}"><in idref="s{number - 1}"/><out idref="s{number}"/>'
            f"<condition><match>go[@for = $s0/@n and @k = '{number}']</match></condition></transition>"
        )
    return f'<recipe group="w" name="walk" start_step="s0" end_step="s{steps}">{"".join(parts)}</recipe>'


class Pages:
    """The program of the pages, and those who have pages open: four in a session."""

    def __init__(self, folder: Path, person: str) -> None:
        self._person = person
        self.program = subprocess.Popen(
            [sys.executable, "-m", "narval", "--home", str(folder), "web", "--port", "0"],
            stdout=subprocess.PIPE,
        )
        assert self.program.stdout is not None
        line = self.program.stdout.readline().decode()
        self.port = int(line.partition("http://127.0.0.1:")[2].split("/")[0].split(";")[0])
        self._sessions = Sessions(Home(folder).var / FOLDER)
        self._secrets: list[str] = []
        self._open: list[asyncio.Task[None]] = []
        self.frames = 0

    def secret(self, number: int) -> str:
        """The secret of the session in which a page of this number is followed."""
        while len(self._secrets) <= number // 4:
            secret = self._sessions.log_in(self._sessions.new_link(self._person), self._person, "operator")
            assert secret is not None
            self._secrets.append(secret)
        return self._secrets[number // 4]

    async def _asked(self, path: str, number: int = 0) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        head = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\nConnection: close\r\n"
        writer.write(f"{head}Cookie: {WebPlace(self.port).cookie}={self.secret(number)}\r\n\r\n".encode())
        return reader, writer

    async def first_byte(self, path: str, number: int = 0) -> float:
        """Seconds until an answer begins, in the session of that number."""
        self.secret(number)
        began = time.perf_counter()
        reader, writer = await self._asked(path, number)
        status = await reader.readline()
        taken = time.perf_counter() - began
        assert b" 200 " in status, (path, status)
        writer.close()
        return taken

    async def open(self, places: list[str]) -> None:
        """Follow these pages of the agent, each for itself; few at once, as a browser would."""
        self._open = []
        for number, place in enumerate(places):
            self._open.append(asyncio.create_task(self._follow(number, place)))
            await asyncio.sleep(0.02)
        await asyncio.sleep(2)

    async def _follow(self, number: int, place: str) -> None:
        reader, writer = await self._asked(f"/a/narval/{place}live", number)
        try:
            assert b" 200 " in await reader.readline(), "a page was refused"
            while line := await reader.readline():
                self.frames += line.startswith(b"event:")
        finally:
            writer.close()

    async def close(self) -> None:
        """Leave all pages, and let the hub forget them."""
        for task in self._open:
            task.cancel()
        for gone in await asyncio.gather(*self._open, return_exceptions=True):
            if isinstance(gone, AssertionError):
                raise gone
        await asyncio.sleep(6)


class Walk:
    """Runs that go on together, and what it costs."""

    def __init__(self, client: Client, daemon: int, web: int, count: int) -> None:
        self._client, self._programs = client, ([daemon], [web])
        self.numbers, self.steps = range(count), dict.fromkeys(range(count), 0)
        wants = [b"<want n='%d'/>" % number for number in self.numbers]
        client.ask("add", elements=wants)
        self.runs = [client.ask("start", name="w.walk")["eid"] for _ in self.numbers]

    async def costs(self, seconds: float, numbers: list[int]) -> tuple[float, float]:
        """Processor seconds of the daemon and of the pages' program while these runs go on for so long."""
        before = [programs.processor_time(family) for family in self._programs]
        due = time.monotonic()
        for _ in range(int(seconds / APART)):
            for number in numbers:
                self.steps[number] += 1
            elements = [b"<go for='%d' k='%d'/>" % (number, self.steps[number]) for number in numbers]
            await asyncio.to_thread(self._client.ask, "add", elements=elements)
            due += APART
            await asyncio.sleep(max(0.0, due - time.monotonic()))
        daemon, web = (
            programs.processor_time(family) - one for family, one in zip(self._programs, before, strict=True)
        )
        return daemon, web


async def measure(folder: Path, client: Client, daemon: int, count: int, seconds: float) -> dict[str, Any]:
    """What the daemon pays for pages that are open."""
    pages = Pages(folder, client.ask("people")[0]["person"])
    try:
        walk = Walk(client, daemon, pages.program.pid, count)
        everyone, one = list(walk.numbers), [0]
        await walk.costs(2 * APART, everyone)
        bare, _ = await walk.costs(seconds, everyone)
        of_runs = [f"runs/{run}/" for run in walk.runs]
        await pages.open(of_runs)
        each, web = await walk.costs(seconds, everyone)
        frames = pages.frames
        await asyncio.sleep(REST)  # until all pages show what is
        woken = programs.wake_ups([daemon])
        await asyncio.sleep(REST)
        woken = programs.wake_ups([daemon]) - woken
        await pages.close()
        again, _ = await walk.costs(seconds, everyone)
        await pages.open(of_runs[:1])
        single, _ = await walk.costs(seconds, one)
        await pages.close()
        await pages.open(of_runs[:1] * count)
        many, _ = await walk.costs(seconds, one)
        await pages.close()
        first = [await pages.first_byte(f"/a/narval/runs/{walk.runs[0]}") for _ in range(TRIES)]
        hello = [await pages.first_byte("/sessions") for _ in range(TRIES)]
    finally:
        pages.program.terminate()
        pages.program.wait()
    without = (bare + again) / 2
    return {
        "without_ms": round(without / seconds * 1e3, 2),
        "each_ms": round(each / seconds * 1e3, 2),
        "web_ms": round(web / seconds * 1e3, 2),
        "one_ms": round(single / seconds * 1e3, 2),
        "many_ms": round(many / seconds * 1e3, 2),
        "frames": frames,
        "wakes": woken,
        "page_ms": round(median(first) * 1e3, 1),
        "bare_ms": round(median(hello) * 1e3, 1),
    }


def main() -> None:
    count, seconds = int(argument(1, 50)), float(argument(2, 10.0))
    steps = int(6 * seconds / APART) + 8
    with scratch() as folder:
        made = home(folder, module=MODULE, recipes=f"<cookbook>{recipe(steps)}</cookbook>")
        with programs.running(made) as (daemon, client):
            figures = asyncio.run(measure(made, client, daemon.pid, count, seconds))
    emit(f"W18-{count}", count, seconds, **figures)


if __name__ == "__main__":
    main()
