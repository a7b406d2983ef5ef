"""XPath 1.0 by lxml: compiled in one way everywhere."""

from __future__ import annotations

from collections.abc import Mapping

from lxml import etree


def compiled(text: str, namespaces: Mapping[str, str]) -> etree.XPath:
    """An expression ready to be evaluated; raises etree.XPathSyntaxError.

    Without lxml's own regular expressions, which may take for ever; strings do not hold the tree they are of.
    """
    return etree.XPath(text, namespaces=dict(namespaces) or None, regexp=False, smart_strings=False)


_STRING = compiled("string()", {})


def string_of(node: etree._Element) -> str:
    """The string value of a node, as XPath defines it: its text without that of comments."""
    value: str = _STRING(node)
    return value
