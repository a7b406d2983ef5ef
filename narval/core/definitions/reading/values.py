"""Values in texts of definitions: XPath 1.0 expressions of variables, in braces (N42), and whole templates.

A value is read when its file is, and evaluated on the elements of its variables and nothing else, within the
limits that patterns have. What it selects becomes text; of several nodes, with blanks between.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec
from lxml import etree

from narval.core.definitions.reading.lexer import Locate
from narval.core.definitions.reading.patterns import Patterns
from narval.core.definitions.reading.xml import Entry, Reading
from narval.core.elements.element import Element, Tree
from narval.core.errors import ElementError, PatternError
from narval.core.patterns.budget.cost import Limits, limits
from narval.core.patterns.functions import check, check_focus, type_of
from narval.core.patterns.lexer import ExpressionError, check_depth
from narval.core.patterns.syntax import parse, variables
from narval.core.patterns.terms import ShapeSource, term_of
from narval.core.patterns.xpath1 import compiled, string_of

_MOST_CHARACTERS = 2_000
_NOWHERE = etree.Element("memory")
_PIECES = re.compile(r"\{\{|\{([^{}]*)(\}?)")
"""`{{`, which stands for a brace; or a value, and its end."""


class ArgumentValue:
    """One value of an argument: an expression of variables alone."""

    def __init__(self, text: str) -> None:
        """Raises PatternError; `argument_value` caches."""
        self.text = text
        if len(text) > _MOST_CHARACTERS:
            raise PatternError(text, f"expected at most {_MOST_CHARACTERS} characters, found {len(text)}")
        try:
            check_depth(text)
            tree = parse(text)
            check(tree, {})
            check_focus(tree)
            self._selects = type_of(tree) == "nodes"
            self._xpath = compiled(text if self._selects else f"string({text})", {})
        except ExpressionError as error:
            raise PatternError(text, error.message, error.offset + 1) from None
        except etree.XPathError as error:
            raise PatternError(text, f"expected an XPath 1.0 expression: {error}") from None
        if term_of(ShapeSource(text, {}, xpath3=False), tree) is None:
            raise PatternError(text, "expected a path from a variable, found one that begins nowhere")
        self.variables = variables(tree)
        self._limits: Limits = limits(text, tree)

    def text_for(self, bindings: Mapping[str, Sequence[Element]]) -> str:
        """The text that it stands for. Raises ElementError for elements too large for it."""
        return " ".join(self.texts_for(bindings))

    def texts_for(self, bindings: Mapping[str, Sequence[Element]]) -> list[str]:
        """The text of each node that it selects; of an expression that selects none, the one that it gives.

        Raises ElementError for elements too large for it.
        """
        trees = {name: [Tree(element) for element in bindings.get(name, ())] for name in self.variables}
        count = sum(map(len, trees.values()))
        for tree in (tree for of_name in trees.values() for tree in of_name):
            if tree.size * count > self._limits.size or tree.has_more_nodes(self._limits.nodes // count):
                raise ElementError("too-large", f"{{{self.text}}} is of elements too large for it")
        found: Any = self._xpath(
            _NOWHERE, **{name: [tree.root for tree in of_name] for name, of_name in trees.items()}
        )
        if not self._selects:
            return [str(found)]
        return [node if isinstance(node, str) else string_of(node) for node in found]


argument_value = lru_cache(maxsize=1024)(ArgumentValue)


class TextTemplate(msgspec.Struct, frozen=True):
    """A text with values in it (P9): `parts` are its texts and values in their order."""

    text: str
    parts: tuple[str | ArgumentValue, ...] = ()

    @property
    def variables(self) -> frozenset[str]:
        """The variables of its values."""
        values = (part.variables for part in self.parts if not isinstance(part, str))
        return frozenset[str]().union(*values)

    @property
    def is_plain(self) -> bool:
        """True if it has no values: it is the same whatever it is filled in with."""
        return all(isinstance(part, str) for part in self.parts)

    def filled(self, bindings: Mapping[str, Sequence[Element]]) -> str:
        """The text with its values. Raises ElementError for elements too large for them."""
        return "".join(part if isinstance(part, str) else part.text_for(bindings) for part in self.parts)

    def listed(self, bindings: Mapping[str, Sequence[Element]]) -> list[str]:
        """The texts of all nodes that its values select, and the words beside them. Raises ElementError."""
        found: list[str] = []
        for part in self.parts:
            found += part.split() if isinstance(part, str) else part.texts_for(bindings)
        return [text for text in found if text]


def values_in(text: str) -> Iterator[str]:
    """The values in a text, in their braces."""
    return (found[0] for found in _PIECES.finditer(text) if found[0] != "{{")


def filled(text: str, bindings: Mapping[str, Sequence[Element]]) -> str:
    """A text that was read without faults, with its values. Raises ElementError for elements too large."""

    def value(found: re.Match[str]) -> str:
        return "{" if found[0] == "{{" else argument_value(found[1].rstrip()).text_for(bindings)

    return _PIECES.sub(value, text)


def template_in(reading: Reading, patterns: Patterns, entry: Entry, attribute: str) -> TextTemplate | None:
    """The template that an attribute holds; None, and a fault, for one that cannot be read."""
    text = entry.get(attribute)
    if text is None:
        return None
    blank = entry.node.attributes[entry.written[attribute]].index(text)
    return template_from(reading, patterns, text, lambda at: entry.place(attribute, blank + at))


def template_of(reading: Reading, patterns: Patterns, entry: Entry) -> TextTemplate | None:
    """The template that is the text of an entry; None, and a fault, for one that cannot be read."""
    text = entry.node.text.strip()
    blank = entry.node.text.index(text)
    return template_from(reading, patterns, text, lambda at: entry.node.text_place(blank + at))


def template_from(reading: Reading, patterns: Patterns, text: str, locate: Locate) -> TextTemplate | None:
    """The template that a text is; None, and a fault, for one that cannot be read."""
    parts: list[str | ArgumentValue] = []
    end, faults = 0, len(reading.faults)
    for found in _PIECES.finditer(text):
        parts.append(text[end : found.start()])
        end = found.end()
        if found[0] == "{{":
            parts.append("{")
        elif not found[2]:
            reading.fault_at(locate(found.start()), "expected '}' after this value; {{ stands for {")
        else:
            parts += _value(reading, patterns, found, locate)
    parts.append(text[end:])
    if len(reading.faults) > faults:
        return None
    return TextTemplate(text, tuple(part for part in parts if part != ""))


def _value(
    reading: Reading, patterns: Patterns, found: re.Match[str], locate: Locate
) -> list[str | ArgumentValue]:
    """The value of a template; none, and a fault at its character, for what is no XPath."""
    start, written = found.start(1), found[1].rstrip()
    try:
        value = argument_value(written)
    except PatternError as error:
        at = start + min(max(error.column - 1, 0), len(written))
        why = f"this value is no XPath that narval can try: {error.message}"
        reading.fault_at(locate(at), f"{why}; {{{{ stands for {{")
        return []
    patterns.note(value, lambda offset: locate(start + offset))
    return [value]
