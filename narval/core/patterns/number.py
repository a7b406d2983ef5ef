"""The number in a string, as parsed by libxml2.

Fast path, measured by `make bench ONLY=W3`: the index decides comparisons that lxml would otherwise evaluate,
so both must agree to the last bit. XPath 1.0 has neither exponent nor plus sign, but libxml2 parses an
exponent, and rounds long fractions in its own way: short plain integers are parsed here, all else by lxml.
"""

from __future__ import annotations

from functools import lru_cache

from lxml import etree

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
