"""XPath 1.0 as lxml and libxml2 have it: compiled expressions, string values, and the number in a string.

Fast path, measured by `make bench ONLY=W3`: the index decides comparisons that lxml would otherwise evaluate,
so both must agree to the last bit. XPath 1.0 has neither exponent nor plus sign, but libxml2 parses an
exponent, and rounds long fractions in its own way: short plain integers are parsed here, all else by lxml.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from lxml import etree


def compiled(
    text: str, namespaces: Mapping[str, str], functions: dict[tuple[None, str], Any] | None = None
) -> etree.XPath:
    """Compile an expression, with functions in addition to those of XPath 1.0; raises etree.XPathSyntaxError.

    It has none of lxml's regular expressions, which may take for ever; strings in its result hold no tree.
    """
    return etree.XPath(
        text, namespaces=dict(namespaces) or None, extensions=functions, regexp=False, smart_strings=False
    )


_STRING = compiled("string()", {})


def string_of(node: etree._Element) -> str:
    """The string value of a node as defined by XPath: its text without comments; that of a comment or a
    processing instruction is its content.
    """
    value: str = _STRING(node) if isinstance(node.tag, str) else node.text or ""
    return value


def literal(value: str) -> str:
    """A text as an XPath literal."""
    if "'" not in value:
        return f"'{value}'"
    if '"' not in value:
        return f'"{value}"'
    pieces = ', "\'", '.join(f"'{piece}'" for piece in value.split("'"))
    return f"concat({pieces})"


EXACT_DIGITS = 15
"""The most digits of an integer that is a double without rounding."""

_WORTH_KEEPING = 40
_NUMBER = etree.XPath("number($text)")
_NOWHERE = etree.Element("nowhere")


def number(text: str) -> float:
    """The result of XPath 1.0's `number()` for a string; NaN if it is not a number."""
    size = len(text)
    if size <= EXACT_DIGITS and text.isdecimal() and text.isascii():
        return float(text)
    return _remembered(text) if size <= _WORTH_KEEPING else _by_libxml2(text)


def _by_libxml2(text: str) -> float:
    return float(_NUMBER(_NOWHERE, text=text))


_remembered = lru_cache(maxsize=4096)(_by_libxml2)
