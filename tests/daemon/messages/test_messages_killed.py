"""Messages to receivers that are passive, suspended, removed or full, killed at every commit (G24, G25)."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from narval.ask.asker import PROGRAM
from narval.ask.operations import invoke
from narval.core.errors import NarvalError
from narval.daemon.daemon import Daemon
from tests.daemon.at_work import Killed, Scene, watched_commits

RECIPES = """<cookbook><recipe group="m" name="tells" start_step="tell" end_step="tell">
  <step id="tell" type="send" to="shop">
    <input id="order" list="yes" use="yes"><match>order</match></input></step>
</recipe></cookbook>"""
FULL, ROOM = "elements = 5\n", "elements = 100\n"
FILE = "agents/shop/agent.toml"


async def ask(daemon: Daemon, agent: str, operation: str, **arguments: Any) -> Any:
    return await invoke(daemon, PROGRAM.asking(agent), operation, arguments)


async def texts(daemon: Daemon, agent: str, xpath: str) -> list[str]:
    return [row["xml"] for row in await ask(daemon, agent, "memory", xpath=xpath)]


async def state(daemon: Daemon) -> str:
    """The state of the receiver; "" when it is removed."""
    found = {row["name"]: row["state"] for row in await ask(daemon, "", "agents")}
    return str(found.get("shop", ""))


async def story(scene: Scene, receiver: str) -> None:
    """Three orders go to the receiver, which is then as it must be to take them, or removed; what was done
    before a kill is not done again.
    """
    daemon = await scene.open()
    await daemon.main_loop.until_idle()
    for n in range(len(await texts(daemon, "", "order")), 3):
        await ask(daemon, "", "add", elements=[f"<order n='{n}'/>".encode()])
    if not await ask(daemon, "", "runs"):
        await ask(daemon, "", "start", name="m.tells")
    await daemon.main_loop.until_idle()
    if receiver == "suspended" and await state(daemon) == "suspended":
        await ask(daemon, "", "resume", name="shop")
    if receiver == "removed" and await state(daemon):
        await ask(daemon, "", "remove_agent", name="shop")
    if receiver == "full":
        scene.write(FILE, ROOM)
        await daemon.reloader.reload()
    await daemon.main_loop.until_idle()


async def lived(folder: Path, receiver: str, kill_at: tuple[int, bool] | None) -> tuple[list[str], int]:
    """What came of the orders, and the commits that it took."""
    scene = Scene(folder, settings="timezone = 'UTC'\n")
    scene.write("recipes/m.xml", RECIPES)
    with watched_commits(scene):
        if receiver == "full":
            scene.write(FILE, FULL)
        daemon = await scene.open()
        if receiver != "full":
            await ask(daemon, "", "add_agent", name="shop")
        if receiver in ("suspended", "removed"):
            await ask(daemon, "", "suspend", name="shop")
        await daemon.main_loop.until_idle()
        await scene.end()
        scene.commits, scene.kill_at = 0, kill_at
        try:
            await story(scene, receiver)
        except (Killed, NarvalError):
            await scene.end()
            scene.kill_at = None
            await story(scene, receiver)
        commits, scene.kill_at = scene.commits, None
        await scene.end()
        daemon = await scene.open()
        await daemon.main_loop.until_idle()
        where = ("", "error[@type='undelivered']") if receiver == "removed" else ("shop", "order")
        found = [re.findall(' (?:n|eid)="([^"]*)"', xml)[0] for xml in await texts(daemon, *where)]
        assert daemon.store.letters.waiting() == []
        await scene.end()
    return found, commits


@pytest.mark.parametrize("receiver", ["passive", "suspended", "removed", "full"])
def test_G25_G31_G32_killed_at_any_commit_each_comes_or_is_told_of_once(
    tmp_path: Path, receiver: str
) -> None:
    expected, commits = asyncio.run(lived(tmp_path / "whole", receiver, None))
    assert receiver == "removed" or expected == ["0", "1", "2"]
    assert len(set(expected)) == 3
    for commit in range(1, commits + 1):
        for is_written in (False, True):
            at = commit, is_written
            found, _ = asyncio.run(lived(tmp_path / f"{commit}{is_written}", receiver, at))
            if receiver == "removed":  # what is told names eids, and a kill may leave some out
                assert len(found) == len(set(found)) == 3, at
            else:
                assert found == expected, at
