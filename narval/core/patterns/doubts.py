"""Doubts about patterns: what XPath 1.0 allows, but can never hold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from narval.core.patterns.lexer import ExpressionError
from narval.core.patterns.syntax import BinaryOperation, Expression, Literal, parse, walk
from narval.core.patterns.xpath1 import number

_BY_VALUE = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
"""The operators by which XPath 1.0 compares only numbers, and those of XPath 3.1 that compare texts too."""


class Doubt(NamedTuple):
    """A part of a pattern that can never hold: its offset, and why, with what to write instead."""

    offset: int
    message: str


def doubts_of(text: str) -> Iterator[Doubt]:
    """The comparisons in an XPath 1.0 expression that order by a text that is not a number."""
    if "<" not in text and ">" not in text:
        return
    try:
        tree = parse(text)
    except ExpressionError:
        return
    for node in walk(tree):
        if why := never_holds(text, node):
            assert isinstance(node, BinaryOperation)
            left, right = (text[side.start : side.end] for side in node.operands)
            better = f"{left} {_BY_VALUE[node.operator]} {right}"
            written = text[node.start : node.end]
            yield Doubt(node.start, f"{written} never holds: {why}; write {better}, which compares texts")


def never_holds(text: str, node: Expression) -> str:
    """The reason why a part of an XPath 1.0 expression never holds; "" if it may hold."""
    if not isinstance(node, BinaryOperation) or node.operator not in _BY_VALUE:
        return ""
    for side in node.operands:
        if (
            isinstance(side, Literal)
            and isinstance(side.value, str)
            and number(side.value) != number(side.value)
        ):
            excerpt = text[side.start : side.end]
            return f"{node.operator} compares numbers, and {excerpt} is not a number"
    return ""
