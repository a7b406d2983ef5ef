"""Whatever a user can ask, set, call or meet is documented; what the pages promise is there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

from narval.ask.operations import OPERATIONS
from narval.core import errors
from narval.core.engines import commands, events
from narval.core.kinds import IN_MODULES
from narval.files.found_files import modules_in
from narval.files.reading import load
from narval.files.settings import READERS
from narval.surfaces.cli import COMMANDS
from tests.places import DOCS, ROOT, page

PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]


@pytest.mark.parametrize("name", list(COMMANDS))
def test_each_command_is_on_the_page_of_the_command_line(name: str) -> None:
    assert f"narval {name}" in page("cli.md")


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_each_command_that_a_page_names_is_there(path: Path) -> None:
    named = re.findall(r"(?:`|^ *\$ )narval ([a-z][\w-]*)", path.read_text(encoding="utf-8"), re.MULTILINE)
    assert set(named) <= set(COMMANDS)


@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_each_operation_says_what_it_does(name: str) -> None:
    assert OPERATIONS[name].doc.strip().endswith(".")


@pytest.mark.parametrize("name", READERS)
def test_each_setting_is_in_the_sample_file(name: str) -> None:
    assert re.search(
        rf"^#?\s*(?:{name}\s*=|\[{name}\])",
        (ROOT / "etc/narval.toml").read_text(encoding="utf-8"),
        re.MULTILINE,
    )


@pytest.mark.parametrize("name", [event.__name__ for event in get_args(events.Event)])
def test_each_event_is_in_the_design(name: str) -> None:
    assert f"`{name}`" in page("design.md")


@pytest.mark.parametrize("name", [command.__name__ for command in get_args(commands.Command)])
def test_each_command_of_engines_is_in_the_design(name: str) -> None:
    assert f"`{name}`" in page("design.md")


def test_each_error_is_in_the_tree_of_errors() -> None:
    classes = [
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, errors.NarvalError)
    ]
    assert [name for name in classes if name not in (errors.__doc__ or "")] == []


@pytest.mark.parametrize("module", [path.stem for path, _ in modules_in(ROOT / "modules", "modules")])
def test_each_shipped_action_is_documented(module: str) -> None:
    loaded = load(ROOT)
    pages = {path.stem: path.read_text(encoding="utf-8") for path in DOCS.rglob("*.md")}
    text = pages.get(module, "") + pages["mail"]
    names = [found.name for found in loaded.library if found.kind in IN_MODULES and found.group == module]
    assert names
    assert [name for name in names if f"`{name}`" not in text and f"`{module}.{name}`" not in text] == []


def test_the_shipped_home_has_no_faults() -> None:
    assert [str(fault) for fault in load(ROOT).faults] == []


def test_links_between_pages_lead_somewhere() -> None:
    broken = []
    for path in PAGES:
        for target in re.findall(r"\]\(([^)#:]+\.md)[^)]*\)", path.read_text(encoding="utf-8")):
            if not (path.parent / target).exists():
                broken.append(f"{path.name}: {target}")
    assert broken == []


def test_each_test_that_shows_what_is_promised_is_there() -> None:
    named = re.findall(r"`((?:tests/[\w/]+/)?test_\w+\.py|tests/[\w/.]+)`", page("reliability.md"))
    known = {path.name for path in (ROOT / "tests").rglob("test_*.py")}
    assert [name for name in named if name not in known and not (ROOT / name).exists()] == []
