"""Appointments end to end: zones, stops, kills, clocks that are set, retries, what is told of them (N41)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from narval.agent.agent import AgentState
from narval.surfaces.cli.render import reasons
from narval.surfaces.python.agent import Agent
from tests.daemon.at_work import Scene, watched_commits
from tests.daemon.home_in_time import HomeInTime

MODULE = """
from narval import Output, action

@action(runs="inline")
def nothing():
    pass

@action(runs="inline", outputs=[Output("said", "reminder")])
def remind():
    return "<reminder/>"
"""


def late(times: str, name: str = "late", more: str = "") -> str:
    """A recipe that reminds when its time has come."""
    return (
        f'<recipe group="w" name="{name}" start_step="ask" end_step="remind">'
        '<step id="ask" type="action" target="w.nothing"/><step id="remind" type="action" target="w.remind"/>'
        f'<transition id="t"><in idref="ask"/><out idref="remind"/>{times}</transition>{more}</recipe>'
    )


def home_at(folder: Path, start: str, recipe: str) -> HomeInTime:
    return HomeInTime(folder, start, {"modules/w.py": MODULE, "recipes/w.xml": recipe}, "Europe/Paris")


def reminded(at: HomeInTime, agent: Agent) -> list[str]:
    return [at.shown(each.added) for each in agent.memory("reminder")]


def test_N41_three_days_over_the_shift_to_summer_are_the_same_hour(tmp_path: Path) -> None:
    at = home_at(tmp_path, "2026-03-27T10:00:00+01:00", late('<time after="3d"/>'))
    with at.open() as agent:
        run = agent.start("w.late")
        agent.elapse(hours=70)
        assert reminded(at, agent) == []
        agent.elapse(hours=1)
        assert reminded(at, agent) == ["2026-03-30T10:00"]
        assert agent.run(run)["state"] == "done"


def test_N41_time_without_a_daemon_counts(tmp_path: Path) -> None:
    at = home_at(tmp_path, "2026-11-20T10:00:00+01:00", late('<time after="3d" weekdays="0-4"/>'))
    with at.open() as agent:
        agent.start("w.late")
        agent.until_idle()
    at.clock.set("2026-11-24T09:00:00+01:00")
    with at.open() as agent:
        agent.elapse(hours=25)
        assert reminded(at, agent) == ["2026-11-25T10:00"], "the moment is as it was set"


@pytest.mark.parametrize(("missed", "expected"), [("once", ["2026-11-26T09:00"]), ("skip", [])])
def test_N41_one_that_was_missed_comes_at_the_next_start_or_is_given_up(
    tmp_path: Path, missed: str, expected: list[str]
) -> None:
    at = home_at(tmp_path, "2026-11-20T10:00:00+01:00", late(f'<time after="3d" missed="{missed}"/>'))
    with at.open() as agent:
        run = agent.start("w.late")
        agent.until_idle()
    at.clock.set("2026-11-26T09:00:00+01:00")
    with at.open() as agent:
        agent.until_idle()
        assert reminded(at, agent) == expected
        assert agent.run(run)["state"] == "done", "what is given up is no failure"
        if not expected:
            why = agent.why(run)["reason"]
            gone = "transition t is impossible: its date was missed, and is not made up for"
            assert why.startswith(f"nothing was left to do: {gone}; it ended at")
            assert gone in agent.why(run, "t")["reason"]
            assert "its date was missed" in agent.why(run, "remind")["reason"]
            assert "DateGivenUp" in [line["what"] for line in agent.history(run)]


def test_N41_a_clock_that_is_set_does_not_move_the_moment(tmp_path: Path) -> None:
    at = home_at(tmp_path, "2026-11-20T10:00:00+01:00", late('<time after="2h"/>'))
    with at.open() as agent:
        run = agent.start("w.late")
        agent.elapse(hours=1)
        (before,) = agent.why(run)["waiting"]
        at.clock.step(-1800)
        agent.until_idle()
        (after,) = agent.why(run)["waiting"]
        assert before["until"] == after["until"] == "2026-11-20T12:00:00.000+01:00"
        at.clock.step(5400)
        agent.until_idle()
        assert reminded(at, agent) == ["2026-11-20T12:00"]


def test_N41_why_tells_the_moment_and_how_it_was_reckoned(tmp_path: Path) -> None:
    at = home_at(tmp_path, "2026-11-20T10:00:00+01:00", late('<time after="3d" weekdays="0-4"/>'))
    with at.open() as agent:
        run = agent.start("w.late")
        agent.until_idle()
        (waiting,) = agent.why(run)["waiting"]
        assert (waiting["for"], waiting["reckoned"]) == ("time", "after 3d of weekdays 0-4")
        told = "t waits until 2026-11-25 10:00:00 (Europe/Paris), after 3d of weekdays 0-4"
        assert told in list(reasons.why(agent.why(run)))
        assert told in list(reasons.why(agent.why(run, "t")))
        (shown,) = agent.run(run)["transitions"]
        assert (shown["state"], shown["until"]) == ("wait-time", "2026-11-25T09:00:00.000+00:00")
        assert "after 3d of weekdays 0-4" in str(agent.ask("graph", run=run))


def test_N41_of_several_dates_why_says_that_the_first_counts(tmp_path: Path) -> None:
    both = '<time after="3d"/><time hours="17" minutes="0" seconds="0"/>'
    at = home_at(tmp_path, "2026-11-20T10:00:00+01:00", late(both))
    with at.open() as agent:
        run = agent.start("w.late")
        agent.until_idle()
        (waiting,) = agent.why(run)["waiting"]
        assert waiting["until"] == "2026-11-20T17:00:00.000+01:00"
        assert waiting["reckoned"] == "after 3d or hours=17 minutes=0 seconds=0, whichever is first"


def test_N41_a_retry_counts_from_its_own_beginning(tmp_path: Path) -> None:
    at = home_at(
        tmp_path,
        "2026-11-20T10:00:00+01:00",
        late('<time after="2h"/>').replace('remind"/><tr', 'broken"/><tr'),
    )
    at.write("modules/w.py", MODULE + "\n@action(runs='inline')\ndef broken():\n    raise ValueError\n")
    with at.open() as agent:
        run = agent.start("w.late")
        agent.elapse(hours=3)
        assert agent.run(run)["state"] == "failed"
        again = agent.retry(run, "ask")
        agent.elapse(hours=1)
        (waiting,) = agent.why(again)["waiting"]
        assert waiting["until"] == "2026-11-20T15:00:00.000+01:00"


def test_N41_a_simulation_plays_days_in_a_moment(tmp_path: Path) -> None:
    at = home_at(tmp_path, "2026-11-20T10:00:00+01:00", late('<time after="3d" weekdays="0-4"/>'))
    scenario = """<scenario at="2026-11-20T10:00" until="2026-11-26"><start recipe="w.late"/>
      <answer action="w.nothing"/><answer action="w.remind"><reminder/></answer>
      <expect at="2026-11-25T09:59"><call action="w.remind" count="0"/></expect>
      <expect at="2026-11-25T10:01"><call action="w.remind" count="1"/></expect></scenario>"""
    with at.open() as agent:
        assert agent.simulate(scenario)["well"]


@pytest.mark.parametrize("written", [True, False])
@pytest.mark.parametrize("commit", range(1, 5))
def test_N35_it_comes_once_though_the_daemon_is_killed_at_any_commit(
    tmp_path: Path, commit: int, written: bool
) -> None:
    scene = Scene(tmp_path / "home", settings='timezone = "UTC"\n')
    scene.write("modules/w.py", MODULE)
    scene.write("recipes/w.xml", late('<time after="10m"/>'))

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
