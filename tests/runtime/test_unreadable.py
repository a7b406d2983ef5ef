"""One entry, or one version of a definition, that cannot be read costs its run alone (N35)."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from narval.memory.trouble import read_error
from narval.runtime.agents import Run
from narval.runtime.daemon import Daemon
from narval.surfaces.operations import Operations
from tests.runtime.at_work import Scene, in_a_loop

MODULE = """
from narval import Input, Output, action

@action(outputs=[Output("ack", "ack")], runs="inline")
def answer():
    return "<ack/>"
"""
WAITS = """<recipe group="w" name="{name}" start_step="a" end_step="b">
  <step id="a" type="action" target="w.answer"/>{middle}<step id="b" type="action" target="w.answer"/>
  <transition id="t"><in idref="{before}"/><out idref="b"/>
    <condition use="yes"><match>go[@for='{name}']</match></condition></transition>
</recipe>"""
NESTED = """<recipe group="w" name="outer" start_step="a" end_step="a">
  <step id="a" type="recipe" target="w.inner"/>
</recipe>"""


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    made = Scene(tmp_path / "home")
    made.write("modules/w.py", MODULE)
    plain = [WAITS.format(name=name, middle="", before="a") for name in ("bad", "good", "inner")]
    made.write("recipes/w.xml", f"<cookbook>{''.join(plain)}{NESTED}</cookbook>")
    return made


async def begun(scene: Scene, *names: str) -> dict[str, int]:
    """Runs that wait, in a home that was closed."""
    daemon = await scene.open()
    asked = Operations(daemon)
    eids = {name: (await asked.start(f"w.{name}"))["eid"] for name in names}
    await daemon.until_idle()
    eids |= {run.name.removeprefix("w."): run.eid for run in daemon.agent.runs.values()}
    await scene.end()
    return eids


def altered(scene: Scene, *statements: tuple[str, tuple[Any, ...]]) -> None:
    with sqlite3.connect(scene.home.store) as database:
        for sql, values in statements:
            assert database.execute(sql, values).rowcount > 0
    database.close()


async def gone_on(scene: Scene, *names: str) -> Daemon:
    """A daemon on the home, told to go on."""
    daemon = await scene.open()
    asked = Operations(daemon)
    await asked.add([f"<go for='{name}'/>".encode() for name in names])
    await daemon.until_idle()
    return daemon


def error_of(daemon: Daemon, run: Run) -> tuple[str, str]:
    element = daemon.agent.memory.element(run.error or 0)
    assert element is not None
    return read_error(element)[:2]


RENAMED = "replace(CAST(data AS TEXT), 'TransitionAsleep', 'TransitionDreams')"
LAST = "WHERE seq = (SELECT max(seq) FROM journal WHERE run = ?)"
DAMAGES: dict[str, Callable[[int], list[tuple[str, tuple[Any, ...]]]]] = {
    "rubbish": lambda run: [(f"UPDATE journal SET data = x'c1' {LAST}", (run,))],
    "empty": lambda run: [(f"UPDATE journal SET data = x'' {LAST}", (run,))],
    "a change nobody knows": lambda run: [
        (f"UPDATE journal SET data = CAST({RENAMED} AS BLOB) {LAST}", (run,)),
    ],
    "the first entry": lambda run: [
        ("UPDATE journal SET data = x'ff' WHERE seq = (SELECT min(seq) FROM journal WHERE run = ?)", (run,))
    ],
    "the version it follows": lambda run: [
        ("UPDATE runs SET digest = 'gone' WHERE eid = ?", (run,)),
    ],
}


@pytest.mark.parametrize("damage", DAMAGES)
@in_a_loop
async def test_N35_what_cannot_be_read_fails_its_run_alone(scene: Scene, damage: str) -> None:
    eids = await begun(scene, "bad", "good")
    altered(scene, *DAMAGES[damage](eids["bad"]))
    daemon = await gone_on(scene, "bad", "good")
    bad, good = daemon.agent.runs[eids["bad"]], daemon.agent.runs[eids["good"]]
    assert (bad.phase, bad.word) == ("failed", "failed")
    assert error_of(daemon, bad)[0] == "unreadable"
    assert good.phase == "done"
    shown = daemon.agent.memory.element(bad.eid)
    assert shown is not None
    assert shown.attributes["state"] == "failed"
    await scene.end()
    again = await scene.open()
    assert again.agent.runs[eids["bad"]].phase == "failed"
    assert not again.agent.unreadable
    assert error_of(again, again.agent.runs[eids["bad"]])[0] == "unreadable"
    await scene.end()


@in_a_loop
async def test_N35_the_caller_of_a_run_that_cannot_be_read_is_told(scene: Scene) -> None:
    eids = await begun(scene, "outer")
    altered(scene, *DAMAGES["rubbish"](eids["inner"]))
    daemon = await gone_on(scene)
    assert daemon.agent.runs[eids["inner"]].phase == "failed"
    assert daemon.agent.runs[eids["outer"]].phase == "failed"
    await scene.end()


@in_a_loop
async def test_N35_runs_called_by_one_that_cannot_be_read_are_cancelled(scene: Scene) -> None:
    eids = await begun(scene, "outer")
    altered(scene, *DAMAGES["rubbish"](eids["outer"]))
    daemon = await gone_on(scene)
    assert daemon.agent.runs[eids["outer"]].phase == "failed"
    assert daemon.agent.runs[eids["inner"]].phase == "cancelled"
    await scene.end()


@in_a_loop
async def test_looking_at_a_home_fails_no_run(scene: Scene) -> None:
    eids = await begun(scene, "bad")
    altered(scene, *DAMAGES["rubbish"](eids["bad"]))
    daemon = await scene.open(quiet=True)
    asked = Operations(daemon)
    assert [run["phase"] for run in await asked.runs()] == ["active"]
    assert len(await asked.memory("plan")) == 1
    assert [line["what"] for line in await asked.history(eids["bad"])][-1] == "Unreadable"
    assert daemon.agent.runs[eids["bad"]].phase == "active"
    await scene.end()


@in_a_loop
async def test_a_run_that_is_over_and_cannot_be_read_is_seen_in_outline(scene: Scene) -> None:
    eids = await begun(scene, "good")
    daemon = await gone_on(scene, "good")
    await scene.end()
    altered(scene, *DAMAGES["rubbish"](eids["good"]))
    daemon = await scene.open()
    (shown,) = Operations(daemon).elements("plan[@state='done']")
    assert shown.attributes["unreadable"] == "yes"
    await scene.end()
