"""The outputs of a frame through all its tries, and what arrived on its inputs (T35, T43).

What a void try has given is not given again. What it should not have given is undone by voiding the parent's
try.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from narval.kinds.dataflow.engine.network.batches import (
    Kept,
    Relation,
    Row,
    Schema,
    Spill,
    TupleBatch,
    placed_rows,
    widened,
)
from narval.kinds.dataflow.engine.network.channels import Consumer, Passing
from narval.kinds.dataflow.engine.network.machine import Machine
from narval.kinds.dataflow.engine.network.wiring import GraphWiring


class Log:
    """A replayable record of what arrived on a datum: tuples, then a value or the end."""

    def __init__(self, spill: Spill) -> None:
        self._spill = spill
        self._kept: Kept | None = None
        self._schema: Schema = ()
        self.closing: tuple[Passing, Any] | None = None

    def add(self, kind: Passing, item: Any) -> None:
        """Record an item."""
        if kind is not Passing.TUPLES:
            self.closing = (kind, item)
            return
        if self._kept is None:
            self._kept, self._schema = self._spill.kept(), item.schema
        self._schema, rows = placed_rows(item, self._schema)
        self._kept.add(rows)

    def replay(self, receiver: Callable[[Passing, Any], None]) -> None:
        """Deliver everything again."""
        if self._kept is not None:
            for rows in self._kept.batches():
                receiver(Passing.TUPLES, TupleBatch(self._schema, widened(rows, self._schema)))
        if self.closing is not None:
            receiver(*self.closing)

    def counted(self) -> Counter[Row]:
        """The tuples, with their counts."""
        found: Counter[Row] = Counter()
        if self._kept is not None:
            for rows in self._kept.batches():
                found.update(widened(rows, self._schema))
        return found


class FrameOutput:
    """An output of a frame: its receiver, what it has already received, and what is held back until the end.

    `lacking` is called when a try ends the output without giving everything that an earlier try gave. It is
    None for outputs of the transaction, as what was shown outside cannot be undone.
    """

    def __init__(
        self, receiver: Consumer, machine: Machine, wiring: GraphWiring, lacking: Callable[[], None] | None
    ) -> None:
        self._receiver, self._lacking, self._spill = receiver, lacking, machine.settings.spill
        holds = wiring.holds and lacking is not None
        restarts = wiring.restarts and machine.settings.restarts > 0
        self._held = Log(self._spill) if holds else None
        self._given = Log(self._spill) if restarts and not holds else None
        self._owed: Counter[Row] = Counter()
        self.is_over = False

    @property
    def receiver(self) -> Consumer:
        """The consumer of the output."""
        return self._receiver

    @property
    def is_plain(self) -> bool:
        """True if nothing is held back, and nothing is owed from an earlier try."""
        return self._held is None and not self._owed

    def redirect(self, receiver: Consumer, lacking: Callable[[], None] | None) -> None:
        """Change the consumer of the output."""
        self._receiver, self._lacking = receiver, lacking

    def deliver(self, kind: Passing, item: Any) -> None:
        """Pass on an item, without tuples that a void try has already given."""
        if self._held is not None:
            self._held.add(kind, item)
        elif kind is Passing.TUPLES:
            if self._owed:
                item = item._replace(rows=self._new(item.rows))
            if item.rows and self.is_over:
                self._lack()
            elif item.rows:
                if self._given is not None:
                    self._given.add(kind, item)
                self._receiver.deliver(kind, item)
        elif self._owed or (self.is_over and not self._is_same(kind, item)):
            self._lack()
            self._owed = Counter()
            self._pass(kind, item)
        else:
            self._pass(kind, item)

    def _pass(self, kind: Passing, item: Any) -> None:
        if not self.is_over:
            self.is_over = True
            if self._given is not None:
                self._given.add(kind, item)
            self._receiver.deliver(kind, item)

    def _lack(self) -> None:
        if self._lacking is not None:
            self._lacking()

    def _is_same(self, kind: Passing, item: Any) -> bool:
        return self._given is None or self._given.closing is None or same(self._given.closing, (kind, item))

    def _new(self, rows: list[Row]) -> list[Row]:
        owed, new = self._owed, []
        for row in rows:
            if owed.get(row, 0):
                owed[row] -= 1
                if not owed[row]:
                    del owed[row]
            else:
                new.append(row)
        return new

    def begin_again(self) -> None:
        """Prepare for a new try: record what need not be given again."""
        if self._held is not None:
            self._held = Log(self._spill)
        elif self._given is not None:
            self._owed = self._given.counted()

    def close(self, kind: Passing, *, with_held: bool = True) -> None:
        """Pass on what was held back, `with_held`, and then end the output."""
        held, self._held = self._held, None
        if held is not None and with_held:
            held.replay(self.deliver)
        self._owed = Counter()
        self._pass(kind, None)


def same(a: tuple[Passing, Any], b: tuple[Passing, Any]) -> bool:
    """Test whether two ends of a datum are the same."""
    if isinstance(a[1], Relation) and isinstance(b[1], Relation):
        one, other = (Counter(row for batch in each.batches() for row in batch.rows) for each in (a[1], b[1]))
        return a[1].schema == b[1].schema and one == other
    return a == b
