"""Values in texts of definitions: XPath 1.0 expressions of variables, in braces (N42), and templates.

A value is parsed with its file and evaluated only on the elements of its variables, within the limits of
patterns. What it selects becomes text; several nodes are joined with blanks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from typing import Any, NamedTuple

import msgspec
from lxml import etree

from narval.core.definitions.reading.lexer import Locate
from narval.core.definitions.reading.patterns import Patterns
from narval.core.definitions.reading.value_functions import (
    VALUE_FUNCTIONS,
    check_functions,
    functions_in,
    uses_functions,
)
from narval.core.definitions.reading.xml import Entry, Reading
from narval.core.elements.element import Element, Tree
from narval.core.errors import ElementError, PatternError
from narval.core.patterns import syntax
from narval.core.patterns.analysis import ShapeSource, term_of
from narval.core.patterns.budget import Limits, limits
from narval.core.patterns.functions import FUNCTIONS, check, check_focus, type_of
from narval.core.patterns.syntax import ExpressionError, check_depth
from narval.core.patterns.xpath1 import compiled, string_of

Bindings = Mapping[str, Sequence[Element]]

_MOST_CHARACTERS = 2_000
_NOWHERE = etree.Element("memory")
_PIECES = re.compile(r"\{\{|\{([^{}]*)(\}?)")
"""`{{`, an escaped brace; or a value, with its end."""


class ArgumentValue:
    """One value of an argument: an expression that uses only variables."""

    def __init__(self, text: str) -> None:
        """Compile an expression; `argument_value` caches. Raises PatternError."""
        self.text = text
        if len(text) > _MOST_CHARACTERS:
            raise PatternError(text, f"expected at most {_MOST_CHARACTERS} characters, found {len(text)}")
        try:
            check_depth(text)
            tree = syntax.parse(text)
            check(tree, {}, {**FUNCTIONS, **VALUE_FUNCTIONS})
            check_focus(tree)
            check_functions(tree)
            self._selects, self._has_functions = type_of(tree) == "nodes", uses_functions(tree)
            self.gives_elements = _gives_elements(tree)
            _compiled(text, self._selects, "")
        except ExpressionError as error:
            raise PatternError(text, error.message, error.offset + 1) from None
        except etree.XPathError as error:
            raise PatternError(text, f"expected an XPath 1.0 expression: {error}") from None
        if term_of(ShapeSource(text, {}, xpath3=False), tree) is None:
            raise PatternError(text, "expected a path from a variable, found one that begins nowhere")
        self.variables = syntax.variables(tree)
        self._limits: Limits = limits(text, tree)

    def text_for(self, bindings: Bindings, zone: str, times: int = 1) -> str:
        """The value as text. Raises ElementError for elements that are too large to evaluate."""
        return " ".join(self.texts_for(bindings, zone, times))

    def texts_for(self, bindings: Bindings, zone: str, times: int = 1) -> list[str]:
        """The text of each node that it selects; a single text for an expression that selects no nodes.

        Local dates are in the time zone. Raises ElementError for elements too large to evaluate it `times`
        times.
        """
        value = self._value(bindings, zone, times)
        if not self._selects:
            return [str(value)]
        return [node if isinstance(node, str) else string_of(node) for node in value]

    def elements_for(self, bindings: Bindings, zone: str, times: int = 1) -> Iterator[Element]:
        """The elements that it selects, each by itself. Raises ElementError likewise."""
        for node in self._value(bindings, zone, times):
            if isinstance(node, etree._Element):
                yield Element(0, etree.tostring(node, encoding="unicode", with_tail=False).encode())

    def _value(self, bindings: Bindings, zone: str, times: int) -> Any:
        trees = {name: [Tree(element) for element in bindings.get(name, ())] for name in self.variables}
        count = sum(map(len, trees.values())) * times
        for tree in (tree for of_name in trees.values() for tree in of_name):
            if tree.size * count > self._limits.size or tree.has_more_nodes(self._limits.nodes // count):
                raise ElementError("too-large", f"{{{self.text}}} is of elements too large for it")
        nodes = {name: [tree.root for tree in of_name] for name, of_name in trees.items()}
        # lxml copies each selected node that is in another document than the context.
        context = next((root for roots in nodes.values() for root in roots), _NOWHERE)
        return _compiled(self.text, self._selects, zone if self._has_functions else "")(context, **nodes)


argument_value = lru_cache(maxsize=1024)(ArgumentValue)


def _gives_elements(tree: syntax.Expression) -> bool:
    """True if the form of an expression shows that it selects elements."""
    match tree:
        case syntax.Path(steps=(*_, last)):
            return last.axis not in ("attribute", "namespace") and not last.test.endswith(")")
        case syntax.Filter(primary=primary):
            return _gives_elements(primary)
        case syntax.BinaryOperation(operator="|", operands=operands):
            return all(map(_gives_elements, operands))
    return isinstance(tree, syntax.Variable)


@lru_cache(maxsize=1024)
def _compiled(text: str, selects: bool, zone: str) -> etree.XPath:
    """The compiled expression, with the functions of values in a time zone if it uses any."""
    return compiled(text if selects else f"string({text})", {}, functions_in(zone) if zone else None)


class TextTemplate(msgspec.Struct, frozen=True):
    """A text with values in it (P9): `parts` are its texts and values in order."""

    text: str
    parts: tuple[str | ArgumentValue, ...] = ()

    @property
    def variables(self) -> frozenset[str]:
        """The variables of its values."""
        values = (part.variables for part in self.parts if not isinstance(part, str))
        return frozenset[str]().union(*values)

    @property
    def is_plain(self) -> bool:
        """True if it has no values: it is always the same."""
        return all(isinstance(part, str) for part in self.parts)

    def filled(self, bindings: Bindings, zone: str) -> str:
        """The text with its values filled in. Raises ElementError for elements that are too large."""
        return "".join(
            part if isinstance(part, str) else part.text_for(bindings, zone) for part in self.parts
        )

    def listed(self, bindings: Bindings, zone: str) -> list[str]:
        """The texts of all nodes that its values select, and the words between them. Raises ElementError."""
        texts: list[str] = []
        for part in self.parts:
            texts += part.split() if isinstance(part, str) else part.texts_for(bindings, zone)
        return [text for text in texts if text]


def values_in(text: str) -> Iterator[str]:
    """The values in a text, with their braces."""
    return (piece[0] for piece in _PIECES.finditer(text) if piece[0] != "{{")


def argument_values(text: str) -> Iterator[ArgumentValue]:
    """The valid values in a text."""
    for piece in _PIECES.finditer(text):
        with suppress(PatternError):
            part = _part(piece)
            if isinstance(part, ArgumentValue):
                yield part


def filled(text: str, bindings: Bindings, zone: str, times: int = 1) -> str:
    """A text with its values filled in, one of `times` fillings; braces without a value stay unchanged.

    Raises ElementError for elements that are too large.
    """

    def text_of(piece: re.Match[str]) -> str:
        try:
            part = _part(piece)
        except PatternError:
            part = piece[0]
        return part if isinstance(part, str) else part.text_for(bindings, zone, times)

    return _PIECES.sub(text_of, text)


def template_in(reading: Reading, patterns: Patterns, entry: Entry, attribute: str) -> TextTemplate | None:
    """The template in an attribute; None if the attribute is absent."""
    text = entry.get(attribute)
    if text is None:
        return None
    blank = entry.node.attributes[entry.written[attribute]].index(text)
    return template_from(reading, patterns, text, lambda at: entry.place(attribute, blank + at))


def template_of(reading: Reading, patterns: Patterns, entry: Entry) -> TextTemplate:
    """The template in the text of an entry."""
    text = entry.node.text.strip()
    blank = entry.node.text.index(text)
    return template_from(reading, patterns, text, lambda at: entry.node.text_place(blank + at))


class Used(NamedTuple):
    """A value, with its variables except for the template's own."""

    text: str
    variables: frozenset[str]


def template_from(
    reading: Reading, patterns: Patterns, text: str, locate: Locate, own: frozenset[str] = frozenset()
) -> TextTemplate:
    """Read a text as a template; `own` are its variables besides those of patterns. Braces without a valid
    value are a fault, and stay unchanged.

    So a stored definition that was valid before braces had this meaning keeps its own.
    """
    parts: list[str | ArgumentValue] = []
    end = 0
    for piece in _PIECES.finditer(text):
        parts.append(text[end : piece.start()])
        end = piece.end()
        try:
            part = _part(piece)
        except PatternError as error:
            at = piece.start(1) + min(error.column - 1, len(error.text))
            reading.fault_at(locate(at), f"{error.message}; {{{{ stands for {{")
            part = piece[0]
        if isinstance(part, ArgumentValue):
            used = Used(part.text, part.variables - own)
            patterns.note(used, partial(_within, locate, piece.start(1)))
        parts.append(part)
    parts.append(text[end:])
    return TextTemplate(text, tuple(part for part in parts if part != ""))


def _within(locate: Locate, start: int, offset: int) -> tuple[int, int]:
    return locate(start + offset)


def _part(piece: re.Match[str]) -> str | ArgumentValue:
    """The brace or the value of a piece. Raises PatternError for an invalid value."""
    if piece[0] == "{{":
        return "{"
    if not piece[2]:
        raise PatternError(piece[1], "expected '}' after this value", 0)
    written = piece[1].rstrip()
    try:
        value = argument_value(written)
    except PatternError as error:
        why = f"this value is no XPath that narval can try: {error.message}"
        raise PatternError(written, why, max(error.column, 1)) from None
    if not value.variables:
        raise PatternError(written, "expected a value of a variable, such as {$plan/@eid}, found none")
    return value
