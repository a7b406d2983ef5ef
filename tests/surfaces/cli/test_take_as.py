"""`narval take`: the examples there are; one of them as a recipe of one's own."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from narval.files.alterations import HOUSEHOLD, example_files
from narval.files.examples import SUBJECTS
from narval.files.shipped import shipped
from tests.surfaces.cli.command_line import data, narval, well

EXAMPLES = sorted(example_files().keys() - {HOUSEHOLD})
SHARED = ("recipes/model.xml", "recipes/tools.xml")
"""Files of which an example names what they have; they keep their names."""


@pytest.fixture
def new(tmp_path: Path) -> Path:
    """A home that has nothing but the rules of new homes."""
    for part in ("etc", "recipes", "modules", "data"):
        (tmp_path / "new" / part).mkdir(parents=True)
    for name in ("etc/trust.toml", "recipes/trust.xml"):
        shutil.copy(shipped() / name, tmp_path / "new" / name)
    return tmp_path / "new"


def test_take_alone_lists_the_examples_with_a_sentence_each(new: Path) -> None:
    listed = {row["name"]: row["about"] for row in data(new, "take")}
    assert listed.keys() == example_files().keys()
    assert listed["examples/invoice"] == "An invoice that is due is reminded of each week until it is paid."
    assert all(about.endswith(".") and len(about) > 20 for about in listed.values()), listed
    assert "examples/invoice" in well(new, "take")
    assert [path.name for path in (new / "recipes").iterdir()] == ["trust.xml"]


def test_each_example_says_its_subject_in_its_own_file_and_is_listed_by_it_and_by_words(new: Path) -> None:
    rows = data(new, "take")
    assert sorted(row["name"] for row in rows) == sorted(example_files())
    assert list(dict.fromkeys(row["subject"] for row in rows)) == list(SUBJECTS)
    of_mail = [row["name"] for row in rows if row["subject"] == "mail"]
    assert "examples/unanswered" in of_mail
    asked = data(new, "take", "--about", "mail")
    assert [row["name"] for row in asked if row["subject"] == "mail"] == of_mail
    assert [row["name"] for row in data(new, "take", "--about", "Failed Logins")] == ["examples/logins"]
    refused = narval(new, "take", "--about", "moon")
    assert refused.exit_code != 0
    assert "no example is about 'moon'; their subjects are: mail, calendar," in refused.stderr
    assert "does not go with NAME" in narval(new, "take", "mail", "--about", "mail").stderr


def test_each_example_in_a_group_of_its_own_has_no_faults_and_its_scenarios_go_as_expected(
    new: Path,
) -> None:
    for name in EXAMPLES:
        group = f"own-{name.partition('/')[2]}"
        taken = data(new, "take", name, "--as", group)["paths"]
        shared = [path for path in taken if path in SHARED or path.startswith("recipes/mcp/")]
        own = [path for path in taken if path not in shared]
        assert all(path.split("/")[1] == group for path in own)
        texts = "".join((new / path).read_text() for path in own)
        assert "examples." not in texts.replace("docs/reference/examples.md", "")
        assert 'group="examples"' not in texts
        assert "recipes/examples" not in texts
    assert "no faults" in narval(new, "check").output
    assert "NOT AS EXPECTED" not in well(new, "simulate", "--brief")


def test_the_example_itself_can_be_there_too(new: Path) -> None:
    for name in ("examples/purchase", "examples/bank", "examples/digest", "examples/time"):
        well(new, "take", name)
        well(new, "take", name, "--as", name.partition("/")[2] + "-2")
    assert "no faults" in narval(new, "check").output


def test_a_command_of_the_examples_recipes_is_renamed_in_its_words(new: Path) -> None:
    well(new, "take", "examples/fax", "--as", "office")
    assert 'exec("sh recipes/office/office.sh")' in (new / "recipes/office/office.task").read_text()
    assert "narval simulate office/fax" in (new / "scenarios/office/fax.xml").read_text()


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("examples/invoices", "--as", "office"), "did you mean 'examples/invoice'"),
        (("mail", "--as", "office"), "expected an example that ships, found 'mail'"),
        ((HOUSEHOLD, "--as", "office"), "is of several agents"),
        (("examples/invoice", "--as", "../up"), "expected a name for a group of your own"),
        (("examples/invoice", "--as", "examples"), "expected a name for a group of your own"),
        (("--as", "office"), "name what to take"),
    ],
)
def test_what_cannot_be_taken_so_is_said(new: Path, arguments: tuple[str, ...], why: str) -> None:
    told = narval(new, "take", *arguments)
    assert told.exit_code != 0
    assert why in told.stderr
    assert [path.name for path in (new / "recipes").iterdir()] == ["trust.xml"]


def test_what_is_there_is_replaced_only_with_force(new: Path) -> None:
    well(new, "take", "examples/invoice", "--as", "office")
    mine = new / "recipes/office/invoice.xml"
    mine.write_text("<recipe/>")
    told = narval(new, "take", "examples/invoice", "--as", "office")
    assert "recipes/office/invoice.xml exists already" in told.stderr
    assert mine.read_text() == "<recipe/>"
    well(new, "take", "examples/invoice", "--as", "office", "--force")
    assert 'group="office"' in mine.read_text()


def test_the_server_that_an_example_calls_is_told_until_the_settings_have_it(new: Path) -> None:
    file = new / "recipes/examples/filesystem.json"
    said = well(new, "take", "examples/filesystem")
    assert (
        f"it calls the MCP server filesystem, which etc/narval.toml does not have: narval mcp add {file}"
        in said
    )
    (new / "recipes/tools.xml").unlink()
    text = (new / "recipes/examples/filesystem.xml").read_text()
    (new / "recipes/examples/filesystem.xml").write_text(text.replace(' approve="tools.approve"', ""))
    told = narval(new, "check").output
    assert (
        "recipes/examples/filesystem.xml:13:42: warning: filesystem.write_file: it is a tool of the MCP"
        in told
    )
    assert f"add the server: narval mcp add {file}" in told
    well(new, "mcp", "add", str(file), "--offline")
    assert "narval take recipes/tools.xml" in narval(new, "check").output
    well(new, "take", "recipes/tools.xml")
    assert "warning" not in narval(new, "check").output
    again = well(new, "take", "examples/filesystem", "--as", "office")
    assert "MCP server" not in again
    assert "recipes/mcp" not in again
