"""The tables of reference/dataflow-language.md are those of the code, and its plans compile (T14, TA8)."""

from __future__ import annotations

import re

from narval.kinds.dataflow.language.documentation import alias_rows, operator_rows
from tests.kinds.dataflow.language.reading import read
from tests.places import ROOT

PAGE = (ROOT / "docs" / "reference" / "dataflow-language.md").read_text(encoding="utf-8")


def between(mark: str) -> list[str]:
    found = re.search(rf"<!-- {mark} -->\n(.*?)\n?<!-- end -->", PAGE, re.DOTALL)
    assert found is not None, mark
    return found[1].splitlines()


def test_T14_the_table_of_operators_is_that_of_the_code() -> None:
    assert between("operators") == operator_rows()


def test_TA8_the_table_of_aliases_is_that_of_the_code() -> None:
    assert between("aliases") == alias_rows()


def test_the_plans_on_the_page_compile() -> None:
    plans = re.findall(r"```\n(PLAN .*?)```", PAGE, re.DOTALL)
    assert len(plans) == 2
    for text in plans:
        assert [str(fault) for fault in read(text).faults] == []
