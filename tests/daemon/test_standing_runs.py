"""Standing runs: one for each definition of their kind, while it is loaded, by the newest version."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from narval.ask.asker import PROGRAM
from narval.ask.operations import invoke
from narval.core.errors import RequestError
from narval.core.kinds import KINDS
from narval.daemon.daemon import Daemon
from tests.daemon.at_work import Scene, in_a_loop, portrait, told
from tests.house.countdown import WITH_DESKS

FILE = "recipes/c.countdown"
ONE, MORE = "one from 5 call nothing\n", "one from 5 call nothing\ntwo from 9 call nothing\n"
MODULE = "from narval import action\n\n@action(runs='inline')\ndef tick(): pass\n"
ANOTHER = "one from 7 call nothing\n"


@pytest.fixture(autouse=True)
def desks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KINDS, "countdown", WITH_DESKS)


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    scene = Scene(tmp_path / "home")
    scene.write(FILE, ONE)
    return scene


async def ask(daemon: Daemon, operation: str, **arguments: Any) -> Any:
    return await invoke(daemon, PROGRAM, operation, arguments)


async def standing(daemon: Daemon, agent: str = "") -> dict[str, list[str]]:
    """The desks, and what each has been told."""
    asker = PROGRAM.asking(agent)
    rows = await invoke(daemon, asker, "runs", {"kind": "countdown-desk"})
    shown = [await invoke(daemon, asker, "show", {"run": row["eid"]}) for row in rows]
    assert len({row["name"] for row in rows}) == len(rows), rows
    return {run["name"]: run["desks"][0]["told"] for run in shown}


async def reloaded(scene: Scene, daemon: Daemon, text: str) -> dict[str, list[str]]:
    scene.write(FILE, text)
    await daemon.reloader.reload()
    await daemon.main_loop.until_idle()
    return await standing(daemon)


@in_a_loop
async def test_K70_one_begins_for_each_definition_when_it_is_loaded(scene: Scene) -> None:
    daemon = await scene.open()
    await daemon.main_loop.until_idle()
    assert await standing(daemon) == {"c.one": ["began"]}
    assert await reloaded(scene, daemon, MORE) == {"c.one": ["began"], "c.two": ["began"]}
    assert await ask(daemon, "runs") == []
    await scene.end()


@in_a_loop
async def test_K70_it_follows_the_newest_version_is_told_and_goes_on_after_a_restart(scene: Scene) -> None:
    daemon = await scene.open()
    await daemon.main_loop.until_idle()
    [before] = await ask(daemon, "runs", kind="countdown-desk")
    assert await reloaded(scene, daemon, ANOTHER) == {"c.one": ["began", "reload"]}
    assert await reloaded(scene, daemon, ANOTHER + "\n" * 0) == {"c.one": ["began", "reload"]}
    assert await reloaded(scene, daemon, "") == {"c.one": ["began", "reload", "gone"]}
    known = portrait(daemon.agent)
    await scene.end()
    daemon = await scene.open()
    await daemon.main_loop.until_idle()
    assert portrait(daemon.agent) == known
    assert await reloaded(scene, daemon, ANOTHER) == {"c.one": ["began", "reload", "gone", "reload"]}
    [after] = await ask(daemon, "runs", kind="countdown-desk")
    assert after["eid"] == before["eid"]
    await scene.end()
    scene.write(FILE, ONE)  # while nobody looks
    daemon = await scene.open()
    await daemon.main_loop.until_idle()
    assert (await standing(daemon))["c.one"][-1] == "reload"
    assert (await ask(daemon, "show", run=after["eid"]))["desks"][0]["count"] == 5
    await scene.end_as_recorded()


@in_a_loop
async def test_K52_it_is_told_by_name_and_begins_runs_of_what_it_follows(scene: Scene) -> None:
    scene.write(FILE, MORE)
    daemon = await scene.open()
    run = await ask(daemon, "start", name="c.one")
    await ask(daemon, "signal", run=run["eid"], name="tell", arguments={"of": "c.two", "signal": "call"})
    await daemon.main_loop.until_idle()
    assert (await standing(daemon))["c.two"] == ["began", f"call {run['eid']}"]
    assert [row["name"] for row in await ask(daemon, "runs", kind="countdown-run")] == ["c.one", "c.two"]
    await scene.end()


@in_a_loop
async def test_K70_it_is_not_cancelled_and_nobody_from_outside_tells_it_to_reload(scene: Scene) -> None:
    daemon = await scene.open()
    [desk] = await ask(daemon, "runs", kind="countdown-desk")
    with pytest.raises(RequestError, match=r"cannot be cancelled: it lasts as long as c\.one is loaded"):
        await ask(daemon, "cancel", run=desk["eid"])
    with pytest.raises(RequestError, match="does not hear reload"):
        await ask(daemon, "signal", run=desk["eid"], name="reload")
    await scene.end()


@in_a_loop
async def test_K70_one_that_broke_down_begins_anew_when_files_are_read(scene: Scene) -> None:
    daemon = await scene.open()
    [desk] = await ask(daemon, "runs", kind="countdown-desk")
    with pytest.raises(RequestError):
        await ask(daemon, "signal", run=desk["eid"], name="break")
    scene.write(FILE, ANOTHER)
    await daemon.reloader.reload()
    rows = await ask(daemon, "runs", kind="countdown-desk")
    assert [row["phase"] for row in rows] == ["failed", "active"]
    await scene.end()


@in_a_loop
async def test_K70_each_agent_that_follows_the_files_has_its_own_and_keeps_it(
    scene: Scene,
) -> None:
    daemon = await scene.open()
    await ask(daemon, "add_agent", name="shop")
    await daemon.main_loop.until_idle()
    assert await standing(daemon, "shop") == {"c.one": ["began"]}
    await ask(daemon, "suspend", name="shop")
    await ask(daemon, "resume", name="shop")
    await reloaded(scene, daemon, ANOTHER)
    assert await standing(daemon, "shop") == {"c.one": ["began", "reload"]}
    await scene.end()


@in_a_loop
async def test_G14_what_it_calls_is_no_family_of_its_and_is_forgotten_by_itself(tmp_path: Path) -> None:
    scene = Scene(tmp_path / "home", settings="run_family = 2\nrun_depth = 1\nforget_after = '1h'\n")
    scene.write(FILE, "one from 1 call m.tick\n" + "two from 9 call nothing\n")
    scene.write("modules/m.py", MODULE)
    daemon = await scene.open()
    run = await ask(daemon, "start", name="c.two", elements=[b"<given/>"])
    told = {"of": "c.one", "signal": "call"}
    for _ in range(4):
        await ask(daemon, "signal", run=run["eid"], name="tell", arguments=told)
    await daemon.main_loop.until_idle()
    found = [row for row in await ask(daemon, "runs") if row["name"] == "c.one"]
    assert [row["phase"] for row in found] == ["done"] * 4
    [desk] = [row for row in await ask(daemon, "runs", kind="countdown-desk") if row["name"] == "c.one"]
    assert set(daemon.agent.memory.contexts.of(desk["eid"])) == set()
    await daemon.main_loop.elapse(7200.0)
    assert [row["name"] for row in await ask(daemon, "runs")] == ["c.two"]
    await scene.end()


# --- killed at each commit ----------------------------------------------------------------------------------


async def story(scene: Scene) -> dict[str, list[str]]:
    """The definition is loaded, altered, removed, and comes back."""
    daemon = await scene.open()
    await daemon.main_loop.until_idle()
    told = (await standing(daemon)).get("c.one", [])
    for text, seen in ((ONE, "began"), (ANOTHER, "reload"), ("", "gone"), (ONE, "reload")):
        if told and Counter(told)[seen] and (text != ONE or seen == "began"):
            continue
        told = (await reloaded(scene, daemon, text)).get("c.one", [])
    return await standing(daemon)


async def lived(folder: Path, kill_at: tuple[int, bool] | None) -> tuple[dict[str, list[str]], int]:
    scene = Scene(folder, limit=1)
    scene.write(FILE, ONE)
    return await told(story, scene, kill_at), scene.commits


def test_K70_a_kill_at_any_commit_tells_nothing_twice(tmp_path: Path) -> None:
    expected, commits = asyncio.run(lived(tmp_path / "whole", None))
    assert expected == {"c.one": ["began", "reload", "gone", "reload"]}
    for commit in range(1, commits + 1):
        for is_written in (False, True):
            found, _ = asyncio.run(lived(tmp_path / f"{commit}{is_written}", (commit, is_written)))
            assert found == expected, (commit, is_written)
