"""Steps that wait for a reserved element: it comes free, or they hear that it never will (N18)."""

from __future__ import annotations

import threading
from pathlib import Path

import narval
from narval import SimulatedClock

MODULE = """
from narval import action, Input, Output
@action(inputs=[Input("lamp", "lamp", outdates=True)], outputs=[Output("lamp", "lamp", optional=True)])
def use(lamp): ...
@action(inputs=[Input("lamp", "lamp")], runs="inline")
def look(lamp): ...
"""
RECIPES = """<cookbook>
  <recipe group="t" name="use" start_step="a" end_step="a">
    <step id="a" type="action" target="lamps.use"/>
  </recipe>
  <recipe group="t" name="look" start_step="a" end_step="a">
    <step id="a" type="action" target="lamps.look"/>
  </recipe>
</cookbook>"""


def opened(tmp_path: Path) -> narval.surfaces.python.agent.Agent:
    module = tmp_path / "lamps.py"
    module.write_text(MODULE)
    agent = narval.open()
    agent.load(module)
    agent.load(RECIPES)
    agent.add("<lamp/>")
    return agent


def two_plans(tmp_path: Path, answer: str | None) -> tuple[str, str, dict[str, object] | None]:
    """One plan takes the lamp and replaces it by `answer`; another comes for it meanwhile."""
    go = threading.Event()

    async def use(lamp: object) -> str | None:
        import asyncio

        await asyncio.to_thread(go.wait)
        return answer

    with opened(tmp_path) as agent:
        agent.stub("lamps.use", use)
        first, second = agent.start("t.use"), agent.start("t.look")
        agent.wait(second, timeout=0.1)
        assert agent.run(second)["steps"][0]["state"] == "ready"
        assert agent.why(second)["waiting"][0]["for"] == "input"
        go.set()
        agent.until_idle()
        return agent.run(first)["state"], agent.run(second)["state"], agent.run(second)["error"]


def test_N18_a_step_held_back_goes_on_with_the_new_version(tmp_path: Path) -> None:
    assert two_plans(tmp_path, "<lamp/>")[:2] == ("done", "done")


def test_N18_a_step_held_back_hears_that_its_element_is_gone_for_good(tmp_path: Path) -> None:
    first, second, error = two_plans(tmp_path, None)
    assert (first, second) == ("done", "failed")
    assert error is not None
    assert error["type"] == "input-missing"


def test_N18_a_step_held_back_goes_on_when_the_call_fails(tmp_path: Path) -> None:
    assert two_plans(tmp_path, "rubbish")[:2] == ("failed", "done")


def test_N5_what_a_call_consults_is_used_and_not_idle(tmp_path: Path) -> None:
    (tmp_path / "home" / "etc").mkdir(parents=True)
    (tmp_path / "home" / "modules").mkdir()
    (tmp_path / "home" / "recipes").mkdir()
    (tmp_path / "home" / "etc" / "narval.toml").write_text('forget_after = "1h"\n')
    (tmp_path / "home" / "modules" / "lamps.py").write_text(MODULE)
    (tmp_path / "home" / "recipes" / "t.xml").write_text(RECIPES)
    with narval.open(tmp_path / "home", clock=SimulatedClock("2026-01-01T00:00:00Z")) as agent:
        looked_at, alone = agent.add("<lamp/>"), agent.add("<shade/>")
        agent.elapse(minutes=50)
        agent.start("t.look")
        agent.until_idle()
        agent.elapse(minutes=20)
        assert agent.element(alone) is None
        assert agent.element(looked_at) is not None
        agent.elapse(minutes=60)
        assert agent.element(looked_at) is None
