"""Conditions on tuples: one comprehension for each comparison, so a batch costs what a filter in Python does.

A comparison with no value is false, even `<>`; a text and a number are never equal, and have no order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from narval.kinds.dataflow.engine.network.batches import FlowError, Row, Schema, position
from narval.kinds.dataflow.language.conditions import AttributeTest, Compares

Chooser = Callable[[list[Row]], list[Row]]
"""A function that keeps some of the rows."""


def chooser(test: AttributeTest, schema: Schema) -> Chooser:
    """Make the function that keeps the rows that meet a test."""
    at, constant = position(schema, test.attribute), test.constant
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


def pair_chooser(
    tests: Sequence[tuple[int, Compares, int]],
) -> Callable[[Row, Row], bool] | None:
    """Make the function that tests a left and a right row; None if there is nothing to test."""
    if not tests:
        return None

    def meets(left: Row, right: Row) -> bool:
        return all(holds(compares, left[at], right[other]) for at, compares, other in tests)

    return meets
