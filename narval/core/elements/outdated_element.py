"""Notes about elements: `outdated`, which no longer count though nothing replaced them (N18); `withdrawn`,
which should never have counted; `confirmed`, which are no longer doubtful; each with the reason.
"""

from __future__ import annotations

from collections.abc import Iterable

from lxml import etree

from narval.core.elements.element import Element, parse
from narval.core.elements.error_element import xml_safe

OUTDATED, WITHDRAWN, CONFIRMED = "outdated", "withdrawn", "confirmed"

NOTES = frozenset({OUTDATED, WITHDRAWN, CONFIRMED})
"""The root names of such notes."""


def make_note(name: str, eids: Iterable[int], reason: str) -> bytes:
    """The bytes of a note, such as `<outdated elements="3 4" reason="…"/>`; a reason of "" is left out."""
    root = etree.Element(name, elements=" ".join(map(str, eids)))
    if reason:
        root.set("reason", xml_safe(reason))
    return etree.tostring(root, encoding="utf-8")


def reason_in(element: Element) -> str:
    """The reason in such an element, or ""."""
    return str(parse(element.xml).get("reason", ""))
