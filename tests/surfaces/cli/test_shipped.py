"""narval diff and narval take: what of a home differs from what ships, and what ships taken into it."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from narval.files.found_files import modules_in
from tests.places import ROOT
from tests.surfaces.cli.command_line import data, narval, well


@pytest.fixture
def home(tmp_path: Path) -> Path:
    made = tmp_path / "home"
    well(tmp_path, "init", made)
    return made


def states(home: Path, *name: str) -> dict[str, str]:
    """The word of each file."""
    return {row["path"]: row["state"] for row in differing(home, *name)}


def differing(home: Path, *name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(narval(home, "diff", *name, "--json").stdout)
    return found


def test_a_new_home_differs_in_nothing(home: Path) -> None:
    assert narval(home, "diff").exit_code == 0
    found = states(home)
    assert {path for path in found if found[path] == "same"} >= {
        "recipes/mail.xml",
        "etc/narval.toml",
        "modules/orders.py",
    }
    assert {path for path in found if found[path] == "not there"} == {
        f"modules/{path.name}" for path, _ in modules_in(ROOT / "modules", "") if path.stem != "orders"
    }
    assert "data/memory.xml" not in found


def test_what_is_altered_is_shown_and_is_the_exit_status(home: Path) -> None:
    recipe = home / "recipes/mail.xml"
    recipe.write_text(recipe.read_text() + "<!-- mine -->")
    (home / "recipes/own.xml").write_text("<cookbook/>")
    (home / "recipes/feeds.xml").unlink()
    result = narval(home, "diff")
    assert result.exit_code == 1
    assert result.stdout.endswith("+<!-- mine -->\n\\ No newline at end of file\n")
    assert "--- <narval>/recipes/mail.xml\n+++ recipes/mail.xml\n@@ " in result.stdout
    found = states(home, "recipes")
    assert [found[f"recipes/{name}.xml"] for name in ("mail", "own", "feeds", "orders")] == [
        "altered",
        "own",
        "not there",
        "same",
    ]
    assert narval(home, "diff", "recipes/own.xml").exit_code == 0
    assert "own" in well(home, "diff", "recipes/own.xml")


def test_a_module_is_taken_altered_and_applied_to_a_new_copy(home: Path) -> None:
    assert data(home, "take", "mail") == {"paths": ["modules/mail"], "servers": []}
    assert set(states(home, "mail").values()) == {"same"}
    texts = home / "modules/mail/texts.py"
    texts.write_text(texts.read_text() + "\tmine = '\x1b[31m'\n")
    (home / "modules/mail/more.py").write_text("MORE = 1\n")
    (home / "modules/mail/boxes.py").unlink()
    result = narval(home, "diff", "mail")
    assert result.exit_code == 1
    assert "+\tmine = '\\x1b[31m'\n" in result.stdout
    assert "--- /dev/null\n+++ modules/mail/more.py\n" in result.stdout
    assert "--- modules/mail/boxes.py\n+++ /dev/null\n" in result.stdout
    refused = narval(home, "take", "mail")
    assert refused.exit_code == 1
    assert "modules/mail exists already; compare it: narval diff mail" in refused.stderr
    texts.write_text((ROOT / "modules/mail/texts.py").read_text() + "mine = 1\n")
    mine = narval(home, "diff", "mail").stdout
    well(home, "take", "mail", "--force")
    assert narval(home, "diff").exit_code == 0
    if shutil.which("patch"):
        subprocess.run(["patch", "-p0"], cwd=home, input=mine.encode(), check=True, capture_output=True)
        assert texts.read_text().endswith("mine = 1\n")
        assert narval(home, "diff", "mail").stdout == mine


def test_with_a_recipe_come_the_transforms_it_calls_that_the_home_has_not(tmp_path: Path) -> None:
    well(tmp_path, "init", tmp_path / "bare", "--bare")
    bare = tmp_path / "bare"
    assert data(bare, "take", "recipes/mail.xml") == {
        "paths": ["recipes/mail.xml", "recipes/digest.page.xsl"],
        "servers": [],
    }
    assert narval(bare, "check").exit_code == 0
    transform = bare / "recipes/digest.page.xsl"
    transform.write_text(transform.read_text() + "<!-- mine -->")
    assert data(bare, "take", "recipes/mail.xml", "--force") == {
        "paths": ["recipes/mail.xml"],
        "servers": [],
    }
    assert transform.read_text().endswith("<!-- mine -->")


def test_a_module_of_another_shape_takes_the_place_of_all_of_it(home: Path) -> None:
    (home / "modules/files.py").write_text("mine = 1\n")
    assert states(home, "files") == {
        "modules/files.py": "altered",
        "modules/files/appending.py": "not there",
        "modules/files/places.py": "not there",
        "modules/files/watching.py": "not there",
    }
    well(home, "take", "files", "--force")
    assert set(states(home, "files").values()) == {"same"}
    assert not (home / "modules/files.py").exists()
    assert not list((home / "modules").glob(".*"))


def test_several_names_are_taken_or_none(tmp_path: Path) -> None:
    well(tmp_path, "init", tmp_path / "bare", "--bare")
    bare = tmp_path / "bare"
    refused = narval(bare, "take", "recipes/model.xml", "nothing.like.it")
    assert (refused.exit_code, (bare / "recipes/model.xml").exists()) == (1, False)
    paths = data(bare, "take", "recipes/model.xml", "examples/month")["paths"]
    assert {"recipes/model.xml", "recipes/examples/month.xml"} <= set(paths)
    assert all((bare / path).exists() for path in paths)
    assert "name one" in narval(bare, "take", "examples/month", "examples/fax", "--as", "own").stderr


def test_a_file_is_taken_by_its_path(home: Path) -> None:
    recipe = home / "recipes/mail.xml"
    recipe.unlink()
    assert well(home, "take", "recipes/mail.xml") == "copied into the home: recipes/mail.xml\n"
    assert recipe.read_bytes() == (ROOT / "recipes/mail.xml").read_bytes()


def test_a_process_is_taken_with_the_module_of_its_code(tmp_path: Path) -> None:
    well(tmp_path, "init", tmp_path / "bare", "--bare")
    bare = tmp_path / "bare"
    assert data(bare, "take", "recipes/orders.xml")["paths"] == ["recipes/orders.xml", "modules/orders.py"]
    well(bare, "check")
    own = (bare / "modules/orders.py").write_text("# its own\n")
    well(bare, "take", "recipes/orders.xml", "--force")
    assert (bare / "modules/orders.py").stat().st_size == own


def test_an_example_is_taken_with_its_scenario_and_no_home_has_it_before(home: Path) -> None:
    recipe, scenario = "recipes/examples/month.xml", "scenarios/examples/month.xml"
    assert not (home / recipe).exists()
    assert not [path for path in states(home) if "examples" in path]
    assert states(home, "examples/month") == {recipe: "not there", scenario: "not there"}
    assert data(home, "take", "examples/month") == {"paths": [recipe, scenario], "servers": []}
    assert states(home, "recipes/examples")[recipe] == "same"
    assert "as expected: element sent, 4" in well(home, "simulate", "examples/month")
    well(home, "check")
    (home / recipe).write_text((home / recipe).read_text().replace("team@", "all@"))
    (home / scenario).unlink()
    refused = narval(home, "take", "examples/month")
    assert (
        "recipes/examples/month.xml exists already; compare it: narval diff examples/month" in refused.stderr
    )
    assert not (home / scenario).exists()
    assert '+      <draft to="all@' in narval(home, "diff", "examples/month").stdout
    said = well(home, "take", "examples/month", "--force")
    assert said == f"copied into the home: {recipe}, {scenario}\n"
    assert narval(home, "diff").exit_code == 0


def test_all_examples_are_taken_into_one_home_and_play_there(home: Path) -> None:
    files = sorted(path for part in ("recipes", "scenarios") for path in (ROOT / part / "examples").iterdir())
    for name in sorted({path.name.partition(".")[0] for path in files}):
        well(home, "take", f"examples/{name}")
    taken = {path for path, state in states(home).items() if "/examples/" in path and state == "same"}
    tools = {path.name for path in files if path.suffix == ".tools"}
    assert taken == {path.relative_to(ROOT).as_posix() for path in files if path.name not in tools}
    assert {path.name for path in (home / "recipes" / "mcp").iterdir()} == tools
    well(home, "check")
    assert "as expected" in well(home, "simulate", "examples/briefing")


def test_the_household_is_taken_as_one(home: Path) -> None:
    files = {path.relative_to(ROOT).as_posix() for path in (ROOT / "agents").rglob("*") if path.is_file()}
    files = {path for path in files if "__pycache__" not in path} | {"scenarios/examples/household.xml"}
    assert set(data(home, "take", "examples/household")["paths"]) == files
    assert {path for path, state in states(home).items() if state == "same"} >= files
    assert "NOT AS EXPECTED" not in well(home, "simulate", "examples/household")
    assert "exists already" in narval(home, "take", "examples/household").stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("diff", "mial"), "expected a file, a folder or a module, got 'mial'; did you mean 'mail'?"),
        (
            ("take", "recipes/mial.xml"),
            "narval ships nothing called 'recipes/mial.xml'; did you mean 'recipes/mail.xml'?",
        ),
        (
            ("take", "examples/moon"),
            "narval ships nothing called 'examples/moon'; did you mean 'examples/month'?",
        ),
        (("take", "../home"), "narval ships nothing called '../home'"),
    ],
)
def test_a_name_that_is_not_known_is_refused(home: Path, arguments: tuple[str, ...], said: str) -> None:
    result = narval(home, *arguments)
    assert result.exit_code == 1
    assert said in result.stderr


def test_actions_of_a_name_tells_all_about_it_whether_it_is_loaded_or_not(home: Path) -> None:
    well(home, "add", "-", given="<outbox path='out'/>")
    assert well(home, "actions", "mail.write").splitlines()[2:] == [
        "  takes draft: draft",
        "    attributes: to, cc, subject, auto",
        "  takes identity: identity[@address]",
        "    attributes: name, address",
        "  takes outbox: outbox[@path or @host]",
        "    attributes: name, kind (maildir or smtp), path, host, port, tls, user, secret",
        "  takes signature: signature (optional)",
        "    attributes: name",
        "  gives sent: sent",
        "  reaches host {outbox/@host}:{outbox/@port}, folder {outbox/@path} rw, secret {outbox/@secret}",
        "  where it goes: draft/@to, draft/@cc, outbox",
        "",
        "a step that calls it; what is not written there is found in the steps before, or in memory:",
        '<step id="write" type="action" target="mail.write">',
        "  <arguments>",
        '    <draft to="…"/>',
        "  </arguments>",
        "</step>",
    ]
    [listed] = data(home, "actions", "files.watch")
    assert '<folder path="…"/>' in listed["example"]
    assert [row["name"] for row in data(home, "actions", "triage")] == ["triage.judge", "triage.leave"]
    assert "did you mean 'mail.send'?" in narval(home, "actions", "mail.sned").stderr


def test_actions_lists_all_that_ships_and_what_has_taken_its_place(home: Path) -> None:
    assert not any(row["name"].startswith("files.") for row in data(home, "actions"))
    well(home, "take", "files")
    found = {row["name"]: row for row in data(home, "actions", "--shipped")}
    assert found["files.watch"]["replaced_by"] == "modules/files"
    assert found["mail.send"]["replaced_by"] is None
    assert found["mail.send"]["path"] == "<narval>/modules/mail/__init__.py"
    assert "modules/files" in well(home, "actions", "--shipped")
