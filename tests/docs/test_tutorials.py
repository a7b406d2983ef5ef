"""The tutorials go as they say: each file is saved and each command typed, in order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.tutorials import Typist, differences, is_look
from tests.docs.typed import blocks
from tests.places import DOCS, ROOT

STORIES = ["mail-triage", "flats", "backup", "purchase"]
FIRST = "## 1. A first recipe\n"


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Typist]:
    reading = Typist(tmp_path)
    yield reading
    reading.end()


def story(name: str) -> Path:
    return DOCS / "tutorial" / f"{name}.md"


@pytest.mark.parametrize("name", STORIES)
def test_a_tutorial_goes_as_it_says(reader: Typist, name: str) -> None:
    for differs in differences(reader, story(name)):
        pytest.fail(differs, pytrace=False)


@pytest.mark.parametrize("name", STORIES)
def test_each_file_of_a_tutorial_is_named_in_its_text(name: str) -> None:
    text = story(name).read_text(encoding="utf-8")
    for _, title, _ in blocks(story(name)):
        assert not title or f"`{title}`" in text


def test_the_first_recipe_of_the_readme_is_the_first_third_of_a_tutorial() -> None:
    page = story("mail-triage").read_text(encoding="utf-8")
    first = page.partition(FIRST)[2].partition("\n## ")[0].strip()
    assert f"## A first recipe\n\n{first}\n" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert 0.25 < len(first) / len(page) < 0.45


def test_only_what_alters_nothing_is_typed_twice() -> None:
    assert is_look("narval memory triage")
    assert is_look("ls kept | wc -l")
    for command in (
        "narval add -",
        "narval start a.b",
        "cat a > b",
        "sed -i s/a/b/ c",
        "narval work answer 1 x",
    ):
        assert not is_look(command)
