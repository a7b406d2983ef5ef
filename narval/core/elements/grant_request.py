"""`grant-request`: the element that asks to grant what a definition needs."""

from __future__ import annotations

from collections.abc import Iterable

from lxml import etree

from narval.core.elements.error_element import xml_safe

GRANT_REQUEST = "grant-request"


def make_request(kind: str, name: str, path: str, needs: Iterable[str]) -> bytes:
    """The bytes of `<grant-request kind="recipe" name="post.send" path="…"><need>…</need></grant-request>`: a
    definition that may not start, with each need to be granted.
    """
    root = etree.Element(GRANT_REQUEST, {"kind": kind, "name": name, "path": xml_safe(path)})
    for need in needs:
        etree.SubElement(root, "need").text = xml_safe(need)
    return etree.tostring(root, encoding="utf-8")
