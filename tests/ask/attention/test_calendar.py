"""The calendar: what is to come by day, and what came late, and why (M48)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import narval as library
from narval.ask.attention.calendar import MOST
from narval.core.errors import RequestError
from narval.surfaces.python.agent import Agent
from tests.ask.work_home import PURCHASE, home_with
from tests.surfaces.cli.command_line import data, well

RECIPES = """<cookbook group="s">
<recipe name="seven" start_step="a" end_step="z">
  <step id="a" type="action" target="m.buy"/><step id="z" type="action" target="m.buy"/>
  <transition id="t"><in idref="a"/><out idref="z"/><time hours="7" minutes="0" seconds="0"/></transition>
</recipe>
<recipe name="night" start_step="a" end_step="z">
  <step id="a" type="action" target="m.buy"/><step id="z" type="action" target="m.buy"/>
  <transition id="t"><in idref="a"/><out idref="z"/>
    <time hours="2" minutes="30" seconds="0" missed="skip"/></transition>
</recipe>
<recipe name="often" start_step="a" end_step="z">
  <step id="a" type="action" target="m.buy"/><step id="z" type="action" target="m.buy"/>
  <transition id="t"><in idref="a"/><out idref="z"/><time seconds="0"/></transition>
</recipe>
<recipe name="tries" start_step="a" end_step="a">
  <step id="a" type="action" target="m.fails" retries="1" backoff="10800"/></recipe>
<recipe name="ask" start_step="a" end_step="a"><step id="a" type="work" target="purchase.approve"/></recipe>
</cookbook>"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    made = home_with(tmp_path / "home", PURCHASE)
    (made / "recipes" / "s.xml").write_text(RECIPES)
    (made / "etc" / "narval.toml").write_text('timezone = "Europe/Paris"\n')
    return made


def opened(home: Path, at: str) -> Agent:
    return library.open(home, clock=library.SimulatedClock(at))


@pytest.fixture
def agent(home: Path) -> Iterator[Agent]:
    with opened(home, "2026-03-27T10:00:00Z") as agent:
        yield agent


def lines(answer: dict[str, Any], *keys: str) -> list[tuple[Any, ...]]:
    return [
        (entry["at"][:16], *(entry[key] for key in keys))
        for day in answer["days"]
        for entry in day["entries"]
    ]


def test_M48_what_is_set_and_what_is_expected_by_day(agent: Agent) -> None:
    run = agent.start("s.seven")
    agent.until_idle()
    answer = agent.ask("calendar", end="2026-03-31")
    assert answer["zone"] == "Europe/Paris"
    assert lines(answer, "what", "run", "part", "text", "expected") == [
        (f"2026-03-{day}T07:00", "date", run, "t", "hours=7 minutes=0 seconds=0", day != 28)
        for day in (28, 29, 30)
    ]
    assert [day["day"] for day in answer["days"]] == ["2026-03-28", "2026-03-29", "2026-03-30"]
    assert lines(agent.ask("calendar", start="2026-03-30", end="2026-03-31"), "expected") == [
        ("2026-03-30T07:00", True)
    ]


def test_M48_dates_that_come_often_are_one_line_a_day_and_hide_no_others(agent: Agent) -> None:
    often, seven = agent.start("s.often"), agent.start("s.seven")
    agent.until_idle()
    answer = agent.ask("calendar", start="2026-03-28", end="2027-03-27")
    assert not answer["more"]
    rows = lines(answer, "run", "expected", "text")
    assert [at for at, run, _, _ in rows if run == often][:3] == [
        "2026-03-28T00:00",
        "2026-03-29T00:00",
        "2026-03-30T00:00",
    ]
    assert {text for _, run, _, text in rows if run == often} == {
        "seconds=0, and more than 10 times that day"
    }
    assert {run: sum(row[1] == run for row in rows) for run in (often, seven)} == {often: 364, seven: 364}


def test_M48_a_night_on_which_the_clock_is_set_is_marked_with_what_that_does(agent: Agent) -> None:
    agent.start("s.night")
    agent.until_idle()
    answer = agent.ask("calendar", start="2026-03-28", end="2026-03-31")
    marked = [day["clock"] for day in answer["days"]]
    said = "the clock goes forward, 02:00 becomes 03:00: dates between come at 03:00"
    assert marked == [None, said, None]
    assert [at for (at,) in lines(answer)] == ["2026-03-28T02:30", "2026-03-29T03:00", "2026-03-30T02:30"]
    (autumn,) = agent.ask("calendar", start="2026-10-25", end="2026-10-26")["days"]
    assert autumn["clock"] == (
        "the clock goes back, 03:00 becomes 02:00: dates between come once, the first time"
    )


def test_M48_deadlines_of_work_and_back_offs(agent: Agent) -> None:
    agent.add("<request what='a lamp'/>")
    agent.start("s.ask")
    tries = agent.start("s.tries")
    agent.until_idle()
    found = lines(agent.ask("calendar"), "what", "name")
    assert ("2026-04-01T11:00", "deadline", "purchase.approve") in found
    assert [(what, name) for _, what, name in found if name == "s.tries"] == [("back-off", "s.tries")]
    assert tries


def test_M48_the_deadline_of_an_item_is_told_though_a_reminder_comes_first_and_what_it_asks(
    home: Path,
) -> None:
    (home / "recipes" / "purchase.xml").write_text(
        PURCHASE.replace('<deadline after="5d"/>', '<remind after="1d"/><deadline after="5d"/>')
    )
    with opened(home, "2026-03-27T10:00:00Z") as agent:
        agent.add("<request what='a lamp'/>")
        agent.start("s.ask")
        agent.until_idle()
        assert lines(agent.ask("calendar"), "what", "about") == [
            ("2026-03-28T11:00", "reminder", "Approve a lamp"),
            ("2026-04-01T11:00", "deadline", "Approve a lamp"),
        ]
        assert [due["about"] for due in agent.ask("status")["later"]] == ["Approve a lamp"]


def test_M48_a_date_says_what_its_run_is_about(agent: Agent) -> None:
    agent.load("""<recipe group="s" name="tells" start_step="a" end_step="z">
      <step id="a" type="action" target="m.buy"/><step id="z" type="action" target="m.buy"/>
      <transition id="t"><in idref="a"/><out idref="z"/><time hours="7" minutes="0" seconds="0"/></transition>
    </recipe>""")
    agent.start("s.tells", "<reminder person='ann'>Dentist</reminder>")
    agent.until_idle()
    assert lines(agent.ask("calendar", end="2026-03-29"), "about") == [
        ("2026-03-28T07:00", "reminder · Dentist")
    ]


def test_M48_what_came_late_says_why_and_what_was_dropped_says_so(home: Path) -> None:
    with opened(home, "2026-03-27T10:00:00Z") as agent:
        seven, night = agent.start("s.seven"), agent.start("s.night")
        agent.until_idle()
    with opened(home, "2026-03-28T10:00:00Z") as agent:
        agent.until_idle()
        answer = agent.ask("calendar", start="2026-03-28", end="2026-03-29")
        assert lines(answer, "what", "run", "part", "dropped") == [
            ("2026-03-28T02:30", "late", night, "t", True),
            ("2026-03-28T07:00", "late", seven, "t", False),
        ]
        assert {entry["came"][-6:] for day in answer["days"] for entry in day["entries"]} == {"+01:00"}
        (item,) = agent.ask("attention")
        assert (item["what"], item["link"]) == ("missed", {"page": "calendar"})
        assert item["text"].startswith("2 moments came late, 1 of which were dropped: no daemon was running")
    with opened(home, "2026-03-28T11:00:00Z") as agent:
        assert agent.ask("calendar", start="2026-03-28", end="2026-03-29") == answer | {
            "days": agent.ask("calendar", start="2026-03-28", end="2026-03-29")["days"]
        }
        assert len(lines(agent.ask("calendar", start="2026-03-28", end="2026-03-29"), "why")) == 2


def test_M48_no_more_is_worked_out_than_is_shown(agent: Agent) -> None:
    for _ in range(3):
        agent.start("s.often")
    agent.until_idle()
    answer = agent.ask("calendar", end="2027-03-27")
    assert len(lines(answer, "expected")) == MOST + 3
    assert answer["more"] is True


@pytest.mark.parametrize(
    ("start", "end"),
    [("soon", None), ("2026-03-28", "2026-03-27"), ("2026-01-01", "2028-01-01"), ("9999-12-31", None)],
)
def test_M48_what_is_no_time_is_refused(agent: Agent, start: str, end: str | None) -> None:
    with pytest.raises(RequestError, match="expected"):
        agent.ask("calendar", start=start, end=end)


def test_M48_the_calendar_on_the_command_line(home: Path) -> None:
    well(home, "start", "s.seven")
    assert "nothing is set" not in well(home, "calendar")
    assert data(home, "calendar", "--from", "2026-03-28", "--to", "2026-03-29")["days"] == []
