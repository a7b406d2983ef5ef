"""W8: a home of many runs.

    python -m bench.homes ended|waiting [RUNS]

One-step runs that are over, each with an element of its own, or runs that wait for an element, are put into
the store of a home on a disk. Told are the time until a daemon on it is ready; until `narval runs`, its
start included, has shown the newest fifty without a daemon; and the same of a home with fifty.
"""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from statistics import median

import narval
from bench.measure import argument, emit, home, now, scratch

TRIES, APART, PAGE = 5, 2, 50
"""Looks that are timed; the eids that each run takes, its own and that of its element; runs shown."""

MODULE = """
from narval import Output, action

@action(outputs=[Output("mail", "mail")], runs="inline")
def one():
    return b"<mail from='somebody@example.org' subject='What became of the matter'/>"
"""
RECIPES = """<cookbook>
<recipe group="w" name="ended" start_step="a" end_step="a">
  <step id="a" type="action" target="w.one"/></recipe>
<recipe group="w" name="waiting" start_step="a" end_step="b">
  <step id="a" type="action" target="w.one"/><step id="b" type="action" target="w.one"/>
  <transition id="t"><in idref="a"/><out idref="b"/><condition><match>never</match></condition></transition>
</recipe></cookbook>"""
_MOVED = {"runs": ("eid",), "elements": ("eid", "held_by"), "journal": ("run", "seq")}
"""The columns by which the rows of one run differ from those of the next."""


def fill(folder: Path, recipe: str, runs: int) -> None:
    """Make the home, with so many runs of a recipe; those that are over are copies of one."""
    with narval.open(home(folder, module=MODULE, recipes=RECIPES)) as agent:
        for _ in range(1 if recipe == "ended" else runs):
            agent.start(f"w.{recipe}")
            agent.until_idle()
    if recipe == "ended":
        multiply(folder / "var/store.db", runs)


def multiply(store: Path, runs: int) -> None:
    """Copy the one run of a store, with its element and its journal, until there are so many."""
    with closing(sqlite3.connect(store)) as database, database:
        database.execute("CREATE TEMP TABLE copies (number INTEGER PRIMARY KEY)")
        database.executemany("INSERT INTO copies VALUES (?)", ((number,) for number in range(1, runs)))
        for table, moved in _MOVED.items():
            columns = [row[1] for row in database.execute(f"PRAGMA table_info({table})") if row[1] != "line"]
            values = (f"{name} + {APART} * number" if name in moved else f'"{name}"' for name in columns)
            names, only = ", ".join(f'"{name}"' for name in columns), "1"
            if table == "elements":
                only = "held_by IS NOT NULL"
            database.execute(
                f"INSERT INTO {table} ({names}) SELECT {', '.join(values)} FROM copies, {table} "
                f"WHERE {only} ORDER BY number"
            )
        database.execute(
            "INSERT INTO meta VALUES (1, 'sequence', ?) ON CONFLICT DO UPDATE SET value = excluded.value",
            (str(APART * runs + 10_000),),
        )


def look(folder: Path) -> float:
    """Seconds in which `narval runs` shows the newest runs of a home."""
    began = now()
    command = [sys.executable, "-m", "narval", "--home", str(folder), "runs"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert len(lines) == PAGE + 1, lines
    return now() - began


def main() -> None:
    recipe = argument(1, "ended")
    count = argument(2, 100_000)
    with scratch() as folder:
        small, large = folder / "small", folder / "large"
        fill(small, recipe, PAGE)
        fill(large, recipe, count)
        look(small)  # what is imported is compiled from now on
        taken = [(look(small), look(large)) for _ in range(TRIES)]
        with narval.open(small):
            pass  # and imported here
        began = now()
        with narval.open(large):
            ready = now() - began
    few, many = (round(median(each), 3) for each in zip(*taken, strict=True))
    emit(f"W8-{recipe}-{count}", count, ready, ready_s=round(ready, 3), runs_s=many, few_runs_s=few)


if __name__ == "__main__":
    main()
