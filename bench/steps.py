"""W1, W1b, W2: steps a second.

    python -m bench.steps SHAPE [memory | crash | power] [plain | elements]

SHAPE is runs x steps of each: 1000x10, 1x1000. The clock runs from the start of the first plan until the end
of the last is seen; recipes are loaded before. Steps and plans have their states and history. With `elements`
(W1b) each step takes one element and gives one, by rank.

In a home on a disk the row of a step is committed before the next step of its plan starts: `crash` is written
and survives SIGKILL, `power` is synced.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import narval
from bench.measure import argument, emit, home, memory_of, now, scratch, us
from narval.core.elements.canonical import MAX_STARTED

MODULE = """
from narval import Input, Output, action

counted = {"x": 0}

@action(runs="inline")
def step():
    counted["x"] += 1

@action(inputs=[Input("x", "x")], outputs=[Output("x", "x")], runs="inline")
def next(x):
    return f"<x n='{int(x.attributes['n']) + 1}'/>"
"""


def recipe(steps: int, target: str) -> str:
    """A recipe of so many steps, one after another."""
    nodes = "".join(f'<step id="s{n}" type="action" target="w.{target}"/>' for n in range(steps))
    arrows = "".join(
        f'<transition id="t{n}"><in idref="s{n}"/><out idref="s{n + 1}"/></transition>'
        for n in range(steps - 1)
    )
    return f'<recipe group="w" name="line" start_step="s0" end_step="s{steps - 1}">{nodes}{arrows}</recipe>'


def measure(
    runs: int,
    steps: int,
    where: str,
    what: str,
    folder: Path,
    *,
    store: str = "",
    settings: str = "",
    begins: Callable[[], object] = lambda: None,
) -> tuple[float, dict[str, Any]]:
    """Seconds for all steps, and what else there is to tell.

    The home has its `store` at a URL, if one is given, and more lines of `settings`; `begins` is called
    before the first step.
    """
    made = home(
        folder,
        module=MODULE,
        recipes=recipe(steps, "next" if what == "elements" else "step"),
        settings=f'durability = "{where}"\nstore = "{store}"\n{settings}' if where != "memory" else "",
    )
    with narval.open(made if where != "memory" else None) as agent:
        if where == "memory":
            agent.load(made / "modules/w.py")
            agent.load(made / "recipes/w.xml")
        agent.until_idle()
        turns, before = agent.daemon.host.loop.turns, memory_of(field="VmRSS")
        begins()
        began = now()
        started = []
        for first in range(0, runs, MAX_STARTED):
            started += agent.start_each("w.line", ["<x n='0'/>"] * min(MAX_STARTED, runs - first))
        agent.until_idle()
        seconds = now() - began
        check(agent, started, steps, what)
        more = {"turns": agent.daemon.host.loop.turns - turns}
        more["kept_b_per_step"] = round((memory_of(field="VmRSS") - before) * 2**20 / (runs * steps))
    if where != "memory" and not store:
        more["rows_per_step"] = round(journal_rows(made, started) / (runs * steps), 3)
    return seconds, more


def check(agent: narval.Agent, started: list[int], steps: int, what: str) -> None:
    """Every plan is done, and every step was made once."""
    states = {each["eid"]: each["state"] for each in agent.runs()}
    assert [states[run] for run in started] == ["done"] * len(started)
    if what == "elements":
        assert len(agent.memory(f"x[@n='{steps}']")) == len(started)
        return
    counted = agent.daemon.files.loaded.functions["w.step"].__globals__["counted"]
    assert counted["x"] == len(started) * steps


def journal_rows(made: Path, started: list[int]) -> int:
    """How many entries the store has of these runs, read by another connection."""
    with closing(sqlite3.connect(made / "var/store.db")) as store:
        [[count]] = store.execute("select count(*) from journal where run >= ?", [min(started)])
    return int(count)


def main() -> None:
    shape, where, what = argument(1, "1000x10"), argument(2, "memory"), argument(3, "plain")
    runs, steps = map(int, shape.split("x"))
    with scratch() as folder:
        seconds, more = measure(runs, steps, where, what, folder)
    number = "W2" if where != "memory" else "W1b" if what == "elements" else "W1"
    guarantee = {"crash": "process", "power": "power"}.get(where)
    if guarantee is not None:
        more["guarantee"] = guarantee
    emit(f"{number}-{shape}", runs * steps, seconds, us_per_step=us(seconds, runs * steps), **more)


if __name__ == "__main__":
    main()
