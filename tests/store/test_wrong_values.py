"""A wrong value in a row of a store costs one run, or the store is refused by name (N35)."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from collections.abc import Iterable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from bench.measure import home
from narval.ask.daemon import status
from narval.ask.memory import changing, listing
from narval.ask.runs import acts
from narval.ask.runs.drawing import graph
from narval.ask.runs.history import history
from narval.ask.runs.listing import runs as list_runs
from narval.ask.runs.listing import show, xml
from narval.ask.why import why
from narval.core.errors import NarvalError, StoreError
from narval.daemon.daemon import Daemon
from narval.files.home import Home
from narval.store.tables import HEAD, TABLES
from narval.surfaces.cli.without_daemon import HomeView

MODULE = """
from narval import Output, action

@action(outputs=[Output("ack", "ack", unique="@n")], runs="inline")
def answer():
    return "<ack n='1'/>"

@action(runs="inline")
def fail():
    raise ValueError("no")
"""
OUTER = """<recipe group="w" name="outer" start_step="a" end_step="a">
  <step id="a" type="recipe" target="w.waits"/></recipe>"""
RECIPES = f"""<cookbook>
<recipe group="w" name="waits" start_step="a" end_step="b">
  <step id="a" type="action" target="w.answer"/><step id="b" type="action" target="w.answer"/>
  <transition id="t"><in idref="a"/><out idref="b"/>
    <condition use="yes"><match>go</match></condition></transition>
</recipe>
<recipe group="w" name="fails" start_step="a" end_step="a" decay="86400">
  <step id="a" type="action" target="w.fail"/></recipe>
{OUTER}</cookbook>"""
VALUES = (None, "rubbish", "", -1, b"\xff\xfe", 10**18)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with runs that wait, failed and are over, with an event, a job, marks and an older version."""
    folder = home(tmp_path_factory.mktemp("home"), module=MODULE, recipes=RECIPES)

    async def work() -> None:
        daemon = await Daemon.open(Home(folder))
        for name in ("waits", "outer", "fails", "waits"):
            await acts.start(daemon, f"w.{name}")
            await daemon.main_loop.until_idle()
        await changing.add(daemon, [b"<go/>", b"<mail/>"])
        await daemon.main_loop.until_idle()
        await acts.start(daemon, "w.waits")
        await daemon.main_loop.until_idle()
        await daemon.close()
        daemon = await Daemon.open(Home(folder), record_only=True)
        await acts.start(daemon, "w.outer")
        await changing.add(daemon, [b"<go/>"])
        await daemon.close()

    asyncio.run(work())
    (folder / "recipes/w.xml").write_text(RECIPES.replace(OUTER, ""))
    with closing(sqlite3.connect(folder / "var/store.db")) as database, database:
        database.execute("PRAGMA writable_schema=ON")
        database.execute("UPDATE sqlite_master SET sql = replace(sql, ' NOT NULL', '') WHERE type = 'table'")
    return folder


def altered(folder: Path, table: str, column: str, value: Any, rows: str) -> bool:
    """True if the column was given the value, in all rows or in the last."""
    with closing(sqlite3.connect(folder / "var/store.db")) as database, database:
        columns = database.execute(f"PRAGMA table_info({table})").fetchall()
        keys = [f'"{name}"' for _, name, *_, is_key in columns if is_key]
        only = "1"
        if rows == "last":
            order = ", ".join(f"{key} DESC" for key in keys)
            only = f"({', '.join(keys)}) = (SELECT {', '.join(keys)} FROM {table} ORDER BY {order} LIMIT 1)"
        try:
            return database.execute(f'UPDATE {table} SET "{column}" = ? WHERE {only}', (value,)).rowcount > 0
        except sqlite3.IntegrityError:
            return False


async def asked(daemon: Daemon) -> None:
    await status.status(daemon)
    await listing.memory(daemon)
    for run in await list_runs(daemon):
        for operation in (show, xml, graph, history, why):
            with suppress(NarvalError):
                await operation(daemon, run["eid"])


async def worked(folder: Path) -> None:
    """A daemon goes on with what there is, and is asked about it."""
    daemon = await Daemon.open(Home(folder))
    try:
        await changing.add(daemon, [b"<go/>"])
        await asyncio.wait_for(daemon.main_loop.until_idle(), 10)
        await asked(daemon)
    finally:
        await daemon.close()


def looked(folder: Path) -> None:
    with closing(HomeView(Home(folder))) as look:
        look.ask("runs", limit=3)
        for run in look.ask("runs"):
            for method in ("show", "history", "why"):
                with suppress(NarvalError):
                    look.ask(method, run=run["eid"])
        look.ask("memory")
        look.ask("status")


CASES = [
    (table.name, column) for table in TABLES for column in (*(() if table.key else ("line",)), *table.columns)
]


def try_values(filled: Path, scratch: Path, table: str, column: str, numbers: Iterable[int]) -> None:
    """Open a home and ask it with each of the wrong values in a column."""
    for number in numbers:
        value = VALUES[number]
        rows = "last" if number % 2 else "all"
        folder = scratch / f"{number}"
        shutil.copytree(filled, folder)
        if not altered(folder, table, column, value, rows):
            continue
        with suppress(NarvalError):
            if rows == "last":
                looked(folder)
            asyncio.run(worked(folder))


@pytest.mark.parametrize(("at", "table", "column"), [(at, *case) for at, case in enumerate(CASES)])
def test_N35_a_wrong_value_is_refused_by_name_or_costs_a_run(
    filled: Path, tmp_path: Path, at: int, table: str, column: str
) -> None:
    some = {(at + step) % len(VALUES) for step in range(3)}
    try_values(filled, tmp_path, table, column, some)


@pytest.mark.soak
@pytest.mark.parametrize(("table", "column"), CASES)
def test_N35_any_wrong_value_is_refused_by_name_or_costs_a_run(
    filled: Path, tmp_path: Path, table: str, column: str
) -> None:
    try_values(filled, tmp_path, table, column, range(len(VALUES)))


REFUSED = [
    ("runs", "kind", "dream", r"run \d+ is said to be of the kind 'dream'"),
    ("runs", "name", b"\x00", r"runs \d+, column name: expected `str`, got `bytes`; put back a backup"),
    ("elements", "xml", b"", r"elements \d+, column xml: expected `bytes` of length >= 4; put back a backup"),
    ("elements", "added", "rubbish", r"elements \d+, column added: expected `float`, got `str`"),
    ("version", "number", -1, f"expected the version of its tables, such as {HEAD}, got -1"),
    ("meta", "value", "rubbish", "expected the fact sequence to be a number, got 'rubbish'"),
]


@pytest.mark.parametrize(("table", "column", "value", "message"), REFUSED)
def test_what_is_wrong_is_named(
    filled: Path, tmp_path: Path, table: str, column: str, value: Any, message: str
) -> None:
    shutil.copytree(filled, tmp_path / "home")
    assert altered(tmp_path / "home", table, column, value, "all")
    with pytest.raises(StoreError, match=f"the store is damaged: .*{message}"):
        asyncio.run(worked(tmp_path / "home"))


def test_an_entry_of_a_wrong_type_fails_its_run_alone(filled: Path, tmp_path: Path) -> None:
    folder = tmp_path / "home"
    shutil.copytree(filled, folder)
    with closing(sqlite3.connect(folder / "var/store.db")) as database, database:
        [(run,)] = database.execute("SELECT min(eid) FROM runs WHERE phase = 'active'")
        database.execute("UPDATE journal SET at = 'rubbish' WHERE run = ?", (run,))

    async def failed() -> list[int]:
        daemon = await Daemon.open(Home(folder))
        found = [each["eid"] for each in await list_runs(daemon, state="failed")]
        await daemon.close()
        return found

    assert run in asyncio.run(failed())
