"""Operators that match tuples of several streams: join, union, difference (TA13).

A join is symmetric, with a hash table for equalities, so a pair is given as soon as its second tuple arrives.
Union and difference give no tuple twice; an attribute that a tuple lacks is no value in it. Tuples beyond the
limit are spilled by key or digest, and processed when the inputs have ended (TA41).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import zip_longest
from operator import itemgetter
from typing import Any

from narval.kinds.dataflow.engine.network import batches
from narval.kinds.dataflow.engine.network.batches import Kept, Parts, Spill
from narval.kinds.dataflow.engine.network.operators.flow_operator import (
    FlowOperator,
    Handler,
    Steps,
    pair_chooser,
)
from narval.kinds.dataflow.language.conditions import JoinTest, from_right

Table = dict[Any, list[batches.Row]]


class _JoinSide:
    """One side of a join: its rows by key, and the spilled ones."""

    def __init__(self, attributes: tuple[str, ...], *, is_left: bool) -> None:
        self.attributes, self.is_left = attributes, is_left
        self.schema: batches.Schema | None = None
        self.is_wider = False
        self.key: Any = _no_key
        self.places: list[int] | None = None
        self.table: Table = {}
        self.single: dict[Any, batches.Row] | None = None
        self.size = 0
        self.is_over = False
        self.away: Parts | None = None

    def take(self, batch: batches.TupleBatch) -> list[batches.Row]:
        """The rows of a batch in the order of all attributes so far, without rows that have no value in the
        key.
        """
        rows = batch.rows
        if batch.schema is not self.schema:
            wider, rows = batches.placed_rows(batch, self.schema or ())
            if self.schema is None or len(wider) > len(self.schema):
                self._widen(wider)
        places = self.places
        if places is None:
            return []
        if len(places) < 2:
            return rows  # a row whose single key is no value is never in a table
        return [row for row in rows if all(row[at] is not None for at in places)]

    def _widen(self, schema: batches.Schema) -> None:
        """Take more attributes; in the rows so far they are no value."""
        self.schema, self.is_wider = schema, True
        self.table = {key: batches.widened(rows, schema) for key, rows in self.table.items()}
        if set(self.attributes) <= set(schema):
            self.places = [schema.index(name) for name in self.attributes]
            self.key = itemgetter(*self.places) if self.places else _no_key

    def keep(self, rows: list[batches.Row], limit: int) -> list[batches.Row]:
        """Keep rows up to `limit`; return the rest."""
        room = limit - self.size
        if room <= 0:
            return rows
        fitting = rows if len(rows) <= room else rows[:room]
        key, table = self.key, self.table
        for row in fitting:
            place = table.get(at := key(row))
            if place is None:
                table[at] = [row]
            else:
                place.append(row)
        table.pop(None, None)
        self.size += len(fitting)
        return rows[len(fitting) :]

    def close(self) -> None:
        """Record its end; a table with unique keys is then looked up in a faster way."""
        self.is_over = True
        if not self.is_left and all(len(rows) == 1 for rows in self.table.values()):
            self.single = {key: rows[0] for key, rows in self.table.items()}


def _no_key(row: batches.Row) -> int:
    return 0


class Join(FlowOperator):
    """Give the pairs that satisfy a condition."""

    cancelled_by = ("left", "right")

    def on_init(self, values: Mapping[str, Any]) -> None:
        self._tests: tuple[JoinTest, ...] = tuple(self.parsed("cond", values))
        equal = [test for test in self._tests if test.compares == "="]
        self._left = _JoinSide(tuple(test.left for test in equal), is_left=True)
        self._right = _JoinSide(tuple(test.right for test in equal), is_left=False)
        self._out = self.outlet("result")
        self._of_right: dict[str, str] | None = None
        self._rests: dict[Any, batches.Row] | None = None

    def on_left(self, batch: batches.TupleBatch) -> Steps:
        return self._side(self._left, self._right, batch)

    def on_right(self, batch: batches.TupleBatch) -> Steps:
        return self._side(self._right, self._left, batch)

    def on_left_eos(self) -> None:
        self._left.close()

    def on_right_eos(self) -> None:
        self._right.close()

    def _side(self, mine: _JoinSide, other: _JoinSide, batch: batches.TupleBatch) -> Steps:
        rows = mine.take(batch)
        if mine.is_wider and other.schema is not None:
            self._bind()
        if mine.away is not None or other.away is not None:
            # Two spilled rows meet at the end. Once one is spilled, no row goes into a table:
            # it would never meet the spilled ones.
            self._put_away(mine, rows)
        elif not other.is_over:
            beyond = mine.keep(rows, self.spill.room(rows))
            if beyond:
                self._put_away(mine, beyond)
        return self._pairs(mine, rows, other) if self._of_right is not None else None

    def _put_away(self, mine: _JoinSide, rows: list[batches.Row]) -> None:
        if mine.away is None:
            mine.away = Parts(self.spill)
        mine.away.add(list(map(mine.key, rows)), rows)

    def _pairs(self, mine: _JoinSide, rows: list[batches.Row], other: _JoinSide) -> Steps:
        """Give the pairs of these rows with rows in the table of the other side."""
        key = mine.key
        if other.single is not None and mine.is_left and self._meets is None:
            if self._rests is None:
                rest = self._rest
                self._rests = {key: rest(row) for key, row in other.single.items()}
            rests = self._rests.get
            if mine.places is not None and len(mine.places) == 1:
                (at,) = mine.places
                joined = [left + more for left in rows if (more := rests(left[at])) is not None]
            else:
                joined = [left + more for left in rows if (more := rests(key(left))) is not None]
            self._out.put(self._schema, joined)
            return None
        table = other.table
        pairs = [(row, others) for row in rows if (others := table.get(key(row))) is not None]
        if sum([len(others) for _, others in pairs]) <= 4 * batches.BATCH:
            self._out.put(self._schema, self._joined(pairs, mine.is_left))
            return None
        return self._many(pairs, mine.is_left)

    def _joined(self, pairs: list[tuple[batches.Row, list[batches.Row]]], is_left: bool) -> list[batches.Row]:
        rest, meets = self._rest, self._meets
        if is_left:
            if meets is None:
                return [left + rest(right) for left, rights in pairs for right in rights]
            return [left + rest(right) for left, rights in pairs for right in rights if meets(left, right)]
        if meets is None:
            return [left + right for own, lefts in pairs for right in (rest(own),) for left in lefts]
        return [left + rest(right) for right, lefts in pairs for left in lefts if meets(left, right)]

    def _many(self, pairs: list[tuple[batches.Row, list[batches.Row]]], is_left: bool) -> Iterator[None]:
        for row, others in pairs:
            for some in batches.slices(others):
                self._out.put(self._schema, self._joined([(row, some)], is_left))
                yield

    def _bind(self) -> None:
        left, right = self._left.schema, self._right.schema
        if left is None or right is None:
            return
        if late := [name for name in self._of_right or () if name in left]:
            raise batches.FlowError(
                "other-attributes",
                f"expected {late[0]} of the right side alone, as in the tuples before, found it on the left "
                "too; project the left side before the join",
            )
        of_right = self._of_right = from_right(left, right, self._tests)
        self._schema = (*left, *of_right)
        names = tuple(of_right.values())
        self._rest = _whole if names == right else batches.picker(right, names)
        self._rests = None
        self._meets = pair_chooser(left, right, [test for test in self._tests if test.compares != "="])
        self._left.is_wider = self._right.is_wider = False

    def finish(self) -> Steps:
        left, right = self._left, self._right
        for side in (left, right):
            side.table, side.single = {}, None
        self._rests = None
        if left.away is None or right.away is None:
            return None
        return self._later(left.away.all(), right.away.all())

    def _later(self, lefts: list[Kept], rights: list[Kept]) -> Iterator[None]:
        """Pair the spilled rows, part by part, with as many left rows at a time as may be kept."""
        for left, right in zip_longest(lefts, rights):
            if len(left) and len(right):
                for some in _blocks(left, self._left.schema or (), self.spill):
                    self._left.table, self._left.size = {}, 0
                    self._left.keep(some, len(some))
                    for rows in right.batches():
                        wide = batches.widened(rows, self._right.schema or ())
                        steps = self._pairs(self._right, wide, self._left)
                        if steps is not None:
                            yield from steps
                        yield
            left.drop()
            right.drop()


def _whole(row: batches.Row) -> batches.Row:
    return row


def _blocks(side: Kept, schema: batches.Schema, spill: Spill) -> Iterator[list[batches.Row]]:
    """The rows, as many at a time as may be kept."""
    block: list[batches.Row] = []
    for rows in side.batches():
        block += batches.widened(rows, schema)
        if len(block) >= spill.room(rows):
            yield block
            block = []
    if block:
        yield block


# --- tuples given once ----------------------------------------------------------------------------------


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
    for part in parts.all():
        for rows in part.batches():
            wide = batches.widened(rows, schema)
            made.add(wide, wide)
        part.drop()
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
            pick = batches.picker(self._schema, self._universe)
            self._out.put(self._universe, list(map(pick, rows)))

    def finish(self) -> Steps:
        self._seen, self._sample = set(), set()
        return None if self._away is None else self._later(self._away, self._sample_away)
