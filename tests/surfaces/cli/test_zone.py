"""One zone in one tool: commands show moments in the zone of the home, whatever that of the terminal is."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextvars import copy_context
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from narval.ask.text import moment, zone
from narval.surfaces.cli.session import Session
from tests.surfaces.cli.command_line import data, make_home, narval, well


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home in Tokyo, and a terminal in New York."""
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    made = make_home(tmp_path / "home")
    (made / "etc" / "narval.toml").write_text('timezone = "Asia/Tokyo"\n')
    yield made
    monkeypatch.undo()
    time.tzset()


def test_moments_are_those_of_the_zone_of_the_home(home: Path) -> None:
    run = well(home, "start", "demo.greet", "-", given="<name>Ann</name>").split()[0]
    [listed] = data(home, "runs")
    there = datetime.fromisoformat(listed["started"]).astimezone(ZoneInfo("Asia/Tokyo"))
    shown = f"{there:%Y-%m-%d %H:%M:%S}"
    assert "started (Asia/Tokyo)" in well(home, "runs")
    for command in (("runs",), ("show", run), ("memory", "name")):
        assert shown in well(home, *command), command
    assert f"started     {shown} Asia/Tokyo" in well(home, "show", run)
    assert zone().startswith("EST"), "a program that asks no home goes by its own"


MOMENT = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d")


def test_whatever_shows_a_moment_names_its_zone(home: Path) -> None:
    run = well(home, "start", "demo.greet", "-", given="<name>Ann</name>").split()[0]
    narval(home, "start", "demo.fail", "--wait")
    lines, [name] = data(home, "history", run), data(home, "memory", "name")
    [incident] = data(home, "errors")
    for command in (
        ("history", run),
        ("history", run, "--limit", 5),
        ("history", run, "--journal"),
        ("history", run, "--journal", "--limit", 5),
        ("history", run, "--replay"),
        ("show", run),
        ("show", run, "--at", lines[-1]["seq"]),
        ("why", run),
        ("why", name["eid"]),
        ("why", name["eid"], "--origin"),
        ("element", name["eid"]),
        ("runs",),
        ("memory", "name"),
        ("part", run, "say"),
        ("timeline", run),
        ("errors",),
        ("errors", "show", incident["incident"]),
        ("attention",),
        ("definitions",),
        ("definitions", "demo.greet"),
        ("log",),
        ("simulate", "demo.slow", "--until", "1h"),
    ):
        shown = well(home, *command)
        assert MOMENT.search(shown), command
        assert "Asia/Tokyo" in shown, command


CLOCKS = """\
<automaton group="clocks" name="look">
  <state name="start" command="sh">echo "$TZ $(date +%Z)" > home</state>
  <state name="end" command="sh"><env name="TZ" value="UTC"/>echo "$TZ" > own</state>
  <transition from="start" label="0" to="end"/>
</automaton>
"""


def test_programs_of_automata_keep_the_zone_of_the_home(home: Path) -> None:
    (home / "recipes" / "clocks.xml").write_text(CLOCKS)
    well(home, "start", "clocks.look", "--wait")
    assert (home / "home").read_text() == "Asia/Tokyo JST\n"
    assert (home / "own").read_text() == "UTC\n", "what a state says of itself counts before it"


def test_a_zone_that_is_none_is_a_fault_and_no_more(home: Path) -> None:
    (home / "etc" / "narval.toml").write_text('timezone = "Atlantis"\n')
    assert "Atlantis" in narval(home, "check").output


def test_a_command_says_once_that_it_shows_moments_in_another_zone_as_there_is_no_such_one(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A daemon goes on with the settings that it had, so commands show moments all the same."""
    (home / "etc" / "narval.toml").write_text('timezone = "Atlantis"\n')

    def shown() -> list[str]:
        session = Session()
        session.note("directory", home)
        assert session.own_home.path == home
        return [moment("2026-11-30T12:00:00Z"), moment("2026-11-30T12:00:01Z")]

    assert copy_context().run(shown) == ["2026-11-30 07:00:00", "2026-11-30 07:00:01"]
    why = "there is no time zone 'Atlantis' (timezone in etc/narval.toml); moments are shown in EST/EDT\n"
    assert capsys.readouterr().err == why
