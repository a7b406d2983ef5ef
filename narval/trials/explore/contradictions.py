"""Contradictions: patterns which no element can fit together, proved without knowing memory."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from narval.core.patterns.key import Key
from narval.core.patterns.pattern import Bound, Pattern

Demand = tuple[Pattern, tuple[int, ...]]
"""A pattern, and the eids that its variables stand for."""

Demands = frozenset[Demand]
"""The demands on one element."""


def demands(bound: Bound) -> Demands:
    """The demands of a condition, to be compared with those of others."""
    if not bound.variables:
        return _without_variables(bound.patterns)
    named = dict(bound.variables)
    return frozenset(
        (pattern, tuple(element.eid for name in sorted(pattern.variables) for element in named.get(name, ())))
        for pattern in bound.patterns
    )


@lru_cache(maxsize=4096)
def _without_variables(patterns: tuple[Pattern, ...]) -> Demands:
    return frozenset((pattern, ()) for pattern in patterns)


@lru_cache(maxsize=4096)
def contradictory(asked: Demands) -> bool:
    """True if no element can meet all demands; of patterns with variables nothing is known (N10)."""
    known = tuple(
        sorted((pattern for pattern, _ in asked if not pattern.variables), key=lambda pattern: pattern.text)
    )
    if not known:
        return False
    keys = Bound(known).keys
    return keys is not None and not any(map(_consistent, keys))


def _consistent(key: Key) -> bool:
    """True if no attribute is to have two values."""
    values: dict[str, object] = {}
    return all(values.setdefault(attribute, value) == value for attribute, value in _equalities(key))


def _equalities(key: Key) -> Iterable[tuple[str, object]]:
    for test in key.tests:
        if test.operator == "eq" and test.positive and not test.field.numeric:
            attribute = test.field.attribute
            if attribute is not None:
                yield attribute, test.operand
