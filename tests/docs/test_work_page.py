"""The table and the drawing of docs/reference/work.md are those of the engine (P20)."""

from __future__ import annotations

import re

from narval.kinds.work.engine.table import drawing, rows
from tests.places import ROOT

PAGE = ROOT / "docs" / "reference" / "work.md"


def between(mark: str) -> str:
    found = re.search(rf"<!-- {mark} -->\n(.*?)<!-- end -->", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None, mark
    return found[1].strip()


def test_P20_the_table_is_that_of_the_engine() -> None:
    assert between("table of acts").splitlines() == rows()


def test_P20_the_drawing_is_that_of_the_engine() -> None:
    assert between("drawing").splitlines() == ["```mermaid", *drawing(), "```"]
