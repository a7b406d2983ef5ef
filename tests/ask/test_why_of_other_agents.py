"""`why` follows a call to the agent that answers it (G37)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from narval.ask.asker import PROGRAM
from narval.ask.operations import invoke
from narval.daemon.daemon import Daemon
from narval.surfaces.cli.render import reasons
from tests.daemon.at_work import Scene, in_a_loop

RECIPES = """<cookbook group="g">
<recipe name="asks" start_step="a" end_step="a">
  <step id="a" type="recipe" target="g.passes_on" agent="shop" timeout="1h"/></recipe>
<recipe name="passes_on" start_step="a" end_step="a">
  <step id="a" type="recipe" target="g.waits" agent="ada" timeout="1h"/></recipe>
<recipe name="waits" start_step="a" end_step="b">
  <step id="a" type="action" target="basic.mirror"/><step id="b" type="action" target="basic.mirror"/>
  <transition id="t"><in idref="a"/><out idref="b"/><condition><match>go[@now='yes']</match></condition>
  </transition></recipe>
</cookbook>"""


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    scene = Scene(tmp_path, settings="timezone = 'UTC'\n")
    scene.write("recipes/g.xml", RECIPES.replace("basic.mirror", "m.nothing"))
    scene.write(
        "modules/m.py", "from narval import action\n\n@action(runs='inline')\ndef nothing():\n    pass\n"
    )
    for name in ("shop", "ada"):
        scene.write(f"agents/{name}/agent.toml", 'offers = {"g.passes_on" = ["*"], "g.waits" = ["*"]}\n')
    return scene


async def ask(daemon: Daemon, agent: str, operation: str, **arguments: Any) -> Any:
    return await invoke(daemon, PROGRAM.asking(agent), operation, arguments)


async def started(scene: Scene) -> tuple[Daemon, int]:
    daemon = await scene.open()
    for name in ("shop", "ada"):
        if name not in daemon.agents.rows:
            await ask(daemon, "", "add_agent", name=name)
    run = (await ask(daemon, "", "start", name="g.asks"))["eid"]
    await daemon.main_loop.until_idle()
    return daemon, run


async def whereabouts(daemon: Daemon, run: int, agent: str = "") -> dict[str, Any]:
    [wait] = (await ask(daemon, agent, "why", run=run))["waiting"]
    [call] = wait["calls"]
    at: dict[str, Any] = call["at"]
    return at


@in_a_loop
async def test_G37_why_tells_what_the_run_of_the_other_agent_waits_for(
    scene: Scene,
) -> None:
    daemon, run = await started(scene)
    at = await whereabouts(daemon, run)
    assert (at["agent"], at["name"], at["state"]) == ("shop", "g.passes_on", "running")
    [waits] = await ask(daemon, "", "runs")
    assert (waits["waits_for"], waits["agents"]) == ("call", ["shop"]), "and not for its time limit"
    [wait] = at["waiting"]
    further = wait["calls"][0]["at"]
    assert (further["agent"], further["name"]) == ("ada", "g.waits")
    assert further["waiting"][0]["conditions"][0]["pattern"] == "go[@now='yes']"
    [call] = (await ask(daemon, "", "show", run=run))["calls"]
    assert call["agent"] == "shop"
    asked = [line for line in await ask(daemon, "", "history", run=run) if line["what"] == "Call"]
    assert asked[0]["of"] == "shop"
    there = await ask(daemon, "shop", "history", run=at["run"])
    assert (there[0]["caller"]["agent"], there[0]["caller"]["asked_by"]) == ("narval", run)
    await scene.end()


@in_a_loop
async def test_G37_why_tells_who_has_a_call_that_no_run_answers(scene: Scene) -> None:
    daemon, _ = await started(scene)
    [shops] = await ask(daemon, "shop", "runs")
    await ask(daemon, "", "suspend", name="ada")
    second = (await ask(daemon, "shop", "start", name="g.passes_on"))["eid"]
    await daemon.main_loop.until_idle()
    at = await whereabouts(daemon, second, "shop")
    assert (at["state"], at["agent_state"], at["run"]) == ("untaken", "suspended", None)
    assert at["since"] is not None
    assert (await whereabouts(daemon, shops["eid"], "shop"))["name"] == "g.waits", "the suspended one has it"
    said = "1 message waits for agent ada, which is suspended: narval agents resume ada"
    for agent in ("", "shop"):
        assert said in [one["text"] for one in await ask(daemon, agent, "attention")]
    await ask(daemon, "", "resume", name="ada")
    await daemon.main_loop.until_idle()
    assert said not in [one["text"] for one in await ask(daemon, "", "attention")]
    await scene.end()


@in_a_loop
async def test_G37_the_story_of_a_call_for_people(scene: Scene) -> None:
    daemon, run = await started(scene)
    told = "\n".join(reasons.why(await ask(daemon, "", "why", run=run)))
    assert "a waits for recipe g.passes_on of shop to come back" in told
    assert "shop has it since" in told
    assert "    a waits for recipe g.waits of ada to come back" in told
    assert "        not met  go[@now='yes']" in told
    await scene.end()
