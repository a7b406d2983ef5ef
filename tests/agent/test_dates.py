"""Dates end to end: mornings, zones, daylight saving, missed dates, clocks that are set, crashes (N25)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest

import narval
from narval.agent.agent import AgentState
from narval.agent.turn import Turn
from narval.surfaces.python.agent import Agent
from tests.daemon.at_work import Scene, watched_commits
from tests.daemon.home_in_time import HomeInTime

MODULE = """
from narval import Output, action

@action(runs="inline")
def nothing():
    pass

@action(runs="inline", outputs=[Output("said", "greeting")])
def greet():
    return "<greeting/>"

@action(runs="inline")
def fail():
    raise ValueError("no")
"""
SEVEN = '<time hours="7" minutes="0" seconds="0"/>'


def dated(name: str, times: str = SEVEN, restart: str = "yes", condition: str = "") -> str:
    """A recipe that greets whenever a date comes."""
    return (
        f'<recipe group="d" name="{name}" start_step="wait" end_step="greet" restart="{restart}">'
        '<step id="wait" type="action" target="w.nothing"/><step id="greet" type="action" target="w.greet"/>'
        f'<transition id="date"><in idref="wait"/><out idref="greet"/>{times}{condition}</transition>'
        "</recipe>"
    )


class At(HomeInTime):
    """A home of such recipes."""

    def __init__(self, folder: Path, start: str, zone: str = "Europe/Paris", **recipes: str) -> None:
        files = {f"recipes/{name}.xml": text for name, text in recipes.items()}
        super().__init__(folder, start, {"modules/w.py": MODULE, **files}, zone)

    def greeted(self, agent: Agent) -> list[str]:
        """When, as the clock on the wall shows it."""
        return [self.shown(each.added, "%m-%d %H:%M:%S") for each in agent.memory("greeting")]

    def waited_for(self, agent: Agent) -> list[str]:
        """The dates that runs wait for."""
        active = agent.daemon.agent.runs.active.values()
        return [self.shown(wake.at, "%m-%d %H:%M:%S") for run in active for wake in run.wakes.values()]


# --- mornings ---------------------------------------------------------------------------------------------


def test_N25_what_is_to_happen_each_morning_happens_each_morning(tmp_path: Path) -> None:
    at = At(tmp_path, "2026-03-02T10:00:00Z", m=dated("m"))
    with at.open() as agent:
        agent.start("d.m")
        agent.elapse(days=4)
        assert at.greeted(agent) == ["03-03 07:00:00", "03-04 07:00:00", "03-05 07:00:00", "03-06 07:00:00"]
        assert [each["state"] for each in agent.runs()] == ["done"] * 4 + ["running"]


def test_N25_a_date_does_not_fire_twice_within_its_second_after_a_restart(tmp_path: Path) -> None:
    at = At(tmp_path, "2026-03-02T10:00:00Z", m=dated("m"))
    with at.open() as agent:
        agent.start("d.m")
        agent.elapse(hours=20)
        at.clock.set("2026-03-03T06:00:00.400Z")
        agent.until_idle()
    with at.open() as agent:
        agent.elapse(hours=23)
        assert at.greeted(agent) == ["03-03 07:00:00"]
        agent.elapse(hours=1)
        assert at.greeted(agent) == ["03-03 07:00:00", "03-04 07:00:00"]


def test_N25_dates_on_the_way_come_in_order(tmp_path: Path) -> None:
    noon = '<time hours="12" minutes="0" seconds="0"/>'
    hourly = '<time minutes="30" seconds="0"/>'
    at = At(tmp_path, "2026-03-02T05:00:00Z", a=dated("a", noon), b=dated("b"), c=dated("c", hourly))
    with at.open() as agent:
        for name in "abc":
            agent.start(f"d.{name}")
        agent.elapse(hours=7)
        greeted = at.greeted(agent)
        assert greeted == sorted(greeted)
        hours = ["06:30", "07:00", "07:30", "08:30", "09:30", "10:30", "11:30", "12:00", "12:30"]
        assert greeted == [f"03-02 {each}:00" for each in hours]


def test_N28_a_recipe_that_begins_again_without_waiting_does_not_spin(tmp_path: Path) -> None:
    at = At(tmp_path, "2026-03-02T05:00:00Z", m=dated("m", times=""))
    with at.open() as agent:
        agent.start("d.m")
        agent.until_idle()
        assert len(agent.runs()) == 1
        agent.elapse(seconds=10)
        assert len(agent.runs()) == 11


def test_N25_a_date_of_the_machines_clock_comes(tmp_path: Path) -> None:
    at = At(tmp_path, "2026-03-02T05:00:00Z", m=dated("m", "<time/>", restart="no"))
    with narval.open(at.path) as agent:
        run = agent.start("d.m")
        assert agent.wait(run)["state"] == "done"
        [greeting] = agent.memory("greeting")
        assert greeting.added % 1 < 0.9, "a whole second, and what it took"


# --- zones, and the two nights ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("zone", "evening", "fields", "expected"),
    [
        # Clocks go forward: what is skipped fires once, right after the gap.
        ("Europe/Paris", "2026-03-28T20:00Z", 'hours="2" minutes="30"', ["03-29 03:00:00"]),
        ("America/New_York", "2026-03-08T01:00Z", 'hours="2" minutes="30"', ["03-08 03:00:00"]),
        ("Australia/Lord_Howe", "2026-10-03T10:00Z", 'hours="2" minutes="15"', ["10-04 02:30:00"]),
        ("Europe/Paris", "2026-03-28T20:00Z", 'hours="1,2,3" minutes="0,30"',
         ["03-29 01:00:00", "03-29 01:30:00", "03-29 03:00:00", "03-29 03:30:00"]),
        # Clocks go back: what is doubled fires once, in the first pass.
        ("Europe/Paris", "2026-10-24T20:00Z", 'hours="2" minutes="30"', ["10-25 02:30:00"]),
        ("America/New_York", "2026-11-01T00:00Z", 'hours="1" minutes="30"', ["11-01 01:30:00"]),
        ("Australia/Lord_Howe", "2026-04-04T10:00Z", 'hours="1" minutes="45"', ["04-05 01:45:00"]),
        ("Australia/Lord_Howe", "2026-04-04T10:00Z", 'hours="1,2" minutes="0,30"',
         ["04-05 01:00:00", "04-05 01:30:00", "04-05 02:00:00", "04-05 02:30:00"]),
    ],
)  # fmt: skip
def test_N25_both_nights_of_daylight_saving(
    tmp_path: Path, zone: str, evening: str, fields: str, expected: list[str]
) -> None:
    at = At(tmp_path, evening, zone, m=dated("m", f'<time {fields} seconds="0"/>'))
    with at.open() as agent:
        agent.start("d.m")
        agent.elapse(hours=14)
        assert at.greeted(agent) == expected
        moments = [each.added for each in agent.memory("greeting")]
        folds = [datetime.fromtimestamp(each, at.known).fold for each in moments]
        assert not any(folds), "the first pass"


def test_N25_another_zone_at_the_next_start_is_reckoned_with(tmp_path: Path) -> None:
    at = At(tmp_path, "2026-03-02T10:00:00Z", m=dated("m"))
    with at.open() as agent:
        run = agent.start("d.m")
        agent.until_idle()
        assert _until(agent, run) == datetime(2026, 3, 3, 6, tzinfo=UTC)
    at.zone("America/New_York")
    with at.open() as agent:
        assert _until(agent, run) == datetime(2026, 3, 2, 12, tzinfo=UTC)
        agent.elapse(hours=2)
        assert at.greeted(agent) == ["03-02 07:00:00"]


def _until(agent: Agent, run: int) -> datetime:
    [wait] = agent.why(run)["waiting"]
    assert (wait["id"], wait["for"]) == ("date", "time")
    return datetime.fromisoformat(wait["until"])


# --- missed dates -------------------------------------------------------------------------------------------


def test_N25_dates_missed_while_the_daemon_was_down_fire_once_at_start(tmp_path: Path) -> None:
    skip = SEVEN.replace("/>", ' missed="skip"/>')
    at = At(tmp_path, "2026-03-02T10:00:00Z", m=dated("m"), s=dated("s", skip))
    with at.open() as agent:
        agent.start("d.m")
        agent.start("d.s")
        agent.until_idle()
    at.clock.advance(5 * 86400)
    with at.open() as agent:
        agent.until_idle()
        assert at.greeted(agent) == ["03-07 11:00:00"]
        agent.elapse(days=1)
        assert at.greeted(agent) == ["03-07 11:00:00", "03-08 07:00:00", "03-08 07:00:00"]


def test_N25_what_the_machine_slept_through_was_missed(tmp_path: Path) -> None:
    skip = SEVEN.replace("/>", ' missed="skip"/>')
    at = At(tmp_path, "2026-03-02T10:00:00Z", m=dated("m"), s=dated("s", skip))
    with at.open() as agent:
        agent.start("d.m")
        dropped = agent.start("d.s")
        agent.until_idle()
        at.clock.sleep(86400)
        agent.until_idle()
        assert at.greeted(agent) == ["03-03 11:00:00"]
        assert _until(agent, dropped) == datetime(2026, 3, 4, 6, tzinfo=UTC)


# --- a clock that is set ------------------------------------------------------------------------------------


def test_N25_set_back_by_a_day_the_date_is_worked_out_anew(tmp_path: Path) -> None:
    at = At(tmp_path, "2026-03-12T10:00:00Z", m=dated("m"))
    with at.open() as agent:
        run = agent.start("d.m")
        agent.until_idle()
        at.clock.step(-86400)
        agent.until_idle()
        assert _until(agent, run) == datetime(2026, 3, 12, 6, tzinfo=UTC)
        agent.elapse(days=1)
        assert at.greeted(agent) == ["03-12 07:00:00"]
    with at.open() as agent:
        assert len(agent.memory("greeting")) == 1


def test_N25_set_back_while_nobody_was_there_the_date_is_worked_out_anew(tmp_path: Path) -> None:
    home = At(tmp_path, "2026-03-02T09:00:00Z", "UTC", morning=dated("morning"))
    with home.open() as agent:
        agent.start("d.morning")
        agent.until_idle()
        assert home.waited_for(agent) == ["03-03 07:00:00"]
    home.clock.step(-86400)
    home.clock.jump()  # nobody hears of it
    with home.open() as agent:
        agent.until_idle()
        assert home.waited_for(agent) == ["03-02 07:00:00"]
        home.clock.set("2026-03-02T07:00:00Z")
        agent.until_idle()
        assert home.greeted(agent) == ["03-02 07:00:00"]


def test_N25_set_forward_by_a_day_what_was_passed_over_fires_once(tmp_path: Path) -> None:
    at = At(tmp_path, "2026-03-12T10:00:00Z", m=dated("m"))
    with at.open() as agent:
        agent.start("d.m")
        agent.until_idle()
        at.clock.step(86400)
        agent.until_idle()
        assert at.greeted(agent) == ["03-13 11:00:00"]
        agent.elapse(days=1)
        assert at.greeted(agent) == ["03-13 11:00:00", "03-14 07:00:00"]


def test_N25_a_date_that_has_fired_does_not_fire_again_for_the_same_wait(tmp_path: Path) -> None:
    waits = dated("m", restart="no", condition="<condition><match>mail</match></condition>")
    at = At(tmp_path, "2026-03-12T10:00:00Z", m=waits)
    with at.open() as agent:
        run = agent.start("d.m")
        agent.elapse(days=1)
        assert agent.run(run)["transitions"] == [{"id": "date", "state": "wait-condition"}]
        at.clock.step(-86400)
        agent.add("<mail/>")
        agent.until_idle()
        assert agent.run(run)["state"] == "done"


@pytest.mark.parametrize("by", [86400.0, -86400.0])
def test_N28_a_length_of_time_lasts_as_long_whatever_the_clock_is_set_to(tmp_path: Path, by: float) -> None:
    fails = '<recipe group="d" name="f" start_step="a" end_step="a" restart="yes">'
    at = At(
        tmp_path, "2026-03-12T10:00:00Z", f=fails + '<step id="a" type="action" target="w.fail"/></recipe>'
    )
    with at.open() as agent:
        agent.start("d.f")
        agent.elapse(seconds=15)
        assert len(agent.runs()) == 5, "after 1, 2, 4 and 8 seconds; the next in 16"
        at.clock.step(by)
        agent.until_idle()
        agent.elapse(seconds=15.5)
        assert len(agent.runs()) == 5
        agent.elapse(seconds=1)
        assert len(agent.runs()) == 6


# --- crashes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("written", [True, False])
@pytest.mark.parametrize("commit", range(1, 7))
def test_N35_a_date_fires_once_though_the_daemon_is_killed_at_any_commit(
    tmp_path: Path, commit: int, written: bool
) -> None:
    scene = Scene(tmp_path / "home", settings='timezone = "UTC"\n')
    scene.write("modules/w.py", MODULE)
    scene.write("recipes/d.xml", dated("m", restart="no"))

    async def until(moment: str, act: Callable[[Turn], object] | None = None) -> AgentState:
        seconds = datetime.fromisoformat(moment).timestamp() - scene.clock.now()
        return await scene.passes(seconds, act)

    async def story() -> None:
        scene.clock.set("2026-03-12T06:00:00Z")
        await until("2026-03-12T06:30:00Z", lambda turn: turn.start("d.m"))
        a_second_past = partial(until, "2026-03-12T07:00:01Z")
        agent = await scene.passes_killed((commit, written), a_second_past, a_second_past)
        assert len(list(agent.memory.named(["greeting"]))) == 1
        [run] = agent.runs.values()
        assert run.status == "done"
        await scene.end_as_recorded()

    with watched_commits(scene):
        asyncio.run(story())
