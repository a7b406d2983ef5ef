"""The base of running operators: one object in one transaction, given its values once and then batches (T57).

An operator gets `on_init` with its values, `on_PORT(batch)` for each batch of a stream, `on_PORT_eos()` at
its end, and `finish()` when all streams have ended. Its results go into its outlets. A method with much
output is a generator: each step gives a batch, and the driver of the network decides when it continues.

Operators share the comparisons of values at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from narval.kinds.dataflow.engine.network.batches import FlowError, Row, Schema, Spill, TupleBatch, picker
from narval.kinds.dataflow.language.conditions import AttributeTest, Compares, JoinTest, parse_text
from narval.kinds.dataflow.language.definition import OperatorCall
from narval.kinds.dataflow.language.rules import TextError

Steps = Iterator[None] | None
"""The rest of a piece of work, if any."""

Handler = Callable[[TupleBatch], Steps]


class Outlet(Protocol):
    """The outlet of an operator for a datum."""

    @property
    def is_open(self) -> bool:
        """True if it has neither ended nor been cancelled."""

    def put(self, schema: Schema, rows: Sequence[Row], relation: str = "") -> None:
        """Give tuples."""

    def give(self, value: Any) -> None:
        """Give the only value of a non-streaming datum, which ends it."""

    def end(self) -> None:
        """Give EOS, or cancel a non-streaming datum without a value."""

    def cancel(self) -> None:
        """Give nothing, or nothing more."""


class FlowOperator:
    """An operator that needs nothing from outside.

    A cancelled input cancels the operator if it is one of `cancelled_by`, or if all streams are cancelled.
    Otherwise the input counts as ended.
    """

    cancelled_by: tuple[str, ...] = ()

    def __init__(self, call: OperatorCall, outlets: Mapping[tuple[str, int], Outlet], spill: Spill) -> None:
        self.call, self.outlets, self.spill = call, outlets, spill
        self.texts: dict[str, Any] = {}
        """The texts from the run that it has parsed, by port."""

    def on_init(self, values: Mapping[str, Any]) -> Steps:
        """Take the non-streaming values, by port; those of a group are a list."""

    def handler(self, port: str, at: int) -> Handler:
        """The method that takes batches of an input, whose index in its group is `at`."""
        method: Handler = getattr(self, f"on_{port}")
        return method

    def on_eos(self, port: str, at: int) -> Steps:
        """Take the end of an input."""
        method = getattr(self, f"on_{port}_eos", None)
        return method() if method is not None else None

    def on_cancelled(self, port: str, at: int) -> Steps:
        """Handle a cancelled input that does not cancel the operator: it counts as ended."""
        return self.on_eos(port, at)

    def on_back(self, at: int, kind: Any, item: Any) -> Steps:
        """Take an item that a frame it has started gives to its outlet number `at`."""

    def finish(self) -> Steps:
        """Give what is left; outlets that are still open are then ended."""

    def conclude(self) -> None:
        """Cancel outlets that must not end, after everything was given."""

    @property
    def is_busy(self) -> bool:
        """True if more output is expected although all inputs have ended."""
        return False

    def stop(self) -> None:
        """Give up all pending outside work."""

    def outlet(self, name: str) -> Outlet:
        """The outlet of a port with one datum."""
        return self.outlets[name, 0]

    def parsed(self, port: str, values: Mapping[str, Any]) -> Any:
        """The parsed value of a text in the language of its port. Raises FlowError for an invalid text from
        the run.
        """
        if port in self.call.parsed:
            return self.call.parsed[port]
        declared = self.call.operator.input(port)
        try:
            self.texts[port] = parse_text(declared.text if declared is not None else "", str(values[port]))
        except TextError as error:
            raise FlowError("wrong-text", f"{port}, character {error.at + 1}: {error.message}") from None
        return self.texts[port]


# --- comparisons -----------------------------------------------------------------------------------------
#
# There is one comprehension for each, so a batch costs what a filter in Python does. A comparison with no
# value is false, even `<>`; a text and a number are never equal, and have no order.

Chooser = Callable[[list[Row]], list[Row]]
"""A function that keeps some of the rows."""


def chooser(test: AttributeTest, schema: Schema) -> Chooser:
    """Make the function that keeps the rows that meet a test."""
    if test.attribute not in schema:
        return lambda rows: []
    at, constant = schema.index(test.attribute), test.constant
    choose = _FIRST[test.compares](at, constant)

    def guarded(rows: list[Row]) -> list[Row]:
        try:
            return choose(rows)
        except TypeError:  # no value has no order; nor have a text and a number
            return [row for row in rows if holds(test.compares, row[at], constant)]

    return guarded


_FIRST: Mapping[Compares, Callable[[int, Any], Chooser]] = {
    "=": lambda at, it: lambda rows: [row for row in rows if row[at] == it],
    "<>": lambda at, it: lambda rows: [row for row in rows if row[at] != it and row[at] is not None],
    "<": lambda at, it: lambda rows: [row for row in rows if row[at] < it],
    "<=": lambda at, it: lambda rows: [row for row in rows if row[at] <= it],
    ">": lambda at, it: lambda rows: [row for row in rows if row[at] > it],
    ">=": lambda at, it: lambda rows: [row for row in rows if row[at] >= it],
}


_HOLDS: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: bool(a == b),
    "<>": lambda a, b: bool(a != b),
    "<": lambda a, b: bool(a < b),
    "<=": lambda a, b: bool(a <= b),
    ">": lambda a, b: bool(a > b),
    ">=": lambda a, b: bool(a >= b),
}


def holds(compares: str, a: Any, b: Any) -> bool:
    """Test whether a comparison of two values holds. Raises FlowError if they have no order."""
    if a is None or b is None:
        return False
    try:
        return _HOLDS[compares](a, b)
    except TypeError:
        raise no_order(a, b) from None


def no_order(a: Any, b: Any) -> FlowError:
    """The error for two values that have no order."""
    return FlowError(
        "no-order",
        f"expected two numbers or two texts, found {a!r:.40} and {b!r:.40}; "
        "declare the attribute's type where it is read",
    )


def pair_chooser(left: Schema, right: Schema, tests: Sequence[JoinTest]) -> Callable[[Row, Row], bool] | None:
    """Make the function that tests a left and a right row; None if there is nothing to test."""
    if not tests:
        return None
    lefts, rights = picker(left, [test.left for test in tests]), picker(right, [test.right for test in tests])
    compared = [test.compares for test in tests]

    def meets(left: Row, right: Row) -> bool:
        return all(map(holds, compared, lefts(left), rights(right)))

    return meets
