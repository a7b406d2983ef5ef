"""Calendars in files and folders: what changes there changes in memory (N36)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import narval
from narval import SimulatedClock
from narval.surfaces.python.agent import Agent
from tests.modules.calendar_texts import NOW, ics, vevent

COOKBOOK = """
<cookbook group="try">
  <recipe name="watch" start_step="watch" end_step="watch" restart="yes">
    <step id="watch" type="action" target="calendar.watch" foreach="calendar"/>
  </recipe>
  <recipe name="read" start_step="read" end_step="read">
    <step id="read" type="action" target="calendar.read"/>
  </recipe>
  <recipe name="hear" start_step="listen" end_step="heard">
    <step id="listen" type="action" target="basic.nothing"/>
    <step id="heard" type="action" target="basic.nothing"/>
    <transition id="t"><in idref="listen"/><out idref="heard"/>
      <condition use="yes">
        <match>event[@summary='Heard'] | outdated[@reason] | error[@calendar]</match>
      </condition>
    </transition>
  </recipe>
</cookbook>
"""

BOAT = vevent("boat", "DTSTART:20261124T090000Z", "SUMMARY:The boat")
ROOF = vevent("roof", "DTSTART:20261125T090000Z", "SUMMARY:The roof")
HEARD = vevent("heard", "DTSTART:20261126T090000Z", "SUMMARY:Heard")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    for folder in ("recipes", "data", "etc"):
        (tmp_path / folder).mkdir()
    (tmp_path / "recipes" / "try.xml").write_text(COOKBOOK)
    (tmp_path / "etc" / "narval.toml").write_text(
        'timezone = "Europe/Paris"\n[calendars]\nhome = { path = "data/home.ics" }\nall = { path = "data" }\n'
    )
    return tmp_path


@pytest.fixture
def at_work(home: Path) -> Callable[[], Agent]:
    return lambda: narval.open(home, clock=SimulatedClock(NOW.timestamp()))


@pytest.fixture
def agent(at_work: Callable[[], Agent]) -> Iterator[Agent]:
    with at_work() as agent:
        yield agent


def current(agent: Agent, name: str = "event") -> list[str]:
    """The summaries of the events that count, in the order of time."""
    events = sorted(agent.memory(name, current=True), key=lambda event: event.attributes["start"])
    return [event.attributes.get("summary", "") for event in events]


def reasons(agent: Agent) -> list[str]:
    return [found.attributes["reason"] for found in agent.memory("outdated")]


def watching(agent: Agent, *calendars: str) -> int:
    for calendar in calendars or ('<calendar name="home"/>',):
        agent.add(calendar)
    run = agent.start("try.watch")
    agent.until_idle()
    return run


def saved(agent: Agent, path: Path, data: bytes) -> None:
    """Save a file, and wait until something is heard of it."""
    hear = agent.start("try.hear")
    path.write_bytes(data)
    agent.wait(hear)


def test_events_that_are_entered_moved_and_cancelled_are_so_in_memory(home: Path, agent: Agent) -> None:
    path = home / "data" / "home.ics"
    path.write_bytes(ics(BOAT, ROOF))
    watching(agent)
    assert current(agent) == ["The boat", "The roof"]
    first = agent.memory("event[@uid='boat']")[0].eid
    moved = BOAT.replace("T09", "T15")
    saved(agent, path, ics(moved, ROOF, HEARD))
    assert current(agent) == ["The boat", "The roof", "Heard"]
    (boat,) = agent.memory("event[@uid='boat']", current=True)
    assert boat.attributes["start"] == "2026-11-24T16:00:00+01:00"
    assert agent.element(first) is not None, "what it was is kept, and counts no more"
    assert len(agent.memory("event")) == 4, "what did not change was not told again"
    saved(agent, path, ics(ROOF, HEARD))
    assert current(agent) == ["The roof", "Heard"]
    assert reasons(agent) == ["it is no longer in the calendar"]


def test_what_changed_while_no_daemon_ran_is_told_by_the_next(
    home: Path, at_work: Callable[[], Agent]
) -> None:
    path = home / "data" / "home.ics"
    path.write_bytes(ics(BOAT, ROOF))
    with at_work() as agent:
        watching(agent)
    path.write_bytes(ics(ROOF.replace("The roof", "The barn")))
    with at_work() as agent:
        agent.until_idle()
        assert current(agent) == ["The barn"]
        assert reasons(agent) == ["it is no longer in the calendar"]


def test_events_come_with_the_days_and_those_that_are_over_count_no_more(home: Path, agent: Agent) -> None:
    daily = vevent("daily", "DTSTART:20261101T090000Z", "RRULE:FREQ=DAILY", "SUMMARY:Walk")
    (home / "data" / "home.ics").write_bytes(ics(BOAT, daily))
    watching(agent, '<calendar name="home" days="2" past="0"/>')
    assert current(agent) == ["Walk", "The boat", "Walk", "Walk"]
    hear = agent.start("try.hear")
    agent.elapse(days=2)
    agent.wait(hear)
    days = [event.attributes["start"][8:10] for event in agent.memory("event", current=True)]
    assert sorted(days) == ["25", "26", "27"]
    assert set(reasons(agent)) == {"it is over"}
    assert len(agent.memory("event")) == 6


def test_a_folder_is_one_calendar(home: Path, agent: Agent) -> None:
    data = home / "data"
    (data / "a.ics").write_bytes(ics(BOAT))
    (data / "b.ICS").write_bytes(ics(ROOF))
    (data / "note.txt").write_bytes(b"no calendar")
    watching(agent, '<calendar name="all"/>')
    assert current(agent) == ["The boat", "The roof"]
    saved(agent, data / "c.ics", ics(HEARD))
    assert current(agent) == ["The boat", "The roof", "Heard"]
    hear = agent.start("try.hear")
    (data / "a.ics").unlink()
    agent.wait(hear)


def test_a_calendar_may_be_named_by_its_element_alone(home: Path, agent: Agent) -> None:
    (home / "mine.ics").write_bytes(ics(BOAT))
    watching(agent, '<calendar name="mine" path="mine.ics"/>')
    assert current(agent) == ["The boat"]


def test_reading_is_one_pass_and_what_is_the_same_is_not_given_again(home: Path, agent: Agent) -> None:
    path = home / "data" / "home.ics"
    path.write_bytes(ics(BOAT, ROOF))
    agent.add('<calendar name="home"/>')
    for _ in range(2):
        assert agent.wait(agent.start("try.read"))["phase"] == "done"
        assert len(agent.memory("event")) == 2
    path.write_bytes(ics(BOAT))
    agent.wait(agent.start("try.read"))
    assert current(agent) == ["The boat"]


def test_a_calendar_that_is_away_or_broken_is_told_once_and_its_events_stay(home: Path, agent: Agent) -> None:
    path = home / "data" / "home.ics"
    path.write_bytes(ics(BOAT))
    run = watching(agent)
    saved(agent, path, b"half a fi")
    path.write_bytes(b"half a file, again")
    agent.until_idle()
    hear = agent.start("try.hear")
    path.rename(path.with_name("away"))
    agent.wait(hear)
    assert [error.attributes["type"] for error in agent.memory("error")] == [
        "bad-calendar",
        "calendar-unreachable",
    ]
    assert current(agent) == ["The boat"]
    saved(agent, path, ics(HEARD))
    assert current(agent) == ["Heard"]
    assert agent.run(run)["phase"] == "active"


def test_one_event_that_cannot_be_read_costs_itself_and_is_told_once(home: Path, agent: Agent) -> None:
    path = home / "data" / "home.ics"
    bad = vevent("bad", "DTSTART:20261124T090000Z", "RRULE:FREQ=NEVER")
    path.write_bytes(ics(BOAT, bad))
    watching(agent)
    (error,) = agent.memory("error")
    assert (error.attributes["type"], error.attributes["key"]) == ("bad-event", "home bad")
    assert "event bad: expected FREQ to be one of" in error.text
    agent.wait(agent.start("try.hear"))
    saved(agent, path, ics(BOAT, bad, HEARD))
    assert current(agent) == ["The boat", "Heard"]
    assert len(agent.memory("error")) == 1


def test_an_error_of_one_event_does_not_say_that_the_calendar_is_in_trouble(
    home: Path, agent: Agent, caplog: pytest.LogCaptureFixture
) -> None:
    odd = vevent("odd", "DTSTART;TZID=Nowhere/There:20261124T090000", "RRULE:FREQ=NEVER")
    (home / "data" / "home.ics").write_bytes(ics(BOAT, odd))
    with caplog.at_level("INFO", "narval.sources"):
        watching(agent)
    assert {error.attributes["key"] for error in agent.memory("error")} == {"home", "home odd"}
    assert "bad-event" in caplog.text
    assert "that is over" not in caplog.text


@pytest.mark.parametrize(
    ("calendar", "told"),
    [
        ('<calendar name="nowhere"/>', "expected a table [calendars.nowhere]"),
        ('<calendar name="home" days="400"/>', "expected days to be days, 366 at most"),
        ('<calendar name=" "/>', "expected a calendar's name"),
    ],
)
def test_a_calendar_that_asks_for_the_impossible_is_an_error(agent: Agent, calendar: str, told: str) -> None:
    agent.add(calendar)
    run = agent.start("try.read")
    assert agent.wait(run)["phase"] == "failed"
    assert told in agent.memory("error")[0].text
