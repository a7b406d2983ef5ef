"""The commands init and check, and files saved while a daemon runs."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from lxml import etree

from narval.surfaces.cli import main
from tests.surfaces.cli.command_line import RECIPES, daemon, data, narval, well


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
        (home / "recipes" / "new.xml").write_text(
            good.replace('"ten"', '"new"').replace("talk.say", "talk.sing")
        )
        narval(home, "reload")
        kept = narval(home, "start", "new.greet").stderr
    assert kept == (
        "warning: recipes/new.xml has faults, so its last good version runs; see the faults: narval check\n"
    )
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


# --- without a home ---------------------------------------------------------------------------------------


@pytest.fixture
def homeless(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of files, for somebody who has no home."""
    monkeypatch.setenv("HOME", str(tmp_path / "ann"))
    monkeypatch.delenv("NARVAL_HOME", raising=False)
    folder = tmp_path / "files"
    (folder / "recipes").mkdir(parents=True)
    return folder


def alone(*arguments: object) -> Result:
    """What `narval check` says where nothing names a home."""
    return CliRunner().invoke(main, ["check", *map(str, arguments)])


CALLS = """\
<recipe group="a" name="first" start_step="one" end_step="two">
  <step id="one" type="recipe" target="b.second"/>
  <step id="two" type="action" target="basic.nothing"/>
  <transition id="t"><in idref="one"/><out idref="two"/></transition>
</recipe>
"""
CALLED = """\
<recipe group="b" name="second" start_step="one" end_step="one">
  <step id="one" type="action" target="basic.nothing"/>
</recipe>
"""


def test_files_are_checked_without_a_home_as_far_as_they_can_be(homeless: Path) -> None:
    calls, called = homeless / "recipes" / "a.xml", homeless / "recipes" / "b.xml"
    calls.write_text(CALLS)
    unsure = alone(calls)
    assert unsure.exit_code == 0
    assert f"{calls}:2:40: warning: step 'one': there is no recipe 'b.second'" in unsure.stdout
    assert unsure.stderr.startswith("there is no home: ")
    called.write_text(CALLED)
    (homeless / "recipes" / "notes.md").write_text("a folder may hold other things")
    assert alone(homeless).stdout == ""
    called.write_text(CALLED.replace("end_step", "endstep"))
    wrong = alone(homeless)
    assert wrong.exit_code == 1
    assert f"{called}:1:1: " in wrong.stdout
    assert not (homeless.parent / "ann").exists(), "no home was made"


def test_settings_and_declarations_are_checked_without_a_home(homeless: Path) -> None:
    settings, memory = homeless / "narval.toml", homeless / "memory.xml"
    settings.write_text('timezone = "Europe/Pariss"')
    memory.write_text("<memory><start-plan recipe='a.first'/><card name='a'/><card name='a'/></memory>")
    found = alone(settings, memory)
    assert found.exit_code == 1
    assert f"{settings}:1:12: " in found.stdout
    assert f"{memory}:1:39: several card elements" in found.stdout
    assert "a.first" not in found.stdout, "it may be another file's"


def test_without_a_home_nothing_else_is_checked(homeless: Path) -> None:
    for arguments in ((), ("--explore", homeless)):
        refused = alone(*arguments)
        assert refused.exit_code == 3
        assert "make one: narval init" in refused.stderr


def test_a_start_plan_that_starts_nothing_is_told_what_may_be_meant(home: Path) -> None:
    memory = home / "data" / "memory.xml"
    memory.write_text("<memory><start-plan recipe='demo.great'/><start-plan recip='demo.greet'/></memory>")
    found = narval(home, "check").stdout
    assert "data/memory.xml:1:29: there is no definition 'demo.great' to start; did you mean" in found
    assert "data/memory.xml:1:42: expected the attribute recipe with a name, found recip\n" in found


@pytest.mark.parametrize("line", ["hooks", "definitions", "actions", "letters", "remembered"])
def test_of_a_list_without_rows_people_are_told_so(tmp_path: Path, line: str) -> None:
    (tmp_path / "etc").mkdir()
    found = narval(tmp_path, line)
    assert (found.exit_code, found.stdout) == (0, "")
    assert found.stderr.startswith("no ")
    assert narval(tmp_path, line, "--json").stderr == ""
