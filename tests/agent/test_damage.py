"""One entry, or one version of a definition, that cannot be read costs its run alone (N35)."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from narval.agent.run import Run
from narval.ask.memory import changing, listing
from narval.ask.runs import acts
from narval.ask.runs.history import history
from narval.ask.runs.listing import runs as list_runs
from narval.core.elements.own_elements import read_error
from narval.daemon.daemon import Daemon
from tests.daemon.at_work import Scene, in_a_loop

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
    eids = {name: (await acts.start(daemon, f"w.{name}"))["eid"] for name in names}
    await daemon.main_loop.until_idle()
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
    await changing.add(daemon, [f"<go for='{name}'/>".encode() for name in names])
    await daemon.main_loop.until_idle()
    return daemon


def error_of(daemon: Daemon, run: Run) -> tuple[str, str]:
    element = daemon.agent.memory.element(run.error or 0)
    assert element is not None
    return read_error(element)[:2]


RENAMED = "replace(CAST(data AS TEXT), 'TransitionWaiting', 'TransitionDreams')"
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
    assert (bad.phase, bad.status) == ("failed", "failed")
    assert error_of(daemon, bad)[0] == "unreadable"
    assert good.phase == "done"
    shown = daemon.agent.memory.element(bad.eid)
    assert shown is not None
    assert shown.attributes["state"] == "failed"
    await scene.end()
    again = await scene.open()
    assert again.agent.runs[eids["bad"]].phase == "failed"
    assert not again.agent.runs[eids["bad"]].unreadable
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
    daemon = await scene.open(record_only=True)
    assert [run["phase"] for run in await list_runs(daemon)] == ["active"]
    assert len(await listing.memory(daemon, "plan")) == 1
    assert [line["what"] for line in await history(daemon, eids["bad"])][-1] == "Unreadable"
    assert daemon.agent.runs[eids["bad"]].phase == "active"
    await scene.end()


@in_a_loop
async def test_a_run_that_is_over_and_cannot_be_read_is_seen_in_outline(scene: Scene) -> None:
    eids = await begun(scene, "good")
    daemon = await gone_on(scene, "good")
    await scene.end()
    altered(scene, *DAMAGES["rubbish"](eids["good"]))
    daemon = await scene.open()
    (shown,) = listing.matching(daemon, "plan[@state='done']")
    assert shown.attributes["unreadable"] == "yes"
    await scene.end()


# --- what belongs to no run alone -------------------------------------------------------------------------


def told(daemon: Daemon) -> list[str]:
    """What the errors of that type say."""
    errors = map(daemon.agent.memory.element, daemon.agent.memory.named(["error"]))
    return [
        read_error(each)[1] for each in errors if each is not None and read_error(each)[0] == "unreadable"
    ]


@in_a_loop
async def test_N35_an_element_whose_origin_cannot_be_read_stays_and_that_is_told_once(scene: Scene) -> None:
    eids = await begun(scene, "good")
    altered(scene, ("UPDATE elements SET origin = x'c1' WHERE name = 'ack'", ()))
    for _ in range(3):
        daemon = await scene.open()
        (ack,) = daemon.agent.memory.named(["ack"])
        element = daemon.agent.memory.element(ack)
        assert element is not None
        assert element.origin is None
        (why,) = told(daemon)
        assert why.startswith(f"where element {ack} comes from is no longer known")
        assert daemon.agent.runs[eids["good"]].phase == "active"
        await scene.end()
    daemon = await gone_on(scene, "good")
    assert daemon.agent.runs[eids["good"]].phase == "done"
    await scene.end()


async def left_in_the_queue(scene: Scene, run: int = 0) -> dict[str, int]:
    """A run that waits for what has come, and is to be told of it by the next daemon."""
    eids = await begun(scene, "good", "bad")
    quiet = await scene.open(record_only=True)
    await changing.add(quiet, [b"<go for='good'/>"])
    await scene.end()
    altered(scene, ("UPDATE queue SET data = x'c1', run = ?", (run,)))
    return eids


@in_a_loop
async def test_N35_an_offer_that_cannot_be_read_is_made_again(scene: Scene) -> None:
    eids = await left_in_the_queue(scene)
    daemon = await scene.open()
    await daemon.main_loop.until_idle()
    assert daemon.agent.runs[eids["good"]].phase == "done"
    assert daemon.agent.runs[eids["bad"]].phase == "active"
    (why,) = told(daemon)
    assert "offered again" in why
    await scene.end()
    assert not sqlite3.connect(scene.home.store).execute("SELECT * FROM queue").fetchall()
    again = await scene.open()
    assert len(told(again)) == 1
    await scene.end()


@in_a_loop
async def test_N35_an_event_that_cannot_be_read_fails_the_run_it_was_for(scene: Scene) -> None:
    eids = await left_in_the_queue(scene, run=8_000)
    altered(scene, ("UPDATE queue SET run = ?", (eids["bad"],)))
    daemon = await gone_on(scene, "good")
    bad, good = daemon.agent.runs[eids["bad"]], daemon.agent.runs[eids["good"]]
    assert (bad.phase, good.phase) == ("failed", "done")
    assert error_of(daemon, bad)[0] == "unreadable"
    await scene.end()
    again = await scene.open()
    assert len(told(again)) == 1
    await scene.end()


@in_a_loop
async def test_N35_a_deed_that_cannot_be_read_is_told_and_the_others_are_done(scene: Scene) -> None:
    scene.write(
        "recipes/f.xml",
        "<cookbook>"
        + "".join(
            f'<recipe group="f" name="{name}" start_step="a" end_step="a" decay="{decay}">'
            '<step id="a" type="action" target="w.answer"/></recipe>'
            for name, decay in (("first", 60), ("second", 120))
        )
        + "</cookbook>",
    )
    daemon = await scene.open()
    first, second = [(await acts.start(daemon, f"f.{name}"))["eid"] for name in ("first", "second")]
    await daemon.main_loop.until_idle()
    await scene.end()
    altered(scene, ("UPDATE moments SET data = x'93' WHERE at = (SELECT min(at) FROM moments)", ()))
    daemon = await scene.open()
    (why,) = told(daemon)
    assert why.startswith("a job due at 1970-01-12T13:47:40+00:00 is not done")
    await daemon.main_loop.elapse(200.0)
    assert first in daemon.agent.runs
    assert second not in daemon.agent.runs
    await scene.end()
    again = await scene.open()
    assert told(again) == [why]
    await scene.end()


@in_a_loop
async def test_looking_at_a_home_owns_up_to_nothing(scene: Scene) -> None:
    await left_in_the_queue(scene)
    daemon = await scene.open(record_only=True)
    assert told(daemon) == []
    await scene.end()
    daemon = await scene.open()
    assert len(told(daemon)) == 1
    await scene.end()
