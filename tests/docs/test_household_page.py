"""docs/household.md tells the truth: its commands are given in order, at real daemons."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.test_cli_page import Reader, follow
from tests.places import ROOT


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    reading = Reader(tmp_path)
    yield reading
    reading.end()


def test_the_household_does_what_the_page_shows(reader: Reader) -> None:
    follow(reader, ROOT / "docs" / "household.md")
