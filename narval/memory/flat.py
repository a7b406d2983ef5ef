"""Elements without content, read from their bytes: most of what programs make, and a parser takes longer.

Only what is surely written in one way is taken here, in ASCII, with plain names and values in which nothing
stands for something else. All other XML, and all that is not well formed, is for the parser.
"""

from __future__ import annotations

import re

LONGEST = 4096
"""What is longer is not worth the look."""

_NAME = rb"[A-Za-z_][A-Za-z0-9_.-]*+"
_VALUE = rb"""[^"'<>&\x00-\x1f\x7f-\xff]*+"""
_is_flat = re.compile(rb"<%b(?: %b=(?:\"%b\"|'%b'))*+/>" % (_NAME, _NAME, _VALUE, _VALUE)).fullmatch
_is_kept_flat = re.compile(rb"<%b(?: %b=\"%b\")*+/>" % (_NAME, _NAME, _VALUE)).fullmatch
_pairs = re.compile(r' ([^=]+)="([^"]*)"').findall


# A number is looked for in bytes as it is; for bytes in bytes an exception is made first, and dropped.
_APOSTROPHE, _EQUALS = b"'="


_latest: list[tuple[bytes, dict[str, str]]] = [(b"", {})]
"""What was read last, as it is mostly asked for next; a pair is replaced whole, whichever thread does it."""


def canonical_flat(data: bytes) -> bytes | None:
    """The bytes under which an element is kept; None when that is for the parser to say."""
    if len(data) > LONGEST or _is_flat(data) is None:
        return None
    xml = data.replace(b"'", b'"') if _APOSTROPHE in data else data
    if _EQUALS not in xml:
        return xml
    attributes = _attributes(xml)
    if "eid" in attributes or "xmlns" in attributes or 2 * len(attributes) != xml.count(b'"'):
        return None
    _latest[0] = (xml, attributes)
    return xml


def flat_attributes(xml: bytes) -> dict[str, str] | None:
    """The attributes of an element in memory, by name; None when it has content, or is to be parsed."""
    latest, attributes = _latest[0]
    if latest is xml:
        return attributes.copy()
    if len(xml) > LONGEST or _is_kept_flat(xml) is None:
        return None
    attributes = _attributes(xml)
    return None if "xmlns" in attributes else attributes


def _attributes(xml: bytes) -> dict[str, str]:
    return dict(_pairs(xml.decode("ascii")))
