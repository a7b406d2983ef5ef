"""W17: people at work: 10,000 open items, what one of a thousand people is shown, and claims at once (P83).

    python -m bench.claims [ITEMS]

A daemon with a thousand people of twenty roles has so many items, each offered to the fifty of one role.
`work_ms` is the whole command `narval work` of one of them, the median of nine, and `work_processor_ms` its
processor time; `page_ms` what of that is the daemon's answer. `more_mb` is the memory that the daemon has
more than before. Then the fifty of a role claim each of a hundred items, in an order of their own, one at a
time on a connection each (`p99_ms`); then of a hundred others twenty at once each (`burst_p99_ms`). Each item
is somebody's, once. `processor_us` is the daemon's processor time for a claim, most of which come too late.
"""

from __future__ import annotations

import asyncio
import random
import resource
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from bench import programs
from bench.measure import argument, emit, home, memory_of, now, percentile, scratch
from narval.files.home import Home
from narval.surfaces.control import wire
from narval.surfaces.control.client import Client

PEOPLE, ROLES, CLAIMED, AT_ONCE, LOOKS = 1000, 20, 100, 20, 9
SETTLE = 1.0
"""Seconds in which a daemon comes to rest."""
PERSON = "[people.p{0}]\nroles = ['r{1}']\n"
WORK = """<work name="a{0}"><title>Order {{$order/@n}}</title><for roles="r{0}"/>
  <input id="order"><match>order</match></input><claim for=""/></work>"""


def fill(folder: Path) -> None:
    """Make the home: the people, and work for those of a role."""
    works = "".join(WORK.format(role) for role in range(ROLES))
    home(folder, recipes=f"<cookbook group='w'>{works}</cookbook>")
    people = "".join(PERSON.format(number, number % ROLES) for number in range(PEOPLE))
    (folder / "etc/people.toml").write_text(people)


def offer(client: Client, count: int) -> None:
    """Have so many items offered, and wait until they are."""
    for role in range(ROLES):
        orders = [b"<order n='%d'/>" % number for number in range(count // ROLES)]
        client.ask("start", name=f"w.a{role}", elements=orders, each=True)
    while len(client.ask("worklist", every=True)) < count:
        time.sleep(0.2)


def look(folder: Path) -> tuple[float, float]:
    """The seconds that `narval work` takes, and those of the processor in its program."""
    before, began = _used(), now()
    command = programs.command(folder, "work", "--as", "p3")
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    seconds = now() - began
    assert len(lines) > 1, lines
    return seconds, _used() - before


def _used() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Claims:
    """Claims of the fifty people of a role, a connection each: what was got, and the seconds each took."""

    def __init__(self, path: Path) -> None:
        self.path, self.got, self.taken = path, list[int](), list[float]()

    async def of(self, items: Sequence[int], at_once: int, each: int) -> None:
        """Have each of them claim so many of these items, so many at once."""
        people = [f"p{number}" for number in range(3, PEOPLE, ROLES)]
        chosen = random.Random(17)
        ways = [await asyncio.open_unix_connection(self.path) for _ in people]
        work = (
            self._claim(way, person, chosen.sample(items, each), at_once)
            for way, person in zip(ways, people, strict=True)
        )
        await asyncio.gather(*work)
        for _, writer in ways:
            writer.close()
        assert sorted(self.got) == sorted(items), f"{len(self.got)} claims of {len(items)} items"

    async def _claim(self, way: Any, person: str, items: Sequence[int], at_once: int) -> None:
        reader, writer = way
        await _read(reader)
        left, asked = list(items), dict[int, float]()
        while left or asked:
            while left and len(asked) < at_once:
                item = left.pop()
                asked[item] = now()
                writer.write(wire.frame(wire.REQUEST, item, "claim", {"item": item}, {"as": person}))
            _, item, refusal, _ = await _read(reader)
            self.taken.append(now() - asked.pop(item))
            if refusal is None:
                self.got.append(item)


async def _read(reader: asyncio.StreamReader) -> list[Any]:
    return wire.fields(await reader.readexactly(wire.length(await reader.readexactly(wire.HEADER))))


def main() -> None:
    count = argument(1, 10_000)
    with scratch() as folder:
        fill(folder)
        with programs.running(folder) as (daemon, client):
            time.sleep(SETTLE)
            before, began = memory_of(daemon.pid, "VmRSS"), now()
            offer(client, count)
            seconds = now() - began
            time.sleep(SETTLE)
            look(folder)  # what is imported is compiled from now on
            looks = [look(folder) for _ in range(LOOKS)]
            more = memory_of(daemon.pid, "VmRSS") - before
            path = Home(folder).socket()
            with Client(path, acting_as="p3") as person:
                asked = now()
                for _ in range(LOOKS):
                    person.ask("worklist", limit=51)
                page = (now() - asked) / LOOKS
                items = [row["item"] for row in person.ask("worklist", limit=2 * CLAIMED)]
            one, burst = Claims(path), Claims(path)
            used, began = programs.processor_time([daemon.pid]), now()
            asyncio.run(one.of(items[:CLAIMED], 1, CLAIMED))
            claiming, used = now() - began, programs.processor_time([daemon.pid]) - used
            asyncio.run(burst.of(items[CLAIMED:], AT_ONCE, AT_ONCE))
            peak = memory_of(daemon.pid)
    emit(
        f"W17-{count}",
        count,
        seconds,
        rss_mb=peak,
        work_ms=round(1e3 * median(each[0] for each in looks), 1),
        work_processor_ms=round(1e3 * median(each[1] for each in looks), 1),
        page_ms=round(1e3 * page, 2),
        more_mb=round(more, 1),
        p50_ms=round(1e3 * percentile(one.taken, 50), 1),
        p99_ms=round(1e3 * percentile(one.taken, 99), 1),
        burst_p99_ms=round(1e3 * percentile(burst.taken, 99), 1),
        claims_per_second=round(len(one.taken) / claiming),
        processor_us=round(used / len(one.taken) * 1e6),
        twice=len(one.got) + len(burst.got) - len({*one.got, *burst.got}),
    )


if __name__ == "__main__":
    main()
