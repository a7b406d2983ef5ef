"""A run that goes on for ever: its journal is bounded, its recovery too (N35)."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from narval.agent import run as runs
from narval.ask.runs.acts import start
from narval.ask.runs.history import history as history_of
from tests.agent.test_forgetting import rows
from tests.daemon.at_work import Scene, in_a_loop, portrait

MODULE = """
from narval import Output, action

@action(outputs=[Output("note", "note", list=True)], source=True)
async def tell():
    for number in range({count}):
        yield f"<note n='{{number}}'/>"
"""
RECIPE = """<recipe group="w" name="tells" start_step="a" end_step="b">
  <step id="a" type="action" target="w.tell"/><step id="b" type="action" target="w.tell"/>
  <transition id="t"><in idref="a"/><out idref="b"/><condition><match>never</match></condition></transition>
</recipe>"""


def scene_in(folder: Path, count: int, keep: int) -> Scene:
    scene = Scene(folder / "home", settings=f"history_entries = {keep}\n")
    scene.write("modules/w.py", MODULE.format(count=count))
    scene.write("recipes/w.xml", RECIPE)
    return scene


@in_a_loop
async def test_N35_the_journal_of_a_long_run_is_bounded_and_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "SNAPSHOT_AFTER", 10)
    scene = scene_in(tmp_path, 300, 40)
    daemon = await scene.open()
    run = (await start(daemon, "w.tells"))["eid"]
    await daemon.main_loop.until_idle()
    assert len(list(daemon.agent.memory.named(["note"]))) == 300
    known = portrait(daemon.agent)
    assert 40 <= rows(scene, "journal") <= 40 + 2 * 10
    history = await history_of(daemon, run)
    assert [line["n"] for line in history if "n" in line] == []
    assert history[-1]["seq"] > history[0]["seq"]
    scene.kill(daemon)
    await scene.end()
    daemon = await scene.open(record_only=True)
    assert portrait(daemon.agent) == known
    await scene.end()


@in_a_loop
async def test_G50_a_run_of_a_thousand_entries_is_restored_from_a_few_hundred(tmp_path: Path) -> None:
    scene = scene_in(tmp_path, 1000, 10_000)
    daemon = await scene.open()
    run = (await start(daemon, "w.tells"))["eid"]
    await daemon.main_loop.until_idle()
    [history] = daemon.agent.store.under_way(run, run).values()
    assert rows(scene, "journal") > 1000
    assert len(history.entries) <= runs.SNAPSHOT_AFTER <= 256
    await scene.end()


@pytest.mark.soak
@pytest.mark.parametrize("keep", [10_000, 1_000_000])
@in_a_loop
async def test_N35_recovery_of_a_run_with_a_hundred_thousand_entries(tmp_path: Path, keep: int) -> None:
    scene = scene_in(tmp_path, 100_000, keep)
    daemon = await scene.open()
    await start(daemon, "w.tells")
    began = time.perf_counter()
    await daemon.main_loop.until_idle()
    took, entries = time.perf_counter() - began, rows(scene, "journal")
    known = portrait(daemon.agent)["states"]
    scene.kill(daemon)
    await scene.end()
    began = time.perf_counter()
    daemon = await scene.open(record_only=True)
    back = time.perf_counter() - began
    size = scene.home.store.stat().st_size
    print(
        f"\n{entries:,} entries kept of 100,000 made in {took:.0f} s; open again in {back:.2f} s; {size:,} B"
    )
    assert portrait(daemon.agent)["states"] == known
    assert entries <= keep + 2 * 1024 or keep > 100_000
    await scene.end()
