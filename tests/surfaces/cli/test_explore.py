"""`narval check --explore`: what is written, for people and for programs, and what the exit status says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.places import ROOT
from tests.surfaces.cli.command_line import narval

PAGE = (ROOT / "docs/reference/explore.md").read_text(encoding="utf-8")


def block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None
    return found[1]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    assert narval(tmp_path, "init", tmp_path / "home", "--bare").exit_code == 0
    return tmp_path / "home"


def test_the_example_of_the_page_is_told_as_the_page_says(home: Path) -> None:
    (home / "recipes/trip.xml").write_text(block("xml"))
    result = narval(home, "check", "--explore", home / "recipes/trip.xml")
    assert result.exit_code == 1
    command, _, written = block("console").partition("\n")
    assert command == "$ narval check --explore recipes/trip.xml"
    *lines, summary = written.splitlines()
    assert result.stdout.splitlines() == lines
    took = r"\d+(\.\d)? m?s"
    assert re.sub(took, "", result.stderr.strip()) == re.sub(took, "", summary)


def test_as_json_it_says_the_same(home: Path) -> None:
    (home / "recipes/trip.xml").write_text(block("xml"))
    answer = json.loads(narval(home, "check", "--explore", "--json").stdout)
    assert answer["faults"] == []
    assert [line["definition"] for line in answer["explored"]] == ["trip.plan"]
    assert answer["explored"][0]["complete"]
    found = [(finding["severity"], finding["part"]) for finding in answer["findings"]]
    assert found == [
        ("note", None),
        ("note", None),
        ("error", "leave"),
        ("error", "leave"),
        ("error", "booked"),
    ]
    assert answer["findings"][-1]["story"][0] == "it starts: ask running"


def test_notes_leave_the_exit_status_and_a_fault_does_not(home: Path) -> None:
    sound = re.sub(r'(?s)<transition id="far">.*?</transition>|<in idref="plane"/>', "", block("xml"))
    sound = re.sub(r'<step id="plane".*?/>', "", sound)
    (home / "recipes/trip.xml").write_text(sound)
    result = narval(home, "check", "--explore")
    assert (result.exit_code, result.stdout.count("note: ")) == (0, 1)
    (home / "recipes/broken.xml").write_text("<recipe")
    result = narval(home, "check", "--explore")
    assert result.exit_code == 1
    assert "broken.xml:1:" in result.stdout
    assert "note: " in result.stdout, "what loads is explored all the same"
    only = narval(home, "check", "--explore", home / "recipes/trip.xml")
    assert (only.exit_code, "broken" in only.stdout) == (0, False)


def test_a_file_outside_the_home_is_explored_as_if_it_were_added(home: Path, tmp_path: Path) -> None:
    outside = tmp_path / "trip.xml"
    outside.write_text(block("xml"))
    result = narval(home, "check", "--explore", outside)
    assert result.exit_code == 1
    assert "join 'booked' can never complete" in result.stdout
    assert narval(home, "check", "--explore").stdout == ""


def test_a_search_cut_short_says_so_and_proves_nothing(home: Path) -> None:
    (home / "recipes/trip.xml").write_text(block("xml"))
    result = narval(home, "check", "--explore", "--states", "1")
    assert result.exit_code == 0
    assert "what follows is not a proof" in result.stdout
    answer = json.loads(narval(home, "check", "--explore", "--states", "1", "--json").stdout)
    assert [line["complete"] for line in answer["explored"]] == [False]


def test_what_ships_is_explored_whole_and_nothing_in_it_is_impossible(tmp_path: Path) -> None:
    home = tmp_path / "whole"
    assert narval(tmp_path, "init", home).exit_code == 0
    answer = json.loads(narval(home, "check", "--explore", "--seconds", 600, "--json").stdout)
    assert len(answer["explored"]) >= 5
    assert [line["definition"] for line in answer["explored"] if not line["complete"]] == []
    assert [finding["message"] for finding in answer["findings"] if finding["severity"] == "error"] == []


def test_what_is_not_walked_through_is_named(home: Path) -> None:
    (home / "recipes" / "build.xml").write_text(
        '<automaton><state name="start" command="true"/><state name="end" command="true"/>'
        '<transition from="start" label="0" to="end"/></automaton>'
    )
    result = narval(home, "check", "--explore")
    assert "; not walked through, its graph alone was looked at: automaton build" in result.stderr
    explored = json.loads(narval(home, "check", "--explore", "--json").stdout)["explored"]
    assert [line["walked"] for line in explored if line["kind"] == "automaton"] == [False]
