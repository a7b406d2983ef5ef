"""Buckets: conditions filed under a root name, then by the value of a field, then by a number.

A *leaf* is one alternative of a condition. Under a root name is a *branch*. It has *field indexes*, one for
each field and kind of comparison. Under each value of one is a leaf or, once a second is added, a *bucket* of
them. In a bucket, leaves that compare a number are kept in *order* of it. Empty ones are removed.

Fast path, measured by `make bench ONLY=W3`: with many leaves most of the time is spent on fetching them into
the processor's cache, so they are small, with no more objects around them than necessary.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf, isfinite, nextafter
from typing import Any

from narval.core.index.sorted_numbers import Thresholds
from narval.core.patterns.key import Facts, Field, Test, hold

Tests = tuple[Test, ...]

_ABOVE = {"gt": True, "ge": True, "lt": False, "le": False}
_INCLUSIVE = ("ge", "le")


class Leaf:
    """One alternative of a condition; `tests` are those that its position leaves open."""

    __slots__ = ("home", "position", "serial", "tests")

    home: FieldIndex | Bucket | Order
    position: Any
    """Its key in its home: the value of a field, an index in the list, or a number."""
    serial: int
    tests: Tests

    def meet(self, facts: Facts, met: list[Leaf]) -> None:
        """Append itself to `met` if an element that leads here passes the tests."""
        if not self.tests or hold(self.tests, facts):
            met.append(self)


def decides(tests: Tests) -> bool:
    """True if a position decides all these tests: at most one value to look up, and one number."""
    numbers = sum([test.positive and test.operator in _ABOVE and isfinite(test.operand) for test in tests])
    indexed = sum([test.positive and test.operator in _FIELD_INDEXES for test in tests])
    return numbers <= 1 and indexed <= 1 and numbers + indexed == len(tests)


class Branch:
    """The leaves of one root name, or of none (`tag` None)."""

    __slots__ = ("_branches", "_by_attribute", "_others", "indexes", "loose", "tag")

    def __init__(self, tag: str | None, branches: dict[Any, Branch]) -> None:
        self.tag = tag
        self.loose = Bucket(self)
        """The leaves that no field index can hold."""
        self.indexes: dict[tuple[str, Field], FieldIndex] = {}
        self._by_attribute: tuple[tuple[str, ByValue], ...] = ()
        """The values by attribute, for the indexes that need only a look-up."""
        self._others: tuple[FieldIndex, ...] = ()
        self._branches = branches

    def met(self, facts: Facts) -> list[Leaf]:
        """The leaves that an element of that name leads to, and whose tests it passes."""
        met: list[Leaf] = []
        value_of = facts.tree.get
        for name, by_value in self._by_attribute:
            filed = by_value.get(value_of(name))
            if filed is not None:
                filed.meet(facts, met)
        for index in self._others:
            for filed in index.met(facts):
                filed.meet(facts, met)
        loose = self.loose
        if loose or loose.orders:
            loose.meet(facts, met)
        return met

    def add(self, leaf: Leaf, tests: Tests) -> None:
        """File a leaf in the index that visits the fewest leaves: under the value that the fewest share."""
        fit = [test for test in tests if test.positive and test.operator in _FIELD_INDEXES]
        if not fit:
            self.loose.add(leaf, tests)
            return
        chosen = fit[0] if len(fit) == 1 else min(fit, key=self.cost)
        index = self.indexes.get((chosen.operator, chosen.field))
        if index is None:
            index = _FIELD_INDEXES[chosen.operator](self, chosen.field)
            self.indexes[chosen.operator, chosen.field] = index
            self._arrange()
        index.add(leaf, chosen.operand, tuple([test for test in tests if test is not chosen]))

    def alone(self, tests: Tests) -> Leaf | None:
        """The only leaf under the value of a single test, without open tests; else None."""
        if len(tests) != 1:
            return None
        index = self.indexes.get((tests[0].operator, tests[0].field))
        filed = None if index is None else index.by_value.get(tests[0].operand)
        return filed if isinstance(filed, Leaf) and not filed.tests else None

    def cost(self, test: Test) -> tuple[int, int]:
        """The cost of querying the index of a test, and the number of leaves under the same value."""
        index = self.indexes.get((test.operator, test.field))
        filed = None if index is None else index.by_value.get(test.operand)
        return _COSTS[test.operator], 0 if filed is None else 1 if isinstance(filed, Leaf) else filed.size

    def drop(self, index: FieldIndex | None) -> None:
        """Remove an empty index; and the branch, if nothing is left in it."""
        if index is not None:
            del self.indexes[index.operator, index.field]
            self._arrange()
        if not self.indexes and not self.loose.size:
            del self._branches[self.tag]

    def _arrange(self) -> None:
        """Partition the indexes again, after one was added or removed."""
        indexes = self.indexes.values()
        self._by_attribute = tuple(
            [(index.attribute, index.by_value) for index in indexes if index.attribute]
        )
        self._others = tuple([index for index in indexes if not index.attribute])


class FieldIndex:
    """Leaves filed by the value that a field must equal."""

    __slots__ = ("attribute", "branch", "by_value", "field")

    operator = "eq"

    def __init__(self, branch: Branch, field: Field) -> None:
        self.branch = branch
        self.field = field
        self.attribute = field.attribute if self.operator == "eq" else None
        """The attribute whose value is looked up in `by_value`, if that is enough."""
        self.by_value: ByValue = {}

    def met(self, facts: Facts) -> Iterable[Leaf | Bucket]:
        """The leaves and buckets that an element leads to."""
        return [filed for value in facts[self.field] if (filed := self.by_value.get(value)) is not None]

    def add(self, leaf: Leaf, value: Any, tests: Tests) -> None:
        """File a leaf under a value; the second one makes a bucket."""
        filed = self.by_value.get(value)
        if filed is None:
            self.by_value[value] = leaf
            leaf.home, leaf.position, leaf.tests = self, value, tests
            return
        if isinstance(filed, Leaf):
            first, filed = filed, Bucket(self, value)
            self.by_value[value] = filed
            filed.add(first, first.tests)
        filed.add(leaf, tests)

    def remove(self, leaf: Leaf) -> None:
        """Remove the only leaf under its value."""
        self.drop(leaf.position)

    def drop(self, value: Any) -> None:
        """Remove a value without leaves."""
        del self.by_value[value]
        if not self.by_value:
            self.branch.drop(self)


class PrefixIndex(FieldIndex):
    """Leaves filed by what a field must start with: one look-up for each length of prefix."""

    __slots__ = ("lengths",)

    operator = "starts-with"

    def __init__(self, branch: Branch, field: Field) -> None:
        super().__init__(branch, field)
        self.lengths: dict[int, int] = {}
        """The number of prefixes of each length."""

    def met(self, facts: Facts) -> Iterable[Leaf | Bucket]:
        text = _text(facts[self.field])
        starts = [text[:length] for length in self.lengths if length <= len(text)]
        return [filed for start in starts if (filed := self.by_value.get(start)) is not None]

    def add(self, leaf: Leaf, value: str, tests: Tests) -> None:
        if value not in self.by_value:
            self.lengths[len(value)] = self.lengths.get(len(value), 0) + 1
        super().add(leaf, value, tests)

    def drop(self, value: str) -> None:
        self.lengths[len(value)] -= 1
        if not self.lengths[len(value)]:
            del self.lengths[len(value)]
        super().drop(value)


class SubstringIndex(FieldIndex):
    """Leaves filed by what a field must contain: each needle is searched once."""

    __slots__ = ()

    operator = "contains"

    def met(self, facts: Facts) -> Iterable[Leaf | Bucket]:
        text = _text(facts[self.field])
        return [filed for needle, filed in self.by_value.items() if needle in text]


ByValue = dict[Any, "Leaf | Bucket"]
_FIELD_INDEXES: dict[str, type[FieldIndex]] = {
    index.operator: index for index in (FieldIndex, PrefixIndex, SubstringIndex)
}
_COSTS = {operator: cost for cost, operator in enumerate(_FIELD_INDEXES)}


def _text(values: Sequence[str]) -> str:
    """The string that a function sees for a field: that of its first node, or ""."""
    return values[0] if values else ""


class Bucket(list[Leaf]):
    """The leaves under one value of an index, or in no index; some of them in orders."""

    __slots__ = ("orders", "owner", "value")

    def __init__(self, owner: FieldIndex | Branch, value: Any = None) -> None:
        self.owner, self.value = owner, value
        self.orders: tuple[Order, ...] = ()

    @property
    def size(self) -> int:
        """The number of leaves in the bucket and its orders."""
        return len(self) + sum(map(len, self.orders))

    def meet(self, facts: Facts, met: list[Leaf]) -> None:
        """Append to `met` the leaves whose tests an element that leads here passes."""
        for leaf in self:
            if not leaf.tests or hold(leaf.tests, facts):
                met.append(leaf)
        for order in self.orders:
            numbers = facts[order.field]
            if not numbers:
                continue
            if order.above:
                reached = order.below(numbers[0] if len(numbers) == 1 else max(numbers))
            else:
                reached = order.beyond(numbers[0] if len(numbers) == 1 else min(numbers))
            for leaf in reached:
                if not leaf.tests or hold(leaf.tests, facts):
                    met.append(leaf)

    def add(self, leaf: Leaf, tests: Tests) -> None:
        """File a leaf, in order of the first number it compares with, if any."""
        for test in tests:
            if test.positive and test.operator in _ABOVE and isfinite(test.operand):
                leaf.tests = tuple([other for other in tests if other is not test])
                self.order(test.field, _ABOVE[test.operator]).file(leaf, test)
                return
        leaf.home, leaf.position, leaf.tests = self, len(self), tests
        self.append(leaf)

    def order(self, field: Field, above: bool) -> Order:
        """The order of a field's numbers, created if needed."""
        for order in self.orders:
            if order.field is field and order.above is above:
                return order
        order = Order(self, field, above)
        self.orders = (*self.orders, order)
        return order

    def remove(self, leaf: Leaf) -> None:
        """Remove a leaf that is in no order; the last one moves to its index."""
        last = self.pop()
        if last is not leaf:
            self[leaf.position] = last
            last.position = leaf.position
        elif not self and not self.orders:
            self.owner.drop(self.value)

    def drop(self, order: Order) -> None:
        """Remove an empty order."""
        self.orders = tuple([other for other in self.orders if other is not order])
        if not self and not self.orders:
            self.owner.drop(self.value)


class Order(Thresholds[Leaf]):
    """Leaves in order of the number that a field must be above, or below."""

    __slots__ = ("above", "bucket", "field")

    def __init__(self, bucket: Bucket, field: Field, above: bool) -> None:
        super().__init__()
        self.bucket, self.field, self.above = bucket, field, above

    def file(self, leaf: Leaf, test: Test) -> None:
        """File a leaf by the number of a test; reaching a number means exceeding the one just below it."""
        number = test.operand
        if test.operator in _INCLUSIVE:
            number = nextafter(number, -inf if self.above else inf)
        leaf.home, leaf.position = self, number
        self.add(number, leaf)

    def remove(self, leaf: Leaf) -> None:
        """Remove a leaf."""
        self.delete(leaf.position, leaf)
        if not self.items:
            self.bucket.drop(self)
