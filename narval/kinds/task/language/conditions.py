"""Conditions of rules: what they ask of memory, and whether they can ask it.

A condition is tried on each element of memory alone, and holds if it holds on one of them. That is what a
path means: some element matches it. `not(account)` and `count(account) = 2` are about all elements at once,
and would mean something else on each of them alone.
"""

from __future__ import annotations

import re
from functools import lru_cache

from narval.core.patterns.functions import is_positional, type_of
from narval.core.patterns.syntax import (
    COMPARISONS,
    BinaryOperation,
    Expression,
    ExpressionError,
    Filter,
    FunctionCall,
    Path,
    parse,
    parts,
)

MISJUDGED = (
    "a condition is tried on one element of memory at a time, so this would not mean what it says; write a "
    "path to an element with its tests in brackets, such as account[not(@blocked)]. That there is no such "
    "element, or how many there are, must be said by an element, which an action can make"
)
"""The fault of a condition about several elements at once, or about the absence of one."""

_OUTWARD = ("parent", "ancestor", "following", "preceding")
"""The beginnings of the axes that lead out of an element."""

_STRING = re.compile(r"'[^']*'|\"[^\"]*\"")
_INNERMOST = re.compile(r"\[[^\[\]]*\]")
_OF_VALUES = re.compile(r"(?<=\s)(?:eq|ne|lt|le|gt|ge)(?=\s)")


@lru_cache(maxsize=1024)
def is_of_memory(text: str) -> bool:
    """False if a condition depends only on its variables, so that it is the same for all elements."""
    try:
        return _is_of_context(parse(text))
    except ExpressionError:  # XPath 3.1, whose syntax is not examined
        return True


def is_misjudged(text: str) -> bool:
    """True if a condition asks for several elements at once, or for the absence of one."""
    try:
        return not _is_of_one(parse(text))
    except ExpressionError:  # XPath 3.1: what is within brackets is about one element
        return not _is_of_one_in_xpath3(text)


def _is_of_one_in_xpath3(text: str) -> bool:
    bare, before = _STRING.sub("''", text), ""
    while bare != before:
        bare, before = _INNERMOST.sub("", bare), bare
    try:
        return _is_of_one(parse(_OF_VALUES.sub("=", bare)))
    except ExpressionError:
        return False


def _is_of_context(node: Expression) -> bool:
    """True if the value of an expression may differ between elements."""
    match node:
        case Path(origin=origin):
            return origin is None or isinstance(origin, str) or _is_of_context(origin)
        case Filter(primary=primary):
            return _is_of_context(primary)
        case FunctionCall(arguments=()):
            return node.name not in ("true", "false")
    return any(map(_is_of_context, parts(node)))


def _is_of_one(node: Expression) -> bool:
    """True if an expression holds over a memory whenever it holds on one of its elements, and only then."""
    if not _is_of_context(node):
        return True
    match node:
        case Path(base=base, steps=steps):
            begins = steps[0].predicates if base is None and steps else ()
            return (base is None or _is_of_one(base)) and not any(map(_looks_out, begins))
        case Filter(primary=primary, predicates=predicates):
            return _is_of_one(primary) and not any(map(_looks_out, predicates))
        case BinaryOperation(operator="or" | "|", operands=operands):
            return all(map(_is_of_one, operands))
        case BinaryOperation(operator="and", operands=operands):
            return sum(map(_is_of_context, operands)) == 1 and all(map(_is_of_one, operands))
        case BinaryOperation(operator=operator, operands=operands) if operator in COMPARISONS:
            asking = [operand for operand in operands if _is_of_context(operand)]
            is_of_nodes = len(asking) == 1 and type_of(asking[0]) == "nodes" and _is_of_one(asking[0])
            return is_of_nodes and "boolean" not in map(type_of, operands)
        case FunctionCall(name="boolean" | "exists", arguments=(inner,)):
            return _is_of_one(inner)
    return False


def _looks_out(predicate: Expression) -> bool:
    """True if a predicate of an element is about its place among others, or about others."""
    return is_positional(predicate) or _leads_out(predicate)


def _leads_out(node: Expression) -> bool:
    match node:
        case Path(origin=None, steps=steps):
            return bool(steps) and steps[0].axis.startswith(_OUTWARD)
        case Path(origin=str()):
            return True
    return any(map(_leads_out, parts(node)))
