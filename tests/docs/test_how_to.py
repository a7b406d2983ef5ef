"""The pages of docs/how-to: a task each, on sixty lines at most, followed as a reader would in a new home."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.test_cli_page import Reader
from tests.docs.typed import blocks, reader_in, type_along
from tests.places import ROOT

PAGES = sorted((ROOT / "docs" / "how-to").glob("*.md"))
MOST = 60

ELSEWHERE = "".join(
    path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py") if path != Path(__file__)
)
"""The other tests, which follow those pages that need something outside."""

HERE = [page for page in PAGES if f'"{page.name}"' not in ELSEWHERE]


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    reading = reader_in(tmp_path)
    assert "is a home" in reading.does("narval init --bare")
    yield reading
    reading.end()


@pytest.mark.parametrize("page", HERE, ids=lambda page: page.stem)
def test_it_goes_as_the_page_says(page: Path, reader: Reader) -> None:
    type_along(reader, page)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_is_short_and_has_something_to_type(page: Path) -> None:
    assert len(page.read_text(encoding="utf-8").splitlines()) <= MOST
    assert any(language == "console" for language, _, _ in blocks(page))
