"""Patterns that need XPath 3.1, by elementpath.

Imported with the first such pattern: importing elementpath takes a fifth of a second. A pattern is evaluated
on elements from strangers, inside the daemon's loop. So functions that reach outside the element (files,
environment, clock, randomness) are refused when the pattern is read, and so is everything not known to end
soon: other functions, functions made on the fly, a regular expression that is not literal in the pattern. The
rest counts its work (`metered`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, TypeAlias

from elementpath import ElementPathError, MissingContextError
from elementpath.tdop import Parser
from elementpath.xpath31 import XPath31Parser
from elementpath.xpath_nodes import XPathNode
from elementpath.xpath_tokens import XPathFunction
from lxml import etree

from narval.core.patterns.budget import Work, WorkError
from narval.core.patterns.metered import REGEX_FUNCTIONS, MeteredContext, meter, regex_of
from narval.core.patterns.syntax import ExpressionError

Token: TypeAlias = Any

_READS_FILES = "a pattern reads no files"
_NO_FUNCTIONS = "a pattern makes no functions"
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
    "analyze-string": "a pattern makes no elements",
    **dict.fromkeys(("function", "#", "function-lookup", "apply"), _NO_FUNCTIONS),
    "random-number-generator": "a pattern leaves nothing to chance",
    "trace": "a pattern prints nothing",
}
"""Tokens forbidden in a pattern, with the reason."""
_NAMES_KNOWN = """
abs avg boolean ceiling codepoint-equal codepoints-to-string compare concat contains contains-token count
data day-from-date day-from-dateTime days-from-duration deep-equal distinct-values empty ends-with
exactly-one exists false floor has-children head hours-from-dateTime hours-from-duration hours-from-time
index-of insert-before lang last local-name lower-case matches max min minutes-from-dateTime
minutes-from-duration minutes-from-time month-from-date month-from-dateTime months-from-duration name
namespace-uri node-name normalize-space normalize-unicode not number one-or-more position remove replace
reverse root round seconds-from-dateTime seconds-from-duration seconds-from-time sort starts-with string
string-join string-length string-to-codepoints subsequence substring substring-after substring-before sum
tail timezone-from-date timezone-from-dateTime timezone-from-time tokenize translate true unordered
upper-case year-from-date year-from-dateTime years-from-duration zero-or-one
"""
KNOWN_FUNCTIONS = frozenset(_NAMES_KNOWN.split())
"""The functions of XPath 3.1 whose time is known to grow at most linearly with their arguments."""
_MOST_LAYERS = 100
_LONGEST_RANGE = 10_000
_RANGE = re.compile(r"(?<![\w.])([0-9]{1,30})\s+to\s+([0-9]{1,30})")
_SLOT = re.compile(r"_[sid][0-9]+")
_RANGE_RULE = f"a range goes from number to number, with at most {_LONGEST_RANGE:,} between them"
_RANGES_RULE = f"the ranges of a pattern, multiplied, have at most {_LONGEST_RANGE:,} numbers"
_BINDERS = ("for", "let", "some", "every")
_COMPARISONS = ("=", "!=", "<", "<=", ">", ">=", "eq", "ne", "lt", "le", "gt", "ge")

_VALUE_OPERATORS = ("+", "-", "*", "div", "idiv", "mod", "||", "to", "and", "or", *_COMPARISONS)


class ForbiddenError(ExpressionError):
    """An expression is valid XPath 3.1, but not allowed in a pattern."""


class _Reader(XPath31Parser):
    """elementpath's parser, without the evaluation that follows parsing."""

    def parse(self, source: str) -> Token:
        """The tokens of an expression as a tree."""
        if self.tokenizer is None:
            self.tokenizer = self.create_tokenizer(self.symbol_table)
        return Parser.parse(self, source)


class XPath3:
    """A compiled XPath 3.1 expression."""

    __slots__ = ("_token", "names", "variables")

    def __init__(self, text: str, namespaces: Mapping[str, str]) -> None:
        self._token = _parsed(text, namespaces)
        self.variables = frozenset(_free(self._token))
        self.names = _names(self._token)

    def __call__(self, context: etree._Element, /, **variables: Any) -> bool:
        """True if the result counts as true; raises any error, including WorkError."""
        return self.tried(context, variables, Work())

    def tried(self, context: etree._Element, variables: Mapping[str, Any], work: Work) -> bool:
        """Evaluate like a call, counting the `work`."""
        return _truth(list(self._token.select(MeteredContext(context, variables, work))))

    def results(self, context: etree._Element, variables: Mapping[str, Any]) -> Any:
        """The result: a list of lxml elements and values, or a single value."""
        return self._token.get_results(MeteredContext(context, variables, Work()))


def _parsed(text: str, namespaces: Mapping[str, str]) -> Token:
    """The metered tokens of an expression allowed in a pattern; raises ExpressionError."""
    _check_ranges(text)
    try:
        root = _Reader(namespaces=dict(namespaces)).parse(text)
        if root.label in ("sequence type", "function test"):
            raise ExpressionError("a type is no expression", 0)
        _check_depth(root)
        for token in root.iter():
            _check(token, text)
        meter(root, Work())
        with suppress(MissingContextError):  # type mismatches, as far as possible without an element
            root.evaluate()
    except ElementPathError as error:
        raise ExpressionError(_message(error), _offset(error, text)) from None
    except RecursionError:
        raise ExpressionError("nested too deep", 0) from None
    except WorkError as error:
        raise ForbiddenError(str(error), 0) from None
    except (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise ExpressionError(f"not an XPath expression: {error}", 0) from None
    return root


def _check_ranges(text: str) -> None:
    """Raise ForbiddenError for long ranges: elementpath enumerates some while it reads them."""
    numbers = 1
    for match in _RANGE.finditer(text):
        between = int(match[2]) - int(match[1])
        if between > _LONGEST_RANGE:
            raise ForbiddenError(_RANGE_RULE, match.start())
        numbers *= max(1, between)
        if numbers > _LONGEST_RANGE:
            raise ForbiddenError(_RANGES_RULE, match.start())


def _message(error: ElementPathError) -> str:
    """The message of an error, without the position and code that elementpath adds."""
    return str(getattr(error, "message", None) or error).rpartition("] ")[2]


def _offset(error: ElementPathError, text: str) -> int:
    token = getattr(error, "token", None)
    if token is None:
        return 0
    return len(text) if token.symbol == "(end)" else int(token.span[0])


def _check_depth(root: Token) -> None:
    """Raise ExpressionError for a tree that is too deep to evaluate, such as a long chain of operators."""
    layer, depth = [root], 0
    while layer:
        layer, depth = [child for token in layer for child in token], depth + 1
        if depth > _MOST_LAYERS:
            raise ExpressionError("too many operators in a row", int(layer[0].span[0]) if layer else 0)


def _check(token: Token, text: str) -> None:
    """Raise ForbiddenError for a token that is not allowed in a pattern."""
    if token.label == "name":
        return
    start = int(token.span[0])
    if token.symbol in _FORBIDDEN:
        raise ForbiddenError(f"{_FORBIDDEN[token.symbol]}, so {token.symbol} cannot be used", start)
    if token.label in ("array", "map") or token.symbol == "?":
        raise ForbiddenError("a pattern makes no arrays and maps", start)
    if token.symbol in ("/", "//") and len(token) == 2 and _is_value(token[0]):
        raise ForbiddenError("a path goes on from nodes, not from a value", int(token[0].span[0]))
    if isinstance(token, XPathFunction):
        _check_function(token, start)
    if token.symbol == "to":
        _check_range(token)
    if token.symbol == "=>" and token[1].symbol in REGEX_FUNCTIONS:
        raise ForbiddenError(f"{token[1].symbol}() takes both its arguments in the parentheses here", start)
    if token.symbol in REGEX_FUNCTIONS and len(token) > 1:
        _check_regex(token, text)


def _is_value(token: Token) -> bool:
    """True if an expression certainly gives values, not nodes."""
    if (token.symbol == "(" and len(token) == 1) or token.symbol == "[":
        return _is_value(token[0])
    if token.symbol == ",":
        return all(map(_is_value, token))
    if token.symbol == "$":
        return _SLOT.fullmatch(str(token[0].value)) is not None
    if token.label == "literal" or (token.symbol in _VALUE_OPERATORS and len(token)):
        return True
    return token.label == "function" and str(token.sequence_types[-1:]).startswith("('xs:")


def _check_function(token: Token, start: int) -> None:
    """Raise ForbiddenError for a function that is not known to end soon, or is unknown."""
    if token.label == "partial function" or token.label == "inline function":
        raise ForbiddenError(_NO_FUNCTIONS, start)
    if token.label == "function" and token.symbol not in KNOWN_FUNCTIONS:
        raise ForbiddenError(f"{token.symbol}() is not for patterns", start)
    if token.symbol == "round" and len(token) > 1:
        raise ForbiddenError("round() takes one argument in a pattern", start)


def _check_range(token: Token) -> None:
    """Raise ForbiddenError for a range that an element could make endless."""
    ends = [int(end.value) for end in token if end.symbol == "(integer)"]
    if len(ends) < 2 or ends[1] - ends[0] > _LONGEST_RANGE:
        raise ForbiddenError(_RANGE_RULE, int(token.span[0]))


def _check_regex(call: Token, text: str) -> None:
    """Raise ForbiddenError unless the regular expression of a call is valid and runs in bounded time."""
    for argument in call[1:]:
        if argument.symbol != "(string)":
            part = "replacement" if call.symbol == "replace" and argument is call[2] else "regular expression"
            message = f"the {part} of {call.symbol}() is to be written as a string"
            raise ForbiddenError(message, int(argument.span[0]))
    at, part = call[1], "regular expression"
    try:
        regex = regex_of(call)
        if call.symbol != "matches" and regex.matches_nothing:
            raise ExpressionError(f"{call.symbol}() cannot go on where its {part} matches no letter", 0)
        if call.symbol == "replace":
            at = call[2]
            regex.replacement(str(at.value), literal=len(call) > 3 and "q" in str(call[3].value))
    except ExpressionError as error:
        raise ForbiddenError(error.message, _offset_within(at, error.offset, text)) from None


def _offset_within(literal: Token, offset: int, text: str) -> int:
    """The offset in the whole text of a place in a string, in which quotes are doubled."""
    start = int(literal.span[0])
    return start + 1 + offset + str(literal.value)[:offset].count(text[start])


def _free(root: Token) -> set[str]:
    """The variables that an expression uses without declaring them."""
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
        name_sets = [names for child in token if (names := _names(child)) is not None]
        return name_sets[0] if name_sets else None
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
    """The truth of a sequence: nodes are true, and so is a single value other than false, empty or zero."""
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
