"""The `outdated` element: which elements count no more though nothing replaced them, and why (N18)."""

from __future__ import annotations

from collections.abc import Iterable

from lxml import etree

from narval.core.elements.element import Element, parse
from narval.core.elements.error_element import xml_safe

OUTDATED = "outdated"


def make_outdated(eids: Iterable[int], reason: str) -> bytes:
    """The bytes of `<outdated elements="3 4" reason="…"/>`; a reason of "" is left out."""
    root = etree.Element(OUTDATED, elements=" ".join(map(str, eids)))
    if reason:
        root.set("reason", xml_safe(reason))
    return etree.tostring(root, encoding="utf-8")


def reason_in(element: Element) -> str:
    """The reason that such an element gives, or ""."""
    return str(parse(element.xml).get("reason", ""))
