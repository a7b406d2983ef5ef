"""`narval.sleep`: calls let time pass on the clock that the daemon goes by (N25, N33)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

import narval
from narval.core.errors import RequestError
from narval.surfaces.python.agent import Agent

MODULE = """
from narval import Output, action, sleep

@action(outputs=[Output("woken", "woken")])
async def dozes():
    for _ in range(3):
        await sleep(60)
    return "<woken/>"

@action(source=True, outputs=[Output("tick", "tick", list=True)])
async def ticks():
    while True:
        await sleep(60)
        yield "<tick/>"
"""
STEP = """<recipe group="n" name="{name}" start_step="s" end_step="s">
<step id="s" type="action" target="n.{target}"{more}/></recipe>"""
RECIPES = f"""<cookbook group="n">
{STEP.format(name="long", target="dozes", more="")}
{STEP.format(name="limited", target="dozes", more=' timeout="90"')}
{STEP.format(name="source", target="ticks", more="")}
</cookbook>"""


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    (tmp_path / "n.py").write_text(MODULE)
    with narval.open(clock=narval.SimulatedClock(0.0)) as agent:
        agent.load(tmp_path / "n.py")
        agent.load(RECIPES)
        yield agent


def test_N25_a_call_sleeps_on_the_clock_of_the_daemon(agent: Agent) -> None:
    run = agent.start("n.long")
    agent.elapse(minutes=2, seconds=59)
    assert (agent.run(run)["state"], agent.memory("woken")) == ("running", [])
    agent.elapse(seconds=1)
    assert (agent.run(run)["state"], len(agent.memory("woken"))) == ("done", 1)
    assert agent.memory("woken")[0].added == 180.0


def test_N25_a_clock_that_is_moved_by_hand_wakes_it_too(tmp_path: Path) -> None:
    clock = narval.SimulatedClock(0.0)
    (tmp_path / "n.py").write_text(MODULE)
    with narval.open(clock=clock) as agent:
        agent.load(tmp_path / "n.py")
        agent.load(RECIPES)
        agent.start("n.source")
        for minutes in range(3):
            agent.until_idle()
            assert len(agent.memory("tick")) == minutes
            clock.advance(60)


def test_N29_a_time_limit_that_comes_first_ends_the_call_then(agent: Agent) -> None:
    run = agent.start("n.limited")
    agent.elapse(seconds=89)
    assert agent.run(run)["state"] == "running"
    agent.elapse(seconds=1)
    assert agent.run(run)["error"]["type"] == "timeout"
    (error,) = agent.memory("error")
    assert error.added == 90.0


def test_a_call_that_sleeps_can_be_given_up(agent: Agent) -> None:
    run = agent.start("n.long")
    agent.until_idle()
    agent.cancel(run)
    agent.elapse(hours=2)
    assert (agent.run(run)["state"], agent.memory("woken")) == ("cancelled", [])


def test_a_simulation_takes_no_real_time_for_it(tmp_path: Path) -> None:
    (tmp_path / "n.py").write_text(MODULE.replace("@action(outputs", "@action(pure=True, outputs"))
    with narval.open() as agent:
        agent.load(tmp_path / "n.py")
        agent.load(RECIPES)
        report = agent.simulate("<scenario until='1d'><start recipe='n.long'/></scenario>")
        assert report["well"]
        limited = agent.simulate("<scenario until='1d'><start recipe='n.limited'/></scenario>")
    ended = [event for event in report["happened"] if event["what"] == "ended"]
    assert [event["phase"] for event in ended] == ["done"]
    assert [run["error"]["type"] for run in limited["runs"]] == ["timeout"]


def test_outside_of_a_call_it_is_the_clock_of_the_machine() -> None:
    asyncio.run(narval.sleep(0.001))
    for wrong in (-1, float("nan"), float("inf"), "soon"):
        with pytest.raises(RequestError, match="number of seconds"):
            asyncio.run(narval.sleep(wrong))
