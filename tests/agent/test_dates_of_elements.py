"""Dates that elements hold, end to end: moved, called off, missed, killed, told of, by name (N45)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from narval.surfaces.cli.render import reasons
from narval.surfaces.python.agent import Agent
from tests.daemon.at_work import Scene, watched_commits
from tests.daemon.home_in_time import HomeInTime

MODULE = """
from narval import Element, Input, Output, action

@action(runs="inline")
def nothing():
    pass

@action(runs="inline", inputs=[Input("meeting", "meeting")], outputs=[Output("said", "reminder")])
def remind(meeting):
    return f"<reminder of='{meeting.attributes['start']}'/>"

@action(
    runs="inline", inputs=[Input("meeting", "meeting", outdates=True)], outputs=[Output("meeting", "meeting")]
)
def move(meeting):
    return "<meeting id='1' start='2026-11-25T15:00'/>"
"""
RECIPES = """<cookbook group="w">
<recipe name="watch" start_step="wait" end_step="remind" restart="parallel">
  <step id="wait" type="action" target="w.nothing"/><step id="soon" type="action" target="w.nothing"/>
  <step id="remind" type="action" target="w.remind"/>
  <transition id="taken"><in idref="wait"/><out idref="soon"/>
    <condition as="m" use="yes"><match>meeting</match></condition></transition>
  <transition id="t"><in idref="soon"/><out idref="remind"/>
    <time at="$m/@start" before="15m"/></transition>
</recipe>
<recipe name="move" start_step="move" end_step="move"><step id="move" type="action" target="w.move"/></recipe>
</cookbook>"""
HOUR = 3600.0
MEETING = "<meeting id='1' start='2026-11-25T10:00'/>"


def home_at(folder: Path, recipes: str = RECIPES) -> HomeInTime:
    files = {"modules/w.py": MODULE, "recipes/w.xml": recipes}
    return HomeInTime(folder, "2026-11-25T09:00:00+01:00", files, "Europe/Paris")


def reminded(agent: Agent) -> list[str]:
    return [each.attributes["of"] for each in agent.memory("reminder")]


def until(agent: Agent, run: int) -> str:
    (waiting,) = agent.why(run)["waiting"]
    return str(waiting["until"])[11:16]


def test_N45_a_quarter_of_an_hour_before_a_meeting(tmp_path: Path) -> None:
    at = home_at(tmp_path)
    with at.open() as agent:
        run = agent.start("w.watch")
        meeting = agent.add(MEETING)
        agent.until_idle()
        (waiting,) = agent.why(run)["waiting"]
        assert waiting["reckoned"] == f"15m before $m/@start; $m is element {meeting}"
        told = "t waits until 2026-11-25 09:45:00 (Europe/Paris), 15m before $m/@start; $m is element"
        assert any(line.startswith(told) for line in reasons.why(agent.why(run)))
        agent.elapse(minutes=44)
        assert reminded(agent) == []
        agent.elapse(minutes=1)
        assert reminded(agent) == ["2026-11-25T10:00"]


def test_N45_a_meeting_that_is_moved_moves_the_date_and_is_what_follows_is_given(tmp_path: Path) -> None:
    at = home_at(tmp_path)
    with at.open() as agent:
        run = agent.start("w.watch")
        agent.add("<meeting id='0' start='2026-11-26T10:00'/>")
        agent.until_idle()
        second = agent.runs()[-1]["eid"]
        agent.add(MEETING)
        agent.until_idle()
        assert (until(agent, run), until(agent, second)) == ("09:45", "09:45")
        meeting = next(each for each in agent.memory("meeting") if each.attributes["id"] == "1")
        agent.add("<meeting id='1' start='2026-11-25T15:00'/>", replace=meeting.eid)
        agent.until_idle()
        assert (until(agent, run), until(agent, second)) == ("09:45", "14:45")
        agent.elapse(hours=6)
        assert reminded(agent) == ["2026-11-25T15:00"], "of the two there are, the one that the date is of"


def test_N45_a_meeting_that_is_called_off_gives_the_date_up_and_alarms_nobody(tmp_path: Path) -> None:
    at = home_at(tmp_path)
    with at.open() as agent:
        run = agent.start("w.watch")
        meeting = agent.add(MEETING)
        agent.until_idle()
        agent.outdate([meeting])
        agent.until_idle()
        assert [each["state"] for each in agent.runs()] == ["done", "running"]
        gone = f"its date was that of element {meeting}, which was outdated, and nothing has taken the place"
        assert agent.why(run)["reason"].startswith(
            f"nothing was left to do: transition t is impossible: {gone}"
        )
        assert gone in agent.why(run, "t")["reason"]
        assert gone in agent.why(run, "remind")["reason"]
        assert agent.memory("error") == []


def test_N45_moved_while_no_daemon_was_there(tmp_path: Path) -> None:
    at = home_at(tmp_path)
    at.write("data/memory.xml", f"<memory>{MEETING.replace('id', 'key')}</memory>")
    with at.open() as agent:
        run = agent.start("w.watch")
        agent.until_idle()
        assert until(agent, run) == "09:45"
    at.write("data/memory.xml", "<memory><meeting key='1' start='2026-11-25T12:00'/></memory>")
    at.clock.set("2026-11-25T09:30:00+01:00")
    with at.open() as agent:
        agent.until_idle()
        assert until(agent, run) == "11:45"
        agent.elapse(hours=3)
        assert reminded(agent) == ["2026-11-25T12:00"]


def test_N45_a_name_stands_for_the_version_that_was_followed(tmp_path: Path) -> None:
    recipe = RECIPES.replace(
        'target="w.remind"/>', 'target="w.tell"><arguments><about>{$m/@start}</about></arguments></step>'
    )
    at = home_at(tmp_path, recipe)
    tell = """
@action(runs="inline", inputs=[Input("about", "about")], outputs=[Output("said", "reminder")])
def tell(about):
    return f"<reminder of='{about.tree().text}'/>"
"""
    at.write("modules/w.py", MODULE + tell)
    with at.open() as agent:
        agent.start("w.watch")
        agent.add(MEETING)
        agent.until_idle()
        agent.start("w.move")
        agent.elapse(hours=6)
        assert reminded(agent) == ["2026-11-25T15:00"]


def test_N45_a_zone_that_changes_moves_dates_without_an_offset(tmp_path: Path) -> None:
    at = home_at(tmp_path)
    with at.open() as agent:
        run = agent.start("w.watch")
        agent.add(MEETING)
        agent.until_idle()
    at.zone("Europe/Helsinki")
    with at.open() as agent:
        agent.until_idle()
        assert agent.run(run)["transitions"][1]["state"] == "fired", "9:00 in Paris is 10:00 there"


def test_N45_a_text_that_is_no_date_fails_the_plan(tmp_path: Path) -> None:
    at = home_at(tmp_path)
    with at.open() as agent:
        run = agent.start("w.watch")
        meeting = agent.add("<meeting id='1' start='next week'/>")
        agent.until_idle()
        error = agent.run(run)["error"]
        assert error["type"] == "no-date"
        assert error["message"].startswith(
            "the date of transition t cannot be computed: expected $m/@start to give a"
        )
        assert error["message"].endswith(f"got 'next week'; $m is element {meeting}")


def test_N45_history_and_retry_know_dates_of_elements(tmp_path: Path) -> None:
    at = home_at(tmp_path)
    with at.open() as agent:
        run = agent.start("w.watch")
        meeting = agent.add(MEETING)
        agent.until_idle()
        (dated,) = [line for line in agent.history(run) if line["what"] == "DateSet"]
        assert dated["of"] == [["m", [meeting]]]
        agent.cancel(run)
        again = agent.retry(run, "soon")
        agent.until_idle()
        assert until(agent, again) == "09:45"
        agent.outdate([meeting])
        agent.until_idle()
        given_up = [line for line in agent.history(again) if line["what"] == "DateGivenUp"]
        assert [line["gone"] for line in given_up] == [[meeting]]
        seq = next(line["seq"] for line in agent.history(again) if line["what"] == "DateSet")
        shown = agent.ask("show", run=again, at=seq)
        assert [each["state"] for each in shown["transitions"]] == ["fired", "wait-time"]


def test_N45_a_simulation_moves_the_date_too(tmp_path: Path) -> None:
    scenario = """<scenario at="2026-11-25T09:00" until="12h"><start recipe="w.watch"/>
      <arrive at="+1m"><meeting id="1" start="2026-11-25T10:00"/></arrive>
      <answer action="w.nothing"/><answer action="w.remind"><reminder/></answer>
      <answer action="w.move"><meeting id="1" start="2026-11-25T15:00"/></answer>
      <start recipe="w.move" at="+5m"/>
      <expect at="2026-11-25T14:44"><call action="w.remind" count="0"/></expect>
      <expect at="2026-11-25T14:46"><call action="w.remind" count="1"/></expect></scenario>"""
    with home_at(tmp_path).open() as agent:
        report = agent.simulate(scenario)
        assert report["well"], report["expected"]


@pytest.mark.parametrize("written", [True, False])
@pytest.mark.parametrize("commit", range(1, 8))
def test_N35_a_moved_date_comes_once_though_the_daemon_is_killed_at_any_commit(
    tmp_path: Path, commit: int, written: bool
) -> None:
    scene = Scene(tmp_path / "home", settings='timezone = "Europe/Paris"\n')
    scene.clock.set("2026-11-25T09:00:00+01:00")
    scene.write("modules/w.py", MODULE)
    scene.write("recipes/w.xml", RECIPES)
    scene.write("data/memory.xml", f"<memory>{MEETING}</memory>")

    async def story() -> None:
        await scene.passes(60.0, lambda turn: turn.start("w.watch"))
        agent = await scene.passes_killed(
            (commit, written),
            lambda: scene.passes(6 * HOUR, lambda turn: turn.start("w.move")),
            lambda: scene.passes(6 * HOUR),
        )
        (reminder,) = agent.memory.named(["reminder"])
        moved = agent.memory.element(reminder)
        assert moved is not None
        assert moved.attributes["of"] in ("2026-11-25T15:00", "2026-11-25T10:00")
        await scene.end_as_recorded()

    with watched_commits(scene):
        asyncio.run(story())
