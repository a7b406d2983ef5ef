"""The operator aggregate: count, sum, min, max and avg of a column, in which no value is skipped (TA12)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import fsum
from typing import Any

from narval.kinds.dataflow.engine.network.batches import FlowError, Schema, TupleBatch, position
from narval.kinds.dataflow.engine.network.operators.conditions import no_order
from narval.kinds.dataflow.engine.network.operators.flow_operator import FlowOperator


class Aggregate(FlowOperator):
    """Give one value of a column."""

    def on_init(self, values: Mapping[str, Any]) -> None:
        self._column, self._func = str(values["column"]), str(values["func"])
        if self._func not in FOLDS:
            raise FlowError("wrong-text", f"func: expected one of {', '.join(FOLDS)}, found {self._func}")
        self._whole = self._func == "count" and self._column == "*"
        self._fold = FOLDS[self._func]
        self._found: Any = None
        self._seen = 0
        self._schema: Schema | None = None

    def on_in(self, batch: TupleBatch) -> None:
        if self._whole:
            self._seen += len(batch.rows)
            return
        if batch.schema is not self._schema:
            self._at = position(batch.schema, self._column)
            self._schema = batch.schema
        at = self._at
        column = [row[at] for row in batch.rows]
        if None in column:
            column = [value for value in column if value is not None]
        if column:
            self._found = self._fold(self._found, column)
            self._seen += len(column)

    def finish(self) -> None:
        self.outlet("result").give(self._result())

    def _result(self) -> Any:
        if self._func == "count":
            return self._seen
        if self._func in ("min", "max"):
            return self._found
        if self._found is None:
            return 0 if self._func == "sum" else None
        whole, parts = self._found
        total = whole + fsum(parts) if parts else whole
        return total if self._func == "sum" else total / self._seen


def _count(found: Any, column: list[Any]) -> Any:
    return found


def _sum(found: tuple[int, list[float]] | None, column: list[Any]) -> tuple[int, list[float]]:
    """Whole numbers are added as they are, others as two parts, so that the order of tuples does not show."""
    whole, parts = found or (0, [])
    try:
        total = sum(column)
    except TypeError:
        other = next(value for value in column if isinstance(value, str))
        raise FlowError("no-number", f"expected numbers to add, found {other!r:.40}") from None
    if isinstance(total, int):
        return whole + total, parts
    fractions = [*parts, *[value for value in column if isinstance(value, float)]]
    high = fsum(fractions)
    return whole + sum([value for value in column if isinstance(value, int)]), [
        high,
        fsum([*fractions, -high]),
    ]


def _extreme(choose: Callable[[Any], Any]) -> Callable[[Any, list[Any]], Any]:
    def fold(found: Any, column: list[Any]) -> Any:
        try:
            return choose(column if found is None else [found, *column])
        except TypeError:
            text = next(value for value in [found, *column] if isinstance(value, str))
            number = next(value for value in [found, *column] if isinstance(value, int | float))
            raise no_order(text, number) from None

    return fold


FOLDS: Mapping[str, Callable[[Any, list[Any]], Any]] = {
    "count": _count,
    "sum": _sum,
    "min": _extreme(min),
    "max": _extreme(max),
    "avg": _sum,
}
"""The functions by name: what was found before, and the values of a batch."""
