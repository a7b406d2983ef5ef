"""Moments and dates: what it costs to wait for them, and how late the last of many is (W4).

    python bench/moments.py

100,000 moments are pending, 10,000 of them due in one second; then 10,000 plans of a home on a disk wait for
one date. The peers' side of it is a heap with one asyncio timer, and APScheduler.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import narval
from narval.definitions.recipe import Time
from narval.definitions.schedule import schedule_of
from narval.runtime.moments import Moments

PENDING, DUE, TEXTS = 100_000, 10_000, 3_000
ZONE = "Europe/Paris"
MODULE = """
from narval import action

@action(runs="inline")
def nothing():
    pass
"""
RECIPE = """<recipe group="w" name="dated" start_step="a" end_step="z">
  <step id="a" type="action" target="w.nothing"/><step id="z" type="action" target="w.nothing"/>
  <transition id="t"><in idref="a"/><out idref="z"/><time hours="7" minutes="0" seconds="0"/></transition>
</recipe>"""


def told(what: str, value: float, unit: str) -> None:
    print(f"{what:48} {value:9.2f} {unit}")


def each(count: int, work: Callable[[int], object]) -> float:
    """Microseconds for one of so many."""
    began = time.perf_counter()
    for number in range(count):
        work(number)
    return (time.perf_counter() - began) / count * 1e6


def lengths() -> None:
    """Moments that are the end of a length of time: time limits, tries, back-off."""
    chance, moments = random.Random(3), Moments[int, None]()
    base = time.time()
    told("a moment, registered", each(PENDING - DUE, lambda n: _push(moments, base, chance, n)), "us")
    target = base + 1.5
    for number in range(DUE):
        moments.push(target + number * 1e-7, PENDING + number, None)
    time.sleep(max(0.0, target + 0.01 - time.time()))
    began, late = time.time(), []
    while (due := moments.take(time.time())) is not None:
        late.append(time.time() - began)
        moments.push(due[0] + 86400, due[1], None)
    told(f"{len(late)} due at once, set again: p99", late[int(len(late) * 0.99)] * 1e3, "ms")


def _push(moments: Moments[int, None], base: float, chance: random.Random, number: int) -> None:
    moments.push(base + 3600 + chance.random() * 86400, number, None)


def dates() -> None:
    """Dates of many texts: a text that is new, one seen before, and the next date of each that is due."""
    texts = [
        (Time(seconds=((n % 60,) * 2,), minutes=((n // 60,) * 2,), hours=((7, 7),)),) for n in range(TEXTS)
    ]
    moments, now = Moments[tuple[str, int], int](), time.time()

    def wait(number: int, kind: str) -> None:
        moments.push(schedule_of(texts[number % TEXTS], ZONE).next(now) or 0.0, (kind, number), number)

    told("a date of a new text, registered", each(TEXTS, lambda n: wait(n, "new")), "us")
    told("a date of a text seen before, registered", each(PENDING, lambda n: wait(n, "seen")), "us")


def plans() -> None:
    """Plans of a home on a disk that wait for one date."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        files = {"modules/w.py": MODULE, "recipes/w.xml": RECIPE, "etc/narval.toml": f'timezone = "{ZONE}"\n'}
        for name, text in files.items():
            (home / name).parent.mkdir(parents=True, exist_ok=True)
            (home / name).write_text(text)
        clock = narval.SimulatedClock("2026-03-02T05:00:00Z")
        with narval.open(home, clock=clock) as agent:
            began = time.perf_counter()
            for _ in range(DUE // 1000):
                agent.add_all([b"<memory>" + b'<start-plan recipe="w.dated"/>' * 1000 + b"</memory>"])
            agent.until_idle()
            told("a plan, started until it waits", (time.perf_counter() - began) / DUE * 1e6, "us")
            assert len(agent.daemon.agent.moments) == DUE
            clock.set("2026-03-02T06:00:00Z")
            began = time.perf_counter()
            agent.until_idle()
            told(f"{DUE} plans of one date, until all are done", (time.perf_counter() - began) * 1e3, "ms")
            assert {each["state"] for each in agent.runs()} == {"done"}


if __name__ == "__main__":
    lengths()
    dates()
    plans()
