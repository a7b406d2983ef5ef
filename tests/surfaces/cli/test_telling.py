"""`narval tell` and `narval check --tell`: what definitions do, in sentences (D1, D3)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from narval.surfaces.cli import main
from tests.surfaces.cli.command_line import daemon, data, make_home, narval, well

RECIPE = """\
<recipe group="office" name="hours" start_step="wait" end_step="end" restart="yes">
  <step id="wait" type="action" target="basic.nothing"/>
  <step id="end" type="action" target="basic.nothing"/>
  <transition id="evening">
    <in idref="wait"/><out idref="end"/><time hours="18" minutes="0" seconds="0"/>
  </transition>
</recipe>
"""


@pytest.fixture(params=["daemon", "alone"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    home = make_home(tmp_path / "home")
    if request.param == "alone":
        yield home
        return
    with daemon(home):
        yield home


def test_D1_a_definition_is_told_with_places(place: Path) -> None:
    told = well(place, "tell", "demo.await")
    assert told.startswith("recipe demo.await, in recipes/")
    letter = 'a letter whose to is "ann" and whose urgent is "yes"'
    awaited = f"When there is {letter}, which no run has taken here before"
    assert f'    {awaited}, it goes on with "end".\n' in told
    rows = data(place, "tell", "demo.await")
    assert {tuple(row) for row in rows} == {("definition", "kind", "file", "text", "line", "column", "depth")}
    (way,) = (row for row in rows if row["text"].startswith(awaited) and row["depth"])
    assert (way["line"], way["depth"]) == (10, 1)
    assert "action talk.say, in" in well(place, "tell", "talk.say", "--kind", "action")
    wrong = narval(place, "tell", "demo.awake")
    assert wrong.exit_code == 1
    assert "demo.await" in wrong.stderr


def test_D1_a_file_is_told_as_if_the_home_had_it(place: Path, tmp_path: Path) -> None:
    file = tmp_path / "new.xml"
    file.write_text(RECIPE.replace("basic.nothing", "talk.say", 1))
    told = well(place, "tell", str(file))
    assert '"wait" calls the action talk.say ("Greets who is named"); this acts outside the home.' in told
    file.write_text(RECIPE.replace('start_step="wait"', 'start_step="wit"'))
    wrong = narval(place, "tell", str(file))
    assert wrong.exit_code == 1
    assert f"{file}:1:49: " in wrong.stderr
    (path,) = (
        row["path"] for row in data(place, "definitions")["definitions"] if row["name"] == "demo.await"
    )
    assert "recipe demo.await, in" in well(place, "tell", path), "a path of the home, wherever one stands"


def test_D3_check_tells_what_differs(place: Path, tmp_path: Path) -> None:
    old, new = tmp_path / "old.xml", tmp_path / "new.xml"
    old.write_text(RECIPE)
    new.write_text(RECIPE.replace(' restart="yes"', ""))
    told = well(place, "check", "--tell", str(new))
    assert "recipe office.hours, in " in told
    changed = well(place, "check", "--tell", str(new), "--against", str(old))
    assert changed.splitlines()[:3] == [
        "recipe office.hours",
        "- It begins when it is started. When a run of it has ended, well or not, another begins.",
        "+ It begins when a person or a program starts it.",
    ]
    answer = data(place, "check", "--tell", str(new), "--against", str(old))
    assert [row["change"] for row in answer["changes"]] == ["taken away", "added"]
    assert answer["faults"] == []
    whole = data(place, "check", "--tell")["told"]
    assert {row["definition"] for row in whole} >= {"demo.greet", "talk.say"}
    assert narval(place, "check", "--against", str(old)).exit_code == 2


def test_D1_a_file_is_told_without_a_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("NARVAL_HOME", raising=False)
    file = tmp_path / "new.xml"
    file.write_text(RECIPE)
    told = CliRunner().invoke(main, ["tell", str(file), "--json"])
    assert told.exit_code == 0
    rows = json.loads(told.stdout)
    assert '"wait" does nothing (basic.nothing).' in [row["text"] for row in rows]
