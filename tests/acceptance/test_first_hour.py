"""tutorial/first-hour.md is tested as written: its files saved, its commands run, in order, in a new home."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.test_cli_page import Reader
from tests.docs.typed import blocks, reader_in, type_along
from tests.places import ROOT

PAGE = ROOT / "docs" / "tutorial" / "first-hour.md"


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    reading = reader_in(tmp_path)
    yield reading
    reading.end()


def test_the_first_hour_goes_as_the_page_says(reader: Reader) -> None:
    type_along(reader, PAGE)


def test_every_file_of_the_page_is_saved_and_only_the_installation_is_left_out() -> None:
    languages = [language for language, title, _ in blocks(PAGE) if not title and language != "console"]
    assert languages == ["sh"]
    assert sum(title.endswith("morning.xml") for _, title, _ in blocks(PAGE)) == 3
