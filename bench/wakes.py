"""W9: from the adding of an element to the last action it leads to, while others add what they can.

    python -m bench.wakes [one | each] [ROUNDS]

A daemon on a home on a disk has 1,000 plans that wait. `one`: one element wakes all of them, and the time is
that until the last of their 1,000 actions was called; each round is a figure. `each`: one element after
another, each of which wakes one plan. Meanwhile a second program adds elements over the control socket, ten
at a time and without a pause, and a third asks for the status: how long that takes is told as well.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench import programs
from bench.measure import argument, emit, home, percentile, scratch
from narval.files.home import Home
from narval.surfaces.control.client import Client

WAITING = 1000
MODULE = """
import time
from narval import Element, Input, Output, action

calls = open({calls!r}, "a", buffering=1)

@action(inputs=[Input("want", "want")], outputs=[Output("mine", "mine")], runs="inline")
def take(want):
    return f"<mine n='{{want.attributes['n']}}'/>"

@action(inputs=[Input("bell", "bell")], runs="inline")
def called(bell):
    calls.write(f"{{bell.attributes['n']}} {{time.monotonic()}}\\n")
"""
RECIPE = """<recipe group="w" name="listener" start_step="take" end_step="called">
  <step id="take" type="action" target="w.take"/><step id="called" type="action" target="w.called"/>
  <transition id="t"><in idref="take"/><out idref="called"/>
    <condition><match>bell[@for = $take/@n]</match></condition></transition>
</recipe>"""


def flood(folder: Path) -> None:
    """Add as fast as the daemon takes it, until that ends."""
    noise = [b"<noise n='%d'/>" % number for number in range(10)]
    with Client(Home(folder).socket()) as client:
        while True:
            client.ask("add", elements=noise)


@contextmanager
def flooded(folder: Path) -> Iterator[None]:
    """A program that floods, while something is measured."""
    line = [sys.executable, "-m", "bench.wakes", "flood", str(folder)]
    program = subprocess.Popen(line, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        program.kill()
        program.wait()


class Asker(threading.Thread):
    """Asks for the status now and then; how long each answer took."""

    def __init__(self, folder: Path) -> None:
        super().__init__(daemon=True)
        self.taken: list[float] = []
        self._folder, self._over = folder, threading.Event()

    def run(self) -> None:
        with Client(Home(self._folder).socket()) as client:
            while not self._over.wait(0.01):
                began = time.monotonic()
                client.ask("status")
                self.taken.append(time.monotonic() - began)

    def stop(self) -> None:
        """No more questions."""
        self._over.set()
        self.join()


class Calls:
    """What the actions wrote: the number of the bell, and when they were called."""

    def __init__(self, path: Path) -> None:
        path.touch()
        self._file, self.at = path.open(), {}
        self._rest = ""

    def wait(self, count: int) -> None:
        """Until so many were called, all in all."""
        until = time.monotonic() + programs.PATIENCE
        while sum(map(len, self.at.values())) < count:
            assert time.monotonic() < until, "not all were called"
            *lines, self._rest = (self._rest + self._file.read()).split("\n")
            for line in lines:
                number, at = line.split()
                self.at.setdefault(int(number), []).append(float(at))
            time.sleep(0.002)


def measure(what: str, rounds: int) -> dict[str, Any]:
    """Seconds from each adding to the last call it leads to."""
    with scratch() as folder:
        calls = Calls(folder / "calls")
        made = home(
            folder / "home",
            module=MODULE.format(calls=str(folder / "calls")),
            recipes=RECIPE,
        )
        with programs.running(made) as (_, client):
            late, before = [], 0
            with flooded(made):
                asker = Asker(made)
                asker.start()
                for round_ in range(rounds):
                    late += (one if what == "one" else each)(client, calls, round_, before)
                    before += WAITING
                asker.stop()
            elements = client.ask("status")["elements"]
    assert len(late) == (rounds if what == "one" else rounds * WAITING)
    return {
        "late_p50_ms": round(percentile(late, 50) * 1e3, 2),
        "late_p99_ms": round(percentile(late, 99) * 1e3, 2),
        "late_max_ms": round(max(late) * 1e3, 2),
        "status_p99_ms": round(percentile(asker.taken, 99) * 1e3, 2),
        "status_max_ms": round(max(asker.taken) * 1e3, 2),
        "asked": len(asker.taken),
        "flood_adds": elements - 3 * before - (rounds if what == "one" else before),
    }


def wait_for_them(client: Client, wants: list[bytes]) -> None:
    """Plans begin, and wait."""
    for some in range(0, len(wants), 50):
        client.ask("start", name="w.listener", elements=wants[some : some + 50], each=True)
    until = time.monotonic() + programs.PATIENCE
    while client.ask("status")["waiting"] < WAITING and time.monotonic() < until:
        time.sleep(0.01)


def one(client: Client, calls: Calls, round_: int, before: int) -> list[float]:
    """One element that a thousand wait for."""
    wait_for_them(client, [b"<want n='%d'/>" % round_] * WAITING)
    began = time.monotonic()
    client.ask("add", elements=[b"<bell for='%d' n='%d'/>" % (round_, round_)])
    calls.wait(before + WAITING)
    return [max(calls.at[round_]) - began]


def each(client: Client, calls: Calls, round_: int, before: int) -> list[float]:
    """A thousand elements, each of which one waits for."""
    numbers = range(before, before + WAITING)
    wait_for_them(client, [b"<want n='%d'/>" % number for number in numbers])
    added = {}
    for number in numbers:
        added[number] = time.monotonic()
        client.ask("add", elements=[b"<bell for='%d' n='%d'/>" % (number, number)])
    calls.wait(before + WAITING)
    return [calls.at[number][0] - added[number] for number in numbers]


def main() -> None:
    what, rounds = argument(1, "one"), 1
    if what == "flood":
        flood(Path(sys.argv[2]))
        return
    rounds = argument(2, 10 if what == "one" else 1)
    figures = measure(what, rounds)
    emit(f"W9-{what}", rounds * WAITING, figures["late_p50_ms"] / 1e3, **figures)


if __name__ == "__main__":
    main()
