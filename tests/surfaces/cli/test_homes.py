"""The commands init and check, and files saved while a daemon runs."""

from __future__ import annotations

import json
import re
from pathlib import Path

from click.testing import CliRunner
from lxml import etree

from narval.surfaces.cli import main
from tests.surfaces.cli.command_line import (
    RECIPES,
    daemon,
    data,
    narval,
    well,
)


def test_init_makes_a_home_that_has_no_faults(tmp_path: Path) -> None:
    place = tmp_path / "new"
    result = CliRunner().invoke(main, ["init", str(place)])
    assert result.exit_code == 0
    assert f"narval --home {place} run" in result.stdout
    assert data(place, "check") == []
    assert data(place, "definitions")["definitions"]
    again = CliRunner().invoke(main, ["init", str(place)])
    assert again.exit_code == 1
    assert "is a home already" in again.stderr


def test_init_without_a_folder_makes_the_home_that_others_use(tmp_path: Path) -> None:
    place = tmp_path / "usual"
    result = CliRunner().invoke(main, ["init", "--json"], env={"NARVAL_HOME": str(place)})
    assert json.loads(result.stdout) == {"home": str(place)}
    assert (place / "recipes").is_dir()


def test_init_bare_makes_a_home_without_the_demo(tmp_path: Path) -> None:
    place = tmp_path / "bare one"
    result = CliRunner().invoke(main, ["init", str(place), "--bare"])
    assert f"narval --home '{place}' run" in result.stdout
    assert data(place, "check") == []
    assert data(place, "definitions") == {"definitions": [], "faults": []}
    assert [str(path.relative_to(place)) for path in place.glob("data/**/*")] == ["data/memory.xml"]
    assert list((place / "recipes").iterdir()) == []
    assert etree.parse(place / "data" / "memory.xml").getroot().tag == "memory"
    assert (place / "etc" / "narval.toml").is_file()


def test_suggested_commands_can_be_given_to_a_shell(tmp_path: Path) -> None:
    result = narval(tmp_path / "no where", "runs")
    assert f"narval init '{tmp_path}/no where'" in result.stderr


def test_init_on_a_file_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = CliRunner().invoke(main, ["init", str(tmp_path / "file")])
    assert result.exit_code == 1
    assert result.stderr == f"narval: expected a folder or nothing at {tmp_path}/file, found something else\n"


def test_N31_what_was_saved_a_moment_ago_can_be_started_and_what_is_broken_says_why(home: Path) -> None:
    good = RECIPES.replace('group="demo"', 'group="ten"')
    (home / "recipes" / "ten.xml").write_text(good.replace("talk.say", "talk.sing"))
    with daemon(home):
        broken = narval(home, "start", "ten.greet")
        (home / "recipes" / "new.xml").write_text(RECIPES.replace('group="demo"', 'group="new"'))
        assert int(well(home, "start", "new.greet")) > 0
        unknown = narval(home, "start", "nine.greet")
    assert (broken.exit_code, unknown.exit_code) == (1, 1)
    assert broken.stderr.startswith("narval: recipes/ten.xml did not load: line 3: ")
    assert "there is no definition nine.greet" in unknown.stderr


def test_N13_check_tells_every_fault_with_its_place(home: Path) -> None:
    assert narval(home, "check").exit_code == 0
    faulty = home / "recipes" / "faulty.xml"
    faulty.write_text(RECIPES.replace('group="demo"', 'group="faulty"').replace("talk.", "talked."))
    result = narval(home, "check")
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert len(lines) >= 6
    assert all(re.match(r"\S*recipes/faulty\.xml:\d+:\d+: \S", line) for line in lines)
    assert f"{len(lines)} faults in 1 file" in result.stderr
    as_json = json.loads(narval(home, "check", "--json").stdout)
    assert [set(fault) for fault in as_json] == [{"path", "line", "column", "message", "warning"}] * len(
        lines
    )
    assert narval(home, "check", home / "recipes" / "demo.xml").exit_code == 0
    assert narval(home, "check", faulty).exit_code == 1


def test_N31_a_bad_file_is_told_and_the_rest_is_loaded(home: Path) -> None:
    (home / "recipes" / "broken.xml").write_text("<cookbook>\n<recipe")
    answer = data(home, "definitions")
    assert [fault["path"].endswith("broken.xml") for fault in answer["faults"]] == [True]
    assert "demo.greet" in {definition["name"] for definition in answer["definitions"]}
    assert "broken.xml:2:" in well(home, "definitions")
    assert narval(home, "check").exit_code == 1
