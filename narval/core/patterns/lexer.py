"""The tokens of an XPath 1.0 expression, and the literals that can be lifted out of it.

Fast path, measured by `make bench ONLY=W3`: lifting replaces each string and number by a variable, so that
ten thousand conditions that differ only in a subject share one *shape*, one syntax tree and one compiled
expression. It runs for every registered pattern, so it is a single regular expression; a number that might be
part of a name stays in place. lxml decides whether a text is an expression.
"""

from __future__ import annotations

import re

from narval.core.patterns.xpath1 import EXACT_DIGITS, number
from narval.core.source.tokens import Token, scan

_NAME_CHAR = r"[^\x00-,/:-@\[-^`{-\x7f]"
"""A character of a name: in ASCII, letters, digits and three signs; lxml checks the rest."""
_NAME = rf"(?![0-9.\-]){_NAME_CHAR}+"

_TOKEN = re.compile(
    rf"""(?P<blank>[ \t\r\n]+)
    |(?P<string>"[^"]*"|'[^']*')
    |(?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
    |\$(?P<variable>{_NAME}(?::{_NAME})?)
    |(?P<name>{_NAME}(?::(?!:)(?:{_NAME}|\*))?)
    |(?P<mark>::|//|\.\.|!=|<=|>=|[()\[\].@,/|+\-=<>*])
    |(?P<junk>.)""",
    re.VERBOSE | re.DOTALL,
)
_LITERAL = re.compile(rf"""("[^"]*"|'[^']*'|(?<=[ \t\r\n(\[,=<>+*])[0-9]+(?:\.[0-9]+)?(?!:|{_NAME_CHAR}))""")
_STRING = re.compile(r""""[^"]*"|'[^']*'""")

MOST_DEPTH = 48
"""The deepest nesting of brackets and parentheses, so that walkers of a syntax tree may be recursive."""


class ExpressionError(Exception):
    """An expression cannot be parsed at `offset`, from 0."""

    def __init__(self, message: str, offset: int) -> None:
        self.message, self.offset = message, offset
        super().__init__(message)


def tokens(text: str) -> list[Token]:
    """The tokens of an expression, ending with END; raises ExpressionError."""
    matches = list(scan(_TOKEN, text))
    for token in matches:
        if token.kind == "junk":
            is_quote = token.text in "\"'"
            message = "a string that is not closed" if is_quote else f"unexpected {token.text!r}"
            raise ExpressionError(message, token.at)
    return matches


def lift(text: str) -> tuple[str, tuple[str | int | float, ...]]:
    """The shape of an expression, and the literals of its variables (`_s0`, `_i1`, `_d2`…).

    The letter stands for string, integer or decimal. An expression that uses such names itself is its own
    shape, and so is one in which a quote may not start a literal: in a comment, in
    `processing-instruction('x')`.
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
    """Raise ExpressionError if brackets nest deeper than any expression needs."""
    depth, blank = 0, _STRING.sub(lambda match: " " * len(match[0]), text)
    for match in re.finditer(r"[\[({\])}]", blank):
        depth += 1 if match[0] in "[({" else -1
        if depth > MOST_DEPTH:
            raise ExpressionError(f"brackets nested deeper than {MOST_DEPTH}", match.start())
