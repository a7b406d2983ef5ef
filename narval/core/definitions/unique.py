"""The keys of elements by `unique` (N37).

The expression is a path within the element (`@id`), or a pattern, evaluated like patterns (`mail/@id`, N9). A
value that it also gives for an empty element (`concat(@box, ' ', @id)` gives a blank) says nothing about this
element, and is not a key.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from lxml import etree

from narval.core.elements.element import Tree
from narval.core.errors import PatternError
from narval.core.patterns.pattern import compile_pattern

_NOWHERE = re.compile(r"\s*/\s*(?![/*\s]|memory\b)")
"""The start of a path that matches no element."""

_NOTHING = etree.Element("memory")
"""An empty element."""


def check_unique(text: str, namespaces: Mapping[str, str]) -> None:
    """Raise PatternError for an expression of `unique` that cannot give a key."""
    pattern = compile_pattern(text, namespaces)
    if pattern.variables:
        at = text.index("$") + 1
        raise PatternError(
            text, f"expected a value of the element alone, found ${min(pattern.variables)}", at
        )
    try:
        value = _compiled(text, _sorted(namespaces))[0](_NOTHING)
    except etree.XPathError as error:
        raise PatternError(text, f"a key is an expression of XPath 1.0: {error}") from None
    if isinstance(value, bool):
        raise PatternError(text, "it gives true or false, which is not a key; expected a value such as @id")
    if pattern.is_closed:
        raise PatternError(text, "it gives the same for every element, which is not a key; try @id")
    if _NOWHERE.match(text):
        raise PatternError(text, "it can give no key: a path from the root begins with /memory; try @id")


def unique_value(text: str, namespaces: Mapping[str, str], tree: Tree) -> str:
    """The value that makes an element unique, or "" if it has none. Raises XPathError of lxml."""
    _, of, nothing = _compiled(text, _sorted(namespaces))
    for place in (tree.root, tree.context):
        value = str(of(place))
        if value not in ("", nothing):
            return value
    return ""


def _sorted(namespaces: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(namespaces.items()))


@lru_cache(maxsize=1024)
def _compiled(text: str, namespaces: tuple[tuple[str, str], ...]) -> tuple[etree.XPath, etree.XPath, str]:
    """The compiled expression, its text form, and the text that it gives for an empty element."""
    prefixes = dict(namespaces) or None
    of = etree.XPath(f"string({text})", namespaces=prefixes)
    return etree.XPath(text, namespaces=prefixes), of, str(of(_NOTHING))
