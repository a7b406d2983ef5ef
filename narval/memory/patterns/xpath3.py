"""Patterns that only XPath 3.1 can express, by elementpath (N10).

Imported when the first such pattern is read: elementpath takes a fifth of a second. A pattern is tried on
elements from strangers, inside the daemon's loop. So functions that reach outside the element (files,
environment, clock, chance) are refused when the pattern is read, and so is what cannot be checked then: a
regular expression that is not written in the pattern or may take for ever, a function made on the fly.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, TypeAlias

from elementpath import ElementPathError, XPathContext
from elementpath.regex import RegexError, translate_pattern
from elementpath.xpath31 import XPath31Parser
from elementpath.xpath_nodes import XPathNode
from lxml import etree

from narval.memory.patterns.lexer import ExpressionError
from narval.memory.patterns.regex import hazard

Token: TypeAlias = Any

_READS_FILES = "a pattern reads no files"
_FORBIDDEN = {
    **dict.fromkeys(("doc", "doc-available", "collection", "uri-collection", "json-doc"), _READS_FILES),
    **dict.fromkeys(("unparsed-text", "unparsed-text-lines", "unparsed-text-available"), _READS_FILES),
    **dict.fromkeys(("transform", "load-xquery-module"), _READS_FILES),
    "environment-variable": "a pattern does not read the environment",
    "available-environment-variables": "a pattern does not read the environment",
    **dict.fromkeys(
        ("current-date", "current-dateTime", "current-time", "implicit-timezone"), "a pattern reads no clock"
    ),
    **dict.fromkeys(("parse-xml", "parse-xml-fragment", "json-to-xml"), "a pattern parses no XML"),
    **dict.fromkeys(("function", "#", "function-lookup", "apply"), "a pattern makes no functions"),
    "random-number-generator": "a pattern leaves nothing to chance",
    "trace": "a pattern prints nothing",
}
REGEX_FUNCTIONS = ("matches", "replace", "tokenize", "analyze-string")
"""Functions whose second argument is a regular expression."""
_MOST_LAYERS = 100
_LONGEST_RANGE = 10_000
_RANGE = re.compile(r"(?<![\w.])([0-9]{1,30})\s+to\s+([0-9]{1,30})")
_RANGE_RULE = f"a range goes from number to number, with at most {_LONGEST_RANGE:,} between them"
_BINDERS = ("for", "let", "some", "every")
_COMPARISONS = ("=", "!=", "<", "<=", ">", ">=", "eq", "ne", "lt", "le", "gt", "ge")


class ForbiddenError(ExpressionError):
    """An expression is valid XPath 3.1, but not allowed in a pattern."""


class XPath3:
    """An XPath 3.1 expression, ready to be evaluated."""

    __slots__ = ("_token", "names", "variables")

    def __init__(self, text: str, namespaces: Mapping[str, str]) -> None:
        self._token = _parsed(text, namespaces)
        _check_depth(self._token)
        for token in self._token.iter():
            _check(token)
        self.variables = frozenset(_free(self._token))
        self.names = _names(self._token)

    def __call__(self, context: etree._Element, /, **variables: Any) -> bool:
        """True if the result counts as true (N9); raises whatever goes wrong."""
        return _truth(list(self._token.select(_around(context, variables))))

    def results(self, context: etree._Element, variables: Mapping[str, Any]) -> Any:
        """The result: a list of lxml's elements and of values, or one value."""
        return self._token.get_results(_around(context, variables))


def _around(context: Any, variables: Mapping[str, Any]) -> XPathContext:
    return XPathContext(context.getroottree(), item=context, variables=dict(variables))


def _parsed(text: str, namespaces: Mapping[str, str]) -> Token:
    for found in _RANGE.finditer(text):  # elementpath enumerates it while it reads
        if int(found[2]) - int(found[1]) > _LONGEST_RANGE:
            raise ForbiddenError(_RANGE_RULE, found.start())
    try:
        return XPath31Parser(namespaces=dict(namespaces)).parse(text)
    except ElementPathError as error:
        raise ExpressionError(_message(error), _offset(error, text)) from None
    except RecursionError:
        raise ExpressionError("nested too deep", 0) from None
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise ExpressionError(f"not an XPath expression: {error}", 0) from None


def _message(error: ElementPathError) -> str:
    """The message of an error, without the position and code that elementpath puts around it."""
    return str(getattr(error, "message", None) or error).rpartition("] ")[2]


def _offset(error: ElementPathError, text: str) -> int:
    token = getattr(error, "token", None)
    if token is None:
        return 0
    return len(text) if token.symbol == "(end)" else int(token.span[0])


def _check_depth(root: Token) -> None:
    """Raise ExpressionError for a tree that is too deep to evaluate: a long chain of operators is one."""
    layer, depth = [root], 0
    while layer:
        layer, depth = [child for token in layer for child in token], depth + 1
        if depth > _MOST_LAYERS:
            raise ExpressionError("too many operators in a row", int(layer[0].span[0]) if layer else 0)


def _check(token: Token) -> None:
    """Raise ForbiddenError for a token that a pattern may not have."""
    if token.label == "name":
        return
    start = int(token.span[0])
    if token.symbol in _FORBIDDEN:
        raise ForbiddenError(f"{_FORBIDDEN[token.symbol]}, so {token.symbol} cannot be used", start)
    if token.symbol == "to":
        _check_range(token)
    if token.symbol == "=>" and token[1].symbol in REGEX_FUNCTIONS:
        raise ForbiddenError(f"{token[1].symbol}() takes both its arguments in the parentheses here", start)
    if token.symbol in REGEX_FUNCTIONS and len(token) > 1:
        _check_regex(token)


def _check_range(token: Token) -> None:
    """Raise ForbiddenError for a range that an element could make endless."""
    ends = [int(end.value) for end in token if end.symbol == "(integer)"]
    if len(ends) < 2 or ends[1] - ends[0] > _LONGEST_RANGE:
        raise ForbiddenError(_RANGE_RULE, int(token.span[0]))


def _check_regex(call: Token) -> None:
    """Raise ForbiddenError unless the regular expression of a call can be checked, and is harmless."""
    for argument in (call[1], *call[2:]) if call.symbol != "replace" else (call[1], *call[3:]):
        if argument.symbol != "(string)":
            message = f"the regular expression of {call.symbol}() is to be written as a string"
            raise ForbiddenError(message, int(argument.span[0]))
    regex, where = str(call[1].value), int(call[1].span[0])
    flags = str(call[-1].value) if len(call) > (3 if call.symbol == "replace" else 2) else ""
    if "q" in flags:
        return
    if "x" in flags:
        regex = "".join(regex.split())
    try:
        re.compile(translate_pattern(regex))
    except (RegexError, re.error, RecursionError, OverflowError) as error:
        raise ForbiddenError(f"not a regular expression: {error}", where) from None
    danger = hazard(regex)
    if danger is not None:
        raise ForbiddenError(f"a regular expression that may take for ever: {danger}", where)


def _free(root: Token) -> set[str]:
    """The variables an expression uses without declaring them."""
    used, bound = set(), set()
    for token in root.iter():
        if token.symbol == "$":
            used.add(str(token[0].value))
        elif token.symbol in _BINDERS and token.label == "expression":
            bound |= {str(child[0].value) for child in list(token)[:-1:2] if child.symbol == "$"}
    return used - bound


def _names(token: Token) -> frozenset[str] | None:
    """The root names that an expression can match, from the first steps of its paths; None for any."""
    symbol = token.symbol
    if symbol == "(name)":
        return frozenset([str(token.value)])
    if symbol == ":" and token[1].symbol == "(name)":
        return frozenset([f"{{{token.parser.namespaces[token[0].value]}}}{token[1].value}"])
    if symbol in ("/", "//", "!", "["):
        return _names_of_path(token) if len(token) == 2 else None
    if symbol in ("|", "union", "or"):
        sides = [_names(child) for child in token]
        return None if None in sides else frozenset().union(*filter(None, sides))
    if symbol == "and" or symbol in _COMPARISONS:
        known = [names for child in token if (names := _names(child)) is not None]
        return known[0] if known else None
    if symbol in ("(", "child") and len(token) == 1:
        return _names(token[0])
    return None


def _names_of_path(token: Token) -> frozenset[str] | None:
    first, second = token
    from_memory = (
        first.symbol == "/" and len(first) == 1 and first[0].symbol == "(name)" and first[0].value == "memory"
    )
    if token.symbol == "/" and (from_memory or first.symbol == "."):
        return _names(second)
    return _names(first)


def _truth(items: list[Any]) -> bool:
    """The truth of a sequence (N9): nodes are true, and one value that is neither false, empty nor zero."""
    if not items:
        return False
    first = items[0]
    if isinstance(first, XPathNode):
        return True
    if len(items) > 1:
        raise ValueError("several values at once are neither true nor false")
    if isinstance(first, float) and math.isnan(first):
        return False
    return bool(first)
