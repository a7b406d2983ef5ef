"""Agents with files of their own: settings, definitions, memory.xml, an inbox (G2, G3, G4)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runtime.at_work import Scene, in_a_loop


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path, settings="timezone = 'UTC'\n[agent]\nweight = 7\n")


@in_a_loop
async def test_G3_settings_reach_an_agent_when_it_is_activated_and_when_they_change(scene: Scene) -> None:
    scene.write("agents/ada/agent.toml", "weight = 20\n")
    daemon = await scene.open()
    if "ada" not in daemon.agents.rows:
        await daemon.agents.rows.add("ada")
    async with daemon.agents.asked("ada") as ada:
        assert (daemon.host.settings.weight, ada.settings.weight) == (7, 20)
        scene.write("agents/ada/agent.toml", "weight = 30\n")
        scene.write("etc/narval.toml", "timezone = 'UTC'\n[agent]\nweight = 8\n")
        assert await daemon.files.reload()
        await ada.submit(lambda turn: None)
        assert (daemon.host.settings.weight, ada.settings.weight) == (8, 30)
        scene.write("agents/ada/agent.toml", "weight = 0\n")
        assert await daemon.files.reload()
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
        await daemon.agents.rows.add("ada")
    async with daemon.agents.asked("ada"):
        pass
    assert not await daemon.agents.at_work.lay_down("ada")
    await scene.end()
