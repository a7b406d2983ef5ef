"""Boolean expressions as read: predicates joined by and, or, not."""

from __future__ import annotations

import msgspec


class Predicate(msgspec.Struct, frozen=True, tag=True, omit_defaults=True):
    """A name of the registry of predicates: true or false of a token."""

    name: str
    line: int = 1
    column: int = 1


class Not(msgspec.Struct, frozen=True, tag=True):
    """True where `of` is false."""

    of: Expression


class And(msgspec.Struct, frozen=True, tag=True):
    """`right` is asked only where `left` is true."""

    left: Expression
    right: Expression


class Or(msgspec.Struct, frozen=True, tag=True):
    """`right` is asked only where `left` is false."""

    left: Expression
    right: Expression


Expression = Predicate | Not | And | Or
