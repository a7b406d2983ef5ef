"""The `error` element: a failure as definitions and people see it in memory (N17, N20, N26)."""

from __future__ import annotations

import re

from lxml import etree

from narval.core.elements.element import Element, parse, text_within

_UNWRITABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_LONGEST = 20_000


def xml_safe(text: str, instead: str = "\ufffd") -> str:
    """The text with U+FFFD, or `instead`, for every character that is invalid in XML."""
    return _UNWRITABLE.sub(instead, text)


def make_error(kind: str, message: str, detail: str = "", **where: str | int | None) -> bytes:
    """The bytes of `<error type="kind" …><message>…</message><detail>…</detail></error>`.

    `where` becomes attributes (plan, recipe, step, action, input, …); None and "" are left out.
    """
    root = etree.Element("error", type=xml_safe(kind))
    for name, value in where.items():
        if value is not None and value != "":
            root.set(name, xml_safe(str(value)))
    etree.SubElement(root, "message").text = xml_safe(message[:_LONGEST]) or None
    if detail:
        etree.SubElement(root, "detail").text = xml_safe(detail[-_LONGEST:])
    return etree.tostring(root, encoding="utf-8")


def read_error(element: Element) -> tuple[str, str, str]:
    """The type, message and step of an error element; one made by an action may lack any of them."""
    root = parse(element.xml)
    found = root.find("message")
    message = text_within(root if found is None else found)
    return root.get("type", "error"), " ".join(message.split()), root.get("step", "")
