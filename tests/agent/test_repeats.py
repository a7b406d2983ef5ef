"""Steps that are called again, end to end: stops, kills, clocks, what surfaces tell (N40)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from narval.surfaces.cli.render import reasons
from narval.surfaces.python.agent import Agent
from tests.daemon.at_work import Scene, in_a_loop, watched_commits
from tests.daemon.home_in_time import HomeInTime

MODULE = """
from narval import Input, Output, action

@action(runs="inline", inputs=[Input("invoice", "invoice")], outputs=[Output("said", "reminder")])
def remind(invoice):
    return "<reminder/>"

@action(runs="inline")
def nothing():
    pass
"""
RECIPES = """<cookbook group="w">
<recipe name="bill" start_step="remind" end_step="thank">
  <step id="remind" type="action" target="w.remind" until="payment[@of='7']" every="7d"/>
  <step id="thank" type="action" target="w.nothing"/>
  <transition id="paid"><in idref="remind"/><out idref="thank"/></transition>
</recipe>
</cookbook>"""
DAY = 86400.0
MEMORY = "<memory><invoice number='7'/></memory>"


FILES = {"modules/w.py": MODULE, "recipes/w.xml": RECIPES, "data/memory.xml": MEMORY}


@pytest.fixture
def at(tmp_path: Path) -> HomeInTime:
    return HomeInTime(tmp_path, "2026-03-02T10:00:00Z", FILES)


def scene_of(folder: Path) -> Scene:
    """A home whose daemon may be killed."""
    scene = Scene(folder / "home", settings='timezone = "UTC"\n')
    for path, text in FILES.items():
        scene.write(path, text)
    return scene


def reminders(agent: Agent) -> int:
    return len(agent.memory("reminder"))


def test_N40_an_invoice_is_reminded_of_each_week_until_it_is_paid(at: HomeInTime) -> None:
    with at.open() as agent:
        run = agent.start("w.bill")
        agent.until_idle()
        assert reminders(agent) == 1
        agent.elapse(days=20)
        assert reminders(agent) == 3
        agent.add("<payment of='7'/>")
        agent.elapse(days=20)
        assert (reminders(agent), agent.ask("show", run=run)["state"]) == (3, "done")


def test_N40_reminders_come_on_working_days_alone(at: HomeInTime) -> None:
    at.write("recipes/w.xml", RECIPES.replace('every="7d"', 'every="1d mon-fri"'))
    with at.open() as agent:
        agent.start("w.bill")
        agent.until_idle()
        agent.elapse(days=7)
        days = [at.shown(element.added, "%d") for element in agent.memory("reminder")]
        assert days == [f"{day:02}" for day in (2, 3, 4, 5, 6, 9)]


def test_N40_a_run_that_is_over_weeks_without_a_daemon_is_called_once(at: HomeInTime) -> None:
    with at.open() as agent:
        agent.start("w.bill")
        agent.until_idle()
    at.clock.set("2026-12-02T10:00:00Z")
    with at.open() as agent:
        agent.until_idle()
        assert reminders(agent) == 2
        agent.elapse(days=6)
        assert reminders(agent) == 2
        agent.elapse(days=1)
        assert reminders(agent) == 3


@in_a_loop
async def test_N40_what_came_while_no_daemon_was_up_ends_it_without_a_call(tmp_path: Path) -> None:
    scene = scene_of(tmp_path)
    daemon = await scene.open()
    await daemon.host.submit(lambda turn: turn.start("w.bill"))
    await daemon.main_loop.elapse(1.0)
    await scene.end()
    scene.clock.step(40 * 7 * DAY)
    daemon = await scene.open(record_only=True)
    await daemon.host.submit(lambda turn: turn.add(b"<payment of='7'/>"))
    await scene.end()
    agent = (await scene.open()).agent
    await scene.alive.main_loop.elapse(1.0)
    assert (len(list(agent.memory.named(["reminder"]))), list(agent.runs.active)) == (1, [])
    await scene.end()


def test_N40_surfaces_tell_the_next_call_and_what_ends_it(at: HomeInTime) -> None:
    with at.open() as agent:
        run = agent.start("w.bill")
        agent.add("<payment of='8'/>")
        agent.until_idle()
        answer = agent.why(run)
        (waiting,) = answer["waiting"]
        assert (waiting["for"], waiting["until"]) == ("again", "2026-03-09T10:00:00.000+00:00")
        told = "\n".join(reasons.why(answer))
        assert "to call action w.remind again" in told
        assert "not met  payment[@of='7']" in told
        assert "nothing fits its until" in agent.why(run, "remind")["reason"]
        (step, _) = agent.ask("show", run=run)["steps"]
        assert step["until"] == "2026-03-09T10:00:00.000+00:00"
        assert "every 7d until payment[@of='7']" in agent.ask("graph", run=run)["dot"]
        agent.elapse(days=8)
        agent.add("<payment of='7'/>")
        agent.until_idle()
        told = [line["what"] for line in agent.history(run)]
        assert told.count("StepResting") == 2
        assert told.index("StepRunning") < told.index("RestEnded") < told.index("CallMade")
        assert told.count("CallMade") == 1


def test_N40_a_week_later_the_clock_on_the_wall_shows_the_same(tmp_path: Path) -> None:
    at = HomeInTime(tmp_path, "2026-03-27T09:00:00+01:00", FILES, "Europe/Paris")
    with at.open() as agent:
        run = agent.start("w.bill")
        agent.until_idle()
        (waiting,) = agent.why(run)["waiting"]
        assert waiting["until"] == "2026-04-03T09:00:00.000+02:00"
    at.zone("UTC")
    with at.open() as agent:
        agent.until_idle()
        (waiting,) = agent.why(run)["waiting"]
        assert waiting["until"] == "2026-04-03T08:00:00.000+00:00", "in another zone it is reckoned anew"


def test_N40_a_retry_calls_it_anew(at: HomeInTime) -> None:
    with at.open() as agent:
        run = agent.start("w.bill")
        agent.until_idle()
        agent.cancel(run)
        again = agent.retry(run, "remind")
        agent.until_idle()
        assert reminders(agent) == 2
        agent.add("<payment of='7'/>")
        agent.until_idle()
        assert agent.ask("show", run=again)["state"] == "done"


def test_N40_a_simulation_plays_weeks_of_it(at: HomeInTime) -> None:
    at.write(
        "scenarios/bill.xml",
        """<scenario at="2026-03-02T10:00" until="30d">
          <start recipe="w.bill"/>
          <answer action="w.remind"><reminder/></answer>
          <arrive at="+15d"><payment of="7"/></arrive>
          <expect at="+14d12h"><call action="w.remind" count="3"/></expect>
          <expect><call action="w.remind" count="3"/><run recipe="w.bill" phase="done" count="1"/></expect>
        </scenario>""",
    )
    with at.open() as agent:
        report = agent.simulate("bill")
        assert report["expected"]
        assert [told for told in report["expected"] if not told["met"]] == []


@pytest.mark.parametrize("written", [True, False])
@pytest.mark.parametrize("commit", range(1, 7))
def test_N35_each_moment_has_one_call_though_the_daemon_is_killed_at_any_commit(
    tmp_path: Path, commit: int, written: bool
) -> None:
    scene = scene_of(tmp_path)

    async def story() -> None:
        began = scene.clock.now()
        await scene.passes(DAY, lambda turn: turn.start("w.bill"))
        agent = await scene.passes_killed(
            (commit, written),
            lambda: scene.passes(7 * DAY),
            lambda: scene.passes(began + 8 * DAY - scene.clock.now()),
        )
        assert len(list(agent.memory.named(["reminder"]))) == 2
        await scene.end_as_recorded()

    with watched_commits(scene):
        asyncio.run(story())
