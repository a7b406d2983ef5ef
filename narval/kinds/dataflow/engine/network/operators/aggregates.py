"""Aggregates of columns, over all tuples or groups of them; missing values are skipped (TA12)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import fsum
from typing import Any

from narval.kinds.dataflow.engine.network import batches
from narval.kinds.dataflow.engine.network.batches import Parts
from narval.kinds.dataflow.engine.network.operators.flow_operator import FlowOperator, no_order
from narval.kinds.dataflow.language.conditions import ColumnFold


class ColumnFolding:
    """The fold of one column: the result of one function so far, and the number of values."""

    __slots__ = ("_fold", "_found", "_func", "_seen")

    def __init__(self, func: str) -> None:
        self._func, self._fold = func, FOLDS[func]
        self._found: Any = None
        self._seen = 0

    def count(self, rows: int) -> None:
        """Count tuples, whatever their values."""
        self._seen += rows

    def add(self, column: list[Any]) -> None:
        """Take the values of a batch."""
        if None in column:
            column = [value for value in column if value is not None]
        if column:
            self._found = self._fold(self._found, column)
            self._seen += len(column)

    @property
    def result(self) -> Any:
        """The result for all values; None if there were none, but 0 for count and sum."""
        if self._func == "count":
            return self._seen
        if self._func in _TEXTS:
            return None if self._found is None else joined_by(_TEXTS[self._func], self._found)
        if self._func in ("min", "max"):
            return self._found
        if self._found is None:
            return 0 if self._func == "sum" else None
        whole, parts = self._found
        total = whole + fsum(parts) if parts else whole
        return total if self._func == "sum" else total / self._seen


class Aggregate(FlowOperator):
    """Give one value of a column."""

    def on_init(self, values: Mapping[str, Any]) -> None:
        self._column, func = str(values["column"]), str(values["func"])
        if func not in FOLDS:
            raise batches.FlowError("wrong-text", f"func: expected one of {', '.join(FOLDS)}, found {func}")
        self._whole = func == "count" and self._column == "*"
        self._folding = ColumnFolding(func)
        self._schema: batches.Schema | None = None

    def on_in(self, batch: batches.TupleBatch) -> None:
        if self._whole:
            self._folding.count(len(batch.rows))
            return
        if batch.schema is not self._schema:
            self._at = batches.position(batch.schema, self._column)
            self._schema = batch.schema
        _add(self._folding, self._column, self._at, batch.schema, batch.rows)

    def finish(self) -> None:
        self.outlet("result").give(self._folding.result)


class Group(FlowOperator):
    """Give a tuple for each group of tuples with the same values in some columns.

    Tuples of groups beyond the limit are spilled by key, and processed when the input has ended.
    """

    def on_init(self, values: Mapping[str, Any]) -> None:
        self._by: tuple[str, ...] = tuple(self.parsed("by", values))
        self._values: tuple[ColumnFold, ...] = tuple(self.parsed("values", values))
        if taken := [one.name for one in self._values if one.name in self._by]:
            raise batches.FlowError(
                "wrong-text", f"values: expected a new name, found {taken[0]!r}, which is in by"
            )
        self._groups: dict[batches.Row, list[ColumnFolding]] = {}
        self._away: Parts | None = None
        self._schema: batches.Schema = ()

    def on_in(self, batch: batches.TupleBatch) -> None:
        self._schema, rows = batches.placed_rows(batch, self._schema)
        groups = self._grouped(rows)
        if self._away is None and len(self._groups) < self.spill.room(rows):
            self._fold(groups, self._groups)
            return
        self._away = self._away or Parts(self.spill)
        here = {key: some for key, some in groups.items() if key in self._groups}
        self._fold(here, self._groups)
        for key, some in groups.items():
            if key not in here:
                self._away.add([key] * len(some), some)

    def _grouped(self, rows: list[batches.Row]) -> dict[batches.Row, list[batches.Row]]:
        key = batches.picker([batches.position(self._schema, name) for name in self._by])
        groups: dict[batches.Row, list[batches.Row]] = {}
        for row in rows:
            groups.setdefault(key(row), []).append(row)
        return groups

    def _fold(
        self, groups: Mapping[batches.Row, list[batches.Row]], folded: dict[batches.Row, list[ColumnFolding]]
    ) -> None:
        places = [
            None if one.column == "*" else batches.position(self._schema, one.column) for one in self._values
        ]
        for key, rows in groups.items():
            foldings = folded.get(key)
            if foldings is None:
                foldings = folded[key] = [ColumnFolding(one.func) for one in self._values]
            for folding, one, at in zip(foldings, self._values, places, strict=True):
                if at is None:
                    folding.count(len(rows))
                else:
                    _add(folding, one.column, at, self._schema, rows)

    def finish(self) -> Iterator[None]:
        yield from self._give(self._groups)
        for part in self._away.all() if self._away is not None else ():
            folded: dict[batches.Row, list[ColumnFolding]] = {}
            for rows in part.batches():
                self._fold(self._grouped(batches.widened(rows, self._schema)), folded)
                yield
            part.drop()
            yield from self._give(folded)

    def _give(self, folded: Mapping[batches.Row, list[ColumnFolding]]) -> Iterator[None]:
        made = (*self._by, *[one.name for one in self._values])
        rows = [(*key, *[one.result for one in foldings]) for key, foldings in folded.items()]
        for some in batches.slices(rows):
            self.outlet("out").put(made, some)
            yield


def _add(
    folding: ColumnFolding, column: str, at: int, schema: batches.Schema, rows: list[batches.Row]
) -> None:
    """Take the values of a column. Raises FlowError naming the column, and a tuple with a text in it."""
    try:
        folding.add([row[at] for row in rows])
    except batches.FlowError as error:
        row = next((row for row in rows if isinstance(row[at], str)), None)
        where = f", in {batches.tuple_text(schema, row):.200}" if row is not None else ""
        failure = error.failure
        raise batches.FlowError(failure.kind, f"{column}: {failure.message}{where}") from None


def _count(found: Any, column: list[Any]) -> Any:
    return found


def _sum(found: tuple[int, list[float]] | None, column: list[Any]) -> tuple[int, list[float]]:
    """Add numbers: integers exactly, others in two parts, so that the order of tuples does not matter."""
    whole, parts = found or (0, [])
    try:
        total = sum(column)
    except TypeError:
        other = next(value for value in column if isinstance(value, str))
        raise batches.FlowError("no-number", f"expected numbers to add, found {other!r:.40}") from None
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


def _texts(found: list[str] | None, column: list[Any]) -> list[str]:
    texts = found if found is not None else []
    texts.extend(map(batches.text_of, column))
    return texts


_TEXTS: Mapping[str, str] = {"list": ", ", "lines": "\n"}
"""The functions that join all values into one text, and their separators."""


def joined_by(between: str, texts: list[str]) -> str:
    """Join several texts. Raises FlowError, before joining, if the result would be too long."""
    if sum(map(len, texts)) + len(between) * len(texts) > batches.LONGEST_TEXT:
        raise batches.too_long()
    return between.join(texts)


FOLDS: Mapping[str, Callable[[Any, list[Any]], Any]] = {
    "count": _count,
    "sum": _sum,
    "min": _extreme(min),
    "max": _extreme(max),
    "avg": _sum,
    "list": _texts,
    "lines": _texts,
}
"""The functions by name; each takes the result so far and the values of a batch."""
