"""W11: what agents cost a daemon: those at work, those that are passive, and bringing one back.

    python -m bench.agents active [AGENTS [ELEMENTS [RUNS]]]
    python -m bench.agents passive [AGENTS]
    python -m bench.agents activation [ELEMENTS [RUNS]]

`active`: a daemon starts on a home whose agents, 1,000 of 100 elements and 5 runs that wait, were active; the
seconds are those until it answers, and memory is what it has more than a daemon without agents, over their
number. `passive`: the same with 100,000 that are rows of the store, half of which wait for a moment. Both
then rest; `wakes` is how often the daemon woke meanwhile. `activation`: from an operation on a passive agent
to its answer, the median of twenty, and the same operation on the active one taken off.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from pathlib import Path
from typing import Any

from bench import programs
from bench.measure import argument, emit, home, memory_of, now, scratch
from narval.ask.asker import PROGRAM
from narval.ask.operations import invoke
from narval.daemon.daemon import Daemon
from narval.files.home import Home
from narval.store.batch import PASSIVE, Batch, new_agent
from narval.store.open import open_store

MODULE = """
from narval import action

@action(runs="inline")
def nothing():
    pass
"""
RECIPES = """<recipe group="w" name="waits" start_step="a" end_step="b">
  <step id="a" type="action" target="w.nothing"/><step id="b" type="action" target="w.nothing"/>
  <transition id="t"><in idref="a"/><out idref="b"/><condition><match>order[@n='1']</match></condition>
  </transition></recipe>"""
SETTINGS = "idle_after = '1h'\n"
SETTLE, IDLE = 3.0, 5.0
"""Seconds from being ready until a daemon counts as idle, and for which it is looked at then."""

TIMES = 20
A_YEAR = 31e6


async def ask(daemon: Daemon, agent: str, operation: str, **arguments: Any) -> Any:
    """Ask an agent something."""
    return await invoke(daemon, PROGRAM.asking(agent), operation, arguments)


async def make(daemon: Daemon, name: str, elements: int, runs: int) -> None:
    """An agent with elements, and runs that wait for another."""
    await ask(daemon, "", "add_agent", name=name)
    notes = [b"<note n='%d' text='some words for a note to have'/>" % number for number in range(elements)]
    await ask(daemon, name, "add", elements=notes)
    for _ in range(runs):
        await ask(daemon, name, "start", name="w.waits")
    await daemon.main_loop.until_idle()


async def filled(folder: Path, agents: int, elements: int, runs: int) -> None:
    """A home of agents that are active when its daemon ends."""
    daemon = await Daemon.open(Home(folder))
    for number in range(agents):
        await make(daemon, f"a{number}", elements, runs)
    await daemon.close()


async def registered(folder: Path, agents: int) -> None:
    """A home of agents that have nothing and are passive."""
    await (await Daemon.open(Home(folder))).close()
    soon = time.time() + A_YEAR
    moments = (soon + number if number % 2 else None for number in range(agents))
    rows = [new_agent(2 + number, f"a{number}") for number in range(agents)]
    passive = [row._replace(state=PASSIVE, wake_at=at) for row, at in zip(rows, moments, strict=True)]
    with open_store(Home(folder).store, "crash") as store:
        store.commit(Batch(1, agents=passive))


def started(folder: Path) -> tuple[float, float, float, int]:
    """Seconds until a daemon answers and of its processor, its megabytes, and how often it woke at rest."""
    began = now()
    with programs.running(folder) as (daemon, client):
        client.ask("definitions")
        seconds = now() - began
        time.sleep(SETTLE)
        family = programs.family(daemon.pid)
        worked, woken = programs.processor_time(family), programs.wake_ups(family)
        time.sleep(IDLE)
        assert programs.processor_time(family) - worked < 0.02 * IDLE
        return seconds, worked, memory_of(daemon.pid, "VmRSS"), programs.wake_ups(family) - woken


def rest(workload: str, agents: int, full: Path, bare: Path) -> None:
    """Measure a home of agents beside one without."""
    without, least, little, _ = started(bare)
    seconds, worked, much, wakes = started(full)
    each = (much - little) * 1024 * 1024 / agents
    emit(
        workload,
        agents,
        seconds,
        rss_mb=much,
        bytes_each=round(each, 1),
        kb_each=round(each / 1000, 2),
        a_gb=round(1e9 / each),
        more_s=round(seconds - without, 3),
        more_processor_s=round(worked - least, 3),
        wakes=wakes,
    )


async def brought_back(folder: Path, elements: int, runs: int) -> tuple[float, float]:
    """Seconds for which an operation has to wait for its agent, and those of the processor."""
    daemon = await Daemon.open(Home(folder))
    await make(daemon, "ada", elements, runs)
    passive, active = [], []
    for _ in range(TIMES):
        await ask(daemon, "", "passivate", name="ada")
        for taken in (passive, active):
            began, worked = now(), time.process_time()
            assert (await ask(daemon, "ada", "count"))["count"] >= elements
            taken.append((now() - began, time.process_time() - worked))
    await daemon.close()
    waited, used = (
        statistics.median(column) - statistics.median(other)
        for column, other in zip(zip(*passive, strict=True), zip(*active, strict=True), strict=True)
    )
    return waited, used


def main() -> None:
    what = argument(1, "active")
    with scratch() as folder:
        made = home(folder / "home", module=MODULE, recipes=RECIPES, settings=SETTINGS)
        if what == "activation":
            elements, runs = argument(2, 100), argument(3, 10)
            seconds, used = asyncio.run(brought_back(made, elements, runs))
            figures = {"ms": round(seconds * 1e3, 2), "processor_ms": round(used * 1e3, 2)}
            emit(f"W11-activation-{elements}", 1, seconds, **figures)
            return
        bare = home(folder / "bare", module=MODULE, recipes=RECIPES, settings=SETTINGS)
        agents = argument(2, 1_000 if what == "active" else 100_000)
        if what == "active":
            asyncio.run(filled(made, agents, argument(3, 100), argument(4, 5)))
        else:
            asyncio.run(registered(made, agents))
        rest(f"W11-{what}-{agents}", agents, made, bare)


if __name__ == "__main__":
    main()
