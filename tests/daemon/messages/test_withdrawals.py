"""A withdrawal follows an element to every agent that it was sent to, killed at every commit (F14)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.msgpack import decode

from narval.ask.asker import PROGRAM
from narval.ask.operations import invoke
from narval.core.errors import NarvalError
from narval.daemon.daemon import Daemon
from narval.daemon.messages.envelope import Outgoing
from narval.daemon.messages.kinds import WITHDRAW, TakenBack
from narval.daemon.messages.outbox import Outbox
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

@action(inputs=[Input("one", "order[@n='1']"), Input("two", "order[@n='2']")], runs="inline")
def tells_of_both(one, two):
    return Message("shop", "<hint/>")
"""
RECIPES = """<cookbook>
<recipe group="m" name="tells-of-both" start_step="hint" end_step="hint">
  <step id="hint" type="action" target="m.tells_of_both"/></recipe>
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
async def test_F14_what_people_there_have_confirmed_stays_so_when_something_else_is_withdrawn(
    tmp_path: Path,
) -> None:
    scene = make_scene(tmp_path)
    daemon = await story(scene)
    (hint,) = await ask(daemon, "shop", "memory", xpath="hint")
    await ask(daemon, "shop", "confirm", eid=hint["eid"])
    (order,) = (await ask(daemon, "", "add", elements=[b"<order n='2'/>"]))["eids"]
    await ask(daemon, "", "start", name="m.sends")
    await daemon.main_loop.until_idle()
    await ask(daemon, "", "withdraw", eid=order, why="another joke")
    await daemon.main_loop.until_idle()
    assert (await standing(daemon))["shop hint"] == [(None, False), (None, True)]
    await scene.end()


@in_a_loop
async def test_F14_a_message_tells_of_what_has_changed_alone(tmp_path: Path) -> None:
    scene, told = make_scene(tmp_path), list[list[int]]()
    send = Outbox.send

    def watched(self: Outbox, turn: Any, receiver: Any, message: Outgoing, until: Any = None) -> None:
        if message.kind == WITHDRAW and receiver.name == "shop":
            told.append(list(decode(message.data, type=TakenBack).withdrawn))
        send(self, turn, receiver, message, until)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Outbox, "send", watched)
        daemon = await scene.open()
        orders = []
        for _ in range(4):
            orders += (await ask(daemon, "", "add", elements=[b"<order/>"]))["eids"]
            await ask(daemon, "", "start", name="m.sends")
            await daemon.main_loop.until_idle()
            await ask(daemon, "", "withdraw", eid=orders[-1], why="a joke")
            await daemon.main_loop.until_idle()
    assert told == [[eid] for eid in orders]
    assert [row["withdrawn"] for row in await ask(daemon, "shop", "memory", xpath="order")] == [
        "narval withdrew it: a joke"
    ] * 4
    await scene.end()


@in_a_loop
async def test_F14_what_was_made_of_several_is_judged_by_all_of_them_one_after_another(
    tmp_path: Path,
) -> None:
    scene = make_scene(tmp_path)
    daemon = await scene.open()
    given = [b"<order n='1'/>", b"<order n='2'/>"]
    await ask(daemon, "", "start", name="m.tells-of-both", elements=given)
    await daemon.main_loop.until_idle()
    first, second = [row["eid"] for row in await ask(daemon, "", "memory", xpath="order")]
    await ask(daemon, "", "withdraw", eid=first, why="a joke")
    await daemon.main_loop.until_idle()
    assert (await standing(daemon))["shop hint"] == [(None, False)]
    await scene.end()
    daemon = await scene.open()
    await ask(daemon, "", "withdraw", eid=second, why="another")
    await daemon.main_loop.until_idle()
    assert (await standing(daemon))["shop hint"] == [(None, True)]
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
