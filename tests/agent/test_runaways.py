"""What calls or starts itself without end is bounded, and says so before it hurts (N26, N28)."""

from __future__ import annotations

from pathlib import Path

from narval.ask.memory.changing import add
from narval.ask.runs.acts import start
from narval.ask.runs.listing import show
from narval.ask.why import why
from narval.core.engines.commands import RESTART_PAUSE
from narval.daemon.daemon import Daemon
from tests.daemon.at_work import Scene, in_a_loop

MODULE = """
from narval import Output, action

@action(runs="inline")
def nothing():
    return None

@action(outputs=[Output("start", "start-plan", list=True)], runs="inline")
def twice():
    return ["<start-plan recipe='w.again'/>"] * 2

@action(outputs=[Output("start", "start-plan")], runs="inline")
def ping():
    return "<start-plan recipe='w.pong'/>"

@action(outputs=[Output("start", "start-plan")], runs="inline")
def pong():
    return "<start-plan recipe='w.ping'/>"

@action(outputs=[Output("start", "start-plan", list=True)], runs="inline")
def many():
    return ["<start-plan recipe='w.small'/>"] * 5

@action(outputs=[Output("start", "start-plan")], runs="inline")
def next():
    return "<start-plan recipe='w.fed'/>"

@action(outputs=[Output("mail", "mail"), Output("start", "start-plan")], runs="inline")
def itself():
    return ["<mail/>", "<start-plan recipe='w.own'/>"]
"""
RECIPES = """<cookbook group="w">
<recipe name="deep" start_step="s" end_step="s"><step id="s" type="recipe" target="w.deep"/></recipe>
<recipe name="wide" start_step="s" end_step="b">
  <step id="s" type="action" target="w.nothing"/>
  <step id="a" type="recipe" target="w.wide"/><step id="b" type="recipe" target="w.wide"/>
  <transition id="t"><in idref="s"/><out idref="a"/><out idref="b"/></transition>
</recipe>
<recipe name="again" start_step="s" end_step="s"><step id="s" type="action" target="w.twice"/></recipe>
<recipe name="ping" start_step="s" end_step="s"><step id="s" type="action" target="w.ping"/></recipe>
<recipe name="pong" start_step="s" end_step="s"><step id="s" type="action" target="w.pong"/></recipe>
<recipe name="small" start_step="s" end_step="s"><step id="s" type="action" target="w.nothing"/></recipe>
<recipe name="fed" start_step="s" end_step="n">
  <step id="s" type="action" target="w.nothing"/><step id="n" type="action" target="w.next"/>
  <transition id="t"><in idref="s"/><out idref="n"/>
    <condition use="yes"><match>mail</match></condition></transition>
</recipe>
<recipe name="own" start_step="s" end_step="n">
  <step id="s" type="action" target="w.nothing"/><step id="n" type="action" target="w.itself"/>
  <transition id="t"><in idref="s"/><out idref="n"/>
    <condition use="yes"><match>mail</match></condition></transition>
</recipe>
<recipe name="many" start_step="s" end_step="s"><step id="s" type="action" target="w.many"/></recipe>
</cookbook>"""


def scene_in(folder: Path, settings: str = "") -> Scene:
    scene = Scene(folder / "home", settings=settings)
    scene.write("modules/w.py", MODULE)
    scene.write("recipes/w.xml", RECIPES)
    return scene


def names(daemon: Daemon) -> list[str]:
    return [run.name.removeprefix("w.") for run in daemon.agent.runs.values()]


@in_a_loop
async def test_runs_call_one_another_a_hundred_deep(tmp_path: Path) -> None:
    scene = scene_in(tmp_path)
    daemon = await scene.open()
    run = (await start(daemon, "w.deep"))["eid"]
    await daemon.main_loop.until_idle()
    assert names(daemon) == ["deep"] * 100
    assert (await show(daemon, run))["phase"] == "failed"
    assert "too-deep: 100 runs have called one another" in str(await why(daemon, run))
    await scene.end()
    assert scene.home.log.read_text().count(f"was called 51 runs deep (at most 100) within run {run}") == 1


@in_a_loop
async def test_so_many_runs_of_a_family_are_under_way_at_most(tmp_path: Path) -> None:
    scene = scene_in(tmp_path, "run_family = 200\nrun_depth = 1000\n")
    daemon = await scene.open()
    run = (await start(daemon, "w.wide"))["eid"]
    most = 0

    def is_over() -> bool:
        nonlocal most
        most = max(most, len(daemon.agent.runs.active))
        return not daemon.agent.runs.active

    await daemon.main_loop.work_until(is_over)
    assert most <= 200
    assert len(daemon.agent.runs) < 400  # it does not go on in the gaps that those which fail leave
    assert (await show(daemon, run))["phase"] == "failed"
    assert "too-many-runs" in str(await why(daemon, run))
    await scene.end()
    assert scene.home.log.read_text().count("101 runs under way (at most 200)") == 1


@in_a_loop
async def test_depth_is_known_after_a_restart_and_its_limit_is_taken_over(tmp_path: Path) -> None:
    scene = scene_in(tmp_path, "run_depth = 30\n")
    daemon = await scene.open()
    await start(daemon, "w.deep")
    await daemon.main_loop.work_until(lambda: len(daemon.agent.runs) >= 10)
    assert len(daemon.agent.runs.active) < 20
    await scene.end()
    scene.write("etc/narval.toml", "run_depth = 20\n")
    daemon = await scene.open()
    await daemon.main_loop.until_idle()
    assert names(daemon) == ["deep"] * 20
    await scene.end()


@in_a_loop
async def test_N28_runs_that_start_their_own_recipe_begin_one_a_second(tmp_path: Path) -> None:
    """Though each starts two, and the daemon is another in between."""
    scene = scene_in(tmp_path)
    daemon = await scene.open()
    run = (await start(daemon, "w.again"))["eid"]
    await daemon.main_loop.until_idle()
    assert names(daemon) == ["again"]
    await daemon.main_loop.elapse(5 * RESTART_PAUSE)
    assert names(daemon) == ["again"] * 6
    await scene.end()
    daemon = await scene.open()
    await daemon.main_loop.elapse(5 * RESTART_PAUSE)
    assert names(daemon) == ["again"] * 11
    assert daemon.agent.runs[max(daemon.agent.runs)].ancestors == {"w.again": run}
    await scene.end()


@in_a_loop
async def test_N28_so_do_recipes_that_start_one_another(tmp_path: Path) -> None:
    scene = scene_in(tmp_path)
    daemon = await scene.open()
    await start(daemon, "w.ping")
    await daemon.main_loop.elapse(3 * RESTART_PAUSE)
    assert names(daemon) == ["ping", "pong"] * 4
    await scene.end()


@in_a_loop
async def test_N28_runs_that_each_use_an_element_from_elsewhere_follow_each_other_at_once(
    tmp_path: Path,
) -> None:
    scene = scene_in(tmp_path)
    daemon = await scene.open()
    await add(daemon, [b"<mail/>"] * 20)
    await start(daemon, "w.fed")
    await daemon.main_loop.until_idle()
    assert names(daemon) == ["fed"] * 21
    await scene.end()


@in_a_loop
async def test_N28_those_that_use_what_they_made_do_not(tmp_path: Path) -> None:
    scene = scene_in(tmp_path)
    daemon = await scene.open()
    await add(daemon, [b"<mail/>"])
    await start(daemon, "w.own")
    await daemon.main_loop.until_idle()
    assert names(daemon) == ["own"] * 2
    await daemon.main_loop.elapse(3 * RESTART_PAUSE)
    assert names(daemon) == ["own"] * 5
    await scene.end()


@in_a_loop
async def test_N4_runs_that_start_others_do_so_at_once(tmp_path: Path) -> None:
    scene = scene_in(tmp_path)
    daemon = await scene.open()
    await start(daemon, "w.many")
    await start(daemon, "w.many")
    await daemon.main_loop.until_idle()
    assert sorted(names(daemon)) == ["many"] * 2 + ["small"] * 10
    await scene.end()
