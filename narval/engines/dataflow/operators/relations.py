"""Operators on whole relations: accumulate, namerelation, stream, sort (TA17, TA18)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from heapq import merge
from operator import itemgetter
from typing import Any

from narval.engines.dataflow.batches import (
    BATCH,
    FlowError,
    Relation,
    Row,
    Schema,
    TupleBatch,
    aligned,
    position,
)
from narval.engines.dataflow.operators.actor import Actor
from narval.engines.dataflow.operators.conditions import no_order
from narval.engines.dataflow.spilling import Kept


class Accumulate(Actor):
    """Gather a relation."""

    def on_init(self, values: Mapping[str, Any]) -> None:
        self._schema: Schema | None = None
        self._kept = self.spill.kept()
        self._name = ""

    def on_in(self, batch: TupleBatch) -> None:
        if self._schema is None:
            self._schema, self._name = batch.schema, batch.relation
        self._kept.add(batch.rows if batch.schema is self._schema else aligned(batch, self._schema))

    def finish(self) -> None:
        self.outlet("out").give(Relation(self._schema or (), self._kept, self._name))


class NameRelation(Actor):
    """Give a relation another name."""

    def on_init(self, values: Mapping[str, Any]) -> None:
        given: Relation = values["in"]
        self.outlet("out").give(Relation(given.schema, given.kept, str(values["name"])))


class Stream(Actor):
    """Give the tuples of a relation, in its order."""

    def on_init(self, values: Mapping[str, Any]) -> Iterator[None]:
        out = self.outlet("out")
        for batch in values["in"].batches():
            out.put(*batch)
            yield


class Sort(Actor):
    """Put tuples in order: stable, no value last; those beyond what may be kept as runs that are merged."""

    def on_init(self, values: Mapping[str, Any]) -> Iterator[None]:
        given: Relation = values["in"]
        self._down = self._order(str(values["order"]))
        if len(given):
            self._key = itemgetter(position(given.schema, str(values["attr"])))
        runs: list[Kept] = []
        absent = self.spill.kept()
        rows: list[Row] = []
        for batch in given.batches():
            rows += self._present(batch.rows, absent)
            if len(rows) >= self.spill.room(batch.rows):
                runs.append(self._run(rows))
                rows = []
                yield
        if runs:
            if rows:
                runs.append(self._run(rows))
            result = self.spill.kept()
            yield from self._merged(runs, result)
        else:
            result = self._run(rows)
        for batch_rows in absent.batches():
            result.add(batch_rows)
        self.outlet("out").give(Relation(given.schema, result, given.name))

    @staticmethod
    def _order(word: str) -> bool:
        if word not in ("ascending", "descending"):
            raise FlowError("wrong-text", f"order: expected ascending or descending, found {word}")
        return word == "descending"

    def _present(self, rows: list[Row], absent: Kept) -> list[Row]:
        key = self._key
        none = [row for row in rows if key(row) is None]
        if not none:
            return rows
        absent.add(none)
        return [row for row in rows if key(row) is not None]

    def _run(self, rows: list[Row]) -> Kept:
        kept = self.spill.kept()
        if rows:
            try:
                rows.sort(key=self._key, reverse=self._down)
            except TypeError:
                text = next(value for value in map(self._key, rows) if isinstance(value, str))
                number = next(value for value in map(self._key, rows) if not isinstance(value, str))
                raise no_order(number, text) from None
            kept.add(rows)
        return kept

    def _merged(self, runs: list[Kept], result: Kept) -> Iterator[None]:
        # Runs are read a batch at a time; equal tuples of an earlier run come first, as merge does it.
        streams = [(row for rows in run.batches() for row in rows) for run in runs]
        some: list[Row] = []
        try:
            for row in merge(*streams, key=self._key, reverse=self._down):
                some.append(row)
                if len(some) == BATCH:
                    result.add(some)
                    some = []
                    yield
        except TypeError:
            heads = [self._key(row) for run in runs for rows in run.batches() for row in rows[:1]]
            raise no_order(
                heads[0], next(x for x in heads if isinstance(x, str) != isinstance(heads[0], str))
            ) from None
        result.add(some)
        for run in runs:
            run.drop()


class FormatRelation(Actor):
    """Name a value, or the only attribute of tuples; a value becomes a relation, a stream stays one."""

    def on_init(self, values: Mapping[str, Any]) -> None:
        self._schema = (str(values["attr"]),)

    def on_in(self, batch: TupleBatch) -> None:
        rows = batch.rows
        if len(batch.schema) != 1:
            at = position(batch.schema, self._schema[0])
            rows = [(row[at],) for row in rows]
        self.outlet("out").put(self._schema, rows, batch.relation)
