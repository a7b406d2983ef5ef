"""Operators on values: compare, sprintf, noop, constructfunction, makestream2."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from narval.kinds.dataflow.engine.network import batches
from narval.kinds.dataflow.engine.network.operators.flow_operator import FlowOperator, holds
from narval.kinds.dataflow.language.conditions import InlineTuples, TextFormat


class Compare(FlowOperator):
    """Enable one of two outputs; the values are compared as texts if either is a text."""

    def on_init(self, values: Mapping[str, Any]) -> None:
        a, b = values["a"], values["b"]
        if isinstance(a, str) != isinstance(b, str) and a is not None and b is not None:
            a, b = batches.text_of(a), batches.text_of(b)
        comparison = str(values["comparison"]).replace("!=", "<>")
        if comparison not in ("=", "<>", "<", "<=", ">", ">="):
            raise batches.FlowError("wrong-text", f"expected a comparison such as <=, found {comparison}")
        chosen, other = ("true", "false") if holds(comparison, a, b) else ("false", "true")
        self.outlet(other).cancel()
        self.outlet(chosen).give(True)


class TextOfValues(FlowOperator):
    """Replace each %s by data."""

    def on_init(self, values: Mapping[str, Any]) -> None:
        made: TextFormat = self.parsed("format", values)
        data = values.get("data", [])
        places = len(made.texts) - 1
        if places != len(data):
            raise batches.FlowError("wrong-data", f"expected {places} data for the format, found {len(data)}")
        first, *others = made.texts
        text = batches.joined([first, *[shown(one) + after for one, after in zip(data, others, strict=True)]])
        self.outlet("out").give(text)


def shown(value: Any) -> str:
    """A value as text; a relation as one JSON object per line."""
    if not isinstance(value, batches.Relation):
        return batches.text_of(value)
    lines, length = [], 0
    for batch in value.batches():
        for row in batch.rows:
            lines.append(batches.tuple_text(batch.schema, row))
            length += len(lines[-1]) + 1
            if length > batches.LONGEST_TEXT:
                raise batches.too_long()
    return "\n".join(lines)


class Noop(FlowOperator):
    """Do nothing: its clauses order other operators."""


class ConstructFunction(FlowOperator):
    """Give the name of a function of a module."""

    def on_init(self, values: Mapping[str, Any]) -> None:
        self.outlet("fun").give(values["name"])


class InlineStream(FlowOperator):
    """Give the tuples of a JSON array."""

    def on_init(self, values: Mapping[str, Any]) -> Iterator[None]:
        made: InlineTuples = self.parsed("literal", values)
        for rows in batches.slices(list(made.rows)):
            self.outlet("out").put(made.attributes, rows)
            yield
