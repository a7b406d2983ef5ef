"""Conditions that must last, end to end: stops, kills, clocks that are set, elements forgotten (N38)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from narval.agent.agent import AgentState
from narval.surfaces.python.agent import Agent
from tests.daemon.at_work import Scene, watched_commits
from tests.daemon.home_in_time import HomeInTime

MODULE = """
from narval import Input, Output, action

@action(runs="inline")
def nothing():
    pass

@action(runs="inline", outputs=[Output("said", "reminder")])
def remind():
    return "<reminder/>"

@action(runs="inline", inputs=[Input("order", "order", outdates=True)], outputs=[Output("order", "order")])
def note(order):
    return "<order state='open' note='called'/>"
"""
RECIPES = """<cookbook group="w">
<recipe name="late" start_step="wait" end_step="remind">
  <step id="wait" type="action" target="w.nothing"/><step id="remind" type="action" target="w.remind"/>
  <transition id="late"><in idref="wait"/><out idref="remind"/>
    <condition for="10m"><match>order[@state='open']</match></condition></transition>
</recipe>
<recipe name="note" start_step="note" end_step="note"><step id="note" type="action" target="w.note"/></recipe>
</cookbook>"""


def home_at(folder: Path, settings: str = "") -> HomeInTime:
    files = {"modules/w.py": MODULE, "recipes/w.xml": RECIPES}
    return HomeInTime(folder, "2026-03-02T10:00:00Z", files, settings=settings)


def reminders(agent: Agent) -> int:
    return len(agent.memory("reminder"))


def test_N38_time_without_a_daemon_counts_and_the_next_start_fires_at_once(tmp_path: Path) -> None:
    at = home_at(tmp_path)
    with at.open() as agent:
        agent.start("w.late")
        agent.add("<order state='open'/>")
        agent.elapse(minutes=4)
        assert reminders(agent) == 0
    at.clock.set("2026-03-02T10:30:00Z")
    with at.open() as agent:
        agent.until_idle()
        assert reminders(agent) == 1


def test_N38_a_new_version_goes_on_counting_across_a_restart(tmp_path: Path) -> None:
    at = home_at(tmp_path)
    with at.open() as agent:
        agent.start("w.late")
        agent.add("<order state='open'/>")
        agent.elapse(minutes=4)
        agent.start("w.note")
        agent.elapse(minutes=1)
    with at.open() as agent:
        agent.elapse(seconds=299)
        assert reminders(agent) == 0
        agent.elapse(seconds=1)
        assert reminders(agent) == 1


def test_N38_a_clock_that_is_set_back_does_not_move_the_moment(tmp_path: Path) -> None:
    at = home_at(tmp_path)
    with at.open() as agent:
        run = agent.start("w.late")
        agent.add("<order state='open'/>")
        agent.elapse(minutes=4)
        (before,) = agent.why(run)["waiting"]
        at.clock.step(-180)
        agent.until_idle()
        (after,) = agent.why(run)["waiting"]
        assert after["until"] == before["until"]
        agent.elapse(minutes=9)
        assert reminders(agent) == 1


def test_N38_an_element_that_nobody_used_may_be_forgotten_before_it_has_lasted(tmp_path: Path) -> None:
    at = home_at(tmp_path, 'forget_after = "5m"\n')
    with at.open() as agent:
        run = agent.start("w.late")
        agent.add("<order state='open'/>")
        agent.elapse(minutes=20)
        assert (agent.memory("order"), reminders(agent)) == ([], 0)
        (waiting,) = agent.why(run)["waiting"]
        assert waiting["until"] is None


def test_N38_history_tells_when_the_time_began_and_when_it_had_passed(tmp_path: Path) -> None:
    at = home_at(tmp_path)
    with at.open() as agent:
        run = agent.start("w.late")
        agent.add("<order state='open'/>")
        agent.elapse(minutes=10)
        told = [line["what"] for line in agent.history(run)]
        assert told.index("DurationStarted") < told.index("DurationEnded") < told.index("TransitionFired")


@pytest.mark.parametrize("written", [True, False])
@pytest.mark.parametrize("commit", range(1, 6))
def test_N35_it_fires_once_though_the_daemon_is_killed_at_any_commit(
    tmp_path: Path, commit: int, written: bool
) -> None:
    scene = Scene(tmp_path / "home", settings='timezone = "UTC"\n')
    scene.write("modules/w.py", MODULE)
    scene.write("recipes/w.xml", RECIPES)
    scene.write("data/memory.xml", "<memory><order state='open'/></memory>")

    async def after_an_hour() -> AgentState:
        scene.clock.step(3600.0)
        return await scene.passes(1.0)

    async def story() -> None:
        await scene.passes(500.0, lambda turn: turn.start("w.late"))
        agent = await scene.passes_killed((commit, written), lambda: scene.passes(200.0), after_an_hour)
        assert len(list(agent.memory.named(["reminder"]))) == 1
        await scene.end_as_recorded()

    with watched_commits(scene):
        asyncio.run(story())
