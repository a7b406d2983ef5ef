"""Operators on whole relations: accumulate, sort and others (TA17, TA18), aggregate and group (TA12).

Aggregates of columns are over all tuples or groups of them; missing values are skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from math import fsum
from operator import itemgetter
from typing import Any

from narval.kinds.dataflow.engine.network import batches
from narval.kinds.dataflow.engine.network.batches import Kept, Parts
from narval.kinds.dataflow.engine.network.operators.flow_operator import FlowOperator, no_order
from narval.kinds.dataflow.language.conditions import ColumnFold, placed

PIECE, MOST_PIECES = 8192, 64
"""The rows sorted in one step, and the most sorted pieces merged at once."""


class Accumulate(FlowOperator):
    """Collect a relation."""

    def on_init(self, values: Mapping[str, Any]) -> None:
        self._schema: batches.Schema = ()
        self._kept = self.spill.kept()
        self._name = ""

    def on_in(self, batch: batches.TupleBatch) -> None:
        if not self._schema:
            self._name = batch.relation
        if batch.schema is self._schema:
            self._kept.add(batch.rows)
        else:
            self._schema, rows = batches.placed_rows(batch, self._schema)
            self._kept.add(rows)

    def finish(self) -> None:
        self.outlet("out").give(batches.Relation(self._schema, self._kept, self._name))


class NameRelation(FlowOperator):
    """Give a relation another name."""

    def on_init(self, values: Mapping[str, Any]) -> None:
        relation: batches.Relation = values["in"]
        self.outlet("out").give(batches.Relation(relation.schema, relation.kept, str(values["name"])))


class Stream(FlowOperator):
    """Give the tuples of a relation, in its order."""

    def on_init(self, values: Mapping[str, Any]) -> Iterator[None]:
        out = self.outlet("out")
        for batch in values["in"].batches():
            out.put(*batch)
            yield


class Sort(FlowOperator):
    """Sort tuples, stably, no value last; beyond the limit, as runs that are merged."""

    def on_init(self, values: Mapping[str, Any]) -> Iterator[None]:
        relation: batches.Relation = values["in"]
        self._down = self._order(str(values["order"]))
        if len(relation):
            at = placed(relation.schema, str(values["attr"]))
            self._key: Callable[[batches.Row], Any] = itemgetter(at) if at is not None else lambda row: None
        runs: list[Kept] = []
        absent = self.spill.kept()
        rows: list[batches.Row] = []
        for batch in relation.batches():
            rows += self._present(batch.rows, absent)
            if len(rows) >= self.spill.room(batch.rows):
                runs.append((yield from self._run(rows)))
                rows = []
            yield
        if rows or not runs:
            runs.append((yield from self._run(rows)))
        result = runs[0]
        if len(runs) > 1:
            result = self.spill.kept()
            yield from self._merged([run.batches() for run in runs], result)
            for run in runs:
                run.drop()
        for batch_rows in absent.batches():
            result.add(batch_rows)
        self.outlet("out").give(batches.Relation(relation.schema, result, relation.name))

    @staticmethod
    def _order(word: str) -> bool:
        if word not in ("ascending", "descending"):
            raise batches.FlowError("wrong-text", f"order: expected ascending or descending, found {word}")
        return word == "descending"

    def _present(self, rows: list[batches.Row], absent: Kept) -> list[batches.Row]:
        key = self._key
        none = [row for row in rows if key(row) is None]
        if not none:
            return rows
        absent.add(none)
        return [row for row in rows if key(row) is not None]

    def _run(self, rows: list[batches.Row]) -> Generator[None, None, Kept]:
        """Sort rows in pieces, one per step, so that others have their turn in between."""
        run = self.spill.kept()
        size = max(PIECE, -(-len(rows) // MOST_PIECES))
        pieces: list[list[batches.Row]] = []
        for at in range(0, len(rows), size):
            pieces.append(self._sorted(rows[at : at + size]))
            yield
        if pieces:
            heads = -(-size // len(pieces))  # together they are as long as one piece
            yield from self._merged([batches.slices(piece, heads) for piece in pieces], run)
        return run

    def _sorted(self, rows: list[batches.Row]) -> list[batches.Row]:
        try:
            return sorted(rows, key=self._key, reverse=self._down)
        except TypeError:
            text = next(value for value in map(self._key, rows) if isinstance(value, str))
            number = next(value for value in map(self._key, rows) if not isinstance(value, str))
            raise no_order(number, text) from None

    def _merged(self, runs: list[Iterator[list[batches.Row]]], result: Kept) -> Iterator[None]:
        """Merge sorted runs: repeatedly take all rows up to the nearest end of a part in memory.

        Rows of later runs equal to that end wait, as this run may have more equal rows.
        """
        key, down = self._key, self._down
        heads = [next(run) for run in runs]
        while heads:
            lasts = [key(head[-1]) for head in heads]
            try:
                bound = max(lasts) if down else min(lasts)
            except TypeError:
                text = next(value for value in lasts if isinstance(value, str))
                raise no_order(text, next(value for value in lasts if not isinstance(value, str))) from None
            nearest = lasts.index(bound)
            some: list[batches.Row] = []
            for at, head in enumerate(heads):
                count = len(head) if at == nearest else self._count(head, bound, with_equal=at < nearest)
                some += head[:count]
                del head[:count]
            some.sort(key=key, reverse=down)
            result.add(some)
            more = next(runs[nearest], None)
            if more is None:
                del heads[nearest], runs[nearest]
            else:
                heads[nearest] = more
            yield

    def _count(self, rows: list[batches.Row], bound: Any, *, with_equal: bool) -> int:
        """The number of sorted rows that come before a bound or, `with_equal`, are equal to it."""
        key, down = self._key, self._down
        low, high = 0, len(rows)
        while low < high:
            middle = (low + high) // 2
            value = key(rows[middle])
            if (value > bound if down else value < bound) or (with_equal and value == bound):
                low = middle + 1
            else:
                high = middle
        return low


class FormatRelation(FlowOperator):
    """Name a value, or the only attribute of tuples; a value becomes a relation, a stream stays one."""

    def on_init(self, values: Mapping[str, Any]) -> None:
        self._schema = (str(values["attr"]),)

    def on_in(self, batch: batches.TupleBatch) -> None:
        rows = batch.rows
        if len(batch.schema) != 1:
            at = batches.position(batch.schema, self._schema[0])
            rows = [(row[at],) for row in rows]
        self.outlet("out").put(self._schema, rows, batch.relation)


# --- aggregates -----------------------------------------------------------------------------------------


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
        high = float(whole) if parts else 0.0
        total = fsum((high, whole - int(high), *parts)) if parts else whole
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
            self._at = placed(batch.schema, self._column)
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
        key = batches.picker(self._schema, self._by)
        groups: dict[batches.Row, list[batches.Row]] = {}
        for row in rows:
            groups.setdefault(key(row), []).append(row)
        return groups

    def _fold(
        self, groups: Mapping[batches.Row, list[batches.Row]], folded: dict[batches.Row, list[ColumnFolding]]
    ) -> None:
        places = [placed(self._schema, one.column) for one in self._values]
        for key, rows in groups.items():
            foldings = folded.get(key)
            if foldings is None:
                foldings = folded[key] = [ColumnFolding(one.func) for one in self._values]
            for folding, one, at in zip(foldings, self._values, places, strict=True):
                if one.column == "*":
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
    folding: ColumnFolding, column: str, at: int | None, schema: batches.Schema, rows: list[batches.Row]
) -> None:
    """Take the values of a column, if it is there. Raises FlowError naming the column, and a tuple with a
    text in it.
    """
    if at is None:
        return
    try:
        folding.add([row[at] for row in rows])
    except batches.FlowError as error:
        row = next((row for row in rows if isinstance(row[at], str)), None)
        where = f", in {batches.tuple_text(schema, row):.200}" if row is not None else ""
        failure = error.failure
        raise batches.FlowError(failure.kind, f"{column}: {failure.message}{where}") from None


def _count(total: Any, column: list[Any]) -> Any:
    return total


def _sum(so_far: tuple[int, list[float]] | None, column: list[Any]) -> tuple[int, list[float]]:
    """Add numbers: integers exactly, others in two parts, so that the order of tuples does not matter."""
    whole, parts = so_far or (0, [])
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
    def fold(extreme: Any, column: list[Any]) -> Any:
        try:
            return choose(column if extreme is None else [extreme, *column])
        except TypeError:
            text = next(value for value in [extreme, *column] if isinstance(value, str))
            number = next(value for value in [extreme, *column] if isinstance(value, int | float))
            raise no_order(text, number) from None

    return fold


def _texts(so_far: list[str] | None, column: list[Any]) -> list[str]:
    texts = so_far if so_far is not None else []
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
