"""The page of the examples that ship has each of them as it is, and each has a scenario.

The scenarios themselves are played with all others, by the plugin that comes with narval.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from narval.files.reading import load
from tests.places import ROOT

PAGE = (ROOT / "docs" / "reference" / "examples.md").read_text(encoding="utf-8")
OF_AGENTS = "household"
"""The example of several agents, which docs/tutorial/household.md shows."""

OF_TASKS = {"bank", "desk", "fax"}
"""The examples of tasks, which docs/reference/tasks.md tells of."""

OF_SERVERS = {"time", "git", "filesystem", "everything"}
"""The examples that call MCP servers, docs/reference/mcp-servers.md."""

OF_PEOPLE = "purchase"
"""The example that has a page of its own, docs/reference/people.md (P88)."""

FORMS = ("process", "task")
"""The other forms that it has."""

EXAMPLES = sorted(
    path
    for path in (ROOT / "recipes" / "examples").iterdir()
    if path.suffix == ".xml" and f"\n## {path.stem}\n" in PAGE
)
"""The examples that the page explains; docs/reference/wishes.md has all."""


def files_of(example: Path) -> list[Path]:
    """The recipe, and the transforms beside it that carry its name."""
    return [example, *sorted(example.parent.glob(f"{example.stem}.*.xsl"))]


def lines(path: Path) -> int:
    """The lines of a file, without comments and those that are blank."""
    text = re.sub(r"<!--.*?-->|<\?xml.*?\?>", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    return sum(1 for line in text.splitlines() if line.strip())


def names(paths: list[Path]) -> list[str]:
    return [path.stem for path in paths]


def test_each_example_has_a_scenario() -> None:
    scenarios = sorted((ROOT / "scenarios" / "examples").glob("*.xml"))
    assert len(EXAMPLES) == 12
    forms = {f"{OF_PEOPLE}.{form}" for form in FORMS}
    assert {*names(scenarios)} >= {*names(EXAMPLES), OF_AGENTS, OF_PEOPLE, *forms, *OF_TASKS, *OF_SERVERS}
    played = {name.partition(".")[0] for name in names(scenarios)}
    recipes = {path.name.partition(".")[0] for path in (ROOT / "recipes" / "examples").glob("*.xml")}
    assert played == {*recipes, OF_AGENTS, *OF_TASKS}
    for path in scenarios:  # the household begins with what its files declare
        is_empty = 'memory="empty"' in path.read_text(encoding="utf-8")
        assert is_empty == (path.stem != OF_AGENTS)


def test_each_example_has_its_name_and_no_fault() -> None:
    loaded = load(ROOT)
    assert loaded.faults == ()
    found = {recipe.full_name for recipe in loaded.library if recipe.group == "examples"}
    assert found >= {f"examples.{name}" for name in names(EXAMPLES)}


@pytest.mark.parametrize("example", EXAMPLES, ids=names(EXAMPLES))
def test_the_page_has_the_example_as_it_ships(example: Path) -> None:
    assert f"\n## {example.stem}\n" in PAGE
    for file in files_of(example):
        assert f"```xml\n{file.read_text(encoding='utf-8')}```\n" in PAGE
    assert f"narval simulate examples/{example.stem}\n" in PAGE


@pytest.mark.parametrize("example", EXAMPLES, ids=names(EXAMPLES))
def test_the_page_has_the_lines_of_the_example(example: Path) -> None:
    row = re.search(
        rf"^\| \[{example.stem}\]\(#{example.stem}\) \|.* \| (\d+) \| (\d+) \|$", PAGE, re.MULTILINE
    )
    assert row is not None
    assert int(row[2]) == sum(map(lines, files_of(example)))
    assert int(row[1]) >= int(row[2])


@pytest.mark.parametrize(
    "plan", sorted((ROOT / "recipes" / "examples").glob("*.plan")), ids=lambda path: path.stem
)
def test_the_page_of_dataflows_has_those_that_ship(plan: Path) -> None:
    page = (ROOT / "docs" / "reference" / "dataflows.md").read_text(encoding="utf-8")
    assert f"```\n{plan.read_text(encoding='utf-8')}```\n" in page
    assert f"narval take examples/{plan.stem}\n" in page


def test_the_page_of_servers_has_each_example_with_its_server_and_one_as_it_ships() -> None:
    page = (ROOT / "docs" / "reference" / "mcp-servers.md").read_text(encoding="utf-8")
    examples = ROOT / "recipes" / "examples"
    for name in OF_SERVERS:
        package = json.loads((examples / f"{name}.json").read_text())["mcpServers"][name]["args"]
        (named,) = (word for word in package if "server" in word)
        assert f"| `examples/{name}` | [{named}](" in page
    assert f"```xml\n{(examples / 'time.xml').read_text(encoding='utf-8')}```\n" in page
