"""A withdrawal follows an element to every agent that it was sent to, killed at every commit (F14)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from narval.ask.asker import PROGRAM
from narval.ask.operations import invoke
from narval.core.errors import NarvalError
from narval.daemon.daemon import Daemon
from tests.daemon.at_work import Killed, Scene, in_a_loop, watched_commits

MODULE = """
from narval import Input, Message, Output, action

@action(inputs=[Input("order", "order")], outputs=[Output("receipt", "receipt")], runs="inline")
def confirms(order):
    return "<receipt/>"

@action(runs="inline")
def nothing():
    pass

@action(inputs=[Input("order", "order"), Input("word", "word")], runs="inline")
def tells(order, word):
    return Message("shop", "<hint/>")
"""
RECIPES = """<cookbook>
<recipe group="m" name="sends" start_step="tell" end_step="hint">
  <step id="tell" type="send" to="shop">
    <input id="order" use="yes"><match>order[not(@al:from)]</match></input></step>
  <step id="hint" type="action" target="m.tells"><arguments><word>of the author</word></arguments></step>
  <transition id="t"><in idref="tell"/><out idref="hint"/></transition></recipe>
<recipe group="m" name="takes" start_step="wait" end_step="on" restart="yes">
  <step id="wait" type="action" target="m.nothing"/>
  <step id="make" type="action" target="m.confirms"/>
  <step id="on" type="send" to="bank"><input id="receipt"><match>receipt</match></input></step>
  <transition id="came"><in idref="wait"/><out idref="make"/>
    <condition use="yes"><match>order[@al:from]</match></condition></transition>
  <transition id="made"><in idref="make"/><out idref="on"/></transition></recipe>
</cookbook>"""


def make_scene(folder: Path) -> Scene:
    scene = Scene(folder, settings="timezone = 'UTC'\n")
    scene.write("modules/m.py", MODULE)
    scene.write("recipes/m.xml", RECIPES)
    for name in ("shop", "bank"):
        scene.write(f"agents/{name}/agent.toml", "")
    return scene


async def ask(daemon: Daemon, agent: str, operation: str, **arguments: Any) -> Any:
    return await invoke(daemon, PROGRAM.asking(agent), operation, arguments)


async def standing(daemon: Daemon) -> dict[str, Any]:
    """How what was sent stands at each agent."""
    rows = {
        (agent, name): await ask(daemon, agent, "memory", xpath=name)
        for agent, name in (("shop", "order"), ("shop", "hint"), ("shop", "receipt"), ("bank", "receipt"))
    }
    return {
        f"{agent} {name}": [(row["withdrawn"], row["doubtful"]) for row in found]
        for (agent, name), found in rows.items()
    }


async def story(scene: Scene) -> Daemon:
    """An order is sent, and withdrawn; what was done before a kill is not done again."""
    daemon = await scene.open()
    await daemon.main_loop.until_idle()
    if not await ask(daemon, "shop", "runs"):
        await ask(daemon, "shop", "start", name="m.takes")
    if not await ask(daemon, "", "memory", xpath="order"):
        await ask(daemon, "", "add", elements=[b"<order/>"])
    if not [run for run in await ask(daemon, "", "runs") if run["name"] == "m.sends"]:
        await ask(daemon, "", "start", name="m.sends")
    await daemon.main_loop.until_idle()
    (order,) = await ask(daemon, "", "memory", xpath="order")
    await ask(daemon, "", "withdraw", eid=order["eid"], why="a joke")
    await daemon.main_loop.until_idle()
    return daemon


END = {
    "shop order": [("narval withdrew it: a joke", False)],
    "shop hint": [(None, True)],
    "shop receipt": [(None, True)],
    "bank receipt": [(None, True)],
}


@in_a_loop
async def test_F14_a_withdrawal_follows_to_all_agents_and_so_does_a_confirmation(tmp_path: Path) -> None:
    scene = make_scene(tmp_path)
    daemon = await story(scene)
    assert await standing(daemon) == END
    (receipt,) = await ask(daemon, "shop", "memory", xpath="receipt")
    await ask(daemon, "shop", "confirm", eid=receipt["eid"])
    await daemon.main_loop.until_idle()
    assert (await standing(daemon))["bank receipt"] == [(None, False)]
    (order,) = await ask(daemon, "", "memory", xpath="order")
    letters = await ask(daemon, "", "letters")
    await ask(daemon, "", "withdraw", eid=order["eid"], why="twice")
    await daemon.main_loop.until_idle()
    assert (await standing(daemon))["bank receipt"] == [(None, False)], "withdrawn twice is once"
    assert await ask(daemon, "", "letters") == letters
    await scene.end()


@in_a_loop
async def test_F14_what_is_sent_after_it_was_withdrawn_is_withdrawn_there(tmp_path: Path) -> None:
    scene = make_scene(tmp_path)
    daemon = await scene.open()
    (order,) = (await ask(daemon, "", "add", elements=[b"<order/>"]))["eids"]
    await ask(daemon, "", "suspend", name="shop")
    await ask(daemon, "", "start", name="m.sends")
    await daemon.main_loop.until_idle()
    await ask(daemon, "", "withdraw", eid=order, why="a joke")
    await ask(daemon, "", "resume", name="shop")
    await daemon.main_loop.until_idle()
    assert (await standing(daemon))["shop order"] == END["shop order"]
    await scene.end()


@in_a_loop
async def test_F14_a_kill_at_any_commit_comes_to_the_same_end(tmp_path: Path) -> None:
    expected, commits = await lived(tmp_path / "whole", None)
    assert expected == END
    assert commits > 6
    for at in range(1, commits + 1):
        for is_written in (False, True):
            assert (await lived(tmp_path / f"{at} {is_written}", (at, is_written)))[0] == END, (
                at,
                is_written,
            )


async def lived(folder: Path, kill_at: tuple[int, bool] | None) -> tuple[dict[str, Any], int]:
    """How everything stands in the end, and the commits that it took."""
    scene = make_scene(folder)
    with watched_commits(scene):
        daemon = await scene.open()
        await daemon.main_loop.until_idle()
        await scene.end()
        scene.commits, scene.kill_at = 0, kill_at
        try:
            await story(scene)
        except (Killed, NarvalError):
            await scene.end()
            scene.kill_at = None
            await story(scene)
        commits, scene.kill_at = scene.commits, None
        assert scene.alive is not None
        end = await standing(scene.alive)
        await scene.end()
    return end, commits
