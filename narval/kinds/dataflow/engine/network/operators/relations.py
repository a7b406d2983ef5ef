"""Operators on whole relations: accumulate, namerelation, stream, sort (TA17, TA18)."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from operator import itemgetter
from typing import Any

from narval.kinds.dataflow.engine.network import batches
from narval.kinds.dataflow.engine.network.batches import Kept
from narval.kinds.dataflow.engine.network.operators.flow_operator import FlowOperator, no_order

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
        given: batches.Relation = values["in"]
        self.outlet("out").give(batches.Relation(given.schema, given.kept, str(values["name"])))


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
        given: batches.Relation = values["in"]
        self._down = self._order(str(values["order"]))
        if len(given):
            self._key = itemgetter(batches.position(given.schema, str(values["attr"])))
        runs: list[Kept] = []
        absent = self.spill.kept()
        rows: list[batches.Row] = []
        for batch in given.batches():
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
        self.outlet("out").give(batches.Relation(given.schema, result, given.name))

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
        kept = self.spill.kept()
        size = max(PIECE, -(-len(rows) // MOST_PIECES))
        pieces: list[list[batches.Row]] = []
        for at in range(0, len(rows), size):
            pieces.append(self._sorted(rows[at : at + size]))
            yield
        if pieces:
            heads = -(-size // len(pieces))  # together they are as long as one piece
            yield from self._merged([batches.slices(piece, heads) for piece in pieces], kept)
        return kept

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
