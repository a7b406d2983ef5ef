"""Pages for users say rules in words: the numbers of demands stay on the pages for contributors."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.house.test_citations import numbers
from tests.places import DOCS, ROOT

FOLDERS = ("tutorial", "reference")
"""The folders of docs/ whose pages are for users."""

PAGES = [ROOT / "README.md", *(path for name in FOLDERS for path in sorted((DOCS / name).rglob("*.md")))]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_no_page_for_users_cites_a_demand_by_its_number(path: Path) -> None:
    lines = enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
    assert [f"{at}: {number}" for at, line in lines for number in numbers(line)] == []
