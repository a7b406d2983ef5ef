"""Operators that give no tuple twice: union and difference (TA13).

An attribute that a tuple lacks is no value in it. Tuples beyond the limit are spilled by digest, and
processed when the inputs have ended (TA41).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from narval.kinds.dataflow.engine.network import batches
from narval.kinds.dataflow.engine.network.batches import Parts, Spill
from narval.kinds.dataflow.engine.network.operators.flow_operator import FlowOperator, Handler, Steps


class _Once(FlowOperator):
    """The tuples already given, and those left to be decided at the end.

    All rows are in the order of one list of attributes. The list grows when tuples with new attributes
    arrive; in earlier tuples these are no value.
    """

    def on_init(self, values: Mapping[str, Any]) -> Steps:
        self._schema: batches.Schema = ()
        self._seen: set[batches.Row] = set()
        self._away: Parts | None = None
        (self._out,) = self.outlets.values()
        return None

    def take(self, batch: batches.TupleBatch) -> list[batches.Row]:
        """The rows of a batch in the order of all attributes so far."""
        if batch.schema is self._schema:
            return batch.rows
        wider, rows = batches.placed_rows(batch, self._schema)
        if self._schema and len(wider) > len(self._schema):
            self.widen(wider)
        if len(wider) != len(self._schema):
            self._schema = wider
        return rows

    def widen(self, schema: batches.Schema) -> None:
        """Extend the kept rows to a longer list of attributes."""
        self._seen = set(batches.widened(list(self._seen), schema))
        self._away = self._away and _wider(self._away, schema, self.spill)

    def give(self, rows: list[batches.Row]) -> None:
        """Give rows."""
        self._out.put(self._schema, rows)

    def give_new(self, rows: list[batches.Row]) -> None:
        """Give the rows that were not given before, or spill them."""
        seen = self._seen
        new = [row for row in dict.fromkeys(rows) if row not in seen]
        if self._away is None and len(seen) < self.spill.room(rows):
            seen.update(new)
            self.give(new)
        elif new:
            self.put_away(new)

    def put_away(self, rows: list[batches.Row]) -> None:
        """Keep rows until the end."""
        if self._away is None:
            self._away = Parts(self.spill)
        self._away.add(rows, rows)

    def finish(self) -> Steps:
        self._seen = set()
        return None if self._away is None else self._later(self._away, None)

    def _later(self, away: Parts, without: Parts | None) -> Iterator[None]:
        others = without.all() if without is not None else None
        for at, part in enumerate(away.all()):
            omitted = {row for rows in others[at].batches() for row in rows} if others is not None else set()
            new = dict.fromkeys(row for rows in part.batches() for row in rows if row not in omitted)
            part.drop()
            for some in batches.slices(list(new)):
                self.give(some)
                yield


def _wider(parts: Parts, schema: batches.Schema, spill: Spill) -> Parts:
    """The same rows, extended to a longer list of attributes, in the parts of their new keys."""
    made = Parts(spill)
    for kept in parts.all():
        for rows in kept.batches():
            wide = batches.widened(rows, schema)
            made.add(wide, wide)
        kept.drop()
    return made


class Union(_Once):
    """Give each tuple of the inputs once."""

    def on_init(self, values: Mapping[str, Any]) -> Steps:
        super().on_init(values)
        self._schema = self.call.columns
        return None

    def handler(self, port: str, at: int) -> Handler:
        return lambda batch: self.give_new(self.take(batch))


class Difference(_Once):
    """Give the tuples of universe that are not in sample, once sample has ended."""

    cancelled_by = ("universe",)

    def on_init(self, values: Mapping[str, Any]) -> Steps:
        self._sample: set[batches.Row] = set()
        self._sample_away: Parts | None = None
        self._waiting = self.spill.kept()
        self._is_known = False
        self._universe: batches.Schema = ()
        return super().on_init(values)

    def widen(self, schema: batches.Schema) -> None:
        super().widen(schema)
        self._sample = set(batches.widened(list(self._sample), schema))
        self._sample_away = self._sample_away and _wider(self._sample_away, schema, self.spill)

    def on_sample(self, batch: batches.TupleBatch) -> None:
        rows = self.take(batch)
        if len(self._sample) < self.spill.room(rows):
            self._sample.update(rows)
        else:
            beyond = list({row for row in rows if row not in self._sample})
            self._sample_away = self._sample_away or Parts(self.spill)
            self._sample_away.add(beyond, beyond)

    def on_sample_eos(self) -> Steps:
        self._is_known = True
        return self._gathered() if len(self._waiting) else None

    def _gathered(self) -> Iterator[None]:
        for rows in self._waiting.batches():
            self._choose(batches.widened(rows, self._schema))
            yield
        self._waiting.drop()

    def on_universe(self, batch: batches.TupleBatch) -> None:
        rows = self.take(batch)
        if batch.schema is not self._universe:
            more = [name for name in batch.schema if name not in self._universe]
            self._universe = (*self._universe, *more) if self._universe else batch.schema
        if self._is_known:
            self._choose(rows)
        else:
            self._waiting.add(rows)

    def _choose(self, rows: list[batches.Row]) -> None:
        sample = self._sample
        left = [row for row in rows if row not in sample] if sample else rows
        if self._sample_away is None:
            self.give_new(left)
        elif left:
            self.put_away(left)

    def give(self, rows: list[batches.Row]) -> None:
        """Give rows, without the attributes that only the sample has."""
        if len(self._universe) == len(self._schema):
            self._out.put(self._schema, rows)
        else:
            pick = batches.picker([self._schema.index(name) for name in self._universe])
            self._out.put(self._universe, list(map(pick, rows)))

    def finish(self) -> Steps:
        self._seen, self._sample = set(), set()
        return None if self._away is None else self._later(self._away, self._sample_away)
