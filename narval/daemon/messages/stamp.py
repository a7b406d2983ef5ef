"""The stamp of an element that came as a message: its sender, and the id of the message (G26)."""

from __future__ import annotations

import re

from lxml import etree

from narval.core.elements.element import CONTROL, parse

FROM, MESSAGE = f"{{{CONTROL}}}from", f"{{{CONTROL}}}message"
"""The attributes of the root, as lxml writes their names."""

_ROOT = re.compile(rb"<[^\s/>]+")


def stamped(xml: bytes, sender: str, message: str) -> bytes:
    """An element with the stamp on its root, replacing any that it has.

    `sender` and `message` have only characters that XML does not escape.
    """
    if b"xmlns" not in xml and (root := _ROOT.match(xml)) is not None:  # no stamp to replace
        end = root.end()
        stamp = f' xmlns:al="{CONTROL}" al:from="{sender}" al:message="{message}"'
        return xml[:end] + stamp.encode() + xml[end:]
    tree = parse(xml)
    for name in (FROM, MESSAGE):
        tree.attrib.pop(name, None)
    if CONTROL not in tree.nsmap.values() and "al" not in tree.nsmap:
        made = etree.Element(tree.tag, dict(tree.attrib), {**tree.nsmap, "al": CONTROL})
        made.text = tree.text
        made.extend(list(tree))
        tree = made
    tree.set(FROM, sender)
    tree.set(MESSAGE, message)
    return etree.tostring(tree, encoding="utf-8")
