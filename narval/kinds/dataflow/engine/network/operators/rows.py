"""Operators on values, and on one batch at a time: select, project, merge, headtail and others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from narval.kinds.dataflow.engine.network import batches
from narval.kinds.dataflow.engine.network.operators.flow_operator import (
    Chooser,
    FlowOperator,
    Handler,
    chooser,
    holds,
)
from narval.kinds.dataflow.language.conditions import AttributeTest, InlineTuples, TextFormat, placed


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


class Select(FlowOperator):
    """Keep the tuples that satisfy a condition."""

    def on_init(self, values: Mapping[str, Any]) -> None:
        self._tests: Sequence[AttributeTest] = self.parsed("cond", values)
        self._schema: batches.Schema | None = None
        self._choosers: list[Chooser] = []
        self._out = self.outlet("out")

    def on_in(self, batch: batches.TupleBatch) -> None:
        schema, rows, relation = batch
        if schema is not self._schema:
            self._choosers = [chooser(test, schema) for test in self._tests]
            self._schema = schema
        for choose in self._choosers:
            rows = choose(rows)
        self._out.put(schema, rows, relation)


class Project(FlowOperator):
    """Keep the named columns."""

    def on_init(self, values: Mapping[str, Any]) -> None:
        self._columns: tuple[str, ...] = tuple(self.parsed("cond", values))
        self._schema: batches.Schema | None = None
        self._out = self.outlet("out")

    def on_in(self, batch: batches.TupleBatch) -> None:
        schema, rows, relation = batch
        if schema is not self._schema:
            self._pick = batches.picker(schema, self._columns)
            self._schema = schema
        self._out.put(self._columns, list(map(self._pick, rows)), relation)


class RelationFormat(FlowOperator):
    """Put a text made from each tuple into an attribute, new or existing."""

    def on_init(self, values: Mapping[str, Any]) -> None:
        self._attribute = str(values["attr"])
        self._format: TextFormat = self.parsed("format", values)
        self._schema: batches.Schema | None = None
        self._out = self.outlet("out")

    def on_in(self, batch: batches.TupleBatch) -> Iterator[None]:
        schema, rows, relation = batch
        if schema is not self._schema:
            self._bind(schema)
        first, *texts = self._format.texts
        pick, place = self._pick, self._place
        written: list[batches.Row] = []
        size = 0
        for row in rows:
            values = zip(map(batches.text_of, pick(row)), texts, strict=True)
            text = batches.joined([first, *[value + after for value, after in values]])
            written.append((*row, text) if place is None else (*row[:place], text, *row[place + 1 :]))
            size += len(text)
            if size > batches.LONGEST_TEXT:
                self._out.put(self._written, written, relation)
                written, size = [], 0
                yield
        self._out.put(self._written, written, relation)

    def _bind(self, schema: batches.Schema) -> None:
        any_case = self._format.any_case
        places = [placed(schema, name, any_case=any_case) for name in self._format.attributes]
        self._pick = batches.picker(schema, ["" if at is None else schema[at] for at in places])
        self._place = placed(schema, self._attribute, any_case=any_case)
        self._written = schema if self._place is not None else (*schema, self._attribute)
        self._schema = schema


class Merge(FlowOperator):
    """Give all values of all inputs; attributes and types need not agree."""

    def handler(self, port: str, at: int) -> Handler:
        out = self.outlet("out")
        return lambda batch: out.put(*batch)


class HeadTail(FlowOperator):
    """Give the first value to head and the others to out."""

    def on_init(self, values: Mapping[str, Any]) -> None:
        self._head, self._out = self.outlet("head"), self.outlet("out")

    def on_in(self, batch: batches.TupleBatch) -> None:
        schema, rows, relation = batch
        if self._head.is_open:
            first = rows[0]
            held = [value for value in first if value is not None]
            self._head.give(batches.tuple_text(schema, first) if len(held) > 1 else next(iter(held), None))
            rows = rows[1:]
        self._out.put(schema, rows, relation)


class AtLeastOne(FlowOperator):
    """Give the whole stream to out_true from its first value on, or an empty one to out_false (T40, TA38)."""

    def on_init(self, values: Mapping[str, Any]) -> None:
        self._true, self._false = self.outlet("out_true"), self.outlet("out_false")

    def on_in(self, batch: batches.TupleBatch) -> None:
        self._false.cancel()
        self._true.put(*batch)

    def finish(self) -> None:
        if self._false.is_open:
            self._true.cancel()
