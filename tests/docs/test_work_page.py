"""The table and the drawing of docs/reference/work.md are those of the engine (P20)."""

from __future__ import annotations

import re

from narval.kinds.work.engine.table import ACTS_ON_ITEMS, DRAWN, No
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


def rows() -> list[str]:
    """The table for docs/reference/work.md."""
    lines = ["| act | who | offered | claimed by oneself | claimed by another | several answer | over |"]
    lines.append("|---|---|---|---|---|---|---|")
    for name, act in ACTS_ON_ITEMS.items():
        cells = (f"`{cell.kind}`" if isinstance(cell, No) else cell for cell in act[1:5])
        lines.append(f"| {name} | {act.who} | {' | '.join(cells)} | `over` |")
    return lines


def drawing() -> list[str]:
    """The drawing of docs/reference/work.md, in the language of Mermaid."""
    return ["stateDiagram-v2", *(f"    {start} --> {end}: {why}" for start, end, why in DRAWN)]
