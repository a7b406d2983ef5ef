"""Data in transit between operators: a channel for each datum of a frame, an outlet for each producer."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any, Literal, Protocol

from narval.kinds.dataflow.engine.network.batches import (
    VALUE,
    Kept,
    Relation,
    Row,
    Schema,
    Spill,
    TupleBatch,
    placed_rows,
)
from narval.kinds.dataflow.language.definition import STREAMED


class Passing(IntEnum):
    """The kinds of items on a channel. An empty stream ends; a missing stream is cancelled.

    Only an output of the transaction retracts tuples: those that a void try alone gave.
    """

    TUPLES = 0
    GIVEN = 1
    EOS = 2
    CANCEL = 3
    RETRACTED = 4


class Life(Protocol):
    """One try of a frame; items that arrive after its end are dropped (TA27)."""

    is_over: bool


class Consumer(Protocol):
    """A consumer of a datum."""

    def deliver(self, kind: Passing, item: Any) -> None:
        """Take a batch, a value, the end of a stream, or its cancellation."""


class Channel:
    """A datum of a frame. It is cancelled when all its producers are, and ends once (TA5, TA6)."""

    __slots__ = (
        "_live",
        "batches",
        "consumers",
        "epoch",
        "is_checked",
        "is_open",
        "names",
        "schema",
        "tuples",
        "type",
    )

    def __init__(self, type: str, epoch: Life, producers: int = 1) -> None:
        self.type, self.epoch, self._live = type, epoch, producers
        self.consumers: list[Consumer] = []
        self.is_open = True
        self.is_checked = False
        self.schema: Schema | None = None
        self.names = set[str]()
        """The attributes that its tuples had."""
        self.tuples = self.batches = 0

    def check(self) -> None:
        """Align all tuples to one order of attributes, as they come from outside or from several frames."""
        self.is_checked = True

    def put(self, schema: Schema, rows: Sequence[Row], relation: str = "") -> None:
        """Pass tuples on."""
        if not rows or not self.is_open or self.epoch.is_over:
            return
        batch = TupleBatch(schema, rows if isinstance(rows, list) else list(rows), relation)
        if schema is not self.schema:
            self.names.update(schema)
            if self.schema is None:
                self.schema = schema
            elif schema == self.schema:
                batch = batch._replace(schema=self.schema)
            elif self.is_checked:
                self.schema, placed = placed_rows(batch, self.schema)
                batch = TupleBatch(self.schema, placed, relation)
        self.tuples += len(rows)
        self.batches += 1
        for consumer in self.consumers:
            consumer.deliver(Passing.TUPLES, batch)

    def close(self, kind: Passing, value: Any = None) -> None:
        """Pass on a value, the end, or the cancellation of one of its producers."""
        if not self.is_open or self.epoch.is_over:
            return
        if kind is Passing.CANCEL:
            self._live -= 1
            if self._live > 0:
                return
        self.is_open = False
        if kind is Passing.GIVEN:
            self.tuples += len(value) if isinstance(value, Relation) else 1
            self.names.update(value.schema if isinstance(value, Relation) else VALUE)
        for consumer in self.consumers:
            consumer.deliver(kind, value)


class StreamOutlet:
    """The outlet of an operator for a stream."""

    __slots__ = ("channel", "is_open", "put")

    def __init__(self, channel: Channel) -> None:
        self.channel, self.is_open = channel, True
        self.put = channel.put

    def give(self, value: Any) -> None:
        """Give a value, or the tuples of a relation, as part of the stream."""
        if isinstance(value, Relation):
            for batch in value.batches():
                self.put(*batch)
        else:
            self.put(VALUE, [(value,)])

    def end(self) -> None:
        """Give EOS, once."""
        self._close(Passing.EOS)

    def cancel(self) -> None:
        """Give nothing more."""
        self._close(Passing.CANCEL)

    def _close(self, kind: Passing) -> None:
        if self.is_open:
            self.is_open = False
            self.channel.close(kind)


class ValueOutlet:
    """The outlet of an operator for one value; of tuples, it passes on the first value."""

    __slots__ = ("channel", "is_open")

    def __init__(self, channel: Channel) -> None:
        self.channel, self.is_open = channel, True

    def put(self, schema: Schema, rows: Sequence[Row], relation: str = "") -> None:
        """Give the first value."""
        if rows:
            self.give(rows[0][0])

    def give(self, value: Any) -> None:
        """Give the value, once."""
        if self.is_open:
            self.is_open = False
            self.channel.close(Passing.GIVEN, value)

    def end(self) -> None:
        """Cancel the datum if no value was given."""
        self.cancel()

    def cancel(self) -> None:
        """Give nothing."""
        if self.is_open:
            self.is_open = False
            self.channel.close(Passing.CANCEL)


class RelationOutlet(ValueOutlet):
    """The outlet of an operator for a relation, given at once or collected from tuples."""

    __slots__ = ("_kept", "_name", "_schema", "_spill")

    def __init__(self, channel: Channel, spill: Spill) -> None:
        super().__init__(channel)
        self._spill = spill
        self._kept: Kept | None = None
        self._schema: Schema = ()
        self._name = ""

    def put(self, schema: Schema, rows: Sequence[Row], relation: str = "") -> None:
        """Collect tuples."""
        if self._kept is None:
            self._kept, self._schema, self._name = self._spill.kept(), schema, relation
        batch = TupleBatch(schema, rows if isinstance(rows, list) else list(rows))
        self._schema, placed = placed_rows(batch, self._schema)
        self._kept.add(placed)

    def end(self) -> None:
        """Give the collected relation, even if it is empty."""
        if self.is_open:
            self.give(Relation(self._schema, self._kept or self._spill.kept(), self._name))


AnyOutlet = StreamOutlet | ValueOutlet


def outlet_of(channel: Channel, spill: Spill) -> AnyOutlet:
    """The outlet for a channel, according to its type."""
    if channel.type == STREAMED:
        return StreamOutlet(channel)
    return RelationOutlet(channel, spill) if channel.type == "Relation" else ValueOutlet(channel)


Ended = Literal["finished", "cancelled", "failed"]
ENDED = frozenset({"finished", "cancelled", "failed"})
"""The states of operators that have ended."""


class GateClauses:
    """The enablements that a call produces: at its first firing, on success, on error (TA1)."""

    __slots__ = ("enable", "on_error", "started")

    def __init__(self, started: list[AnyOutlet], enable: list[AnyOutlet], on_error: list[AnyOutlet]) -> None:
        self.started, self.enable, self.on_error = started, enable, on_error

    def begin(self) -> None:
        """Give the enablements of the first firing."""
        for outlet in self.started:
            outlet.give(True)

    def end(self, state: Ended) -> None:
        """Give the enablements of success or of an error, and cancel the rest."""
        for when, outlets in (("finished", self.enable), ("failed", self.on_error), ("", self.started)):
            for outlet in outlets:
                if when == state:
                    outlet.give(True)
                else:
                    outlet.cancel()
