"""W14: a machine is lost, and its agents are at work at others (G50).

    python -m bench.takeover [AGENTS [KILLS]]

Three daemons share a PostgreSQL of their own, started for the measurement, and each has a third of the
agents: they are passive, and are given away until the counts are even. Then each agent of one daemon begins
a plan whose action lasts, and that daemon is killed at a random moment. It is measured how long it takes from
there until each of these agents has committed under a new epoch, at one of the two that are left: the action
is called again there, ends at once, and so does the plan. That
daemon is started again, and has waited for longer than a lease before the next kill. 3 s of what is measured
are the lease.
"""

from __future__ import annotations

import asyncio
import os
import random
import statistics
import subprocess
import time
from pathlib import Path
from typing import Any

import psycopg

from bench import programs
from bench.measure import argument, emit, home, now, percentile, scratch
from narval.ask.asker import PROGRAM
from narval.ask.operations import invoke
from narval.daemon.daemon import Daemon
from narval.files.home import Home
from narval.surfaces.control.client import Client
from tests.postgres import fresh_schema, private_server

NAMES = ("attic", "barn", "cellar")
KILLED = "NARVAL_BENCH_KILLED"
"""The variable that names a file, which is there once a daemon is killed: calls that are made again end."""

LASTS = 20
"""Seconds that an action lasts: longer than it takes to begin it at a third of the agents."""

MODULE = f"""
import asyncio, os
from narval import action

@action()
async def lasts():
    if not os.path.exists(os.environ["{KILLED}"]):
        await asyncio.sleep({LASTS})
"""
RECIPES = """<recipe group="w" name="note" start_step="a" end_step="a">
  <step id="a" type="action" target="w.lasts"/></recipe>"""
LOOKS = 0.02
"""Seconds between two looks at the store."""

REST = 4.0
"""Seconds: more than a lease, which a daemon waits for before it takes from others."""

SETTLED = 2.5
"""Seconds without a commit after which none comes: agents are laid down a second after their last turn."""

UNEVEN = 1.2
"""The most agents of a daemon over its share, where counts are even: the balance leaves a tenth."""

HELD = "SELECT l.agent, l.epoch, l.turn FROM leases l JOIN daemons d ON l.owner = d.daemon"
Marks = dict[int, tuple[int, int]]


async def make(made: Path, agents: int) -> None:
    """Agents that have nothing to do."""
    daemon = await Daemon.open(Home(made))
    for number in range(agents):
        await invoke(daemon, PROGRAM, "add_agent", {"name": f"a{number}"})
    await daemon.close()


def held(store: psycopg.Connection[Any], name: str) -> Marks:
    """Epoch and turn of the agents that a home's daemon has besides its own."""
    rows = store.execute(f"{HELD} WHERE d.home = %s AND l.home = ''".encode(), (name,))
    return {agent: (epoch, turn) for agent, epoch, turn in rows}


def begin(made: Path) -> subprocess.Popen[bytes]:
    """A daemon that answers."""
    daemon = programs.begin(made)
    programs.reached(made, daemon).close()
    return daemon


def at_rest(store: psycopg.Connection[Any], agents: int) -> None:
    """Wait until all agents are held, evenly, and nothing is recorded any more for longer than a lease."""
    before = None
    while True:
        now_held = [held(store, name) for name in NAMES]
        counts = [len(marks) for marks in now_held]
        is_even = sum(counts) == agents and max(counts) <= UNEVEN * agents / len(NAMES) + 1
        if is_even and now_held == before:
            return
        before = now_held
        time.sleep(REST)


def activated(store: psycopg.Connection[Any], made: Path, name: str) -> Marks:
    """Have the agents of a home's daemon begin a plan; their marks when nothing is recorded any more."""
    asked = "SELECT name FROM agents WHERE agent = ANY(%s)"
    for (agent,) in store.execute(asked.encode(), (list(held(store, name)),)).fetchall():
        with Client(Home(made).socket(), agent=agent) as client:
            client.ask("start", name="w.note")
    before: Marks = {}
    while (marks := held(store, name)) != before:
        before = marks
        time.sleep(SETTLED)
    return marks


def lost(store: psycopg.Connection[Any], daemon: subprocess.Popen[bytes], marks: Marks) -> list[float]:
    """The seconds until each agent of a daemon that is killed has committed elsewhere."""
    time.sleep(random.uniform(0.0, 0.5))
    killed = Path(os.environ[KILLED])
    killed.touch()
    daemon.kill()
    began, seconds, left = now(), [], dict(marks)
    daemon.wait()
    while left:
        time.sleep(LOOKS)
        asked = "SELECT agent, epoch, turn FROM leases WHERE agent = ANY(%s)"
        for agent, epoch, turn in store.execute(asked.encode(), (list(left),)).fetchall():
            if epoch > left[agent][0] and turn > left[agent][1]:
                seconds.append(now() - began)
                del left[agent]
    killed.unlink()
    return seconds


def main() -> None:
    agents, kills = argument(1, 1000), argument(2, 20)
    with scratch() as folder, private_server() as server, fresh_schema(server.url) as url:
        os.environ[KILLED] = str(folder / "killed")
        settings = f"name = '{{}}'\nstore = '{url}'\nidle_after = '1s'\n"
        homes = {
            name: home(folder / name, module=MODULE, recipes=RECIPES, settings=settings.format(name))
            for name in NAMES
        }
        asyncio.run(make(homes["attic"], agents))
        up = {name: begin(homes[name]) for name in NAMES}
        seconds: list[float] = []
        most: list[float] = []
        try:
            with psycopg.connect(url, autocommit=True) as store:
                for kill in range(kills):
                    name = NAMES[kill % len(NAMES)]
                    at_rest(store, agents)
                    taken = lost(store, up[name], activated(store, homes[name], name))
                    seconds += taken
                    most.append(max(taken))
                    up[name] = begin(homes[name])
        finally:
            for daemon in up.values():
                programs.end(daemon)
    emit(
        "W14-takeover",
        len(seconds),
        sum(most),
        median=round(statistics.median(seconds), 2),
        p99=round(percentile(seconds, 99), 2),
        most=round(max(seconds), 2),
        median_of_last=round(statistics.median(most), 2),
    )


if __name__ == "__main__":
    main()
