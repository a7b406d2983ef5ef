"""Agents with files of their own: settings, definitions, memory.xml, an inbox (G2, G3, G4)."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from narval.daemon.daemon import Daemon
from narval.files.home import Home
from narval.files.new_home import create_home
from tests.daemon.at_work import Scene, in_a_loop

AGENTS = 250
"""As many as make what is there once for all of them, such as the pages of a new store, count for little."""


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path, settings="timezone = 'UTC'\n[agent]\nweight = 7\n")


@in_a_loop
async def test_G3_settings_reach_an_agent_when_it_is_activated_and_when_they_change(scene: Scene) -> None:
    scene.write("agents/ada/agent.toml", "weight = 20\n")
    daemon = await scene.open()
    if "ada" not in daemon.agents.rows:
        await daemon.agents.add("ada")
    async with daemon.agents.asked("ada") as ada:
        assert (daemon.host.settings.weight, ada.settings.weight) == (7, 20)
        scene.write("agents/ada/agent.toml", "weight = 30\n")
        scene.write("etc/narval.toml", "timezone = 'UTC'\n[agent]\nweight = 8\n")
        assert await daemon.reloader.reload()
        await ada.submit(lambda turn: None)
        assert (daemon.host.settings.weight, ada.settings.weight) == (8, 30)
        scene.write("agents/ada/agent.toml", "weight = 0\n")
        assert await daemon.reloader.reload()
        await ada.submit(lambda turn: None)
        assert [str(fault) for fault in daemon.files.faults] == [
            "agents/ada/agent.toml:1:10: weight: expected a whole number from 1 to 100, found 0"
        ]
        assert ada.settings.weight == 30
    await scene.end()


@in_a_loop
async def test_G6_an_agent_that_is_always_active_does_not_become_passive(scene: Scene) -> None:
    scene.write("agents/ada/agent.toml", "always_active = true\nidle_after = 0.1\n")
    daemon = await scene.open()
    if "ada" not in daemon.agents.rows:
        await daemon.agents.add("ada")
    async with daemon.agents.asked("ada"):
        pass
    assert not await daemon.agents.supervisor.passivated("ada")
    await scene.end()


THREADS = """
import threading
from narval import Output, action

@action(outputs=[Output("ran", "ran")], runs="inline")
def tell():
    return f"<ran main='{threading.current_thread() is threading.main_thread()}'/>"
"""
RECIPE = """<recipe group="{0}" name="r" start_step="s" end_step="s">
<step id="s" type="action" target="{0}.tell"/></recipe>"""


@in_a_loop
async def test_G13_inline_means_a_thread_in_modules_that_are_not_the_homes_own(scene: Scene) -> None:
    for group, folder in {"mine": "", "hers": "agents/ada/", "office": "collections/office/"}.items():
        scene.write(f"{folder}modules/{group}.py", THREADS)
        scene.write(f"{folder}recipes/{group}.xml", RECIPE.format(group))
    scene.write("agents/ada/agent.toml", "collections = ['home', 'office', 'own']\n")
    daemon = await scene.open()
    async with daemon.agents.asked("ada") as ada:
        ran = {}
        for group in ("mine", "hers", "office"):
            run = await ada.submit(lambda turn, group=group: turn.start(f"{group}.r"))
            await ada.ended(run)
            (eid,) = ada.agent.memory.contexts.of(run.eid)
            element = ada.agent.memory.element(eid)
            assert element is not None
            ran[group] = element.attributes["main"]
    assert ran == {"mine": "True", "hers": "False", "office": "False"}
    await scene.end()


@in_a_loop
async def test_G4_agents_of_the_same_collections_share_one_library(scene: Scene) -> None:
    scene.write("modules/mine.py", THREADS)
    scene.write("collections/office/modules/office.py", THREADS)
    for name in ("ada", "bob"):
        scene.write(f"agents/{name}/agent.toml", "collections = ['home', 'office']\n")
    scene.write("agents/eve/agent.toml", "")
    daemon = await scene.open()
    of = daemon.files.of_other
    assert of("ada").loaded is of("bob").loaded
    assert of("eve").loaded is daemon.files.loaded
    assert of("ada").loaded.functions["mine.tell"] is daemon.files.loaded.functions["mine.tell"]
    before = of("ada").loaded
    scene.write("agents/eve/modules/hers.py", THREADS)
    assert await daemon.reloader.reload()
    assert of("ada").loaded is before
    assert of("eve").loaded is not daemon.files.loaded
    await scene.end()


@in_a_loop
async def test_G4_agents_with_what_is_shipped_take_20_kB_each_in_the_store(tmp_path: Path) -> None:
    home = create_home(tmp_path / "home")
    (home.path / "data" / "memory.xml").write_text("<memory/>")  # its own agent works on no mails meanwhile
    daemon = await Daemon.open(home)
    before = bytes_of_store(home)
    for number in range(AGENTS):
        await daemon.agents.add(f"a{number}")
        async with daemon.agents.asked(f"a{number}"):
            pass
    taken = bytes_of_store(home) - before
    await daemon.close()
    assert taken <= AGENTS * 20_000, taken


def bytes_of_store(home: Home) -> int:
    with closing(sqlite3.connect(home.store)) as connection:
        (pages,), (size,) = (
            connection.execute(f"PRAGMA {fact}").fetchone() for fact in ("page_count", "page_size")
        )
    return int(pages * size)
