"""The `acknowledged` element: incidents that a person has seen and that need nothing more (M52)."""

from __future__ import annotations

from lxml import etree

from narval.core.elements.element import Element, parse
from narval.core.elements.error_element import xml_safe

ACKNOWLEDGED = "acknowledged"


def make_acknowledged(incident: str, count: int, reason: str, **about: str) -> bytes:
    """The bytes of `<acknowledged incident="3f9c01ab" count="3" definition="w.r" … reason="…"/>`.

    `about` are attributes that describe the incident; empty ones, and an empty reason, are left out.
    """
    root = etree.Element(ACKNOWLEDGED, incident=incident, count=str(count))
    for name, value in {**about, "reason": reason}.items():
        if value:
            root.set(name, xml_safe(value))
    return etree.tostring(root, encoding="utf-8")


def read_acknowledged(element: Element) -> tuple[str, str]:
    """The incident that such an element names, and its reason."""
    root = parse(element.xml)
    return str(root.get("incident", "")), str(root.get("reason", ""))
