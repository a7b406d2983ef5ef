"""Operators on lists of tuples by attribute: slow, and short enough to be seen to be right."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

Tuples = Sequence[dict[str, Any]]

HOLDS = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def holds(a: Any, compares: str, b: Any) -> bool:
    return a is not None and b is not None and HOLDS[compares](a, b)


def select(tests: Sequence[tuple[str, str, Any]], given: Tuples) -> list[dict[str, Any]]:
    return [row for row in given if all(holds(row[name], how, value) for name, how, value in tests)]


def project(names: Sequence[str], given: Tuples) -> list[dict[str, Any]]:
    return [{name: row[name] for name in names} for row in given]


def join(tests: Sequence[tuple[str, str, str]], left: Tuples, right: Tuples) -> list[dict[str, Any]]:
    shared = {a for a, how, b in tests if how == "=" and a == b}
    found = []
    for one in left:
        for other in right:
            if all(holds(one[a], how, other[b]) for a, how, b in tests):
                pair = dict(one)
                for name, value in other.items():
                    if name in shared:
                        continue
                    while name in pair:
                        name = f"right_{name}"
                    pair[name] = value
                found.append(pair)
    return found


def distinct(given: Tuples) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for row in given:
        if row not in found:
            found.append(row)
    return found


def difference(universe: Tuples, sample: Tuples) -> list[dict[str, Any]]:
    return distinct([row for row in universe if row not in sample])


def in_order(name: str, given: Tuples, *, descending: bool) -> list[dict[str, Any]]:
    present = [row for row in given if row[name] is not None]
    return [
        *sorted(present, key=lambda row: row[name], reverse=descending),
        *[row for row in given if row[name] is None],
    ]


def aggregate(column: str, func: str, given: Tuples) -> Any:
    if (column, func) == ("*", "count"):
        return len(given)
    values = [row[column] for row in given if row[column] is not None]
    if func in ("count", "sum"):
        return len(values) if func == "count" else sum(values)
    if not values:
        return None
    if func in ("list", "lines"):
        texts = [value if isinstance(value, str) else f"{value:g}" for value in values]
        return {"list": ", ", "lines": "\n"}[func].join(texts)
    return {"min": min, "max": max, "avg": lambda them: sum(them) / len(them)}[func](values)


def group(by: Sequence[str], folds: Sequence[tuple[str, str, str]], given: Tuples) -> list[dict[str, Any]]:
    keys = distinct([{name: row[name] for name in by} for row in given])
    groups = [(key, [row for row in given if all(row[n] == v for n, v in key.items())]) for key in keys]
    return [
        {**key, **{name: aggregate(column, func, rows) for func, column, name in folds}}
        for key, rows in groups
    ]


def padded(*sides: Tuples) -> list[list[dict[str, Any]]]:
    """The same tuples, what they lack of all attributes as no value."""
    names = [name for side in sides for row in side for name in row]
    return [[{**dict.fromkeys(names), **row} for row in side] for side in sides]
