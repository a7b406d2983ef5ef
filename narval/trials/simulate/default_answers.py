"""Default answers: the least that the outputs of a call allow, or none.

An output's patterns state the name and the attributes of its element. If they state more than that, no answer
is made up: a simulation must not invent things.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from lxml import etree

from narval.core.definitions.prototype import Output, Prototype
from narval.core.elements.element import Element, Tree, local_name
from narval.core.patterns.key import Key

FILLED_IN = "simulated"
"""The value of an attribute that an output only requires to exist."""

OBEYED = ("start-plan", "quit")
"""The control elements, which are never made up (N4, N34)."""

Refusal = Callable[[bytes], str | None]
"""A function that returns the reason why a schema refuses an element, or None."""


def default_answer(prototype: Prototype, refusal: Refusal) -> list[bytes] | None:
    """An element for each mandatory output; None if one of these cannot be derived."""
    elements: list[bytes] = []
    for output in prototype.outputs:
        if not output.optional:
            element = _element(output, prototype.outputs, refusal)
            if element is None:
                return None
            elements.append(element)
    return elements


def _element(output: Output, outputs: Iterable[Output], refusal: Refusal) -> bytes | None:
    if output.condition.variables:
        return None
    for key in output.condition.bind().alternatives():
        xml = _least(key)
        if xml is not None and refusal(xml) is None and _fitting(xml, outputs) == [output.id]:
            return xml
    return None


def _least(key: Key) -> bytes | None:
    """The element with the name and the attributes that a key demands of its root."""
    if key.tag is None or local_name(key.tag) in OBEYED:
        return None
    root = etree.Element(key.tag)
    for test in key.tests:
        if test.field.attribute is not None and test.positive:
            if test.operator == "eq":
                root.set(test.field.attribute, str(test.operand))
            elif test.operator == "has" and root.get(test.field.attribute) is None:
                root.set(test.field.attribute, FILLED_IN)
    return etree.tostring(root, encoding="utf-8")


def _fitting(xml: bytes, outputs: Iterable[Output]) -> list[str]:
    tree = Tree(Element(0, xml))
    return [output.id for output in outputs if output.condition.bind().test(tree)]
