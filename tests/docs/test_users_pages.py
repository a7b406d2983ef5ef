"""Pages for users say rules in words: the numbers of demands stay on the pages for contributors."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.house.pages.demands import CITED
from tests.places import DOCS, ROOT

FOLDERS = ("tutorial", "how-to", "reference", "explanation")
"""The folders of docs/ whose pages are for users."""

PAGES = [ROOT / "README.md", *(path for name in FOLDERS for path in sorted((DOCS / name).rglob("*.md")))]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_no_page_for_users_cites_a_demand_by_its_number(path: Path) -> None:
    lines = enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
    cited = ((at, number) for at, line in lines for number, _ in CITED.findall(line.replace('"A4"', "")))
    assert [f"{at}: {number}" for at, number in cited if number] == [], (
        "paper is of a size, and names of tests stay"
    )
