"""`narval migrate --simulate`: what would become of runs as they are, and migrated (issue 42)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.surfaces.cli.command_line import data, narval, well

MODULE = """from pathlib import Path
from narval import Output, action, call

@action(runs="inline", pure=True)
def nothing(): pass

@action(runs="inline", outputs=[Output("note", "note")])
def note():
    with (call().home / "done").open("a") as file: file.write("note\\n")
    return "<note/>"
"""
HEAD = '<recipe group="l" name="lend" start_step="a" end_step="z">'
STEPS = '<step id="a" type="action" target="m.note"/><step id="z" type="action" target="m.nothing"/>'
BACK = """<transition id="back"><in idref="a"/><out idref="z"/>
  <condition><match>returned</match></condition></transition>"""
FIRST = f"{HEAD}{STEPS}{BACK}</recipe>"
REMINDS = f"""{HEAD}{STEPS}<step id="remind" type="action" target="m.note"/>{BACK}
  <transition id="late"><in idref="a"/><out idref="remind"/><time after="14d"/></transition>
  <transition id="reminded"><in idref="remind"/><out idref="z"/></transition></recipe>"""
SCENARIO = """<scenario><arrive at="+2d"><returned/></arrive></scenario>"""


@pytest.fixture(scope="module")
def lent(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    """A home with a plan that waits for a book, and a newer recipe."""
    home = tmp_path_factory.mktemp("lent") / "home"
    for folder in ("recipes", "modules"):
        (home / folder).mkdir(parents=True)
    (home / "modules" / "m.py").write_text(MODULE)
    recipe = home / "recipes" / "lend.xml"
    recipe.write_text(FIRST)
    run = int(well(home, "start", "l.lend"))
    well(home, "run", "--until-idle")
    recipe.write_text(REMINDS)
    return home, run


def happens(way: dict[str, Any]) -> list[tuple[str, str]]:
    return [
        (line["what"], line.get("part") or line.get("action") or line["phase"]) for line in way["happens"]
    ]


def test_both_ways_are_told_and_nothing_is_done(lent: tuple[Path, int]) -> None:
    home, run = lent
    answer = data(home, "migrate", run, "--simulate")
    [row] = answer["simulated"]["runs"]
    assert happens(row["as_it_is"]) == []
    assert row["as_it_is"]["phase"] == "active"
    assert any("returned" in line for line in row["as_it_is"]["waits"])
    assert happens(row["migrated"]) == [
        ("woken", "late"),
        ("called", "m.note"),
        ("called", "m.nothing"),
        ("ended", "done"),
    ]
    [woken, note, *_] = row["migrated"]["happens"]
    assert note["how"] == "made up", "nothing outside is called"
    assert woken["text"] == "late: its moment has come"
    assert (home / "done").read_text() == "note\n"
    assert len(data(home, "memory", "note")) == 1
    assert data(home, "show", run)["phase"] == "active"
    printed = well(home, "migrate", run, "--simulate")
    assert f"run {run} of l.lend would go on with version" in printed
    assert "as it is (still under way):" in printed
    assert "migrated (done):" in printed


def test_what_a_scenario_says_comes_in_both(lent: tuple[Path, int]) -> None:
    home, run = lent
    (home / "returned.xml").write_text(SCENARIO)
    printed = well(home, "migrate", run, "--simulate", "--scenario", home / "returned.xml")
    assert f"run {run} of l.lend: the same happens, 2 events either way" in printed
    short = data(home, "migrate", run, "--simulate", "--until", "3d")
    [row] = short["simulated"]["runs"]
    assert row["migrated"]["phase"] == row["as_it_is"]["phase"] == "active"


def test_a_run_that_is_refused_is_not_simulated(lent: tuple[Path, int]) -> None:
    home, run = lent
    other = home / "other.xml"
    other.write_text(REMINDS.replace('"a"', '"begin"'))
    result = narval(home, "migrate", run, "--simulate", "--to", other, "--json")
    assert result.exit_code == 1
    answer = json.loads(result.stdout)
    assert answer["runs"][0]["outcome"] == "refused"
    assert "simulated" not in answer
    renamed = data(home, "migrate", run, "--simulate", "--to", other, "--names", "a=begin")
    assert renamed["simulated"]["runs"][0]["migrated"]["phase"] == "done"


@pytest.mark.parametrize("wrong", [("--simulate", "--undo"), ("--until", "3d"), ("--scenario", __file__)])
def test_options_that_do_not_go_together_are_refused(lent: tuple[Path, int], wrong: tuple[str, str]) -> None:
    home, run = lent
    result = narval(home, "migrate", run, *wrong)
    assert result.exit_code == 2
    assert "--simulate" in result.output
