"""Numbers and headings that code and tests cite are there in the documentation."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tests.house.pages.demands import numbers
from tests.places import DOCS, ROOT, page

SECTION = re.compile(r"sections? ((?:\d+(?:, | and | to )?)+)")
HEADING = re.compile(r"§ \"([A-Z][^\"<]+)\"|design, \"([^\"]+)\"|design\.md, \"([^\"]+)\"")
FOREIGN = frozenset({"N818", "T201"})
"""Rules of the linter, which look like numbers of demands."""


def test_each_number_is_a_row_of_the_demands() -> None:
    rows = set(re.findall(r"^\| (\w+\d+) \|", demands(), re.MULTILINE))
    cited = {(number, place) for place, text in cited_in() for number in numbers(text)}
    assert sorted({f"{place}: {number}" for number, place in cited if number not in rows | FOREIGN}) == []


def test_each_section_is_a_row_of_the_demands() -> None:
    rows = set(re.findall(r"^\| section (\d+) \|", demands(), re.MULTILINE))
    wrong = {
        f"{place}: section {number}"
        for place, text in cited_in()
        for found in SECTION.findall(text)
        for number in re.findall(r"\d+", found)
        if number not in rows
    }
    assert sorted(wrong) == []


def test_each_heading_is_in_the_pages() -> None:
    headings = {
        heading.strip()
        for path in DOCS.rglob("*.md")
        for heading in re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    wrong = {
        f"{place}: {heading}"
        for place, text in cited_in()
        for found in HEADING.findall(text)
        for heading in found
        if heading and heading not in headings
    }
    assert sorted(wrong) == []


def test_citations_are_seen() -> None:
    assert list(numbers("as N16 and A3 say; not PN16, N16x, W3 or UTF-8; test_K7_it_ends")) == [
        "N16",
        "A3",
        "K7",
    ]


def cited_in() -> Iterator[tuple[str, str]]:
    """The texts that may cite: code, tests and pages, by path."""
    for folder, pattern in (("narval", "*.py"), ("tests", "*.py"), ("docs", "*.md"), ("modules", "*.py")):
        for path in sorted((ROOT / folder).rglob(pattern)):
            if path not in (Path(__file__), DOCS / "contributing" / "map.md"):
                yield str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")


def demands() -> str:
    return page("demands.md")
