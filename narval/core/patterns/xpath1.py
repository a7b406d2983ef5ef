"""XPath 1.0, compiled by lxml."""

from __future__ import annotations

from collections.abc import Mapping

from lxml import etree


def compiled(text: str, namespaces: Mapping[str, str]) -> etree.XPath:
    """An expression compiled; raises etree.XPathSyntaxError.

    It has no regular expressions of lxml's, which may take for ever; strings in its result hold no tree.
    """
    return etree.XPath(text, namespaces=dict(namespaces) or None, regexp=False, smart_strings=False)


_STRING = compiled("string()", {})


def string_of(node: etree._Element) -> str:
    """The string value of a node as XPath defines it: its text without that of comments."""
    value: str = _STRING(node)
    return value
