"""Conditions: the predicates of Rubric and JoinLang, combined with `and`, `or` and `not` (section 4).

or   = and { ("or"|"OR") and }
and  = not { ("and"|"AND") not }
not  = ["not"|"NOT"] atom
atom = ID | "(" or ")"
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from narval.core.definitions.reading.lexer import MOST_TERMS, Cursor


class Predicate(msgspec.Struct, frozen=True, tag=True, omit_defaults=True):
    """A name in the registry of predicates: true or false for a token."""

    name: str
    line: int = 1
    column: int = 1


class Not(msgspec.Struct, frozen=True, tag=True):
    """True if `of` is false."""

    of: Expression


class And(msgspec.Struct, frozen=True, tag=True):
    """A conjunction: `right` is evaluated only if `left` is true."""

    left: Expression
    right: Expression


class Or(msgspec.Struct, frozen=True, tag=True):
    """A disjunction: `right` is evaluated only if `left` is false."""

    left: Expression
    right: Expression


Expression = Predicate | Not | And | Or

CONNECTIVES = {word: word.lower() for word in ("or", "OR", "and", "AND", "not", "NOT")}
"""The reserved words of conditions, as they must be written."""


def read_condition(cursor: Cursor, last: str = "") -> Expression:
    """Read the next condition; an `or` before a word of kind `last` is not part of it (section 6)."""
    return _or(cursor, last)[0]


def predicates(expression: Expression) -> Iterator[Predicate]:
    """The predicates in an expression, from left to right."""
    match expression:
        case Predicate():
            yield expression
        case Not(term):
            yield from predicates(term)
        case And(left, right) | Or(left, right):
            yield from predicates(left)
            yield from predicates(right)


_Deep = tuple[Expression, int]
"""A condition, and its nesting depth."""


def _or(cursor: Cursor, last: str = "") -> _Deep:
    left = _and(cursor)
    while cursor.next.kind == "or" and not (last and cursor.ahead().kind == last):
        cursor.advance()
        right = _and(cursor)
        left = Or(left[0], right[0]), _deeper(cursor, left, right)
    return left


def _and(cursor: Cursor) -> _Deep:
    left = _not(cursor)
    while cursor.accept("and"):
        right = _not(cursor)
        left = And(left[0], right[0]), _deeper(cursor, left, right)
    return left


def _deeper(cursor: Cursor, *terms: _Deep) -> int:
    depth = max(depth for _, depth in terms) + 1
    if depth > MOST_TERMS:
        raise cursor.lost(f"a condition of more than {MOST_TERMS} terms; ask one predicate for many of them")
    return depth


def _not(cursor: Cursor) -> _Deep:
    if not cursor.accept("not"):
        return _atom(cursor)
    if cursor.next.kind == "not":
        raise cursor.lost("expected a name or a parenthesis after not; write not (not …)")
    term = _atom(cursor)
    return Not(term[0]), _deeper(cursor, term)


def _atom(cursor: Cursor) -> _Deep:
    if cursor.accept("("):
        with cursor.deeper():
            inner = _or(cursor)
            cursor.expect("and, or, or a closing parenthesis", ")")
        return inner
    return Predicate(*cursor.named("the name of a predicate, or a parenthesis")), 1
