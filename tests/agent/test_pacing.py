"""A definition that starts itself without end is slowed, says so, and recovers (N28)."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest

from narval.agent.pacing import MOST_AT_ONCE, MOST_USED
from narval.ask.attention.attention import attention
from narval.ask.memory.changing import add
from narval.ask.runs.acts import start
from narval.ask.why import why
from narval.core.memory.memory import Memory
from narval.daemon.daemon import Daemon
from tests.daemon.at_work import Scene, in_a_loop

MODULE = """
from narval import Input, Output, action

@action(runs="inline")
def nothing():
    return None

@action(outputs=[Output("y", "y")], runs="inline")
def make_y():
    return "<y/>"

@action(outputs=[Output("x", "x")], runs="inline")
def make_x():
    return "<x/>"

@action(outputs=[Output("start", "start-plan")], runs="inline")
def next():
    return "<start-plan recipe='w.next'/>"
"""
LISTENS = """<recipe group="w" name="{name}" start_step="s" end_step="m" restart="{restart}">
  <step id="s" type="action" target="w.nothing"/><step id="m" type="action" target="w.{makes}"/>
  <transition id="t"><in idref="s"/><out idref="m"/>
    <condition {use}><match>{waits}</match></condition></transition>
</recipe>"""
NEXT = """<recipe group="w" name="next" start_step="s" end_step="s">
  <step id="s" type="action" target="w.next"/></recipe>"""


def listener(name: str, waits: str, makes: str, use: str = 'use="yes"', restart: str = "yes") -> str:
    return LISTENS.format(name=name, waits=waits, makes=makes, use=use, restart=restart)


def scene_in(folder: Path, *recipes: str, chain: int = 10) -> Scene:
    scene = Scene(folder / "home", settings=f"run_chain = {chain}\n")
    scene.write("modules/w.py", MODULE)
    scene.write("recipes/w.xml", f"<cookbook group='w'>{''.join(recipes)}</cookbook>")
    return scene


def runs_of(daemon: Daemon) -> Counter[str]:
    return Counter(run.name for run in daemon.agent.runs.values())


async def slowed(daemon: Daemon) -> list[str]:
    return [str(one["text"]) for one in await attention(daemon) if one["what"] == "slowed"]


@in_a_loop
async def test_what_uses_nothing_begins_later_and_later_and_says_so(tmp_path: Path) -> None:
    scene = scene_in(tmp_path, listener("a", "x", "nothing", use=""))
    daemon = await scene.open()
    await start(daemon, "w.a")
    await add(daemon, [b"<x/>"])
    await daemon.main_loop.elapse(9.5)
    assert await slowed(daemon) == []
    await daemon.main_loop.elapse(60)
    runs = runs_of(daemon)["w.a"]
    assert 14 <= runs <= 18  # after ten: 1, 2, 4, 8, 16, 32 s
    [told] = await slowed(daemon)
    assert "w.a began" in told
    assert "use nothing" in told
    assert 'write use="yes"' in told
    last = max(daemon.agent.runs)
    assert "begins later and later" in str(await why(daemon, last))
    assert "begins again" not in str(await why(daemon, min(daemon.agent.runs))), "another came after it"
    await scene.end()
    assert scene.home.log.read_text().count("begins later and later now") == 1
    daemon = await scene.open()  # another daemon goes on where that one was
    await daemon.main_loop.elapse(300)
    assert runs_of(daemon)["w.a"] <= runs + 4
    assert await slowed(daemon)
    scene.write("recipes/w.xml", f"<cookbook group='w'>{listener('a', 'x', 'nothing')}</cookbook>")
    await daemon.reloader.reload()
    await daemon.main_loop.until_idle()
    assert await slowed(daemon) == []
    assert [run.phase for run in daemon.agent.runs.values()][-1] == "active"  # it was begun at once
    await scene.end()


@in_a_loop
async def test_recipes_that_wake_one_another_are_slowed_and_lose_nothing(tmp_path: Path) -> None:
    scene = scene_in(tmp_path, listener("a", "x", "make_y"), listener("b", "y", "make_x", restart="parallel"))
    daemon = await scene.open()
    await start(daemon, "w.a")
    await start(daemon, "w.b")
    await add(daemon, [b"<x/>"])
    await daemon.main_loop.until_idle()
    assert 10 <= runs_of(daemon)["w.a"] <= 25
    [first, *_] = await slowed(daemon)
    assert "w.a → w.b → w.a wake one another" in first or "w.b → w.a → w.b wake one another" in first
    await add(daemon, [b"<x from='elsewhere'/>"])
    await daemon.main_loop.elapse(2000)
    memory = daemon.agent.memory
    elements = [memory.element(eid) for eid in memory.elements]
    [other] = [one for one in elements if one is not None and one.attributes.get("from")]
    assert memory.used_by(other.eid)  # late, and not lost
    await scene.end()


@in_a_loop
@pytest.mark.parametrize("decay", ["0", "4"])
async def test_so_are_those_whose_runs_are_forgotten_soon(tmp_path: Path, decay: str) -> None:
    two = listener("a", "x", "make_y"), listener("b", "y", "make_x")
    scene = scene_in(tmp_path, *(one.replace("restart=", f'decay="{decay}" restart=') for one in two))
    daemon = await scene.open()
    await start(daemon, "w.a")
    await start(daemon, "w.b")
    await add(daemon, [b"<x/>"])
    await daemon.main_loop.elapse(200)
    [first, *_] = await slowed(daemon)
    assert "wake one another" in first
    assert daemon.agent.memory.next_eid < 400, "some begin a minute, and not some a second"
    await scene.end()


@in_a_loop
async def test_what_is_fed_by_runs_that_are_forgotten_soon_is_not(tmp_path: Path) -> None:
    fed = listener("a", "x", "make_y").replace("restart=", 'decay="0" restart=')
    scene = scene_in(tmp_path, fed, listener("b", "y", "nothing"))
    daemon = await scene.open()
    await start(daemon, "w.a")
    await start(daemon, "w.b")
    await add(daemon, [b"<x/>"] * 60)
    await daemon.main_loop.elapse(200)
    assert runs_of(daemon) == {"w.a": 1, "w.b": 61}
    assert await slowed(daemon) == []
    await scene.end()


@in_a_loop
@pytest.mark.parametrize(("makers", "most"), [(1, MOST_USED + 1), (5000, MOST_AT_ONCE + 1)])
async def test_of_a_run_that_is_forgotten_few_makers_are_examined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, makers: int, most: int
) -> None:
    scene = scene_in(tmp_path, listener("a", "x", "make_y"))
    daemon = await scene.open()
    await start(daemon, "w.a")
    await add(daemon, [b"<x/>"])
    await daemon.main_loop.until_idle()
    agent, examined = daemon.agent, list[int]()
    first = agent.runs[min(agent.runs)]
    monkeypatch.setattr(agent.pacing, "_used_by", lambda _: iter(range(5000)))
    monkeypatch.setattr(agent.pacing, "_top", lambda maker: examined.append(maker) or maker)
    monkeypatch.setattr(
        Memory, "element", lambda _, eid: SimpleNamespace(origin=SimpleNamespace(run=10_000 + eid % makers))
    )
    agent.pacing.note_forgotten(first)
    assert len(examined) == most
    monkeypatch.undo()
    await scene.end()


@in_a_loop
async def test_what_comes_from_elsewhere_is_never_slowed(tmp_path: Path) -> None:
    ends = listener("b", "y", "nothing", restart="parallel")
    scene = scene_in(tmp_path, listener("a", "x", "make_y"), ends)
    daemon = await scene.open()
    await start(daemon, "w.a")
    await start(daemon, "w.b")
    await add(daemon, [b"<x/>"] * 60)
    await daemon.main_loop.until_idle()
    assert runs_of(daemon) == {"w.a": 61, "w.b": 61}
    assert await slowed(daemon) == []
    await scene.end()


@in_a_loop
async def test_so_are_runs_that_start_their_own_definition(tmp_path: Path) -> None:
    scene = scene_in(tmp_path, NEXT)
    daemon = await scene.open()
    await start(daemon, "w.next")
    await daemon.main_loop.elapse(100)
    assert 14 <= runs_of(daemon)["w.next"] <= 18
    [told] = await slowed(daemon)
    assert "start one another" in told
    await scene.end()


HANDED_ON = """<recipe group="w" name="a" start_step="s" end_step="m" restart="yes">
  <step id="s" type="action" target="w.nothing"/><step id="y" type="action" target="w.make_y"/>
  <step id="m" type="action" target="w.make_x"/>
  <transition id="t"><in idref="s"/><out idref="y"/>
    <condition use="yes"><match>x</match></condition></transition>
  <transition id="u"><in idref="y"/><out idref="m"/>
    <condition use="yes"><match>y</match></condition></transition>
</recipe>"""


@in_a_loop
async def test_what_a_run_hands_on_within_itself_does_not_feed_it(tmp_path: Path) -> None:
    scene = scene_in(tmp_path, HANDED_ON)
    daemon = await scene.open()
    await start(daemon, "w.a")
    await add(daemon, [b"<x/>"])
    await daemon.main_loop.elapse(200)
    assert runs_of(daemon)["w.a"] <= 20
    assert len(await slowed(daemon)) == 1
    await scene.end()
