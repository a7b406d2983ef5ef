"""docs/tutorial/household.md tells the truth: its commands are given in order, at real daemons."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.test_cli_page import Reader, examples, follow
from tests.places import ROOT


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    reading = Reader(tmp_path)
    yield reading
    reading.end()


def test_the_household_does_what_the_page_shows(reader: Reader) -> None:
    follow(reader, ROOT / "docs" / "tutorial" / "household.md")


def test_the_second_agent_is_there_in_five_minutes(reader: Reader, tmp_path: Path) -> None:
    for title, text in (*examples("python"), *examples("xml")):
        file = tmp_path / title.replace("~/", "")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    page = (ROOT / "docs" / "reference" / "agents.md").read_text(encoding="utf-8")
    begin = page.index("## A second agent in five minutes")
    part = tmp_path / "part.md"
    text = re.sub(r"(?m)^(narval|ada) +active .*", "…", page[begin : page.index("\n## ", begin + 1)])
    part.write_text(text, encoding="utf-8")  # how much memory an agent takes is not the same everywhere
    follow(reader, part)
