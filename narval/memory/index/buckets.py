"""Where the index files conditions: under a root name, then by the value of a field, then by a number.

A *leaf* is one alternative of a condition in its place. Under a root name is a *branch*; in it are
*shelves*, one for each field and way to compare it; on a shelf, under each value, is a leaf or, when a
second one comes, a *bucket* of them; in a bucket, leaves that compare a number are kept in *order* of it.
Whatever is empty goes. With many leaves most of the time is spent on fetching them into the processor's
cache, so they are small, and there is no more around a leaf than its place needs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf, isfinite, nextafter
from typing import Any

from narval.memory.index.thresholds import Thresholds
from narval.memory.patterns.field import Facts, Field
from narval.memory.patterns.key import Test

Tests = tuple[Test, ...]

_ABOVE = {"gt": True, "ge": True, "lt": False, "le": False}
_INCLUSIVE = ("ge", "le")


class Leaf:
    """One alternative of a condition; `tests` are what its place leaves open."""

    __slots__ = ("home", "position", "serial", "tests")

    home: FieldIndex | Bucket | Order
    position: Any
    """Where its home finds it: by the value of a field, at a place of a list, by a number."""
    serial: int
    tests: Tests

    def meet(self, facts: Facts, met: list[Leaf]) -> None:
        """Join those that are met, if an element that comes here passes the tests."""
        if not self.tests or hold(self.tests, facts):
            met.append(self)


def decides(tests: Tests) -> bool:
    """Whether a place leaves none of these tests open: at most one value to look up, and one number."""
    numbers = sum([test.positive and test.operator in _ABOVE and isfinite(test.operand) for test in tests])
    indexed = sum([test.positive and test.operator in _FIELD_INDEXES for test in tests])
    return numbers <= 1 and indexed <= 1 and numbers + indexed == len(tests)


class Branch:
    """All that is filed under one root name, or under none."""

    __slots__ = ("_branches", "_by_attribute", "_others", "indexes", "loose", "tag")

    def __init__(self, tag: str | None, branches: dict[Any, Branch]) -> None:
        self.tag = tag
        self.loose = Bucket(self)
        """What can be on no shelf."""
        self.indexes: dict[tuple[str, Field], FieldIndex] = {}
        self._by_attribute: tuple[tuple[str, ByValue], ...] = ()
        """Of the shelves on which the value of an attribute is looked up, and nothing else to be done."""
        self._others: tuple[FieldIndex, ...] = ()
        self._branches = branches

    def met(self, facts: Facts) -> list[Leaf]:
        """The leaves whose place an element of that name comes to, and whose tests it passes."""
        met: list[Leaf] = []
        value_of = facts.tree.get
        for name, by_value in self._by_attribute:
            place = by_value.get(value_of(name))
            if place is not None:
                place.meet(facts, met)
        for index in self._others:
            for place in index.met(facts):
                place.meet(facts, met)
        loose = self.loose
        if loose or loose.orders:
            loose.meet(facts, met)
        return met

    def add(self, leaf: Leaf, tests: Tests) -> None:
        """File on the shelf that looks at fewest: by an equality, the one that fewest others share."""
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
        """The leaf that has the value of an only test to itself, and nothing open."""
        if len(tests) != 1:
            return None
        index = self.indexes.get((tests[0].operator, tests[0].field))
        place = None if index is None else index.by_value.get(tests[0].operand)
        return place if isinstance(place, Leaf) and not place.tests else None

    def cost(self, test: Test) -> tuple[int, int]:
        """How dear a shelf is to ask, and how many are filed there under the same value."""
        index = self.indexes.get((test.operator, test.field))
        place = None if index is None else index.by_value.get(test.operand)
        return _COSTS[test.operator], 0 if place is None else 1 if isinstance(place, Leaf) else place.size

    def drop(self, index: FieldIndex | None) -> None:
        """A shelf is empty, or what is on none."""
        if index is not None:
            del self.indexes[index.operator, index.field]
            self._arrange()
        if not self.indexes and not self.loose.size:
            del self._branches[self.tag]

    def _arrange(self) -> None:
        """A shelf has come or gone."""
        indexes = self.indexes.values()
        self._by_attribute = tuple([(each.attribute, each.by_value) for each in indexes if each.attribute])
        self._others = tuple([each for each in indexes if not each.attribute])


class FieldIndex:
    """What is filed by the value that one field is equal to."""

    __slots__ = ("attribute", "branch", "by_value", "field")

    operator = "eq"

    def __init__(self, branch: Branch, field: Field) -> None:
        self.branch = branch
        self.field = field
        self.attribute: str | None = field.attribute
        """The attribute whose value is looked up in `by_value`, if that is all there is to do."""
        self.by_value: ByValue = {}

    def met(self, facts: Facts) -> Iterable[Leaf | Bucket]:
        """The places an element falls into."""
        return [place for value in facts[self.field] if (place := self.by_value.get(value)) is not None]

    def add(self, leaf: Leaf, value: Any, tests: Tests) -> None:
        """File under a value; the second that comes makes a bucket."""
        place = self.by_value.get(value)
        if place is None:
            self.by_value[value] = leaf
            leaf.home, leaf.position, leaf.tests = self, value, tests
            return
        if isinstance(place, Leaf):
            first, place = place, Bucket(self, value)
            self.by_value[value] = place
            place.add(first, first.tests)
        place.add(leaf, tests)

    def remove(self, leaf: Leaf) -> None:
        """Take out a leaf that has a value to itself."""
        self.drop(leaf.position)

    def drop(self, value: Any) -> None:
        """Nothing is filed under a value any more."""
        del self.by_value[value]
        if not self.by_value:
            self.branch.drop(self)


class PrefixIndex(FieldIndex):
    """What is filed by what one field starts with: as many look-ups as there are lengths."""

    __slots__ = ("lengths",)

    operator = "starts-with"

    def __init__(self, branch: Branch, field: Field) -> None:
        super().__init__(branch, field)
        self.attribute = None
        self.lengths: dict[int, int] = {}
        """How many prefixes of each length there are."""

    def met(self, facts: Facts) -> Iterable[Leaf | Bucket]:
        text = _text(facts[self.field])
        starts = [text[:length] for length in self.lengths if length <= len(text)]
        return [place for start in starts if (place := self.by_value.get(start)) is not None]

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
    """What is filed by what one field contains: each needle is looked for once, however many wait for it."""

    __slots__ = ()

    operator = "contains"

    def __init__(self, branch: Branch, field: Field) -> None:
        super().__init__(branch, field)
        self.attribute = None

    def met(self, facts: Facts) -> Iterable[Leaf | Bucket]:
        text = _text(facts[self.field])
        return [place for needle, place in self.by_value.items() if needle in text]


ByValue = dict[Any, "Leaf | Bucket"]
_FIELD_INDEXES: dict[str, type[FieldIndex]] = {
    each.operator: each for each in (FieldIndex, PrefixIndex, SubstringIndex)
}
_COSTS = {operator: cost for cost, operator in enumerate(_FIELD_INDEXES)}


def hold(tests: Tests, facts: Facts) -> bool:
    """Whether all tests hold of an element."""
    for test in tests:  # noqa: SIM110 - a generator would cost more than the tests
        if not test.holds(facts):
            return False
    return True


def _text(values: Sequence[str]) -> str:
    """What a function of strings sees of a field: its first node, or nothing."""
    return values[0] if values else ""


class Bucket(list[Leaf]):
    """What is filed under one value on a shelf, or on no shelf: leaves, and orders with more of them."""

    __slots__ = ("orders", "owner", "value")

    def __init__(self, owner: FieldIndex | Branch, value: Any = None) -> None:
        self.owner, self.value = owner, value
        self.orders: tuple[Order, ...] = ()

    @property
    def size(self) -> int:
        """How many leaves are filed in here."""
        return len(self) + sum(map(len, self.orders))

    def meet(self, facts: Facts, met: list[Leaf]) -> None:
        """Add the leaves in here whose tests an element passes that comes here."""
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
        """File in order of the first number compared with, if there is any."""
        for test in tests:
            if test.positive and test.operator in _ABOVE and isfinite(test.operand):
                leaf.tests = tuple([each for each in tests if each is not test])
                self.order(test.field, _ABOVE[test.operator]).file(leaf, test)
                return
        leaf.home, leaf.position, leaf.tests = self, len(self), tests
        self.append(leaf)

    def order(self, field: Field, above: bool) -> Order:
        """The order of that field's numbers, a new one if need be."""
        for order in self.orders:
            if order.field is field and order.above is above:
                return order
        order = Order(self, field, above)
        self.orders = (*self.orders, order)
        return order

    def remove(self, leaf: Leaf) -> None:
        """Take out a leaf that is in no order; the last takes its place."""
        last = self.pop()
        if last is not leaf:
            self[leaf.position] = last
            last.position = leaf.position
        elif not self and not self.orders:
            self.owner.drop(self.value)

    def drop(self, order: Order) -> None:
        """An order is empty."""
        self.orders = tuple([each for each in self.orders if each is not order])
        if not self and not self.orders:
            self.owner.drop(self.value)


class Order(Thresholds[Leaf]):
    """What is filed in order of a number that a field has to lie above, or below."""

    __slots__ = ("above", "bucket", "field")

    def __init__(self, bucket: Bucket, field: Field, above: bool) -> None:
        super().__init__()
        self.bucket, self.field, self.above = bucket, field, above

    def file(self, leaf: Leaf, test: Test) -> None:
        """File by the number of a test: to reach it is to lie beyond the next one before it."""
        number = test.operand
        if test.operator in _INCLUSIVE:
            number = nextafter(number, -inf if self.above else inf)
        leaf.home, leaf.position = self, number
        self.add(number, leaf)

    def remove(self, leaf: Leaf) -> None:
        """Take out a leaf."""
        self.delete(leaf.position, leaf)
        if not self.items:
            self.bucket.drop(self)
