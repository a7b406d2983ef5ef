"""Agents that are taken over on a real server: how often it is asked (G50)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from narval.daemon.daemon import Daemon
from narval.files.home import Home
from narval.store.postgresql.database import ServerTables
from tests.daemon.at_work import in_a_loop
from tests.daemon.fleet.machines import ask

MODULE = """
from narval import action

@action(runs="inline")
def nothing():
    pass
"""
WAITS = """<cookbook><recipe group="w" name="waits" start_step="a" end_step="b">
  <step id="a" type="action" target="w.nothing"/><step id="b" type="action" target="w.nothing"/>
  <transition id="t"><in idref="a"/><out idref="b"/><condition><match>never</match></condition></transition>
</recipe></cookbook>"""


@in_a_loop
async def test_G50_agents_that_are_taken_over_are_read_in_one_go(
    tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for part in ("etc", "recipes", "modules"):
        (tmp_path / part).mkdir()
    (tmp_path / "etc/narval.toml").write_text(f"name = 'attic'\nstore = '{postgres_url}'\nlisten = false\n")
    (tmp_path / "modules/w.py").write_text(MODULE)
    (tmp_path / "recipes/waits.xml").write_text(WAITS)
    attic = await Daemon.open(Home(tmp_path))
    for name in ("ada", "bob"):
        await ask(attic, "add_agent", name=name)
        await ask(attic, "start", name, name="w.waits")
    await attic.main_loop.until_idle()
    numbers = {number for _, number in attic.agents.rows.numbers()}
    await attic.close()
    one_by_one = list[tuple[str, int]]()
    rows_of = ServerTables._rows

    def noted(tables: ServerTables, name: str, given: tuple[Any, ...]) -> list[Any]:
        if given and given[0] in numbers:
            one_by_one.append((name, given[0]))
        return rows_of(tables, name, given)

    monkeypatch.setattr(ServerTables, "_rows", noted)
    attic = await Daemon.open(Home(tmp_path))
    try:
        while not all(attic.agents.supervisor.host(name) for name in ("ada", "bob")):
            await asyncio.sleep(0.02)
        assert one_by_one == []
    finally:
        await attic.close()
