"""W14: a machine is lost, and its agents are at work at others (G50).

    python -m bench.takeover [AGENTS [KILLS]]
    python -m bench.takeover [AGENTS [FAULTS [NOTES [LOAD]]]]

Three daemons share a PostgreSQL of their own, started for the measurement, and each has a third of the
agents: they are passive, and are given away until the counts are even. Then each agent of one daemon begins
a plan whose action lasts, and that daemon is killed at a random moment. It is measured how long it takes from
there until each of these agents has committed under a new epoch, at one of the two that are left: the action
is called again there, ends at once, and so does the plan. That
daemon is started again, and has waited for longer than a lease before the next kill. 3 s of what is measured
are the lease.

With NOTES each agent has so many elements, and a run that waits with as many entries. Daemons are killed, are
stopped and go on once their agents are at work elsewhere, and are told to end, in turn; what is measured of
the last counts from their end. LOAD programs do nothing but keep the processors busy. `lost` are the leases
that daemons lost to which nothing was done.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from bench import programs
from bench.measure import argument, emit, home, now, percentile, scratch
from narval.ask.asker import PROGRAM
from narval.ask.operations import invoke
from narval.core.errors import ElsewhereError
from narval.daemon.daemon import Daemon
from narval.files.home import Home
from narval.surfaces.control.client import Client
from tests.postgres import fresh_schema, private_server

NAMES = ("attic", "barn", "cellar")
KILLED = "NARVAL_BENCH_KILLED"
"""The variable that names a file, which is there once a daemon is killed: calls that are made again end."""

LASTS = 300
"""Seconds that an action lasts: longer than it takes to begin it at a third of the agents, on any machine."""

MODULE = f"""
import asyncio, os
from narval import Output, action

@action()
async def lasts():
    if not os.path.exists(os.environ["{KILLED}"]):
        await asyncio.sleep({LASTS})

@action(outputs=[Output("note", "note", list=True)], source=True)
async def tell():
    for number in range({{notes}}):
        yield f"<note n='{{{{number}}}}' text='some words for a note to have'/>"

@action(runs="inline")
def nothing():
    pass
"""
RECIPES = """<cookbook>
<recipe group="w" name="note" start_step="a" end_step="a">
  <step id="a" type="action" target="w.lasts"/></recipe>
<recipe group="w" name="tells" start_step="a" end_step="b">
  <step id="a" type="action" target="w.tell"/><step id="b" type="action" target="w.nothing"/>
  <transition id="t"><in idref="a"/><out idref="b"/><condition><match>never</match></condition></transition>
</recipe>
</cookbook>"""
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


FAULTS = ("kill", "pause", "drain")
"""What is done to a daemon: it is killed, or stopped until its agents are elsewhere, or told to end."""


async def make(made: Path, agents: int, notes: int) -> None:
    """Agents that have nothing to do, with so many elements each."""
    daemon = await Daemon.open(Home(made))
    for number in range(agents):
        await invoke(daemon, PROGRAM, "add_agent", {"name": f"a{number}"})
        if notes:
            await invoke(daemon, PROGRAM.asking(f"a{number}"), "start", {"name": "w.tells"})
    await daemon.main_loop.until_idle()
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
    """Have the agents of a home's daemon begin a plan; their marks when nothing is recorded any more.

    One that comes meanwhile has begun none, and one that has gone elsewhere is left out.
    """
    asked = "SELECT agent, name FROM agents WHERE agent = ANY(%s)"
    begun = dict(store.execute(asked.encode(), (list(held(store, name)),)).fetchall())
    for number, agent in list(begun.items()):
        try:
            with Client(Home(made).socket(), agent=agent) as client:
                client.ask("start", name="w.note")
        except ElsewhereError:
            del begun[number]
    before: Marks = {}
    while (marks := held(store, name)) != before:
        before = marks
        time.sleep(SETTLED)
    return {agent: mark for agent, mark in marks.items() if agent in begun}


def leases(store: psycopg.Connection[Any], *but: str) -> set[int]:
    """The numbers of the daemons at work but those of some homes: one that lost its lease has another."""
    rows = store.execute(b"SELECT daemon FROM daemons WHERE home <> ALL(%s)", (list(but),))
    return {daemon for (daemon,) in rows}


@contextmanager
def busy(programs_at_once: int) -> Iterator[None]:
    """Other work on the processors."""
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(programs_at_once)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def lost(
    store: psycopg.Connection[Any], daemon: subprocess.Popen[bytes], marks: Marks, fault: str
) -> list[float]:
    """The seconds until each agent of a daemon to which something is done has committed elsewhere."""
    time.sleep(random.uniform(0.0, 0.5))
    killed = Path(os.environ[KILLED])
    killed.touch()
    daemon.send_signal({"kill": signal.SIGKILL, "pause": signal.SIGSTOP, "drain": signal.SIGTERM}[fault])
    began, seconds, left = now(), list[float](), dict(marks)
    if fault != "pause":
        daemon.wait()
    if fault == "drain":
        began = now()
    while left:
        time.sleep(LOOKS)
        asked = "SELECT agent, epoch, turn FROM leases WHERE agent = ANY(%s)"
        for agent, epoch, turn in store.execute(asked.encode(), (list(left),)).fetchall():
            if epoch > left[agent][0] and turn > left[agent][1]:
                seconds.append(now() - began)
                del left[agent]
    killed.unlink()
    daemon.send_signal(signal.SIGCONT)
    return seconds


def main() -> None:
    agents, faults, notes, load = argument(1, 1000), argument(2, 20), argument(3, 0), argument(4, 0)
    with scratch() as folder, private_server() as server, fresh_schema(server.url) as url:
        os.environ[KILLED] = str(folder / "killed")
        settings = f"name = '{{}}'\nstore = '{url}'\nidle_after = '1s'\n"
        module = MODULE.format(notes=notes)
        homes = {
            name: home(folder / name, module=module, recipes=RECIPES, settings=settings.format(name))
            for name in NAMES
        }
        asyncio.run(make(homes["attic"], agents, notes))
        up = {name: begin(homes[name]) for name in NAMES}
        seconds: list[float] = []
        most: list[float] = []
        leases_lost = 0
        try:
            with psycopg.connect(url, autocommit=True) as store, busy(load):
                for number in range(faults):
                    name, fault = (
                        NAMES[number % len(NAMES)],
                        FAULTS[number % len(FAULTS)] if notes else "kill",
                    )
                    at_rest(store, agents)
                    marks, well = activated(store, homes[name], name), leases(store, name)
                    taken = lost(store, up[name], marks, fault)
                    leases_lost += len(well - leases(store))
                    seconds += taken
                    most.append(max(taken))
                    print(f"{fault}: {len(taken)} agents, {most[-1]:.2f} s", file=sys.stderr, flush=True)
                    if fault == "pause":
                        programs.reached(homes[name], up[name]).close()
                    else:
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
        lost=leases_lost,
    )


if __name__ == "__main__":
    main()
