"""Contradictions: patterns that no element can match together, proved without reading memory."""

from __future__ import annotations

from functools import lru_cache

from msgspec.structs import replace

from narval.core.patterns.key import Key, OfVariables, Variables
from narval.core.patterns.pattern import Bound, Pattern

Demand = tuple[Pattern, tuple[int, ...]]
"""A pattern, and the eids of its variables."""

Demands = frozenset[Demand]
"""The demands on one element."""


def demands(bound: Bound) -> Demands:
    """The demands of a condition, for comparison with those of others."""
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
    """True if no element can meet all demands; nothing is known about patterns with variables (N10)."""
    exact = tuple(
        sorted((pattern for pattern, _ in asked if not pattern.variables), key=lambda pattern: pattern.text)
    )
    if not exact:
        return False
    keys = Bound(exact).keys
    return keys is not None and not any(map(_consistent, keys))


@lru_cache(maxsize=16_384)
def exclusive(one: Pattern, other: Pattern) -> bool:
    """True if it is proved that no element matches both, whatever their variables contain."""
    others = necessary(other)
    return not any(_together(key, beside) for key in necessary(one) for beside in others)


def necessary(pattern: Pattern) -> list[Key]:
    """The alternatives, one of which any matching element satisfies, whatever the variables contain."""
    keys: list[Key] = []
    for clause in pattern.shape.clauses:
        tests = tuple(test for test in clause.tests if not isinstance(test.term, OfVariables))
        keys += replace(clause, tests=tests).keys(pattern.literals, Variables())
    return keys


def _together(one: Key, other: Key) -> bool:
    """True unless an element that satisfies both would have two names, or an attribute in two ways."""
    if one.tag is not None and other.tag is not None and one.tag != other.tag:
        return False
    values: dict[str, object] = {}
    there, absent, excluded = set[str](), set[str](), set[tuple[str, object]]()
    for test in (*one.tests, *other.tests):
        attribute = test.field.attribute
        if attribute is None or attribute.startswith("{"):
            continue  # attributes of narval's own can come and go
        if test.positive and test.operand != "":  # an absent attribute contains "", too
            there.add(attribute)
            if test.operator == "eq" and values.setdefault(attribute, test.operand) != test.operand:
                return False
        elif test.operator == "has":
            absent.add(attribute)
        elif test.operator == "eq":
            excluded.add((attribute, test.operand))
    return there.isdisjoint(absent) and excluded.isdisjoint(values.items())


def _consistent(key: Key) -> bool:
    """True if no attribute must have two values."""
    values: dict[str, object] = {}
    return all(values.setdefault(attribute, value) == value for attribute, value in key.eq)
