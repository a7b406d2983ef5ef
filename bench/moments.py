"""W4: what it costs to wait for moments and dates, and how late the last of many is.

    python -m bench.moments [moments | dates | store | plans | plans-store]

`moments`: 100,000 pending, 10,000 of them due in one second; late is from the second to the callback, and
the next date of each is computed and armed. `dates`: from a `time` node to the armed date, texts seen before
and new ones apart. `store`: moments that are rows of a store on a disk, a thousand in a commit. `plans`:
plans that wait for one calendar text, from its moment until the last fired; in memory, or with the store.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import narval
from bench.measure import argument, emit, home, now, percentile, scratch, us
from narval.agent.timers import StartRun, TimerQueue
from narval.agent.turn import Turn
from narval.core.definitions.schedule import Time, schedule_of

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


def each(count: int, work: Callable[[int], object]) -> float:
    """Microseconds for one of so many."""
    began = now()
    for number in range(count):
        work(number)
    return us(now() - began, count)


def daily() -> list[tuple[Time, ...]]:
    """The `time` nodes of many texts."""
    return [
        (Time(seconds=((n % 60,) * 2,), minutes=((n // 60,) * 2,), hours=((7, 7),)),) for n in range(TEXTS)
    ]


def moments() -> dict[str, Any]:
    """Moments that are the end of a length of time, and dates that are due together."""
    chance, waiting = random.Random(3), TimerQueue[int, tuple[Time, ...]]()
    base, [text, *_] = time.time(), daily()
    schedule_of(text, ZONE).next(base)

    def far(number: int) -> None:
        waiting.push(base + 3600 + chance.random() * 86400, number, text)

    register = each(PENDING - DUE, far)
    target, late = base + 1.5, []
    for number in range(DUE):
        waiting.push(target + number * 1e-7, PENDING + number, text)
    time.sleep(max(0.0, target - time.time()))
    while len(late) < DUE:
        due = waiting.pop_due(time.time())
        if due is not None:
            late.append(time.time() - due[0])
            waiting.push(schedule_of(due[2], ZONE).next(due[0]) or 0.0, due[1], due[2])
    assert len(waiting) == PENDING
    return {"register_us": register} | _lateness(late)


def dates() -> dict[str, Any]:
    """Dates of many texts: a text that is new, and one seen before."""
    texts, waiting, at = daily(), TimerQueue[tuple[str, int], int](), time.time()

    def wait(number: int, kind: str) -> None:
        waiting.push(schedule_of(texts[number % TEXTS], ZONE).next(at) or 0.0, (kind, number), number)

    return {
        "new_us": each(TEXTS, lambda n: wait(n, "new")),
        "seen_us": each(PENDING, lambda n: wait(n, "seen")),
    }


def store() -> dict[str, Any]:
    """Moments that outlive the daemon: rows of a store on a disk, set and met a commit at a time."""
    with scratch() as folder:
        home(folder, module=MODULE, recipes=RECIPE)
        clock = narval.SimulatedClock("2026-03-02T05:00:00Z")
        with narval.open(folder, clock=clock) as agent:
            daemon, at = agent.daemon, clock.now() + 3600

            def arm(some: range, turn: Turn) -> None:
                for number in some:
                    turn.transaction.later(at + number * 1e-7, StartRun("w.nothing-there"))

            began = now()
            for first in range(0, DUE, 1000):
                agent.runner.run(daemon.host.submit(partial(arm, range(first, first + 1000))))
            register = us(now() - began, DUE)
            assert len(daemon.agent.clockwork.timers) == DUE
            agent.until_idle()
            began = now()
            clock.set(at + 1)
            agent.until_idle()
            seconds = now() - began
            assert not len(daemon.agent.clockwork.timers)
    return {"register_us": register, "late_max_ms": round(seconds * 1e3, 1)}


def plans(on_disk: bool) -> dict[str, Any]:
    """Plans that wait for one date."""
    with scratch() as folder:
        home(folder, module=MODULE, recipes=RECIPE, settings=f'timezone = "{ZONE}"\n')
        clock = narval.SimulatedClock("2026-03-02T05:00:00Z")
        with narval.open(folder if on_disk else None, clock=clock) as agent:
            if not on_disk:
                agent.daemon.agent.clockwork.zone = ZONE
                agent.load(folder / "modules/w.py")
                agent.load(folder / "recipes/w.xml")
            began = now()
            for _ in range(DUE // 1000):
                agent.start_each("w.dated", ["<x/>"] * 1000)
            agent.until_idle()
            register = us(now() - began, DUE)
            assert len(agent.daemon.agent.clockwork.timers) == DUE
            clock.set("2026-03-02T06:00:00Z")
            fired: list[float] = []
            agent.stub("w.nothing", lambda: fired.append(now()))
            began, worked = now(), time.process_time()
            agent.until_idle()
            seconds, worked = now() - began, time.process_time() - worked
            assert {each["state"] for each in agent.runs()} == {"done"}
    late = [at - began for at in fired]
    assert len(late) == DUE
    return {
        "plan_us": register,
        "all_done_ms": round(seconds * 1e3, 1),
        "cpu_ms": round(worked * 1e3, 1),
    } | _lateness(late)


def _lateness(late: list[float]) -> dict[str, Any]:
    return {
        f"late_{name}_ms": round(percentile(late, percent) * 1e3, 2)
        for name, percent in (("p50", 50), ("p99", 99), ("max", 100))
    }


WHAT: dict[str, Callable[[], dict[str, Any]]] = {
    "moments": moments,
    "dates": dates,
    "store": store,
    "plans": partial(plans, on_disk=False),
    "plans-store": partial(plans, on_disk=True),
}


def main() -> None:
    what = argument(1, "moments")
    figures = WHAT[what]()
    seconds = figures.get("late_max_ms", 0.0) / 1e3 or figures["seen_us"] * PENDING / 1e6
    number = f"W4-{PENDING}" if what == "moments" else f"W4-{what}"
    emit(number, DUE, seconds, **figures)


if __name__ == "__main__":
    main()
