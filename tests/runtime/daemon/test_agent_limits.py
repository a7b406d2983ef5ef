"""What an agent may have at most, and what is told when it asks for more (G14)."""

from __future__ import annotations

from pathlib import Path

import pytest

from narval.surfaces.cli.render.answers import why
from tests.runtime.at_work import Scene, in_a_loop
from tests.runtime.daemon.test_agents import MODULE, RECIPES, ask, opened


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    scene = Scene(tmp_path, settings="timezone = 'UTC'\ncall_timeout = '1h'\n")
    scene.write("modules/w.py", MODULE)
    scene.write("recipes/w.xml", RECIPES)
    return scene


@in_a_loop
async def test_G14_why_says_for_what_a_call_waits_and_a_changed_limit_counts_at_once(scene: Scene) -> None:
    scene.write("agents/ada/agent.toml", "calls = 1\n")
    daemon = await opened(scene, "bob")
    if "ada" not in daemon.agents.rows:
        await daemon.agents.rows.add("ada")
    first, second = [(await ask(daemon, "ada", "start", name="w.calls"))["eid"] for _ in range(2)]
    other = (await ask(daemon, "bob", "start", name="w.calls"))["eid"]
    await daemon.main_loop.elapse(1.0)

    async def places(agent: str, run: int) -> list[str | None]:
        answer = await ask(daemon, agent, "why", run=run)
        return [call.get("place") for wait in answer["waiting"] for call in wait["calls"]]

    assert await places("ada", first) == await places("bob", other) == [None]
    assert await places("ada", second) == ["1 of 1 calls of ada are under way"]
    said = "\n".join(why(await ask(daemon, "ada", "why", run=second)))
    assert "it waits for a place: 1 of 1 calls of ada are under way" in said
    await daemon.main_loop.elapse(205.0)
    assert [(await ask(daemon, "ada", "show", run=run))["state"] for run in (first, second)] == [
        "done",
        "running",
    ]
    await daemon.main_loop.elapse(205.0)
    assert (await ask(daemon, "ada", "show", run=second))["state"] == "done"
    await scene.end()
