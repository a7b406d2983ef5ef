"""The words of an XPath 1.0 expression, and the literals that can be lifted out of it.

Lifting replaces each string and number by a variable, so that the ten thousand conditions that differ in a
subject alone share one *shape*: one syntax tree, one compiled expression. It runs once for every pattern that
is registered, so it is a single regular expression, and it is timid: a number that might be part of a name
stays where it is. Whether a text is an expression at all is for lxml to say.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from narval.memory.patterns.number import EXACT_DIGITS, number

_NAME_CHAR = r"[^\x00-,/:-@\[-^`{-\x7f]"
"""What may stand in a name: of ASCII, letters, digits, and three signs; of the rest, lxml has had its say."""
_NAME = rf"(?![0-9.\-]){_NAME_CHAR}+"

_TOKEN = re.compile(
    rf"""(?P<space>[ \t\r\n]+)
    |(?P<string>"[^"]*"|'[^']*')
    |(?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
    |\$(?P<variable>{_NAME}(?::{_NAME})?)
    |(?P<name>{_NAME}(?::(?!:)(?:{_NAME}|\*))?)
    |(?P<symbol>::|//|\.\.|!=|<=|>=|[()\[\].@,/|+\-=<>*])""",
    re.VERBOSE,
)
_LITERAL = re.compile(rf"""("[^"]*"|'[^']*'|(?<=[ \t\r\n(\[,=<>+*])[0-9]+(?:\.[0-9]+)?(?!:|{_NAME_CHAR}))""")
_STRING = re.compile(r""""[^"]*"|'[^']*'""")

MOST_DEPTH = 48
"""Brackets and parentheses nest no deeper: whatever walks a syntax tree may then call itself."""


class ExpressionError(Exception):
    """An expression cannot be read: why, and the offset where."""

    def __init__(self, message: str, offset: int) -> None:
        self.message, self.offset = message, offset
        super().__init__(message)


class XPathToken(NamedTuple):
    """One word: its kind (string, number, variable, name, symbol, end), its text, and where it stands."""

    kind: str
    text: str
    start: int
    end: int


def tokens(text: str) -> Iterator[XPathToken]:
    """The words of an expression, closed by one of kind `end`; raises ExpressionError."""
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            what = "a string that is not closed" if text[at] in "\"'" else f"unexpected {text[at]!r}"
            raise ExpressionError(what, at)
        kind = str(found.lastgroup)
        if kind != "space":
            yield XPathToken(kind, found[kind], at, found.end())
        at = found.end()
    yield XPathToken("end", "", len(text), len(text))


def lift(text: str) -> tuple[str, tuple[str | int | float, ...]]:
    """The shape of an expression, and the literals its variables `_s0`, `_i1`, `_d2`… stand for.

    The letter says string, integer or decimal. An expression that uses such names itself is its own shape,
    and so is one where a quote may not begin a literal: in a comment, in `processing-instruction('x')`.
    """
    parts = _LITERAL.split(text)
    if len(parts) == 1 or "$_" in text or "(:" in text or "processing-instruction" in text:
        return text, ()
    literals: list[str | int | float] = []
    for position in range(1, len(parts), 2):
        written = parts[position]
        value: str | int | float
        if written[0] in "\"'":
            kind, value = "s", written[1:-1]
        elif len(written) > EXACT_DIGITS:
            continue
        elif "." in written:
            kind, value = "d", number(written)
        else:
            kind, value = "i", int(written)
        parts[position] = f" $_{kind}{len(literals)} "
        literals.append(value)
    return "".join(parts), tuple(literals)


def check_depth(text: str) -> None:
    """Raise ExpressionError where brackets nest deeper than any expression needs."""
    depth, blank = 0, _STRING.sub(lambda found: " " * len(found[0]), text)
    for found in re.finditer(r"[\[({\])}]", blank):
        depth += 1 if found[0] in "[({" else -1
        if depth > MOST_DEPTH:
            raise ExpressionError(f"brackets nested deeper than {MOST_DEPTH}", found.start())
