"""Documentation of operators: the rows of the tables on the language's page (T14, TA8)."""

from __future__ import annotations

from collections.abc import Iterator

from narval.kinds.dataflow.language.operators import CLASS_NAMES, OPERATOR_TABLE, Operator


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
