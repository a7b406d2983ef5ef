"""Arguments of steps, and the values in them: `<reminder to="{$first/@from}"/>` (N42).

A value is an XPath 1.0 expression that begins with a variable, in braces, in an attribute or a text. It is
read when the file is, and evaluated when the step is run: on the elements of its variables and nothing else,
within the limits that patterns have. What it selects becomes text; of several nodes, with blanks between.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial

from lxml import etree

from narval.definitions.reading.lexer import Locate
from narval.definitions.reading.patterns import Patterns
from narval.definitions.reading.values import argument_value
from narval.definitions.reading.xml import Reading
from narval.errors import ElementError, PatternError
from narval.memory.elements.canonical import canonical, parse_untrusted
from narval.memory.elements.element import CONTROL, Element
from narval.source.xml import XmlNode

_VALUE = re.compile(r"\{(\{\$)|\{(\$[^{}]*)(\}?)")
"""`{{$`, which stands for `{$`; or a value, and its end."""
_BRACES = re.compile(r"(?<!\{)\{([^{}$][^{}]*)\}")
"""A text in braces that is no value, as it does not begin with a variable."""


def read_argument(
    reading: Reading, patterns: Patterns, node: XmlNode
) -> tuple[bytes, frozenset[str] | None] | None:
    """The bytes of an argument, and the variables of its values, or None if there is nothing to fill in.

    None, and a fault, where it can be no element.
    """
    try:
        xml = _bytes_of(node)
    except ElementError as error:
        reading.fault(node, f"this cannot be an element: {error.message}")
        return None
    names = [_read_value(reading, patterns, *found) for found in _written(node)]
    return xml, frozenset[str]().union(*names) if names else None


def _bytes_of(node: XmlNode) -> bytes:
    """The bytes of an argument. Domain elements are bare (N6): a default control namespace is not theirs."""
    root = parse_untrusted(node.xml())
    for element in root.iter(f"{{{CONTROL}}}*"):
        if element.prefix is None:
            element.tag = etree.QName(element).localname
    etree.cleanup_namespaces(root)
    return canonical(root)


def _written(node: XmlNode) -> Iterator[tuple[re.Match[str], Locate]]:
    """The values in an argument as they are written, each with the place of its text."""
    for inner in node.walk():
        for name, text in inner.attributes.items():
            for found in _VALUE.finditer(text):
                yield found, partial(_place, partial(inner.place, name), found.start(2))
        for found in _VALUE.finditer(inner.text):
            yield found, partial(_place, inner.text_place, found.start(2))


def _place(place: Locate, start: int, offset: int) -> tuple[int, int]:
    return place(start + offset)


def _read_value(reading: Reading, patterns: Patterns, found: re.Match[str], locate: Locate) -> frozenset[str]:
    """The variables of a value; what is wrong with it is noted as a fault at its character."""
    if found[1]:
        return frozenset()
    if not found[3]:
        reading.fault_at(locate(0), "expected '}' after this value; {{$ stands for {$")
        return frozenset()
    try:
        value = argument_value(found[2].rstrip())
    except PatternError as error:
        why = f"this value is no XPath that narval can try: {error.message}"
        reading.fault_at(locate(min(max(error.column - 1, 0), len(found[2]))), why)
        return frozenset()
    patterns.note(value, locate)
    return value.variables


def left_as_text(xml: bytes, names: Collection[str]) -> Iterator[str]:
    """The texts in braces of an argument that are no values, though they use a variable of these names."""
    uses = re.compile(rf"\$(?:{'|'.join(map(re.escape, names))})(?![\w.-])")
    for node in parse_untrusted(xml).iter("*"):
        for text in (*map(str, node.attrib.values()), node.text or "", node.tail or ""):
            yield from (found[0] for found in _BRACES.finditer(text) if uses.search(found[1]))


def values_outside(xml: bytes, parts: Mapping[str, str]) -> Iterator[str]:
    """The values of an argument that stand elsewhere than in some of its children: by the name of each, the
    attribute that may have values, "" for its text.
    """
    root = parse_untrusted(xml)
    for node in root.iter("*"):
        allowed = parts.get(str(node.tag)) if node.getparent() is root else None
        texts = {str(name): str(text) for name, text in node.attrib.items()} | {"": node.text or ""}
        for text in (*(text for name, text in texts.items() if name != allowed), node.tail or ""):
            yield from (found[0] for found in _VALUE.finditer(text) if found[2])


def fill(xml: bytes, bindings: Mapping[str, Sequence[Element]]) -> bytes:
    """An argument with its values filled in. Raises ElementError where that is no element any more."""

    def value(found: re.Match[str]) -> str:
        return "{$" if found[1] else argument_value(found[2].rstrip()).text_for(bindings)

    root = parse_untrusted(xml)
    for node in root.iter("*"):
        for name, text in node.attrib.items():
            node.set(name, _VALUE.sub(value, str(text)))
        for part in ("text", "tail"):
            text = getattr(node, part)
            if text:
                setattr(node, part, _VALUE.sub(value, text))
    return canonical(root)
