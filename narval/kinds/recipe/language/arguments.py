"""Arguments of steps, and the values in them: `<reminder to="{$first/@from}"/>`.

Braces mean in an attribute and in a text of an argument what they mean in every template: an expression of
variables stands in them, and `{{` is a brace. A value is read when its file is, and evaluated when the step
is run: on the elements of its variables and nothing else, within the limits that patterns have.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from lxml import etree

from narval.core.definitions.reading.lexer import Locate
from narval.core.definitions.reading.patterns import Patterns
from narval.core.definitions.reading.values import filled, template_from, values_in
from narval.core.definitions.reading.xml import Reading
from narval.core.elements.canonical import canonical, parse_untrusted
from narval.core.elements.element import CONTROL, Element
from narval.core.errors import ElementError
from narval.core.source.xml import XmlNode


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
    names = [template_from(reading, patterns, *written).variables for written in _written(node)]
    return xml, frozenset[str]().union(*names) if names else None


def _bytes_of(node: XmlNode) -> bytes:
    """The bytes of an argument. Domain elements are bare (N6): a default control namespace is not theirs."""
    root = parse_untrusted(node.xml())
    for element in root.iter(f"{{{CONTROL}}}*"):
        if element.prefix is None:
            element.tag = etree.QName(element).localname
    etree.cleanup_namespaces(root)
    return canonical(root)


def _written(node: XmlNode) -> Iterator[tuple[str, Locate]]:
    """The attributes and texts of an argument that have a brace, each with the place of its characters."""
    for inner in node.walk():
        for name, text in inner.attributes.items():
            if "{" in text:
                yield text, partial(inner.place, name)
        if "{" in inner.text:
            yield inner.text, inner.text_place


def values_outside(xml: bytes, parts: Mapping[str, str]) -> Iterator[str]:
    """The values of an argument that stand elsewhere than in some of its children: by the name of each, the
    attribute that may have values, "" for its text.
    """
    root = parse_untrusted(xml)
    for node in root.iter("*"):
        allowed = parts.get(str(node.tag)) if node.getparent() is root else None
        texts = {str(name): str(text) for name, text in node.attrib.items()} | {"": node.text or ""}
        for text in (*(text for name, text in texts.items() if name != allowed), node.tail or ""):
            yield from values_in(text)


def fill(xml: bytes, bindings: Mapping[str, Sequence[Element]]) -> bytes:
    """An argument with its values filled in. Raises ElementError where that is no element any more."""
    root = parse_untrusted(xml)
    for node in root.iter("*"):
        for name, text in node.attrib.items():
            node.set(name, filled(str(text), bindings))
        for part in ("text", "tail"):
            text = getattr(node, part)
            if text:
                setattr(node, part, filled(text, bindings))
    return canonical(root)
