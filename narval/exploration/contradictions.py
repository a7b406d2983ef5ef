"""What can be proved of patterns without knowing memory: that nothing fits all of them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from narval.memory.patterns.pattern import Bound, Key, Pattern

Demand = tuple[Pattern, tuple[int, ...]]
"""A pattern, and the eids that its variables stand for."""

Demands = frozenset[Demand]
"""What must hold of one element."""


def demands(bound: Bound) -> Demands:
    """What a condition asks of an element, to be compared with what others ask."""
    named = dict(bound.variables)
    return frozenset(
        (pattern, tuple(element.eid for name in sorted(pattern.variables) for element in named.get(name, ())))
        for pattern in bound.patterns
    )


@lru_cache(maxsize=4096)
def contradictory(asked: Demands) -> bool:
    """Whether no element can be all that is asked: of what has variables nothing is known (N10)."""
    known = tuple(sorted((each for each, _ in asked if not each.variables), key=lambda pattern: pattern.text))
    if not known:
        return False
    keys = Bound(known).keys
    return keys is not None and not any(map(_consistent, keys))


def _consistent(key: Key) -> bool:
    """Whether no attribute is to have two values."""
    values: dict[str, object] = {}
    return all(values.setdefault(attribute, value) == value for attribute, value in _equalities(key))


def _equalities(key: Key) -> Iterable[tuple[str, object]]:
    for test in key.tests:
        if test.operator == "eq" and test.positive and not test.field.numeric:
            attribute = test.field.attribute
            if attribute is not None:
                yield attribute, test.operand
