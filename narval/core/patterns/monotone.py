"""Variables in which an expression is monotone: what it matches with some nodes, it matches with more.

XPath compares node sets by looking for one pair that compares, so `@host = $first/@host` matches with several
elements what it matches with one of them. `not()`, `count()`, a position and the text of the first of several
nodes do not: with more nodes they may match less. Only XPath 1.0 is analysed, and what is not understood is
treated as not monotone.
"""

from __future__ import annotations

from collections.abc import Iterable

from narval.core.patterns import syntax
from narval.core.patterns.functions import type_of


def growing(tree: syntax.Expression) -> frozenset[str]:
    """The variables in which the truth of an expression is monotone."""
    return frozenset(name for name in syntax.variables(tree) if _holds_on(tree, name))


def _holds_on(node: syntax.Expression, name: str) -> bool:
    """True if a true expression stays true when the variable gets more nodes."""
    if name not in syntax.variables(node):
        return True
    match node:
        case syntax.BinaryOperation(operator="and" | "or", operands=operands):
            return all(_holds_on(operand, name) for operand in operands)
        case syntax.BinaryOperation(operator=operator, operands=operands) if operator in syntax.COMPARISONS:
            return all(_is_comparable(operand, name) for operand in operands)
        case syntax.FunctionCall(name="boolean", arguments=(inner,)):
            return _holds_on(inner, name)
    return _nodes_grow(node, name)


def _is_comparable(node: syntax.Expression, name: str) -> bool:
    """True for a side of a comparison that is growing nodes, or a value without the variable."""
    if name in syntax.variables(node):
        return _nodes_grow(node, name)
    return type_of(node) != "boolean"


def _nodes_grow(node: syntax.Expression, name: str) -> bool:
    """True if an expression selects nodes, and keeps all of them when the variable gets more."""
    if name not in syntax.variables(node):
        return type_of(node) == "nodes"
    match node:
        case syntax.Variable():
            return True
        case syntax.BinaryOperation(operator="|", operands=operands):
            return all(_nodes_grow(operand, name) for operand in operands)
        case syntax.Filter(primary=primary, predicates=predicates):
            return _nodes_grow(primary, name) and _all_select(predicates, name)
        case syntax.Path(origin=origin, steps=steps):
            begins = origin is None or isinstance(origin, str) or _nodes_grow(origin, name)
            return begins and all(_all_select(step.predicates, name) for step in steps)
    return False


def _all_select(predicates: Iterable[syntax.Expression], name: str) -> bool:
    """True if predicates judge each node independently of the others."""
    return all(not _counts(predicate) and _holds_on(predicate, name) for predicate in predicates)


def _counts(predicate: syntax.Expression) -> bool:
    """True if a predicate depends on a position."""
    asks = (
        part.name in ("position", "last")
        for part in syntax.walk(predicate)
        if isinstance(part, syntax.FunctionCall)
    )
    return type_of(predicate) == "number" or any(asks)
