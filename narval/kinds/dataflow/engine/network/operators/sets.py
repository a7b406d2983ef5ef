"""Operators that give no tuple twice: union and difference (TA13).

Beyond what may be kept, tuples are put away by their digest and come when the inputs are over (TA41).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from narval.kinds.dataflow.engine.network.batches import Row, Schema, TupleBatch, aligned, slices
from narval.kinds.dataflow.engine.network.operators.flow_operator import FlowOperator, Handler, Steps
from narval.kinds.dataflow.engine.network.spilling import Parts


class _Once(FlowOperator):
    """The tuples that were given, and those of which that will be known at the end."""

    def on_init(self, values: Mapping[str, Any]) -> Steps:
        self._schema: Schema | None = None
        self._seen: set[Row] = set()
        self._away: Parts | None = None
        (self._out,) = self.outlets.values()
        return None

    def take(self, batch: TupleBatch) -> list[Row]:
        """The rows of a batch in the order of the first that came."""
        if self._schema is None:
            self._schema = batch.schema
        return batch.rows if batch.schema is self._schema else aligned(batch, self._schema)

    def give_new(self, rows: list[Row]) -> None:
        """Give the rows that were not given before, or put them away."""
        seen = self._seen
        new = [row for row in dict.fromkeys(rows) if row not in seen]
        if self._away is None and len(seen) < self.spill.room(rows):
            seen.update(new)
            self._out.put(self._schema or (), new)
        elif new:
            self.put_away(new)

    def put_away(self, rows: list[Row]) -> None:
        """Keep rows for the end."""
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
            for some in slices(list(new)):
                self._out.put(self._schema or (), some)
                yield


class Union(_Once):
    """Give the tuples of all inputs once each."""

    def handler(self, port: str, at: int) -> Handler:
        return lambda batch: self.give_new(self.take(batch))


class Difference(_Once):
    """Give the tuples of universe that are not in sample, from the end of sample on."""

    cancelled_by = ("universe",)

    def on_init(self, values: Mapping[str, Any]) -> Steps:
        self._sample: set[Row] = set()
        self._sample_away: Parts | None = None
        self._waiting = self.spill.kept()
        self._is_known = False
        return super().on_init(values)

    def on_sample(self, batch: TupleBatch) -> None:
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
            self._choose(rows)
            yield
        self._waiting.drop()

    def on_universe(self, batch: TupleBatch) -> None:
        rows = self.take(batch)
        if self._is_known:
            self._choose(rows)
        else:
            self._waiting.add(rows)

    def _choose(self, rows: list[Row]) -> None:
        sample = self._sample
        left = [row for row in rows if row not in sample] if sample else rows
        if self._sample_away is None:
            self.give_new(left)
        elif left:
            self.put_away(left)

    def finish(self) -> Steps:
        self._seen, self._sample = set(), set()
        return None if self._away is None else self._later(self._away, self._sample_away)
