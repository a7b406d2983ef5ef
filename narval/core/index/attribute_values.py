"""ValueIndex: the elements with a value of an attribute; and a reader for attributes in bytes.

Fast path, measured by `make bench ONLY=W8`: `canonical` wrote the bytes, so an attribute nearly always
appears as ` name="value"`, and reading it costs a quarter of parsing the element. An element is parsed if the
reader is not sure that an attribute is absent, or what its value is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache

from narval.core.elements.element import CONTROL, Element, parse
from narval.core.index.sorted_ints import SortedInts, Span

Reader = Callable[[int, bytes], bytes | None]
"""Read the value of an attribute of a root, as UTF-8, given eid and XML; None if it is absent."""

_EID_BITS = 40
"""Enough for a million million elements: thirty years at a thousand a second."""
_HASHES = (1 << 64 - _EID_BITS) - 1

_BARE = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_PLAIN = re.compile(rb'<[^\s"\'/>?!=]+(?: [^\s"\'/>=]+="[^"]*")*/?>')
"""A plainly written start tag: an attribute that does not appear in it as ` name="` is absent."""
_DECLARED = f' xmlns:al="{CONTROL}"'.encode()
"""The declaration of the prefix of stamps. No value can contain it: it has quotes."""


@lru_cache(maxsize=256)
def reader(attribute: str) -> Reader:
    """The reader for an attribute, named as in lxml."""
    if attribute == "eid":
        return lambda eid, xml: str(eid).encode() if eid else _parsed(xml, attribute)
    local = attribute.removeprefix(f"{{{CONTROL}}}")
    is_stamp = local != attribute
    if attribute == "xmlns" or not _BARE.fullmatch(local):
        return lambda _, xml: _parsed(xml, attribute)
    name = f"al:{local}" if is_stamp else attribute
    # Earlier attributes are skipped as a whole, so that text within a value is not read as one. A value with
    # a reference (`&amp;`) or a line break differs from its text: it is parsed.
    written = rb'<[^\s"\'/>?!=]+(?: [^\s"\'/>=]+="[^"]*")*? %s="([^"&\t\n\r]*)"' % re.escape(name.encode())
    find, is_plain = re.compile(written).match, _PLAIN.match
    opening = b"xmlns" if is_stamp else f' {attribute}="'.encode()

    def read(_: int, xml: bytes) -> bytes | None:
        values = find(xml)
        if values is not None and (not is_stamp or _DECLARED in values[0]):
            return values[1]
        plain = is_plain(xml)
        if plain is not None and opening not in plain[0]:
            return None
        return _parsed(xml, attribute)

    return read


def _parsed(xml: bytes, attribute: str) -> bytes | None:
    value = parse(xml).get(attribute)
    return None if value is None else str(value).encode()


class ValueIndex:
    """The eids of elements under the hashes of their values of an attribute.

    It takes eight bytes an element, however long the values are, and returns an element with another value
    once in sixteen million: callers test the results anyway.
    """

    __slots__ = ("_numbers", "_read")

    def __init__(self, attribute: str, elements: Iterable[tuple[int, bytes]]) -> None:
        """Index elements, given by eid and XML."""
        self._read = read = reader(attribute)
        filed = ((read(eid, xml), eid) for eid, xml in elements)
        self._numbers = SortedInts(sorted([_filed(value, eid) for value, eid in filed if value is not None]))

    def add_documents(self, elements: Iterable[tuple[int, bytes]]) -> None:
        """Add elements, by eid and XML."""
        for eid, xml in elements:
            value = self._read(eid, xml)
            if value is not None:
                self._numbers.add(_filed(value, eid))

    def of(self, value: str) -> Span:
        """The eids of elements that may have a value, oldest first."""
        low = _filed(value.encode("utf-8", "surrogatepass"), 0)
        return Span(self._numbers, low, low + (1 << _EID_BITS))

    def add(self, element: Element) -> None:
        """Add an element."""
        value = self._read(element.eid, element.xml)
        if value is not None:
            self._numbers.add(_filed(value, element.eid))

    def discard(self, element: Element) -> None:
        """Remove an element."""
        value = self._read(element.eid, element.xml)
        if value is not None:
            self._numbers.discard(_filed(value, element.eid))


def _filed(value: bytes, eid: int) -> int:
    # The hash of bytes has a new key in each process, so that a stranger cannot send colliding values.
    return (hash(value) & _HASHES) << _EID_BITS | eid
