"""The table of docs/explanation/security.md is the one that operations ask."""

from __future__ import annotations

from narval.core.agreeing import rows
from tests.places import ROOT


def test_the_table_of_who_may_agree_is_the_one_that_is_asked() -> None:
    page = (ROOT / "docs/explanation/security.md").read_text(encoding="utf-8")
    _, _, rest = page.partition("<!-- who may agree -->\n")
    assert rest.partition("<!-- end -->")[0].splitlines() == rows()
