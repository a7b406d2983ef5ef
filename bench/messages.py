"""W12: messages between agents of one daemon, from the step that sends to the watch that is told (G38).

    python -m bench.messages [pairs | calm | rows]

`pairs`: in each of a hundred pairs of agents a step of one sends twenty elements, and in the other a plan
waits for each; the home keeps what it confirms across a crash. `calm`: one pair, and one message after
another. `rows`: what `pairs` has written, commit by commit, in bare sqlite3: the same inserts and deletes,
made ready before, in a store of the same tables.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Coroutine
from contextlib import closing
from pathlib import Path
from time import process_time
from typing import Any

from bench.agents import ask
from bench.measure import argument, emit, home, now, percentile, scratch
from narval.daemon.daemon import Daemon
from narval.files.home import Home
from narval.store import statements
from narval.store.batch import Batch
from narval.store.open import open_store
from narval.store.slots import filled

PAIRS, EACH, ALONE = 100, 20, 300
MODULE = """
from narval import action

@action(runs="inline")
def nothing():
    pass
"""
RECIPES = "<cookbook>{}<recipe group='m' name='waits' start_step='a' end_step='b'>{}</recipe></cookbook>"
SENDS = """<recipe group="m" name="{0}" start_step="a" end_step="a">
  <step id="a" type="send" to="{0}">
    <input id="order" list="yes" use="yes"><match>order</match></input></step></recipe>"""
WAITS = """<step id="a" type="action" target="w.nothing"/><step id="b" type="action" target="w.nothing"/>
  <transition id="t"><in idref="a"/><out idref="b"/>
    <condition use="yes"><match>order</match></condition></transition>"""


async def opened(folder: Path, pairs: int, each: int) -> Daemon:
    """A daemon whose receivers have so many plans that wait, each for an element."""
    senders = "".join(SENDS.format(f"r{number}") for number in range(pairs))
    home(folder, module=MODULE, recipes=RECIPES.format(senders, WAITS), settings="idle_after = '1h'\n")
    daemon = await Daemon.open(Home(folder))
    for number in range(pairs):
        for name in (f"s{number}", f"r{number}"):
            await ask(daemon, "", "add_agent", name=name)
        await ask(daemon, f"s{number}", "count")
        for _ in range(each):
            await ask(daemon, f"r{number}", "start", name="m.waits")
    await daemon.main_loop.until_idle()
    return daemon


async def told(daemon: Daemon, pairs: int) -> int:
    """The plans of the receivers that are over."""
    runs = [run for number in range(pairs) for run in await ask(daemon, f"r{number}", "runs")]
    return sum(run["state"] == "done" for run in runs)


async def between_pairs(folder: Path) -> dict[str, Any]:
    """The messages a second between all pairs."""
    seconds, used, _ = await sent_between_pairs(folder)
    n = PAIRS * EACH
    return {"n": n, "seconds": seconds, "per_second": round(n / seconds), "processor_s": round(used, 3)}


async def sent_between_pairs(folder: Path) -> tuple[float, float, list[tuple[Batch, ...]]]:
    """The seconds that all messages took, those of the processor, and what was committed meanwhile."""
    daemon = await opened(folder, PAIRS, EACH)
    orders = [b"<order n='%d'/>" % number for number in range(EACH)]
    committed: list[tuple[Batch, ...]] = []
    commit = daemon.store.commit

    def noted(*batches: Batch) -> None:
        committed.append(batches)
        commit(*batches)

    daemon.store.commit = noted  # type: ignore[method-assign]
    receivers = [daemon.agents.supervisor.host(f"r{number}") for number in range(PAIRS)]
    work = asyncio.create_task(daemon.main_loop.run())
    began, used = now(), process_time()
    starts = (
        ask(daemon, f"s{number}", "start", name=f"m.r{number}", elements=orders) for number in range(PAIRS)
    )
    await asyncio.gather(*starts)
    while any(host is not None and host.agent.runs.active for host in receivers):
        await asyncio.sleep(0.001)
    seconds, used = now() - began, process_time() - used
    daemon.stop.request()
    await work
    await daemon.close()
    return seconds, used, committed


async def one_by_one(folder: Path) -> dict[str, Any]:
    """The time from the sending of one message to the watch that is told, with nothing else to do."""
    daemon = await opened(folder, 1, ALONE)
    taken, began = [], now()
    for number in range(ALONE):
        asked = now()
        await ask(daemon, "s0", "start", name="m.r0", elements=[b"<order n='%d'/>" % number])
        await daemon.main_loop.until_idle()
        taken.append((now() - asked) * 1e3)
    seconds = now() - began
    assert await told(daemon, 1) == ALONE
    await daemon.close()
    figures = {f"p{percent}_ms": round(percentile(taken, percent), 2) for percent in (50, 99)}
    return {"n": ALONE, "seconds": seconds, **figures}


async def bare_rows(folder: Path) -> dict[str, Any]:
    """The rows of all pairs in a store of the same tables, without anything that decides."""
    _, _, committed = await sent_between_pairs(folder / "pairs")
    open_store(folder / "bare.db").close()
    fields = statements.writes()
    made = [
        [
            (sql, [row[:width] for row in rows])
            for batch in batches
            for name in filled((batch,))
            for rows_of, effects in fields[name]
            if (rows := rows_of(batch))
            for sql, width in effects
        ]
        for batches in committed
    ]
    with closing(sqlite3.connect(folder / "bare.db", isolation_level=None)) as database:
        database.execute("PRAGMA synchronous=NORMAL")
        began = now()
        for work in made:
            database.execute("BEGIN")
            for sql, rows in work:
                database.executemany(sql, rows)
            database.execute("COMMIT")
        seconds = now() - began
    count = sum(len(rows) for work in made for _, rows in work)
    per_message = round(count / (PAIRS * EACH), 1)
    more = {"commits": len(made), "rows_per_message": per_message}
    return {"n": PAIRS * EACH, "seconds": seconds, "per_second": round(PAIRS * EACH / seconds), **more}


CASES: dict[str, Callable[[Path], Coroutine[Any, Any, dict[str, Any]]]] = {
    "pairs": between_pairs,
    "calm": one_by_one,
    "rows": bare_rows,
}


if __name__ == "__main__":
    case = argument(1, "pairs")
    with scratch() as folder:
        told_of = asyncio.run(CASES[case](folder))
    emit(f"W12-{case}", told_of.pop("n"), told_of.pop("seconds"), **told_of)
