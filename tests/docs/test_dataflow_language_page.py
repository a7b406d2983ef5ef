"""The tables of reference/dataflow-language.md are those of the code, and its plans compile (T14, TA8)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from narval.kinds.dataflow.language.operators import OPERATOR_TABLE, Operator, OperatorClass
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


# --- the rows of the tables -------------------------------------------------------------------------------


CLASS_NAMES: Mapping[OperatorClass, str] = {
    "P": "pipelined",
    "H": "half-blocking",
    "B": "blocking",
    "I": "immediate",
}


def operator_rows() -> list[str]:
    """The table of all operators."""
    return [
        "| operator | | gives | of nothing but an end |",
        "|---|---|---|---|",
        *map(_row, OPERATOR_TABLE.values()),
    ]


def _row(operator: Operator) -> str:
    also = f" (also `{'`, `'.join(operator.also)}`)" if operator.also else ""
    signature = operator.signature.replace("TupleStream", "Stream").replace("|", "\\|")
    return f"| `{signature}`{also} | {', '.join(_marks(operator))} | {_does(operator)} | {operator.empty} |"


def _marks(operator: Operator) -> Iterator[str]:
    yield CLASS_NAMES[operator.kind] + (f" ({', '.join(operator.waits_for)})" if operator.waits_for else "")
    if operator.conditional:
        yield "conditional"
    if operator.effect:
        yield "effect"
    elif operator.io:
        yield "outside"


def _does(operator: Operator) -> str:
    words = [
        f"{port.name}: {', '.join(f'`{word}`' for word in port.words)}"
        for port in operator.inputs
        if port.words
    ]
    columns = next((port.attributes for port in operator.outputs if port.attributes), ())
    given = [f"attributes {', '.join(f'`{name}`' for name in columns)}"] if columns else []
    return "; ".join([operator.does, *words, *given])


def alias_rows() -> list[str]:
    """The table of the operators that have another order in the examples."""
    rows = ["| in the examples | is |", "|---|---|"]
    for operator in OPERATOR_TABLE.values():
        for order in operator.alias:
            names = ", ".join(f"{name}…" if _is_many(operator, name) else name for name in order)
            alias = next((name for name in operator.also if name.startswith("format")), operator.name)
            rows.append(f"| `{alias.upper()}({names})` | `{_canonical(operator)}` |")
    return rows


def _is_many(operator: Operator, name: str) -> bool:
    port = operator.input(name)
    return port is not None and port.many


def _canonical(operator: Operator) -> str:
    names = [f"({port.name}…)" if port.many else port.name for port in operator.inputs]
    return f"{operator.name}({', '.join(names)})"
